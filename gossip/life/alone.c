// When a node is left alone by others that have finished, and with whose model it ends.
#include "gossip/life/life_state.h"

#define HOPELESS 2u // part of all steps: with more left than that, a node is no longer on its way

// In lock-step some nodes do their last rounds a moment after others: every run must do the same rounds.
static bool does_its_last_rounds(const struct gossip_life *life)
{
    const uint64_t near = GOSSIP_ROUNDS_NEAR * life->options.local_steps;

    return life->options.sync &&
           (life->step >= life->options.steps || life->options.steps - life->step <= near);
}

// Most others have finished, and the few that have not would train for long on their own data alone: their
// models would leave that of the cluster. Otherwise they do their steps: the others linger meanwhile. Two of
// six nodes 20 times slower (test/trial/async.yaml), worst node of three seeds: 83.0, 83.7, 79.7% without the
// condition on their own steps, 87.7, 85.2, 87.5% with it.
static bool is_left_behind(const struct gossip_life *life)
{
    const uint64_t left = life->step < life->options.steps ? life->options.steps - life->step : 0;

    return life->census.finished > life->census.busy && left > life->options.steps / HOPELESS &&
           left / life->options.local_steps > life->options.reach;
}

// Not even a finished one that still answers.
static bool has_nobody(const struct gossip_life *life)
{
    return life->census.busy == 0 && life->census.others == 0;
}

bool life_is_alone(const struct gossip_life *life)
{
    return life->options.alone_stops && life->census.finished > 0 &&
           (has_nobody(life) || is_left_behind(life)) && !does_its_last_rounds(life);
}

// Training alone is not averaged: it would pull the model to this node's own data. The node ends with the
// model of the others, if a member still has it. A node that fetches waits for that model first: if its donor
// had not finished by then, another fetch follows.
void life_consider_alone(struct gossip_life *life)
{
    const bool trains = life->state == GOSSIP_LIFE_TRAINING || life->state == GOSSIP_LIFE_PAUSED;

    if (!trains || life->end == LIFE_ALONE || !life_is_alone(life))
        return;
    BASE_ASSERT(life->census.finished > life->census.busy);
    life->end = LIFE_ALONE;
    life->givers = LIFE_FINISHED;
    const bool fetches = life->step < life->options.steps && life_has_donor(life);
    life->givers = fetches ? LIFE_FINISHED : LIFE_ANY;
    if (life->step < life->options.steps)
        life_tell(life, GOSSIP_LIFE_LEFT_ALONE, life->step,
                  (fetches ? 1u : 0u) | (life->census.busy > 0 ? 2u : 0u));
    life_act(life, GOSSIP_LIFE_ALONE)->fetch = fetches;
}
