// A node with one or two neighbours at a boundary, in any combination of states, for the tests of
// gossip/pace.
#ifndef TEST_PROPERTY_PACE_SCENE_H
#define TEST_PROPERTY_PACE_SCENE_H

#include "gossip/pace/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS      1000000ull
#define CEILING (1000 * MS)
#define NOW     (1000000 * MS)
#define ROUND   1000ull

enum { NEIGHBOURS = 2, LEAD = 8, MEMBERS = 3, OVERLAP = 16 };

enum peer_kind { APART, LOST, BEGINS, RESYNCS, FREE, REFUSED, OPEN, PARKED, LOOSE, PEER_KINDS };
enum past { FRESH, LONG_SPENT, SLOW, PASTS };          // how long it was waited for; how fast it answers
enum meets { PARTNER, OTHER, UNKNOWN, NOBODY, MEETS }; // whom the plan names
enum place { BESIDE, BEHIND, AHEAD, PLACES };          // of this node in the cluster

struct one { // a neighbour
    enum peer_kind kind;
    enum past past;
    bool met; // an exchange of this round has been made
};

struct all {
    enum gossip_pace_mode mode;
    enum gossip_pace_turn turn;
    enum meets meets;
    enum place place;
    bool others, idle;
    uint64_t overlap;
    size_t neighbours;
    struct one one[NEIGHBOURS];
};

struct scene {
    struct all all;
    struct gossip_pace pace;
    struct gossip_pace_peer peer[NEIGHBOURS];
};

static inline struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static inline void describe(const struct all *all, const char *what)
{
    fail_msg("%s: mode %d, turn %d, meets %d, place %d, others %d, idle %d; neighbours {%d %d %d} {%d %d %d}",
             what, all->mode, all->turn, all->meets, all->place, all->others, all->idle, all->one[0].kind,
             all->one[0].past, all->one[0].met, all->one[1].kind, all->one[1].past, all->one[1].met);
}

static inline void must(const struct scene *scene, bool good, const char *what)
{
    if (!good)
        describe(&scene->all, what);
}

static inline void set_peer(struct gossip_pace_peer *peer, const struct one *one)
{
    static const enum gossip_pace_tie ties[] = {GOSSIP_PACE_APART, GOSSIP_PACE_LOST, GOSSIP_PACE_BEGINS,
                                                GOSSIP_PACE_RESYNCS, GOSSIP_PACE_LIVE};
    const uint64_t usual_ns = one->past == SLOW ? 300 * MS : MS;

    peer->tie = ties[one->kind < FREE ? one->kind : FREE];
    peer->tie_ns = NOW - 10 * MS;
    peer->round = peer->tie > GOSSIP_PACE_LOST ? ROUND : 0;
    peer->met_ns = NOW - 4 * CEILING;
    peer->waited_ns = one->past == LONG_SPENT ? 2 * CEILING : 0;
    peer->clock = one->met ? ROUND : ROUND - 1;
    peer->flight = one->kind == OPEN || one->kind == LOOSE ? GOSSIP_PACE_OPEN
                   : one->kind == PARKED                   ? GOSSIP_PACE_PARKED
                                                           : GOSSIP_PACE_NO_FLIGHT;
    peer->loose = one->kind == LOOSE;
    peer->weight = peer->flight ? 0.5f : 0;
    peer->sent_ns = peer->flight ? NOW - MS / 2 : 0;
    peer->retry_ns = one->kind == REFUSED ? NOW + 3 * MS : 0;
    for (size_t i = 0; i < 5; i++)
        gossip_answers_learn(&peer->answers, usual_ns);
}

static inline struct gossip_id partner_of(enum meets meets)
{
    return id_of(meets == PARTNER ? 10 : meets == OTHER ? 11 : 99);
}

static inline void set_cluster(struct scene *scene)
{
    const uint64_t round = scene->all.place == BEHIND  ? ROUND + 20
                           : scene->all.place == AHEAD ? ROUND - 200
                                                       : ROUND;
    struct gossip_report reports[MEMBERS];

    for (size_t i = 0; i < MEMBERS; i++)
        reports[i] = (struct gossip_report){id_of((uint8_t)(10 + i)), round};
    gossip_news_members(&scene->pace.news, reports, MEMBERS, MEMBERS);
}

static inline void set_up(struct scene *scene, const struct all *all)
{
    struct gossip_pace *pace = &scene->pace;

    *scene = (struct scene){.all = *all};
    pace->options = (struct gossip_pace_options){.self = id_of(1),
                                                 .mode = all->mode,
                                                 .lead = LEAD,
                                                 .reach = 20,
                                                 .local = 10,
                                                 .overlap = all->overlap,
                                                 .max_delay = 4,
                                                 .ceiling_ns = CEILING};
    pace->round = ROUND - 1;
    pace->rounds = pace->met = ROUND - 1;
    gossip_pace_time(pace, NOW - 20 * MS);
    for (size_t i = 0; i < all->neighbours; i++) {
        scene->peer[i].peer = id_of((uint8_t)(10 + i));
        assert_true(gossip_pace_add(pace, &scene->peer[i]));
        set_peer(&scene->peer[i], &all->one[i]);
    }
    set_cluster(scene);
    gossip_pace_time(pace, NOW);
    gossip_pace_begin(pace, &(struct gossip_pace_round){.round = ROUND,
                                                        .meets = all->meets != NOBODY,
                                                        .others = all->others,
                                                        .idle = all->idle,
                                                        .counts = !all->idle,
                                                        .partner = partner_of(all->meets),
                                                        .weight = 0.5f});
    pace->turn = all->turn;
}

static inline void take_down(struct scene *scene)
{
    free(scene->pace.peers);
}

static inline void open_scene(struct scene *scene, enum gossip_pace_mode mode, enum gossip_pace_turn turn,
                              enum peer_kind first, enum peer_kind second)
{
    const struct all all = {.mode = mode,
                            .turn = turn,
                            .others = true,
                            .neighbours = NEIGHBOURS,
                            .one = {{.kind = first}, {.kind = second}}};

    set_up(scene, &all);
}

#endif
