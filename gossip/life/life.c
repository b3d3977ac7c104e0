#include "gossip/life/life.h"

#include "gossip/life/life_state.h"
#include <stdlib.h>
#include <string.h>

#define STILL_NS (2 * LIFE_SECOND) // without a step of this object

bool gossip_life_next(struct gossip_life *life, struct gossip_life_action *action)
{
    BASE_ASSERT(life->taken <= life->n_queued);
    *action = (struct gossip_life_action){.kind = GOSSIP_LIFE_FORGET};
    if (life->taken == life->n_queued)
        return life->state != GOSSIP_LIFE_ENDED && life_forget_next(life, &action->peer);
    *action = life->queue[life->taken++];
    return true;
}

// -- what is known of the others

static void look_around(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;

    BASE_ASSERT(life->world && life->state != GOSSIP_LIFE_ENDED);
    world->self(world->owner, &life->self);
    life->census = (struct gossip_life_census){0};
    if (world->census)
        world->census(world->owner, &life->census);
    for (size_t i = 1, n = world->census ? 0 : world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        gossip_life_count(&life->census, &info, life->options.steps);
    }
    if (!world->census || life->n_unfit > 0)
        life_consider_doubts(life);
    if (life->met_ns == 0 &&
        (life->census.others > 0 || (world->edges && world->edges->count(world->edges->owner) > 0)))
        life->met_ns = life->now_ns;
}

// -- events

// Everything that may be due, in the order of a node's life.
static void look(struct gossip_life *life)
{
    BASE_ASSERT(life->world);
    life->next_ns = LIFE_NEVER;
    life_consider_settings(life); // before the order to begin
    life_consider_shard(life);
    life_consider_joining(life);
    life_consider_settings(life); // it knows now whether what it kept counts
    life_consider_waiting(life);
    if (life->state == GOSSIP_LIFE_ENDED)
        return;
    life_consider_isolation(life);
    if (life->state == GOSSIP_LIFE_ENDED)
        return;
    life_consider_pause(life);
    life_consider_donors(life);
    life_consider_alone(life);
    life_consider_leave(life);
    life_consider_merge(life);
    life_consider_stop(life);
    life_consider_unknown(life);
    life_consider_shards(life);
    life_consider_news(life);
    life_consider_end(life);
}

// The shortest time of a round: for the grace of a stop.
static void take_progress(struct gossip_life *life, const struct gossip_life_event *event)
{
    BASE_ASSERT(life->round_ns == 0 || life->pace_ns > 0);
    life->round = event->round;
    life->step = event->step;
    if (life->end >= LIFE_AGREES)
        life->end = event->ok ? LIFE_STANDS : LIFE_AGREES;
    life->least_stop = event->least;
    if (life->pace_ns == 0 || event->round < life->pace_round) {
        life->pace_round = event->round;
        life->pace_ns = life->now_ns;
        return;
    }
    if (life->now_ns - life->pace_ns < LIFE_SECOND / 16 || event->round == life->pace_round)
        return;
    uint64_t one_ns = (life->now_ns - life->pace_ns) / (event->round - life->pace_round);
    life->round_ns = one_ns < life->round_ns || life->round_ns == 0 ? one_ns : (life->round_ns + one_ns) / 2;
    life->pace_round = event->round;
    life->pace_ns = life->now_ns;
}

static void take(struct gossip_life *life, const struct gossip_life_event *event)
{
    switch (event->kind) {
    case GOSSIP_LIFE_LOOK:
        break;
    case GOSSIP_LIFE_MEMBER:
    case GOSSIP_LIFE_REMOVED:
        life_member(life, event);
        break;
    case GOSSIP_LIFE_LINKED:
        life_linked(life, &event->peer);
        break;
    case GOSSIP_LIFE_PROGRESS:
        take_progress(life, event);
        break;
    case GOSSIP_LIFE_WANTS:
        life_wants(life);
        break;
    case GOSSIP_LIFE_STARVED:
        life_starved(life, event->silent_ns);
        break;
    case GOSSIP_LIFE_FETCHED:
        life_fetched(life, event);
        break;
    case GOSSIP_LIFE_UNFIT:
        life_unfit(life, &event->peer);
        break;
    case GOSSIP_LIFE_SERVED:
        life->stirred_ns = life->now_ns + LIFE_SERVES_NS;
        break;
    case GOSSIP_LIFE_DONE:
        life_done(life);
        break;
    case GOSSIP_LIFE_MERGED:
        life_merged(life);
        break;
    case GOSSIP_LIFE_FROZEN:
        life_frozen(life);
        break;
    case GOSSIP_LIFE_WRITTEN:
        life_written(life, event->status);
        break;
    case GOSSIP_LIFE_STOP:
        life_stop(life);
        break;
    case GOSSIP_LIFE_SET:
        life_set(life, event);
        break;
    case GOSSIP_LIFE_DUPLICATE:
        life_duplicate(life, event->ok);
        break;
    }
}

// Frequent events that often change nothing that a rule reads. Before a stop and in a merge, reports of
// others are handled at once: they may stop at the next round, or are gone.
static bool is_quiet(const struct gossip_life *life, const struct gossip_life_event *event)
{
    bool passive = event->kind == GOSSIP_LIFE_PROGRESS || event->kind == GOSSIP_LIFE_MEMBER ||
                   event->kind == GOSSIP_LIFE_SERVED || event->kind == GOSSIP_LIFE_REMOVED ||
                   (event->kind == GOSSIP_LIFE_LOOK && event->still);

    return passive && event->now_ns < life->next_ns && life->state != GOSSIP_LIFE_STOPPING &&
           life->state != GOSSIP_LIFE_MERGING;
}

void gossip_life_step(struct gossip_life *life, const struct gossip_life_event *event,
                      const struct gossip_life_world *world)
{
    BASE_ASSERT(life->taken == life->n_queued);
    life->n_queued = life->taken = 0;
    if (life->state == GOSSIP_LIFE_ENDED)
        return;
    const bool stood_still = event->now_ns - life->now_ns > STILL_NS;
    const bool quiet = !stood_still && is_quiet(life, event);
    life->now_ns = event->now_ns;
    if (stood_still)
        life_was_away(life);
    life->world = world;
    if (!quiet)
        look_around(life);
    take(life, event);
    if (!quiet && life->state != GOSSIP_LIFE_ENDED)
        look(life);
    life->world = NULL;
}

uint64_t gossip_life_deadline(const struct gossip_life *life)
{
    uint64_t deadline_ns = life->next_ns;

    for (size_t i = 0; i < life->n_away; i++) {
        uint64_t due_ns = life->away[i].since_ns + life->options.forget_after_ns;
        if (due_ns >= life->away[i].since_ns && due_ns < deadline_ns)
            deadline_ns = due_ns;
    }
    return life->state == GOSSIP_LIFE_ENDED ? LIFE_NEVER : deadline_ns;
}

// -- making

enum base_error gossip_life_create(const struct gossip_life_options *options, struct gossip_life **out)
{
    struct gossip_life *life = calloc(1, sizeof *life);

    if (!life)
        return BASE_ENOMEM;
    BASE_ASSERT(options->shards <= LIMIT_PEERS);
    life->options = *options;
    life->state = GOSSIP_LIFE_JOINING;
    life->begun_ns = life->now_ns = life->state_ns = options->now_ns;
    life->unknown_ns = options->forget_after_ns < LIFE_NEVER - options->now_ns
                           ? options->now_ns + options->forget_after_ns
                           : LIFE_NEVER;
    life->round = options->round;
    life->step = options->step;
    life->course = options->resumed ? LIFE_COMPLETE : LIFE_BARE;
    *out = life;
    return BASE_OK;
}

void gossip_life_destroy(struct gossip_life *life)
{
    if (!life)
        return;
    free(life->away);
    free(life->other_side.id);
    free(life->told);
    free(life->ways);
    free(life);
}

enum gossip_life_state gossip_life_state(const struct gossip_life *life)
{
    return life->state;
}

unsigned gossip_life_pauses(const struct gossip_life *life)
{
    return life->state == GOSSIP_LIFE_PAUSED ? life->pauses : 0;
}

// A step can end the training after it has looked for live edges.
bool gossip_life_isolated(const struct gossip_life *life)
{
    return life->hearing == LIFE_ISOLATED && life->state == GOSSIP_LIFE_TRAINING;
}

bool gossip_life_counts(const struct gossip_life *life)
{
    return life->counts;
}

bool gossip_life_others(const struct gossip_life *life)
{
    return life->census.company > 0;
}

bool gossip_life_stopping(const struct gossip_life *life)
{
    return life->end >= LIFE_STOPS;
}
