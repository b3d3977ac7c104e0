// The attackers of an experiment: what they give is falsified by lab/attack, which sees the models of the
// honest nodes as their neighbours see them.
#include "lab/virtual/simulate_private.h"

#include <stdlib.h>

#define SEED_SALT 0xa77acull

static enum base_error make(struct simulation *s, const struct lab_attacker *attacker,
                            struct base_reason *why)
{
    struct sim_trainer *p = &s->sim_trainers[attacker->node];
    const struct lab_attack_options options = {.kind = attacker->kind,
                                               .factor = attacker->factor,
                                               .seed =
                                                   (s->bench->view.train.seed ^ SEED_SALT) + attacker->node,
                                               .parameters = s->bench->parameters};
    free(p->trainee.kept); // no watch over its losses: it does not go back to a good model
    p->trainee.kept = NULL;
    if (attacker->kind == LAB_ATTACK_LABELS)
        lab_shard_trainer_flip(s->shard_trainers, attacker->node);
    return lab_attack_create(&options, &p->attack, why);
}

enum base_error simulate_attackers_create(struct simulation *s, struct base_reason *why)
{
    const struct lab_attackers *hostile = &s->experiment->hostile;
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < hostile->count && !error; i++)
        error = make(s, &hostile->items[i], why);
    return error;
}

void simulate_attackers_arm(struct simulation *s)
{
    const struct lab_attackers *hostile = &s->experiment->hostile;
    for (size_t i = 0; i < hostile->count; i++) {
        struct sim_node_faults *faults = &s->world.node[hostile->items[i].node]->faults;
        faults->boundless = true;
        faults->stalls = hostile->items[i].kind == LAB_ATTACK_STALL;
        faults->finished = hostile->items[i].kind == LAB_ATTACK_FINISHED;
    }
}

// The ghosts of an attacker follow those of the attackers before it. Once a second, so that they never stay
// dead.
static void announce_ghosts(struct simulation *s, size_t host)
{
    const struct lab_attackers *hostile = &s->experiment->hostile;
    struct sim_trainer *p = &s->sim_trainers[host];
    const uint64_t now_ns = sim_world_now(&s->world);
    const size_t count = lab_attacker_ghosts(lab_attackers_find(hostile, host));
    size_t first = s->cluster->count;
    if (!count || (p->announced_ns && now_ns < p->announced_ns + SIM_SECOND))
        return;
    for (size_t i = 0; hostile->items[i].node != host; i++)
        first += lab_attacker_ghosts(&hostile->items[i]);
    sim_ghosts_announce(s->world.node[host], first, count, now_ns / SIM_SECOND);
    p->announced_ns = now_ns;
}

void simulate_give(void *owner, size_t host)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    const float *models[LAB_NODES_MAX];
    struct lab_attack_view honest = {.models = models};
    if (!p->attack)
        return;
    announce_ghosts(s, host);
    for (size_t i = 0; i < s->cluster->count; i++)
        if (simulate_is_there(s, i))
            models[honest.count++] = gossip_exchange_model(s->world.node[i]->train.exchange);
    lab_attack_give(p->attack, &honest, p->vectors.model, p->vectors.second_moment);
}
