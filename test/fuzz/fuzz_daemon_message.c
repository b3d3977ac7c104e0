// Any bytes from a trainer: refused with a reason, or every field lies inside them and within its bounds.
#include "base/limits.h"
#include "daemon/message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(const struct daemon_request *r, const uint8_t *bytes, size_t count)
{
    BASE_ASSERT(r->kind >= DAEMON_OPEN && r->kind < DAEMON_KINDS);
    BASE_ASSERT((r->kind == DAEMON_OPEN) == (r->tensors.count > 0));
    BASE_ASSERT(r->tensors.count <= LIMIT_TENSORS);
    for (size_t i = 0; i < r->tensors.count; i++) {
        const struct p2pml_tensor *tensor = &r->tensors.list[i];
        BASE_ASSERT(tensor->dims <= TRAIN_DIMS && tensor->shape == r->tensors.shapes[i]);
        BASE_ASSERT(tensor->name[0] && strlen(tensor->name) < sizeof r->tensors.names[i]);
    }
    BASE_ASSERT(!r->blob || (r->blob >= bytes && r->blob + r->blob_bytes <= bytes + count));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct daemon_request request;
    struct base_reason why = {.text = ""};
    if (daemon_request_read(bytes, count, &request, &why)) {
        BASE_ASSERT(why.text[0] && !request.tensors.list);
        return 0;
    }
    check(&request, bytes, count);
    BASE_ASSERT(daemon_tensors_equal(&request.tensors, &request.tensors));
    daemon_request_free(&request);
    return 0;
}
