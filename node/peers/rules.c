// Passes an event to gossip/links; its actions wait for the owner.
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>

void node_peers_arm(struct node_peers *peers)
{
    uint64_t due_ns = gossip_links_deadline(peers->rules), now_ns = node_clock_ns();
    BASE_ASSERT(due_ns > 0); // armed_ns 0 says that the timer does not run
    if (due_ns == peers->armed_ns || due_ns == UINT64_MAX)
        return;
    struct timeval wait = node_clock_timeval(due_ns > now_ns ? due_ns - now_ns + 1000 : 0);
    peers->armed_ns = due_ns;
    event_add(peers->timer, &wait);
}

static void step(struct node_peers *peers, struct gossip_links_event event)
{
    if (event.now_ns == 0)
        event.now_ns = node_clock_ns();
    event.entropy = base_rng_u64(&peers->rng);
    if (gossip_links_step(peers->rules, &event))
        base_log(BASE_LOG_ERROR, "links", "out of memory: an event about links was not handled");
}

void node_peers_say_now(struct node_peers *peers, struct gossip_links_event event)
{
    step(peers, event);
    peers->options.ready(peers->options.owner);
}

void node_peers_say_later(struct node_peers *peers, struct gossip_links_event event)
{
    step(peers, event);
    event_active(peers->waiting, EV_TIMEOUT, 0);
}
