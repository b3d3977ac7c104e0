// Any bytes as a record and as a suspicion: what is read must be written back to the same bytes.
#include "gossip/member/record.h"

#include <string.h>

static void record(const uint8_t *data, size_t size)
{
    struct base_reader reader = base_reader_of(data, size);
    struct gossip_record read;
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    if (gossip_record_read(&reader, &read))
        return;
    size_t used = size - base_reader_left(&reader);
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_record_write(&read, &writer);
    BASE_ASSERT(!writer.failed && base_writer_used(&writer) == used && memcmp(bytes, data, used) == 0);
    (void)gossip_record_verify(&read, NULL);
}

static void suspicion(const uint8_t *data, size_t size)
{
    struct base_reader reader = base_reader_of(data, size);
    struct gossip_suspicion read;
    uint8_t bytes[GOSSIP_SUSPICION_BYTES];
    if (gossip_suspicion_read(&reader, &read))
        return;
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_suspicion_write(&read, &writer);
    BASE_ASSERT(!writer.failed && memcmp(bytes, data, sizeof bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    record(data, size);
    suspicion(data, size);
    return 0;
}
