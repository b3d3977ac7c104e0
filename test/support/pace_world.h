// Many nodes that only keep pace (gossip/pace): no vector, messages as small structs under virtual time, all
// from one seed. Edges have exchanges with sequence numbers, requests that cross or wait, and links that
// break.
#ifndef TEST_SUPPORT_PACE_WORLD_H
#define TEST_SUPPORT_PACE_WORLD_H

#include "base/rng.h"
#include "gossip/pace/pace.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACE_MS      1000000ull
#define PACE_SECOND  (1000 * PACE_MS)
#define PACE_CEILING (10 * PACE_SECOND)

enum { PACE_NODES_MAX = 16, PACE_LEAD = 32 };

enum pace_message { PACE_HELLO, PACE_XCHG, PACE_XACK, PACE_PARKED };

struct pace_packet {
    uint64_t due_ns, order;
    enum pace_message kind;
    size_t from, to;
    unsigned life; // of the link
    uint64_t sequence, round;
    size_t news_bytes;
    uint8_t news[GOSSIP_NEWS_BYTES];
};

struct pace_edge {
    struct gossip_pace_peer pace;
    bool there;        // added
    uint64_t sequence; // of the next exchange
    bool held;         // a request of the other end waits here
    uint64_t held_round, tell_ns;
};

struct pace_node {
    struct gossip_pace pace;
    struct pace_edge edge[PACE_NODES_MAX];
    uint64_t steps_ns; // of a round, on average
    uint64_t ready_ns; // when its steps are done; UINT64_MAX: it stands at a boundary
    uint64_t wait_ns;  // until when the boundary waits
    uint64_t round, left_ns, longest_ns;
    bool dead, mute; // mute: takes requests, says that it is behind, and never makes an exchange
};

struct pace_world {
    uint64_t seed, now_ns, order, delay_ns, jitter_ns, news_ns;
    uint64_t overdue; // deadlines that passed for one that was alive
    enum gossip_pace_mode mode;
    size_t nodes, known;                            // known: nodes that the views have
    uint8_t colour[PACE_NODES_MAX][PACE_NODES_MAX]; // of an edge, from 1; 0: none
    uint8_t colours;
    unsigned life[PACE_NODES_MAX][PACE_NODES_MAX];
    bool up[PACE_NODES_MAX][PACE_NODES_MAX];
    uint64_t last_ns[PACE_NODES_MAX][PACE_NODES_MAX]; // a link keeps its order
    struct pace_node node[PACE_NODES_MAX];
    struct pace_packet *packet;
    size_t packets, room;
    struct base_rng rng;
    uint64_t lead; // most rounds of a node above the lower median of all, when it left a boundary
};

enum pace_shape { PACE_RING, PACE_COMPLETE, PACE_RANDOM, PACE_SHAPES };

void pace_world_create(struct pace_world *world, uint64_t seed, enum gossip_pace_mode mode,
                       enum pace_shape shape, size_t nodes);
void pace_world_destroy(struct pace_world *world);
// Ends the program with the seed unless `good`.
void pace_world_must(const struct pace_world *world, bool good, const char *what);
void pace_world_run(struct pace_world *world, uint64_t until_ns);
void pace_world_link(struct pace_world *world, size_t a, size_t b, bool up);
void pace_world_kill(struct pace_world *world, size_t dead); // its links break
void pace_world_bury(struct pace_world *world, size_t dead); // the others' views drop it
// The longest time between two boundaries of any living node since the last call.
uint64_t pace_world_longest(struct pace_world *world);

#endif
