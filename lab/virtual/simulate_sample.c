// rounds.jsonl: at intervals, averages and measures the models of all present nodes as their neighbours see
// them.
#include "lab/virtual/simulate_private.h"
#include "node/setup.h"

#include <math.h>
#include <stdlib.h>

enum base_error simulate_points_create(struct simulation *s, struct base_reason *why)
{
    size_t count = lab_pool_threads(s->pool);
    enum base_error error = BASE_OK;
    s->evaluators = calloc(count, sizeof *s->evaluators);
    if (!s->evaluators)
        return base_fail(why, BASE_ENOMEM, "no memory to measure models");
    for (size_t i = 0; i < count && !error; i++) {
        s->evaluators[i].simulation = s;
        error = node_setup_model(&s->bench->view, &s->bench->train, s->bench->kernels,
                                 &s->evaluators[i].model, why);
    }
    return error;
}

void simulate_points_destroy(struct simulation *s)
{
    for (size_t i = 0; s->evaluators && i < lab_pool_threads(s->pool); i++)
        train_model_destroy(s->evaluators[i].model);
    free(s->evaluators);
}

static void evaluate(void *argument)
{
    const struct evaluator *e = argument;
    for (size_t i = e->first; i < e->count; i += e->stride)
        if (lab_score_model(e->simulation->bench, e->model, e->models[i], &e->scores[i]))
            e->scores[i] = lab_score_unknown(); // no memory
}

static void evaluate_all(struct simulation *s, const float *const *models, struct lab_score *scores,
                         size_t count)
{
    size_t threads = lab_pool_threads(s->pool), used = threads < count ? threads : count;
    for (size_t i = 0; i < used; i++) {
        struct evaluator *e = &s->evaluators[i];
        e->models = models;
        e->scores = scores;
        e->first = i;
        e->stride = used;
        e->count = count;
    }
    lab_pool_each(s->pool, evaluate, s->evaluators, sizeof *s->evaluators, used);
}

struct gathering { // of the present nodes
    size_t count, unknown;
    const float *models[LAB_NODES_MAX];
    size_t node[LAB_NODES_MAX];
    const float *ask[LAB_NODES_MAX + 1]; // to measure now: [0] the mean, then those of asked
    struct lab_score score[LAB_NODES_MAX + 1];
    size_t asked[LAB_NODES_MAX];
};

// A model already measured after this round is not measured again.
static void ask(struct simulation *s, struct gathering *g, size_t node, const float *model)
{
    struct sim_trainer *p = &s->sim_trainers[node];
    bool its_job_does = p->under_way || !p->row_waits;
    g->node[g->count] = node;
    g->models[g->count++] = model;
    if (p->scored == p->round && its_job_does) {
        simulate_trainer_finish(p);
        return;
    }
    g->asked[g->unknown++] = node;
    g->ask[g->unknown] = model;
}

static void take_scores(struct simulation *s, struct gathering *g)
{
    for (size_t i = 0; i < g->unknown; i++) {
        struct sim_trainer *p = &s->sim_trainers[g->asked[i]];
        if (p->row_waits && !p->under_way) { // as its job would have found it
            p->score = g->score[i + 1];
            simulate_row_write(p);
        }
    }
}

static const struct lab_score *score_of(const struct simulation *s, const struct gathering *g, size_t i)
{
    for (size_t k = 0; k < g->unknown; k++)
        if (g->asked[k] == g->node[i])
            return &g->score[k + 1];
    return &s->sim_trainers[g->node[i]].score;
}

static void sum_up(const struct simulation *s, const struct gathering *g, struct lab_sample *sample)
{
    double rounds = 0, steps = 0, accuracy = 0, loss = 0;
    sample->worst = INFINITY;
    sample->best = -INFINITY;
    for (size_t i = 0; i < g->count; i++) {
        const struct sim_trainer *p = &s->sim_trainers[g->node[i]];
        double found = score_of(s, g, i)->accuracy;
        rounds += (double)p->round;
        steps += (double)p->step;
        accuracy += found;
        loss += p->trainee.loss;
        sample->worst = found < sample->worst ? found : sample->worst;
        sample->best = found > sample->best ? found : sample->best;
    }
    double count = (double)g->count;
    sample->nodes = g->count;
    sample->round = (uint64_t)(rounds / count);
    sample->step = (uint64_t)(steps / count);
    sample->mean = accuracy / count;
    sample->train_loss = loss / count;
}

static void write_latest(struct simulation *s)
{
    struct base_reason why = {""};
    enum base_error error = s->holds ? lab_recorder_add(&s->recorder, &s->latest, &why) : BASE_OK;
    s->holds = false;
    if (error && !s->error) {
        s->error = error;
        s->why = why;
    }
}

static void record(struct simulation *s, const struct lab_sample *sample)
{
    if (s->latest.round < sample->round || sample->round == 0)
        write_latest(s);
    s->latest = *sample;
    s->holds = true;
}

static double seconds_since_begin(const struct simulation *s, uint64_t now_ns)
{
    return (double)(now_ns - s->begin_ns) / (double)SIM_SECOND;
}

// Fills in a sample except its time. `g` holds at least one node. Returns the mean, malloc'ed; NULL: no
// memory, and nothing was measured.
static float *measure(struct simulation *s, struct gathering *g, struct lab_sample *sample)
{
    float *mean = malloc(s->bench->parameters * sizeof *mean);
    *sample = (struct lab_sample){.accuracy = NAN, .loss = NAN, .consensus = NAN};
    if (!mean)
        return NULL;
    lab_models_mean(g->models, g->count, s->bench->parameters, mean);
    sample->consensus = lab_models_consensus(g->models, g->count, s->bench->parameters, mean);
    g->ask[0] = mean;
    evaluate_all(s, g->ask, g->score, g->unknown + 1);
    take_scores(s, g);
    sample->accuracy = g->score[0].accuracy;
    sample->loss = g->score[0].loss;
    sample->rmse = g->score[0].rmse;
    sample->regression = g->score[0].regression;
    sum_up(s, g, sample);
    sample->bytes = simulate_bytes_sent(s);
    return mean;
}

bool simulate_is_there(const struct simulation *s, size_t node)
{
    const struct sim_node *there = s->world.node[node];
    return there->running && there->train.exchange && !s->sim_trainers[node].attack;
}

static double mean_round(const struct simulation *s)
{
    double rounds = 0, count = 0;
    for (size_t i = 0; i < s->cluster->count; i++)
        if (simulate_is_there(s, i)) {
            rounds += (double)s->sim_trainers[i].round;
            count++;
        }
    return count > 0 ? rounds / count : 0;
}

static struct gathering *gather(struct simulation *s)
{
    struct gathering *g = sim_must(calloc(1, sizeof *g));
    for (size_t i = 0; i < s->cluster->count; i++)
        if (simulate_is_there(s, i))
            ask(s, g, i, gossip_exchange_model(s->world.node[i]->train.exchange));
    return g;
}

void simulate_point_begin(struct simulation *s)
{
    const float *start = lab_shard_trainers_start(s->shard_trainers);
    struct lab_sample sample = {.bytes = simulate_bytes_sent(s), .train_loss = NAN};
    struct lab_score score;
    if (s->begin_ns)
        return;
    s->begin_ns = sim_world_now(&s->world);
    s->next_round = s->bench->view.train.eval_rounds ? s->bench->view.train.eval_rounds : SIMULATE_NEVER;
    evaluate_all(s, &start, &score, 1);
    for (size_t i = 0; i < s->cluster->count; i++)
        sample.nodes += s->world.node[i]->running;
    sample.accuracy = sample.worst = sample.mean = sample.best = score.accuracy;
    sample.loss = score.loss;
    record(s, &sample);
}

void simulate_point_look(struct simulation *s)
{
    struct lab_sample sample;
    uint64_t every = s->bench->view.train.eval_rounds;
    double mean = mean_round(s);
    if (s->next_round == SIMULATE_NEVER || mean < (double)s->next_round)
        return;
    struct gathering *g = gather(s);
    free(measure(s, g, &sample));
    free(g);
    sample.time = seconds_since_begin(s, sim_world_now(&s->world));
    record(s, &sample);
    s->next_round = ((uint64_t)mean / every + 1) * every;
}

void simulate_point_end(struct simulation *s, struct lab_average *average)
{
    struct lab_sample sample;
    struct gathering *g = sim_must(calloc(1, sizeof *g));
    *average = (struct lab_average){.score = lab_score_unknown(), .consensus = NAN};
    for (size_t i = 0; i < s->cluster->count; i++) {
        simulate_trainer_finish(&s->sim_trainers[i]);
        if (lab_node_counts(&s->cluster->nodes[i]) && s->sim_trainers[i].last)
            ask(s, g, i, s->sim_trainers[i].last);
    }
    if (g->count) {
        float *mean = measure(s, g, &sample);
        sample.time = seconds_since_begin(s, s->round_ns);
        record(s, &sample);
        *average =
            (struct lab_average){.score = {sample.accuracy, sample.loss, sample.rmse, sample.regression},
                                 .consensus = g->count > 1 ? sample.consensus : NAN,
                                 .nodes = g->count,
                                 .model = mean};
    }
    write_latest(s);
    free(g);
}
