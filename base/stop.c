#include "base/stop.h"

#include "base/error.h"

#include <signal.h>

enum base_stop_meaning base_stop_take(struct base_stop *stop, int number, uint64_t now_ns)
{
    BASE_ASSERT(!stop->asked || now_ns >= stop->asked_ns);
    if (!stop->asked) {
        *stop = (struct base_stop){true, now_ns};
        return BASE_STOP_ASKED;
    }
    const bool again = number == SIGINT && now_ns - stop->asked_ns >= BASE_STOP_AGAIN_NS;
    return again ? BASE_STOP_AT_ONCE : BASE_STOP_NOTHING;
}
