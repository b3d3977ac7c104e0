// What a signal that asks a program to stop means when it comes again. timeout(1), service managers and
// shells that signal a whole group send SIGTERM to one process twice within a millisecond, and a terminal
// sends SIGINT to programs that their parents also tell: a repetition must not cost the last checkpoint.
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

#define BASE_STOP_AGAIN_NS UINT64_C(1000000000) // a person who has read that the program stops may ask again

struct base_stop { // zeroed: nobody has asked
    bool asked;
    uint64_t asked_ns; // when first
};
enum base_stop_meaning {
    BASE_STOP_ASKED,   // the first request: stop in order
    BASE_STOP_NOTHING, // a repetition: any of SIGTERM or SIGHUP, or SIGINT within BASE_STOP_AGAIN_NS
    BASE_STOP_AT_ONCE, // SIGINT later than that
};
// `number`: SIGTERM, SIGINT or SIGHUP. `now_ns`: monotonic, not below that of an earlier call.
enum base_stop_meaning base_stop_take(struct base_stop *stop, int number, uint64_t now_ns);

#endif
