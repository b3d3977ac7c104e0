// The rates of counters, each under an id: steps of members, bytes of edges. A counter is noted whenever it
// is reported. Its rate is taken over the latest samples in which it grew (at most nine, at least 1.25 s
// apart), so the window is about ten seconds for a counter that grows often and several increments for one
// that grows rarely. If a counter does not grow for longer than usual, its rate falls. One owner. Memory: one
// entry per id that was noted in the latest sweep.
#ifndef NODE_HTTP_RATES_H
#define NODE_HTTP_RATES_H

#include "base/limits.h"
#include "gossip/id.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_rates;

struct node_rates *node_rates_create(void); // NULL: out of memory
void node_rates_destroy(struct node_rates *rates);
// The counter of `id` was `value` at `at_ns`, monotonic. A different `era`, or a lower value, starts over:
// the process, or what it does, has changed. If out of memory, nothing is noted.
void node_rates_note(struct node_rates *rates, const struct gossip_id *id, uint64_t era, uint64_t value,
                     uint64_t at_ns);
// Forgets every id that was not noted since the last call.
void node_rates_sweep(struct node_rates *rates);
double node_rates_per_second(const struct node_rates *rates, const struct gossip_id *id); // NAN: not known
// Time for which the counter has not grown, if that is long compared with what is usual for it; else 0.
uint64_t node_rates_still_ns(const struct node_rates *rates, const struct gossip_id *id);

// Since when nothing arrives from each neighbour of the plan. Zeroed at the start. A neighbour that is new,
// and all of them while this node could not exchange, count as having been heard.
struct node_meets {
    struct node_meet {
        struct gossip_id peer;
        uint64_t exchanges, round; // when the latest exchange was noted
        uint64_t met_ns, live_ns;  // then; when its edge was last live
        uint64_t longest_ns;       // between two exchanges, so far
        bool noted;
    } list[LIMIT_NEIGHBOURS];
    size_t count;
};
enum node_meet_edge {
    NODE_MEET_EXCUSED,
    NODE_MEET_DOWN,
    NODE_MEET_LIVE
}; // EXCUSED: this node could not exchange
void node_meets_note(struct node_meets *meets, const struct gossip_id *peer, enum node_meet_edge edge,
                     uint64_t exchanges, uint64_t round, uint64_t now_ns);
void node_meets_sweep(struct node_meets *meets); // forgets every neighbour not noted since the last call
// How long it has made no exchange with `peer`. 0: its edge was live in the last 30 s, and it has exchanged
// in that time, or in its latest three turns of `turn` rounds, or in four times its longest interval.
uint64_t node_meets_quiet_ns(const struct node_meets *meets, const struct gossip_id *peer, uint64_t round,
                             uint64_t turn, uint64_t now_ns);

#endif
