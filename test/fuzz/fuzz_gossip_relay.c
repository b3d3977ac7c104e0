// Any events in any order, about peers that are linked or not, streams that exist, existed or never existed:
// the invariants of the room must hold, memory stays within the windows, and every message that goes out is
// valid and goes to a linked peer. Only the owner keeps its word: it reads what it is allowed, and takes what
// it has.
#include "base/cursor.h"
#include "gossip/relay/relay.h"

#include <string.h>

enum { PEERS = 5, ENDS = 16, SELF = 2 };

struct end {
    uint64_t stream;
    size_t allowed, has;
};

struct world {
    struct gossip_relay *relay;
    uint64_t now_ns;
    bool linked[PEERS];
    struct end end[ENDS]; // of the latest streams; others are forgotten
    size_t ends;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gossip_id id_of(size_t peer)
{
    return (struct gossip_id){.bytes = {(uint8_t)(peer % PEERS)}};
}

static struct end *end_of(struct world *w, uint64_t stream)
{
    for (size_t i = 0; i < ENDS; i++)
        if (w->end[i].stream == stream)
            return &w->end[i];
    return NULL;
}

static void add(struct world *w, uint64_t stream)
{
    if (stream)
        w->end[w->ends++ % ENDS] = (struct end){.stream = stream, .allowed = GOSSIP_RELAY_WINDOW};
}

static void valid(const struct world *w, const struct gossip_relay_action *action)
{
    struct gossip_message message = {.kind = GOSSIP_RELAY, .as.relay = action->message}, back;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES + GOSSIP_RELAY_CHUNK];
    size_t bytes = 0;
    BASE_ASSERT(w->linked[action->peer.bytes[0]]);
    BASE_ASSERT(!gossip_message_encode_header(&message, header, sizeof header, &bytes));
    if (action->message.bytes_bytes)
        memcpy(header + bytes, action->message.bytes, action->message.bytes_bytes);
    BASE_ASSERT(!gossip_message_decode(header, bytes + action->message.bytes_bytes, &back));
}

static void drain(struct world *w, size_t most)
{
    struct gossip_relay_action action;
    for (; most && gossip_relay_next(w->relay, &action); most--) {
        struct end *end = end_of(w, action.stream);
        if (action.kind == GOSSIP_RELAY_SEND)
            valid(w, &action);
        else if (action.kind == GOSSIP_RELAY_ACCEPT)
            add(w, action.stream);
        else if (action.kind == GOSSIP_RELAY_ALLOW && end)
            end->allowed = action.count;
        else if (action.kind == GOSSIP_RELAY_DELIVER && end)
            end->has += action.count;
        else if (action.kind == GOSSIP_RELAY_END && end)
            *end = (struct end){0};
        BASE_ASSERT(!end || end->has <= GOSSIP_RELAY_WINDOW);
        gossip_relay_check(w->relay);
    }
}

// A valid message of any content.
static struct gossip_relay_message message_of(struct base_reader *in, struct gossip_id *far)
{
    static const uint8_t bytes[GOSSIP_RELAY_CHUNK];
    static const uint64_t amounts[] = {GOSSIP_RELAY_WINDOW, 0, 1, GOSSIP_RELAY_CHUNK, UINT64_MAX, 3};
    struct gossip_relay_message message = {.verb = (uint8_t)(1 + base_read_u8(in) % GOSSIP_RELAY_LAST_VERB),
                                           .stream = base_read_u8(in) % 32u};
    *far = id_of(base_read_u8(in));
    const uint8_t size = base_read_u8(in);
    message.amount = amounts[size % 6];
    if (message.verb <= GOSSIP_RELAY_CALLED) {
        message.bytes = far->bytes;
        message.bytes_bytes = GOSSIP_RELAY_ID_BYTES;
    } else if (message.verb == GOSSIP_RELAY_DATA) {
        message.amount = 0;
        message.bytes = bytes;
        message.bytes_bytes = size & 1 ? GOSSIP_RELAY_CHUNK : 1u + size;
    }
    return message;
}

static void owner(struct world *w, struct gossip_relay_event *event, struct base_reader *in)
{
    static const uint8_t bytes[GOSSIP_RELAY_WINDOW];
    struct end *end = &w->end[base_read_u8(in) % ENDS];
    size_t *most = event->kind == GOSSIP_RELAY_READ ? &end->allowed : &end->has;
    const size_t wanted = (size_t)base_read_u16(in) + 1;
    event->stream = end->stream;
    event->bytes = bytes;
    event->count = wanted < *most ? wanted : *most;
    if (event->kind == GOSSIP_RELAY_ENDED)
        *end = (struct end){0};
    else
        *most -= event->count;
}

static void one(struct world *w, struct base_reader *in)
{
    static const uint64_t rates[] = {0, 1, 20000, 1000000, UINT64_MAX - 1, UINT64_MAX};
    const uint8_t kind = base_read_u8(in), peer = base_read_u8(in) % PEERS;
    struct gossip_id far, via = id_of(peer);
    struct gossip_relay_message message;
    struct gossip_relay_event event = {.kind = (enum gossip_relay_event_kind)(kind % (GOSSIP_RELAY_RATE + 1)),
                                       .peer = via};
    w->now_ns += (uint64_t)base_read_u8(in) << (kind / 16);
    event.now_ns = w->now_ns;
    if (kind >= 0xe0) {
        far = id_of(base_read_u8(in));
        add(w, gossip_relay_call(w->relay, w->now_ns, &via, &far));
    }
    if (event.kind == GOSSIP_RELAY_HEARD) {
        message = message_of(in, &far);
        event.message = &message;
    } else if (event.kind == GOSSIP_RELAY_READ || event.kind == GOSSIP_RELAY_WRITTEN ||
               event.kind == GOSSIP_RELAY_ENDED) {
        owner(w, &event, in);
    } else if (event.kind == GOSSIP_RELAY_RATE) {
        event.rate = rates[base_read_u8(in) % 6];
    } else if (event.kind != GOSSIP_RELAY_TIMER) {
        if (peer == SELF)
            return;
        w->linked[peer] = event.kind == GOSSIP_RELAY_LINKED;
    }
    BASE_ASSERT(!gossip_relay_step(w->relay, &event));
    gossip_relay_check(w->relay);
    drain(w, kind & 8 ? SIZE_MAX : event.kind == GOSSIP_RELAY_HEARD);
    BASE_ASSERT(!(kind & 8) || gossip_relay_deadline(w->relay) > w->now_ns);
    if (event.kind == GOSSIP_RELAY_HEARD) { // its id is of this function
        event = (struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER, .now_ns = w->now_ns};
        BASE_ASSERT(!gossip_relay_step(w->relay, &event));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_reader in = base_reader_of(data, size);
    struct world w = {.now_ns = 1};
    const struct gossip_relay_options options = {.self = id_of(SELF), .rate = size % 2 ? UINT64_MAX : 20000};
    BASE_ASSERT(!gossip_relay_create(&options, &w.relay));
    while (!in.failed && base_reader_left(&in) > 0)
        one(&w, &in);
    drain(&w, SIZE_MAX);
    gossip_relay_destroy(w.relay);
    return 0;
}
