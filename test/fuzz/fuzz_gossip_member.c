// Packets of a hostile member that has the keys: any bytes, by datagram or stream, in any order and at any
// time, with ends of streams and links in between. The table, the view and the packets that are sent must
// stay within their bounds.
#include "base/rng.h"
#include "gossip/member/member.h"

#include <string.h>

#define PEERS  4
#define HEADER 31 // bytes of a packet without target

static struct gossip_identity us, peers[PEERS];

static struct gossip_record record_of(const struct gossip_identity *identity)
{
    struct gossip_record record;
    memset(&record, 0, sizeof record);
    record.id = identity->id;
    record.version = (struct gossip_version){.generation = 1, .instance_id = 9, .incarnation = 1};
    record.flags = GOSSIP_RECORD_ELIGIBLE;
    strcpy(record.name, "p");
    memcpy(record.exchange_public, identity->exchange_public, 32);
    record.n_addresses = 1;
    if (identity == &peers[1]) { // behind a router
        record.n_relays = 1;
        record.relays[0] = gossip_id_beginning(&peers[0].id);
    }
    record.addresses[0] = (struct gossip_address){.family = 4, .ip = {10, 0, 0, 1}, .port = 1};
    gossip_record_sign(&record, identity);
    return record;
}

static void drain(struct gossip_membership *m)
{
    struct gossip_membership_action action;
    while (gossip_membership_next(m, &action)) {
        if (action.kind != GOSSIP_MEMBERSHIP_SEND)
            continue;
        size_t most = action.way == GOSSIP_BY_DATAGRAM ? LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD
                                                       : LIMIT_GOSSIP_BYTES;
        BASE_ASSERT(action.n_bytes > 0 && action.n_bytes <= most);
    }
}

static void step(struct gossip_membership *m, struct gossip_membership_event *event)
{
    enum base_error error = gossip_membership_step(m, event);
    BASE_ASSERT(!error || (error == BASE_EFORMAT && event->kind == GOSSIP_MEMBERSHIP_PACKET));
    drain(m);
    size_t count;
    (void)gossip_membership_view(m, &count);
    BASE_ASSERT(count <= gossip_membership_count(m) && gossip_membership_count(m) <= LIMIT_MEMBERS);
}

static void introduce(struct gossip_membership *m, size_t peer, uint64_t now_ns)
{
    uint8_t bytes[512] = {6};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    struct gossip_record record = record_of(&peers[peer]);
    base_write_u8(&writer, 1);
    gossip_record_write(&record, &writer);
    struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                            .now_ns = now_ns,
                                            .peer = peers[peer].id,
                                            .way = GOSSIP_BY_STREAM,
                                            .bytes = bytes,
                                            .n_bytes = HEADER + base_writer_used(&writer)};
    step(m, &event);
}

static void make_identities(void)
{
    uint8_t seed[32] = {1};
    if (us.id.bytes[0] | us.id.bytes[1])
        return;
    gossip_identity_from_seed(seed, &us);
    for (size_t i = 0; i < PEERS; i++) {
        seed[1] = (uint8_t)(i + 1);
        gossip_identity_from_seed(seed, &peers[i]);
    }
}

// Two bytes choose the event and its peer; for a packet, two more are its length, and its bytes follow.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_reader reader = base_reader_of(data, size);
    struct gossip_membership *m;
    make_identities();
    struct gossip_membership_options options = {.identity = &us,
                                                .version = {.generation = 1, .instance_id = 7},
                                                .name = "us",
                                                .addresses = {{.family = 4, .ip = {10, 0, 0, 2}, .port = 1}},
                                                .n_addresses = 1,
                                                .seed = 1,
                                                .now_ns = 1000000000};
    if (gossip_membership_create(&options, &m))
        return 0;
    uint64_t now_ns = options.now_ns;
    for (size_t i = 0; i + 1 < PEERS; i++) // the last one stays unknown
        introduce(m, i, now_ns);
    for (int turn = 0; turn < 64 && base_reader_left(&reader) >= 2; turn++) {
        struct gossip_membership_event event = {.peer = peers[base_read_u8(&reader) % PEERS].id};
        uint8_t what = base_read_u8(&reader);
        now_ns += (uint64_t)what * 4000000;
        event.now_ns = now_ns;
        event.way = what & 8 ? GOSSIP_BY_STREAM : GOSSIP_BY_DATAGRAM;
        event.kind = what % 5 == 0   ? GOSSIP_MEMBERSHIP_LINKED
                     : what % 5 == 1 ? GOSSIP_MEMBERSHIP_UNREACHABLE
                     : what % 5 == 2 ? GOSSIP_MEMBERSHIP_TIMER
                                     : GOSSIP_MEMBERSHIP_PACKET;
        if (event.kind == GOSSIP_MEMBERSHIP_PACKET) {
            size_t wanted = base_read_u16(&reader), left = base_reader_left(&reader);
            event.n_bytes = wanted < left ? wanted : left;
            event.bytes = base_read_bytes(&reader, event.n_bytes);
            if (!event.bytes)
                break;
        }
        step(m, &event);
        if (what & 16)
            gossip_membership_unlinked(m, &event.peer);
        if (gossip_membership_deadline(m) <= now_ns) {
            event = (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_TIMER, .now_ns = now_ns};
            step(m, &event);
        }
    }
    gossip_membership_destroy(m);
    return 0;
}
