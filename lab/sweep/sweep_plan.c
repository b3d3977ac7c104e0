#include "lab/sweep/sweep_plan.h"

#include "lab/methods/rounds.h"
#include "lab/record/directory.h"
#include "lab/sweep/sweep_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_SETTINGS 4u // sweep, experiment.repeats, sim.threads, experiment.seed

struct planning {
    const struct lab_experiment_source *source;
    const struct lab_experiment *base;
    struct lab_sweep_plan *plan;
    bool simulated;
    char **settings;
    const char **origins;
    size_t count;
    struct base_reason *why;
};

const char *lab_sweep_state_name(enum lab_sweep_state state)
{
    static const char *const names[] = {"waiting", "complete", "failed", "interrupted"};
    return names[state];
}

static enum base_error no_memory(struct base_reason *why)
{
    return base_fail(why, BASE_ENOMEM, "no memory for the runs of a sweep");
}

static void put(struct planning *p, const char *origin, char *setting)
{
    p->settings[p->count] = setting;
    p->origins[p->count++] = origin;
}

static const char *origin_of(const struct planning *p, const char *key)
{
    return node_schema_origin(&p->base->schema, p->base, key);
}

// The settings of one run: those of --set, those of the point, and those that make it a single run. `seed`
// NULL: unchanged.
static void set_point(struct planning *p, size_t point, const uint64_t *seed)
{
    const struct lab_sweep_plan *plan = p->plan;
    p->count = 0;
    for (size_t i = 0; i < p->source->n_settings; i++)
        put(p, "--set", lab_path("%s", p->source->settings[i]));
    put(p, origin_of(p, "sweep"), lab_path("sweep=[]"));
    put(p, origin_of(p, "experiment.repeats"), lab_path("experiment.repeats=1"));
    if (p->simulated && p->base->sim.threads == 0)
        put(p, origin_of(p, "sim.threads"), lab_path("sim.threads=1"));
    for (size_t i = 0; i < plan->n_axes; i++) {
        const struct lab_sweep_axis *axis = &plan->axes[i];
        put(p, axis->origins[point / axis->stride % axis->count],
            lab_path("%s=%s", axis->key, lab_sweep_value(plan, point, i)));
    }
    if (seed)
        put(p, origin_of(p, "experiment.repeats"), lab_path("experiment.seed=%" PRIu64, *seed));
}

static void drop_settings(struct planning *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->settings[i]);
    p->count = 0;
}

// A reason may name a line that is correct by itself, so it also names the point for which it is wrong.
static enum base_error for_point(const struct planning *p, const struct lab_sweep_point *point,
                                 enum base_error error)
{
    struct base_reason *why = p->why;
    if (!point->text[0] || !why)
        return error;
    size_t used = strlen(why->text);
    snprintf(why->text + used, sizeof why->text - used, " (in the sweep: %s)", point->text);
    return error;
}

// Experiments that the command would refuse.
static enum base_error check(const struct lab_experiment *experiment, bool simulated, struct base_reason *why)
{
    if (!simulated)
        return lab_experiment_check_run(experiment, why);
    enum base_error error = lab_experiment_check_sim(experiment, why);
    if (!error && lab_experiment_engine(experiment) == LAB_ENGINE_ROUNDS)
        error = lab_rounds_check(experiment, why);
    return error;
}

static enum base_error load(struct planning *p, size_t point, const uint64_t *seed, const char *out,
                            struct lab_experiment *experiment)
{
    struct lab_experiment_source source = *p->source;
    set_point(p, point, seed);
    source.settings = (const char *const *)p->settings;
    source.origins = p->origins;
    source.n_settings = p->count;
    source.out = out;
    enum base_error error = lab_experiment_load(&source, experiment, p->why);
    if (!error) {
        error = check(experiment, p->simulated, p->why);
        if (error)
            lab_experiment_free(experiment);
    }
    drop_settings(p);
    return error ? for_point(p, &p->plan->points[point], error) : BASE_OK;
}

static enum base_error check_points(struct planning *p)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < p->plan->n_points && !error; i++) {
        struct lab_experiment experiment;
        error = load(p, i, NULL, p->base->experiment.out, &experiment);
        if (error)
            break;
        p->plan->points[i].seed = experiment.experiment.seed;
        lab_experiment_free(&experiment);
    }
    return error;
}

static enum base_error make_run(struct planning *p, size_t point, uint64_t repeat, struct lab_sweep_run *run)
{
    const char *out = p->base->experiment.out;
    const struct lab_sweep_point *at = &p->plan->points[point];
    struct lab_experiment experiment;
    *run = (struct lab_sweep_run){.point = point, .seed = at->seed + repeat, .seconds = NAN};
    snprintf(run->label, sizeof run->label, "%s%sseed=%" PRIu64, at->label, at->label[0] ? "," : "",
             run->seed);
    run->directory = lab_path("%s/" LAB_RUNS "/%s", out, run->label);
    run->file = lab_path("%s.yaml", run->directory);
    run->output = lab_path("%s.txt", run->directory);
    run->log = lab_path("%s.log", run->directory);
    enum base_error error = load(p, point, &run->seed, run->directory, &experiment);
    if (error)
        return error;
    run->threads = experiment.sim.threads;
    run->stop_grace_ns = experiment.experiment.stop_grace_ns;
    run->text = lab_experiment_write(&experiment);
    lab_experiment_free(&experiment);
    return run->text ? BASE_OK : no_memory(p->why);
}

static enum base_error make_runs(struct planning *p)
{
    struct lab_sweep_plan *plan = p->plan;
    uint64_t repeats = p->base->experiment.repeats;
    enum base_error error = BASE_OK;
    if (plan->n_points > LAB_SWEEP_RUNS_MAX / repeats)
        return base_fail(p->why, BASE_ELIMIT,
                         "%s: experiment.repeats: found %" PRIu64
                         " repeats of %zu points, expected at most %u runs in all",
                         origin_of(p, "experiment.repeats"), repeats, plan->n_points, LAB_SWEEP_RUNS_MAX);
    plan->runs = calloc(plan->n_points * repeats, sizeof *plan->runs);
    if (!plan->runs)
        return no_memory(p->why);
    for (uint64_t repeat = 0; repeat < repeats && !error; repeat++)
        for (size_t i = 0; i < plan->n_points && !error; i++)
            error = make_run(p, i, repeat, &plan->runs[plan->n_runs++]);
    return error;
}

enum base_error lab_sweep_plan_make(const struct lab_experiment_source *source,
                                    const struct lab_experiment *base, bool simulated,
                                    struct lab_sweep_plan *plan, struct base_reason *why)
{
    struct planning p = {.source = source, .base = base, .plan = plan, .simulated = simulated, .why = why};
    *plan = (struct lab_sweep_plan){0};
    enum base_error error = lab_sweep_axes_read(base, plan, why);
    if (error)
        goto out;
    size_t room = source->n_settings + plan->n_axes + OWN_SETTINGS;
    p.settings = calloc(room, sizeof *p.settings);
    p.origins = calloc(room, sizeof *p.origins);
    plan->points = calloc(plan->n_points, sizeof *plan->points);
    if (!p.settings || !p.origins || !plan->points)
        error = no_memory(why);
    if (!error)
        error = lab_sweep_labels_make(plan, why);
    if (!error)
        error = check_points(&p);
    if (!error)
        error = make_runs(&p);
out:
    free(p.settings);
    free(p.origins);
    if (error)
        lab_sweep_plan_free(plan);
    return error;
}

static void free_axis(struct lab_sweep_axis *axis)
{
    for (size_t i = 0; i < axis->count; i++) {
        free(axis->values[i]);
        free(axis->origins[i]);
    }
    free(axis->values);
    free(axis->origins);
    free(axis->key);
}

static void free_run(struct lab_sweep_run *run)
{
    free(run->directory);
    free(run->file);
    free(run->output);
    free(run->log);
    free(run->text);
}

void lab_sweep_plan_free(struct lab_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n_axes; i++)
        free_axis(&plan->axes[i]);
    for (size_t i = 0; plan->points && i < plan->n_points; i++)
        free(plan->points[i].text);
    for (size_t i = 0; i < plan->n_runs; i++)
        free_run(&plan->runs[i]);
    free(plan->axes);
    free(plan->points);
    free(plan->runs);
    *plan = (struct lab_sweep_plan){0};
}
