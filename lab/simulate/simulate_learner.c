// What node/learner.c is in the daemon: local steps, outer momentum, evaluation.
#include "lab/simulate/simulate_private.h"
#include "node/momentum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct node_config *config_of(const struct pupil *pupil)
{
    return &pupil->simulation->bench->view;
}

static size_t vector_bytes(const struct pupil *pupil)
{
    return pupil->simulation->bench->parameters * sizeof(float);
}

static void fail(struct simulation *s, enum base_error error, const struct base_reason *why)
{
    if (s->error)
        return;
    s->error = error;
    s->why = *why;
}

// -- in any thread of the pool

static void take_steps(struct pupil *p)
{
    const struct node_config *config = config_of(p);
    double loss_sum = 0, rate_sum = 0;
    size_t examples = 0;
    if (p->steps)
        train_trainer_round_begin(p->trainer);
    for (uint64_t i = 0; i < p->steps; i++) {
        struct kernels_loss loss;
        size_t rows = 0;
        rate_sum += train_trainer_rate(p->trainer);
        train_trainer_step(p->trainer, config->average.drift_correction, &loss, &rows);
        loss_sum += loss.loss_sum;
        examples += rows;
    }
    p->job_loss = examples ? loss_sum / (double)examples : NAN;
    p->job_scale = rate_sum;
}

static void work(void *argument)
{
    struct pupil *p = argument;
    if (p->measuring && lab_score_model(p->simulation->bench, p->model, p->measuring, &p->score))
        p->score = lab_score_unknown(); // no memory
    p->measuring = NULL;
    take_steps(p);
}

// -- in the main thread

static void submit(struct pupil *p, uint64_t steps, const float *measuring)
{
    p->steps = steps;
    p->measuring = measuring;
    p->under_way = true;
    p->job = (struct lab_job){.run = work, .argument = p};
    lab_pool_submit(p->simulation->pool, &p->job);
}

void simulate_pupil_settle(struct pupil *p)
{
    if (p->under_way)
        lab_pool_wait(p->simulation->pool, &p->job);
    p->under_way = false;
    if (p->row_waits)
        simulate_row_write(p);
}

static void begin(void *owner, size_t host, struct sim_vectors *vectors)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    struct base_reason why = {""};
    simulate_pupil_settle(p);
    free(p->last);
    p->last = NULL;
    if (p->used) {
        enum base_error error = lab_student_restart(s->students, host, &why);
        if (error)
            fail(s, error, &why);
    }
    p->used = true;
    p->trainer = lab_student_trainer(s->students, host);
    p->round = p->step = 0;
    p->alone = false;
    p->scored = SIMULATE_NEVER;
    p->loss = NAN;
    if (p->outer)
        memset(p->outer, 0, vector_bytes(p));
    train_trainer_fetch(p->trainer);
    *vectors = (struct sim_vectors){
        .model = train_trainer_model(p->trainer),
        .second_moment = train_trainer_second_moment(p->trainer),
        .correction = config_of(p)->average.drift_correction ? train_trainer_correction(p->trainer) : NULL,
        .outer = p->outer};
}

// Trainer, round and step go on where the donor was. What only this node knew of the way (momentum) is
// dropped: it belongs to another model.
static void go_on_from_snapshot(struct pupil *p, uint64_t step)
{
    struct train_state_vector vectors[4];
    struct train_cursor cursor = train_trainer_cursor(p->trainer);
    size_t count = train_trainer_state_vectors(p->trainer, vectors);
    uint64_t steps = config_of(p)->train.steps;
    const float *second = train_trainer_second_moment(p->trainer);
    for (size_t i = 0; i < count; i++)
        if (vectors[i].values != second)
            memset(vectors[i].values, 0, vector_bytes(p));
    cursor.step = step < steps ? step : steps;
    BASE_ASSERT(train_trainer_seek(p->trainer, &cursor) == BASE_OK); // it is its own cursor
}

static void ready(void *owner, size_t host, enum sim_origin origin, uint64_t round, uint64_t step)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    p->round = round;
    p->step = step;
    if (origin == SIM_FROM_SNAPSHOT)
        go_on_from_snapshot(p, step);
    train_trainer_store(p->trainer);
    if (p->before)
        memcpy(p->before, train_trainer_model(p->trainer), vector_bytes(p));
}

// What is measured when there are no more steps, and goes into the average, outlives the process. False: no
// memory.
static bool put_aside(struct pupil *p)
{
    struct base_reason why = {""};
    if (!p->last)
        p->last = malloc(vector_bytes(p));
    if (!p->last) {
        fail(p->simulation, base_fail(&why, BASE_ENOMEM, "no memory for the last model of a node"), &why);
        return false;
    }
    train_trainer_fetch(p->trainer);
    memcpy(p->last, train_trainer_model(p->trainer), vector_bytes(p));
    return true;
}

static uint64_t steps(void *owner, size_t host, uint64_t round, double pace)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    const struct node_config *config = config_of(p);
    uint64_t done = train_trainer_steps_done(p->trainer), left = config->train.steps - done;
    uint64_t count = left < config->average.local_steps ? left : config->average.local_steps;
    simulate_point_begin(s);
    if (done >= config->train.steps || p->alone)
        count = 0;
    if (config->train.scale_rate)
        train_trainer_scale(p->trainer, pace);
    p->job_rate = train_trainer_rate(p->trainer);
    if (count)
        submit(p, count, p->row_waits ? train_trainer_model(p->trainer) : NULL);
    else if (p->row_waits && put_aside(p))
        submit(p, 0, p->last);
    return count ? lab_paces_round_ns(&s->paces, host, round, count) : SIM_NO_STEPS;
}

static void alone(void *owner, size_t host)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    if (!p->alone && p->step < config_of(p)->train.steps)
        simulate_tell_alone(p);
    p->alone = true;
}

static void collect(void *owner, size_t host, uint64_t round, struct sim_steps *did)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    simulate_pupil_settle(p);
    p->loss = isnan(p->job_loss) ? p->loss : p->job_loss;
    p->rate = p->job_rate;
    p->step = train_trainer_steps_done(p->trainer);
    s->steps += p->steps;
    train_trainer_fetch(p->trainer);
    if (p->outer)
        node_momentum_before((float)config_of(p)->average.outer_momentum, s->bench->parameters, p->outer,
                             train_trainer_model(p->trainer));
    uint64_t taken = p->steps ? p->steps : 1;
    *did = (struct sim_steps){.step = p->step,
                              .step_scale = (float)p->job_scale,
                              .pace_ns = lab_paces_round_ns(&s->paces, host, round, taken) / taken};
}

static void done(void *owner, size_t host, uint64_t round)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    uint64_t every = config_of(p)->train.eval_rounds;
    if (p->outer)
        node_momentum_after((float)config_of(p)->average.outer_momentum, s->bench->parameters,
                            train_trainer_model(p->trainer), p->before, p->outer);
    train_trainer_store(p->trainer);
    p->round = round;
    s->round_ns = sim_world_now(&s->world);
    simulate_row_make(p, "training");
    p->row_waits = every && round % every == 0;
    if (!p->row_waits)
        simulate_row_write(p);
    else
        p->scored = round;
    simulate_events_look(s);
    simulate_point_look(s);
}

static bool was_asked_to_go(const struct pupil *p)
{
    return p->simulation->asked || p->simulation->swarm->nodes[p->node].gone == LAB_HAS_LEFT;
}

static void finish(void *owner, size_t host, uint64_t round)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    simulate_pupil_settle(p);
    if (!put_aside(p))
        return;
    p->round = round;
    p->scored = round;
    simulate_row_make(p, was_asked_to_go(p) ? "stopped" : "finished");
    p->row_waits = true;
    submit(p, 0, p->last);
}

static void end(void *owner, size_t host)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    if (!p->last) // else its job touches nothing of the process
        simulate_pupil_settle(p);
}

// The trainer's other vectors (momentum), then its cursor.
static size_t save(void *owner, size_t host, uint8_t **bytes)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    struct train_state_vector vectors[4];
    const struct train_cursor cursor = train_trainer_cursor(p->trainer);
    train_trainer_fetch(p->trainer);
    size_t count = train_trainer_state_vectors(p->trainer, vectors), each = vector_bytes(p);
    *bytes = sim_must(malloc(count * each + sizeof cursor));
    for (size_t i = 0; i < count; i++)
        memcpy(*bytes + i * each, vectors[i].values, each);
    memcpy(*bytes + count * each, &cursor, sizeof cursor);
    return count * each + sizeof cursor;
}

static void load(void *owner, size_t host, const uint8_t *bytes, size_t n_bytes)
{
    struct simulation *s = owner;
    struct pupil *p = &s->pupils[host];
    struct train_state_vector vectors[4];
    struct train_cursor cursor;
    size_t count = train_trainer_state_vectors(p->trainer, vectors), each = vector_bytes(p);
    BASE_ASSERT(n_bytes == count * each + sizeof cursor);
    for (size_t i = 0; i < count; i++)
        memcpy(vectors[i].values, bytes + i * each, each);
    memcpy(&cursor, bytes + count * each, sizeof cursor);
    BASE_ASSERT(train_trainer_seek(p->trainer, &cursor) == BASE_OK); // of the same trainer
}

static enum base_error make_pupil(struct simulation *s, size_t node, struct base_reason *why)
{
    struct pupil *p = &s->pupils[node];
    *p = (struct pupil){.simulation = s,
                        .node = node,
                        .trainer = lab_student_trainer(s->students, node),
                        .model = lab_student_model(s->students, node),
                        .scored = SIMULATE_NEVER,
                        .loss = NAN,
                        .score = lab_score_unknown()};
    if (s->bench->view.average.outer_momentum <= 0)
        return BASE_OK;
    p->outer = calloc(1, vector_bytes(p));
    p->before = calloc(1, vector_bytes(p));
    if (p->outer && p->before)
        return BASE_OK;
    return base_fail(why, BASE_ENOMEM, "no memory for the outer momentum of %zu nodes", s->swarm->count);
}

enum base_error simulate_pupils_create(struct simulation *s, struct base_reason *why)
{
    size_t count = s->swarm->count;
    enum base_error error = lab_students_create(s->experiment, s->bench, &s->students, why);
    if (error)
        return error;
    s->pupils = calloc(count, sizeof *s->pupils);
    if (!s->pupils)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", count);
    for (size_t i = 0; i < count && !error; i++)
        error = make_pupil(s, i, why);
    s->learner = (struct sim_learner){.owner = s,
                                      .parameters = s->bench->parameters,
                                      .start = lab_students_start(s->students),
                                      .begin = begin,
                                      .load = load,
                                      .ready = ready,
                                      .steps = steps,
                                      .alone = node_config_stops_alone(&s->bench->view) ? alone : NULL,
                                      .collect = collect,
                                      .done = done,
                                      .finish = finish,
                                      .end = end,
                                      .save = save};
    return error;
}

void simulate_pupils_destroy(struct simulation *s)
{
    for (size_t i = 0; s->pupils && i < s->swarm->count; i++) {
        struct pupil *p = &s->pupils[i];
        if (p->under_way)
            lab_pool_wait(s->pool, &p->job);
        free(p->outer);
        free(p->before);
        free(p->last);
    }
    free(s->pupils);
    lab_students_destroy(s->students);
}
