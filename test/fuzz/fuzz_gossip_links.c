// Any events in any order, about links that exist, existed or never existed: the invariants of the room must
// hold, every action must refer to something that can exist, and nothing may exceed its bounds.
#include "gossip/links/links.h"

#include <string.h>

enum { PEERS = 4, LINKS = 16, ENTRIES = 3 };

struct world {
    struct gossip_links *links;
    uint64_t link[LINKS]; // the latest handles
    size_t next;
    uint64_t now_ns;
};

static struct gossip_id id_of(uint8_t byte)
{
    return (struct gossip_id){.bytes = {byte % PEERS}}; // 1 is the room's own id
}

static void drain(struct world *w)
{
    struct gossip_links_action action;
    while (gossip_links_next(w->links, &action)) {
        if (action.kind == GOSSIP_LINKS_CALL)
            w->link[w->next++ % LINKS] = action.link;
        BASE_ASSERT(action.kind != GOSSIP_LINKS_SEND || action.bytes);
        BASE_ASSERT(gossip_close_text(action.why) != NULL);
    }
    gossip_links_check(w->links);
}

static void one(struct world *w, const uint8_t data[6])
{
    static const uint8_t packet[5];
    static const char *const reasons[] = {"idle", "leaving", "duplicate identity at x", "no", ""};
    const struct gossip_id ids[2] = {id_of(data[2]), id_of(data[3])};
    struct gossip_greeting theirs = {.instance_id = data[3] % 3u, .rules = {data[4] % 8u == 0 ? 'x' : 0}};
    struct gossip_links_event event = {.kind =
                                           (enum gossip_links_event_kind)(data[0] % (GOSSIP_LINKS_LEAVE + 1)),
                                       .link = w->link[data[1] % LINKS],
                                       .peer = ids[0],
                                       .target = {.entry = data[3] & 8 ? GOSSIP_NO_ENTRY : data[3] % 8u,
                                                  .peer = ids[0],
                                                  .direct = data[3] & 16},
                                       .relayed = data[4] >> 3,
                                       .alive = data[4] & 1,
                                       .on = data[4] & 2,
                                       .protocol = data[4] >> 5, // 0: none, in one of eight
                                       .end = (enum gossip_link_end)(data[4] % 4u),
                                       .why = (enum gossip_close)(data[4] % 5u),
                                       .greeting = &theirs,
                                       .reason = reasons[data[4] % 5u],
                                       .ids = ids,
                                       .bytes = packet,
                                       .count = data[5] % 3u};
    if (event.kind == GOSSIP_LINKS_LEAVE && data[5] % 16)
        event.kind = GOSSIP_LINKS_TIMER;
    w->now_ns += (uint64_t)data[5] * 20000000ull;
    event.now_ns = w->now_ns;
    event.entropy = data[5];
    if (data[0] >= 0xc0)
        w->link[w->next++ % LINKS] = gossip_links_accept(w->links, w->now_ns, data[1] % 4u, data[1] & 128, w);
    BASE_ASSERT(!gossip_links_step(w->links, &event));
    drain(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct gossip_greeting greeting = {.instance_id = 1};
    struct world w = {.now_ns = 1000000000ull};
    const struct gossip_links_options options = {
        .self = id_of(1), .greeting = &greeting, .entries = ENTRIES, .now_ns = w.now_ns};
    struct gossip_links_event begin = {.kind = GOSSIP_LINKS_START, .now_ns = w.now_ns};
    BASE_ASSERT(!gossip_links_create(&options, &w.links));
    if (size && data[0] & 1)
        BASE_ASSERT(!gossip_links_step(w.links, &begin));
    drain(&w);
    for (; size >= 6; data += 6, size -= 6)
        one(&w, data);
    gossip_links_destroy(w.links);
    return 0;
}
