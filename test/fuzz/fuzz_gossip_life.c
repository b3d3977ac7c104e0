// The life of a node with any events in any order.
#include "test/support/life_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)life_any_run(data, size);
    return 0;
}
