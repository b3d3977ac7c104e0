// The counterpart of node/learn/learner.c in the daemon: local steps, outer momentum, evaluation.
#include "lab/virtual/simulate_private.h"
#include "node/learn/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct node_config *config_of(const struct sim_trainer *sim_trainer)
{
    return &sim_trainer->simulation->bench->view;
}

static size_t vector_bytes(const struct sim_trainer *sim_trainer)
{
    return sim_trainer->simulation->bench->parameters * sizeof(float);
}

static void fail(struct simulation *s, enum base_error error, const struct base_reason *why)
{
    if (s->error)
        return;
    s->error = error;
    s->why = *why;
}

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    struct base_reason why = {""};
    simulate_trainer_finish(p);
    free(p->last);
    p->last = NULL;
    if (p->used) {
        enum base_error error = lab_shard_trainer_restart(s->shard_trainers, host, &why);
        if (error)
            fail(s, error, &why);
    }
    p->used = true;
    p->trainee.trainer = lab_shard_trainer_trainer(s->shard_trainers, host);
    p->round = p->step = 0;
    p->scored = SIMULATE_NEVER;
    node_built_in_begin(&p->trainee, vectors);
    p->vectors = *vectors;
    if (p->attack)
        lab_attack_begin(p->attack, vectors->model);
    if (vectors->outer) {
        memset(vectors->outer, 0, vector_bytes(p));
        memcpy(vectors->round_start, vectors->model, vector_bytes(p));
    }
}

// Copies the final model, which is measured and averaged after the process has ended. False: no memory.
static bool put_aside(struct sim_trainer *p)
{
    struct base_reason why = {""};
    if (!p->last)
        p->last = malloc(vector_bytes(p));
    if (!p->last) {
        fail(p->simulation, base_fail(&why, BASE_ENOMEM, "no memory for the last model of a node"), &why);
        return false;
    }
    train_trainer_fetch(p->trainee.trainer);
    memcpy(p->last, train_trainer_model(p->trainee.trainer), vector_bytes(p));
    return true;
}

static void shards(void *owner, size_t host, const uint32_t *living, size_t count)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    memset(p->living, 0, sizeof p->living);
    for (size_t i = 0; i < count; i++)
        p->living[living[i]] = true;
    p->living[host] = true;
    p->shards_wait = true;
}

// Takes over shards between two rounds. The daemon loads them in a separate thread and begins a little later.
static void take_shards(struct sim_trainer *p)
{
    struct base_reason why = {""};
    if (!p->shards_wait)
        return;
    p->shards_wait = false;
    enum base_error error = lab_shard_trainer_share(p->simulation->shard_trainers, p->node, p->living, &why);
    if (error)
        fail(p->simulation, error, &why);
}

static void set(void *owner, size_t host, enum gossip_setting_kind kind, double value)
{
    struct simulation *s = owner;
    node_built_in_set(&s->sim_trainers[host].trainee, kind, value);
}

// A round that seemed to be the last one was not: a node that is asked to stop while it goes back to its last
// good model takes steps once more.
static void go_on(struct sim_trainer *p)
{
    if (!p->last)
        return;
    simulate_trainer_finish(p);
    free(p->last);
    p->last = NULL;
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    go_on(p);
    simulate_point_begin(s);
    take_shards(p);
    p->pace = pace;
    p->steps_ns = lab_step_times_round_ns(&s->step_times, host, p->round + 1, count);
    simulate_trainer_submit(p, count, p->row_waits ? train_trainer_model(p->trainee.trainer) : NULL);
    return p->steps_ns;
}

static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    simulate_trainer_finish(p);
    s->steps += p->steps;
    node_built_in_boundary(&p->trainee, did);
    did->step_ns = p->steps_ns / p->steps; // virtual
    if (p->attack)
        did->result = GOSSIP_LEARNER_DONE; // whatever its training has become: what it gives is another model
    p->step = did->step;
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    if (p->row_waits && !p->under_way) // no steps are planned yet
        simulate_trainer_submit(p, 0, train_trainer_model(p->trainee.trainer));
    simulate_trainer_finish(p);
    if (p->attack)
        lab_attack_take(p->attack, p->vectors.model, p->vectors.second_moment);
    node_built_in_adopt(&p->trainee, change, step);
    p->step = step;
}

// An attacker takes any model: its own is a lie.
static struct gossip_learner_verdict judge(void *owner, size_t host, const float *model,
                                           enum gossip_learner_offer offer)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    simulate_trainer_finish(p);
    return p->attack ? node_verdict_none() : node_built_in_judge(&p->trainee, model, offer);
}

// What an attacker thinks of others does not count.
static void compare(void *owner, size_t host, const float *model, struct gossip_losses *losses)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    simulate_trainer_finish(p);
    node_built_in_compare(&p->trainee, model, losses);
    if (p->attack)
        losses->nothing = NAN;
}

static void alone(void *owner, size_t host)
{
    struct simulation *s = owner;
    simulate_tell_alone(&s->sim_trainers[host]);
}

static bool is_over(const struct gossip_rounds *rounds)
{
    return rounds->step >= rounds->options.steps || rounds->orders.end >= GOSSIP_ORDER_ALONE ||
           gossip_rounds_stops(rounds);
}

static void done(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    uint64_t every = config_of(p)->train.eval_rounds;
    p->round = rounds->round;
    p->rounds++;
    s->round_ns = sim_world_now(&s->world);
    simulate_row_make(p, "training", true);
    p->row_waits = every && p->round % every == 0;
    if (!p->row_waits)
        simulate_row_write(p);
    else
        p->scored = p->round;
    if (p->row_waits && is_over(rounds) && put_aside(p)) // no steps follow: no job would measure it
        simulate_trainer_submit(p, 0, p->last);
    simulate_events_look(s, p);
    simulate_point_look(s);
}

static bool was_asked_to_go(const struct sim_trainer *p)
{
    return p->simulation->asked || p->simulation->cluster->nodes[p->node].gone == LAB_HAS_LEFT;
}

static void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    simulate_trainer_finish(p);
    if (!put_aside(p))
        return;
    p->round = p->scored = rounds->round;
    simulate_row_make(p, was_asked_to_go(p) ? "stopped" : "finished", false);
    p->row_waits = true;
    simulate_trainer_submit(p, 0, p->last);
}

static void end(void *owner, size_t host)
{
    struct simulation *s = owner;
    struct sim_trainer *p = &s->sim_trainers[host];
    if (!p->last) // otherwise its job uses nothing of the process
        simulate_trainer_finish(p);
}

static size_t freeze_state(void *owner, size_t host, uint8_t **state)
{
    return node_built_in_freeze(&((struct simulation *)owner)->sim_trainers[host].trainee, state);
}

static void thaw(void *owner, size_t host, const uint8_t *state, size_t bytes)
{
    node_built_in_thaw(&((struct simulation *)owner)->sim_trainers[host].trainee, state, bytes);
}

static enum base_error make_sim_trainer(struct simulation *s, size_t node, struct base_reason *why)
{
    struct sim_trainer *p = &s->sim_trainers[node];
    *p = (struct sim_trainer){
        .simulation = s,
        .node = node,
        .trainee = {.config = &s->bench->view, .trainer = lab_shard_trainer_trainer(s->shard_trainers, node)},
        .model = lab_shard_trainer_model(s->shard_trainers, node),
        .scored = SIMULATE_NEVER,
        .score = lab_score_unknown()};
    p->trainee.loss = NAN;
    p->trainee.kept = malloc(node_built_in_kept(p->trainee.trainer) * sizeof *p->trainee.kept);
    if (!p->trainee.kept)
        return base_fail(why, BASE_ENOMEM, "no memory for the last good states of %zu nodes",
                         s->cluster->count);
    if (s->bench->view.average.outer_momentum <= 0)
        return BASE_OK;
    p->trainee.outer = calloc(1, vector_bytes(p));
    p->trainee.round_start = calloc(1, vector_bytes(p));
    if (p->trainee.outer && p->trainee.round_start)
        return BASE_OK;
    return base_fail(why, BASE_ENOMEM, "no memory for the outer momentum of %zu nodes", s->cluster->count);
}

enum base_error simulate_trainers_create(struct simulation *s, struct base_reason *why)
{
    size_t count = s->cluster->count;
    enum base_error error = lab_shard_trainers_create(s->experiment, s->bench, &s->shard_trainers, why);
    if (error)
        return error;
    s->sim_trainers = calloc(count, sizeof *s->sim_trainers);
    if (!s->sim_trainers)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", count);
    for (size_t i = 0; i < count && !error; i++)
        error = make_sim_trainer(s, i, why);
    if (!error)
        error = simulate_attackers_create(s, why);
    s->learner = (struct sim_learner){.learner = {.owner = s,
                                                  .parameters = s->bench->parameters,
                                                  .begin = begin,
                                                  .set = set,
                                                  .steps = steps,
                                                  .boundary = boundary,
                                                  .adopt = adopt,
                                                  .judge = judge,
                                                  .compare = compare,
                                                  .freeze = freeze_state,
                                                  .thaw = thaw,
                                                  .end = end},
                                      .give = s->experiment->hostile.count ? simulate_give : NULL,
                                      .start = lab_shard_trainers_start(s->shard_trainers),
                                      .done = done,
                                      .finish = finish,
                                      .alone = node_config_stops_alone(&s->bench->view) ? alone : NULL,
                                      .shards = s->bench->view.data.takeover ? shards : NULL};
    return error;
}

void simulate_trainers_destroy(struct simulation *s)
{
    for (size_t i = 0; s->sim_trainers && i < s->cluster->count; i++) {
        struct sim_trainer *p = &s->sim_trainers[i];
        if (p->under_way)
            lab_pool_wait(s->pool, &p->job);
        free(p->trainee.outer);
        free(p->trainee.round_start);
        free(p->trainee.kept);
        free(p->last);
        lab_attack_destroy(p->attack);
    }
    free(s->sim_trainers);
    lab_shard_trainers_destroy(s->shard_trainers);
}
