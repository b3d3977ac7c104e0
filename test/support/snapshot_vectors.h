// Vectors, donors and questions for tests of gossip/snapshot.
#ifndef TEST_SUPPORT_SNAPSHOT_VECTORS_H
#define TEST_SUPPORT_SNAPSHOT_VECTORS_H

#include "gossip/snapshot/snapshot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000000ull

enum { D = 2 * LIMIT_SNAPSHOT_BLOCK + 77, BLOCKS = 3, PATIENCE_S = 5, STARVES_S = 20 };

struct vectors {
    float model[D], outer[D], second[D];
};

static inline struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static inline struct vectors *vectors_create(float factor)
{
    struct vectors *v = malloc(sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < D; i++) {
        v->model[i] = factor * (float)(i % 1000);
        v->outer[i] = -factor;
        v->second[i] = factor * factor;
    }
    return v;
}

static inline struct gossip_snapshot_vectors view_of(struct vectors *v, uint64_t round)
{
    return (struct gossip_snapshot_vectors){
        .part = {v->model, v->outer, v->second}, .round = round, .step = 10 * round};
}

static inline bool ask(struct gossip_donor *donor, uint8_t who, struct gossip_snapshot_ask question,
                       uint64_t now_ns, struct gossip_message *answer)
{
    const struct gossip_id peer = id_of(who);
    bool answered = false;
    assert_int_equal(gossip_donor_ask(donor, &peer, &question, now_ns, answer, &answered), BASE_OK);
    return answered;
}

struct joining {
    struct vectors *into, *from;
    struct gossip_snapshot_vectors view;
    struct gossip_joiner *joiner;
};

static inline enum base_error tell(struct joining *j, uint8_t who, const struct gossip_snapshot_tell *told,
                                   uint64_t now_ns)
{
    const struct gossip_id peer = id_of(who);
    return gossip_joiner_tell(j->joiner, &peer, told, now_ns);
}

#endif
