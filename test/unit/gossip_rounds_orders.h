// Drives the rounds of a node through orders and what comes back, and asserts each thing that is next.
#ifndef TEST_UNIT_GOSSIP_ROUNDS_ORDERS_H
#define TEST_UNIT_GOSSIP_ROUNDS_ORDERS_H

#include "gossip/life/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LOCAL = 5, STEPS = 23 };

static inline struct gossip_rounds fresh(void)
{
    struct gossip_rounds rounds;
    gossip_rounds_init(&rounds, &(struct gossip_rounds_options){.local_steps = LOCAL, .steps = STEPS});
    return rounds;
}

static inline void order(struct gossip_rounds *rounds, struct gossip_order given)
{
    gossip_rounds_order(rounds, &given);
}

static inline struct gossip_rounds started(void)
{
    struct gossip_rounds rounds = fresh();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START});
    return rounds;
}

static inline struct gossip_rounds_next want(struct gossip_rounds *rounds, enum gossip_rounds_todo todo)
{
    struct gossip_rounds_next next = gossip_rounds_next(rounds);
    assert_int_equal(next.todo, todo);
    return next;
}

static inline void want_adopt(struct gossip_rounds *rounds, enum gossip_learner_change change, uint64_t step)
{
    struct gossip_rounds_next next = want(rounds, GOSSIP_ROUNDS_ADOPT);
    assert_int_equal(next.change, change);
    assert_int_equal(next.step, step);
}

static inline void take_steps_as(struct gossip_rounds *rounds, enum gossip_learner_result result)
{
    struct gossip_rounds_next next = want(rounds, GOSSIP_ROUNDS_STEPS);
    gossip_rounds_stepped(rounds, rounds->step + next.steps, 0.1f * (float)next.steps, result);
}

static inline void take_steps(struct gossip_rounds *rounds, bool finite)
{
    take_steps_as(rounds, finite ? GOSSIP_LEARNER_DONE : GOSSIP_LEARNER_NOT_FINITE);
}

static inline struct gossip_rounds_meet want_meet(struct gossip_rounds *rounds, uint64_t round)
{
    struct gossip_rounds_next next = want(rounds, GOSSIP_ROUNDS_MEET);
    assert_int_equal(next.meet.round, round);
    return next.meet;
}

static inline void pass_round(struct gossip_rounds *rounds)
{
    uint64_t round = rounds->round + 1;
    take_steps(rounds, true);
    assert_true(want_meet(rounds, round).meets);
    gossip_rounds_met(rounds, round, true, false);
    want_adopt(rounds, GOSSIP_LEARNER_EXCHANGED, rounds->step);
}

// Before its next step it takes in pending updates.
static inline void collect(struct gossip_rounds *rounds, uint64_t round)
{
    struct gossip_rounds_meet meet = want_meet(rounds, round);
    assert_false(meet.meets || meet.last);
    gossip_rounds_met(rounds, round, true, false);
    want_adopt(rounds, GOSSIP_LEARNER_COLLECTED, rounds->step);
}

// The last rendezvous: frozen and saved.
static inline struct gossip_rounds_meet want_end(struct gossip_rounds *rounds, uint64_t round, int status)
{
    struct gossip_rounds_meet last = want_meet(rounds, round);
    assert_true(last.last);
    assert_false(last.meets);
    gossip_rounds_met(rounds, round, true, false);
    want_adopt(rounds, GOSSIP_LEARNER_COLLECTED, rounds->step);
    assert_int_equal(want(rounds, GOSSIP_ROUNDS_END).status, status);
    return last;
}

#endif
