// Whose model a node takes if it joins late, is left alone, or gives way after a partition.
#include "gossip/life/life_state.h"
#include <string.h>

#define REMIND_NS   (10 * LIFE_SECOND) // between two reports that no donor is there
#define PATIENCE_NS (5 * LIFE_SECOND)  // how long to wait for a link to a donor
#define REPORTS_NS  (2 * LIFE_SECOND)  // how long to wait for the reports of others before a donor is asked
#define FETCH_NS    (60 * LIFE_SECOND) // how long a node with a model waits for a link to a donor, or a block

// Passes the list to the owner. NULL: it is the list that the owner already has.
static struct gossip_life_action *tell_ids(struct gossip_life *life, enum gossip_life_action_kind kind,
                                           struct gossip_id *told, size_t *n_told,
                                           const struct gossip_id *ids, size_t count)
{
    BASE_ASSERT(count <= GOSSIP_LIFE_DONORS && *n_told <= GOSSIP_LIFE_DONORS);
    if (count == *n_told && (count == 0 || memcmp(told, ids, count * sizeof *ids) == 0))
        return NULL;
    if (count > 0)
        memcpy(told, ids, count * sizeof *ids);
    *n_told = count;
    struct gossip_life_action *action = life_act(life, kind);
    action->ids = told;
    action->count = count;
    return action;
}

static void end_links(struct gossip_life *life)
{
    BASE_ASSERT(life->n_wanted <= GOSSIP_LIFE_DONORS && life->n_asked <= GOSSIP_LIFE_DONORS);
    life->n_asked = life->n_passed = 0;
    if (!tell_ids(life, GOSSIP_LIFE_LINKS, life->wanted, &life->n_wanted, NULL, 0) &&
        life->yield == LIFE_GATHERS)
        life_act(life, GOSSIP_LIFE_LINKS);
    life->yield = life->yield == LIFE_GATHERS ? LIFE_YIELDS : life->yield;
}

void life_end_fetch(struct gossip_life *life)
{
    life->fetch_ns = 0;
    end_links(life);
}

void life_wants(struct gossip_life *life)
{
    const bool begun = life->state == GOSSIP_LIFE_FETCHING || life->state == GOSSIP_LIFE_TRAINING ||
                       life->state == GOSSIP_LIFE_PAUSED;

    if (!begun)
        return; // told to stop, the learner ends its fetch by itself
    BASE_ASSERT(life->end < LIFE_STOPS);
    if (life->options.steps > 0 && life->step >= life->options.steps)
        life->givers = LIFE_FINISHED;
    life->n_asked = life->n_passed = 0;
    life->refused = false;
    life->fetch_ns = life->donor_ns = life->now_ns;
    if (life->state != GOSSIP_LIFE_FETCHING)
        life_enter(life, GOSSIP_LIFE_FETCHING);
}

// It continues with another's model, or with its own.
static void go_on(struct gossip_life *life)
{
    BASE_ASSERT(life->state == GOSSIP_LIFE_FETCHING);
    life->givers = LIFE_ANY;
    life->fetch_ns = life->least_round = life->away_ns = 0;
    life->late_ns = life->now_ns;
    end_links(life);
    life_count(life);
    life_flags(life, GOSSIP_RECORD_TRAINING, 0);
    life_reach(life, LIFE_BEGUN);
    life_go_on(life);
}

// Messages on an older link are lost: the owner gets the list of donors again, and the node that goes first
// gets this node's statistics again.
void life_linked(struct gossip_life *life, const struct gossip_id *peer)
{
    if (gossip_id_compare(&life->gave, peer) == 0)
        life->gave_ns = 0;
    if (life_fetches(life) && life_is_among(life->asked, life->n_asked, peer))
        life->n_asked = 0;
}

// Those that gave a model which was refused, or none, have not finished: whether this node is left alone is
// open again.
static void give_up(struct gossip_life *life)
{
    const bool not_alone = life->end == LIFE_ALONE && life->refused;

    life->end = not_alone ? LIFE_GOES_ON : life->end;
    life_tell(life, GOSSIP_LIFE_GAVE_UP, 0, 0);
    life_act(life, GOSSIP_LIFE_END_FETCH)->on = not_alone;
    go_on(life);
}

static void give_up_silent(struct gossip_life *life)
{
    life->refused |= life->n_wanted > 0;
    for (size_t i = 0; life->end == LIFE_ALONE && i < life->n_wanted; i++)
        life_mark_unfit(life, &life->wanted[i]);
    give_up(life);
}

void life_unfit(struct gossip_life *life, const struct gossip_id *peer)
{
    life_mark_unfit(life, peer);
    life->refused |= life_fetches(life);
}

// A process that got no model continues if it has one of its own, else it ends.
void life_fetched(struct gossip_life *life, const struct gossip_life_event *event)
{
    const bool own = life->course >= LIFE_COMPLETE;

    if (life->state != GOSSIP_LIFE_FETCHING || (!event->ok && !own))
        return;
    if (event->ok) {
        life->round = event->round;
        life->step = event->step;
        life->pull = LIFE_PULL_FETCHED;
        life_tell(life, GOSSIP_LIFE_COMPLETE, 0, 0);
    }
    go_on(life);
}

// Until others have reported, a donor may claim any progress.
static bool waits_for_reports(struct gossip_life *life)
{
    struct life_progress cluster;

    if (life->census.claim == 0 || life_cluster(life, &cluster))
        return false;
    life_wake(life, life->state_ns + REPORTS_NS);
    return life->now_ns - life->state_ns < REPORTS_NS;
}

// While donors send, the cluster's progress grows, and so does the progress that they may report.
static void tell_asked(struct gossip_life *life, const struct gossip_id *ids, size_t count)
{
    const struct life_progress furthest = life_furthest(life);

    BASE_ASSERT(life_fetches(life) && count <= GOSSIP_LIFE_DONORS);
    if (furthest.round / 5 * 4 > life->furthest.round)
        life->n_asked = 0;
    struct gossip_life_action *action =
        tell_ids(life, GOSSIP_LIFE_ASK, life->asked, &life->n_asked, ids, count);
    if (!action)
        return;
    life->furthest = furthest;
    action->round = furthest.round;
    action->step = furthest.step;
}

static void look_at_links(struct gossip_life *life, const struct gossip_id *chosen, size_t count)
{
    struct gossip_id linked[GOSSIP_LIFE_DONORS];
    uint64_t since_ns[GOSSIP_LIFE_DONORS];
    size_t n_linked = 0;

    BASE_ASSERT(life_fetches(life) && count <= GOSSIP_LIFE_DONORS);
    for (size_t i = 0; i < count; i++) {
        since_ns[i] = life->now_ns;
        for (size_t k = 0; k < life->n_wanted; k++)
            if (gossip_id_compare(&life->wanted[k], &chosen[i]) == 0)
                since_ns[i] = life->wanted_ns[k];
        if (life->world->linked(life->world->owner, &chosen[i])) {
            since_ns[i] = life->now_ns;
            linked[n_linked++] = chosen[i];
        } else if (life->now_ns - since_ns[i] >= PATIENCE_NS) {
            life_pass_over(life, &chosen[i]);
        }
        life_wake(life, since_ns[i] + PATIENCE_NS);
    }
    (void)tell_ids(life, GOSSIP_LIFE_LINKS, life->wanted, &life->n_wanted, chosen, count);
    memcpy(life->wanted_ns, since_ns, count * sizeof *since_ns);
    if (!waits_for_reports(life))
        tell_asked(life, linked, n_linked);
    if (n_linked > 0)
        life->fetch_ns = life->now_ns;
}

static void end_without_model(struct gossip_life *life, bool gone, uint64_t silent_ns)
{
    life_tell(life, GOSSIP_LIFE_NO_MODEL, gone, silent_ns / LIFE_SECOND);
    life_act(life, GOSSIP_LIFE_END_FETCH);
    life_end_fetch(life);
}

// All members that claim to train were asked, and more, with this node, wait as it does and have made the
// same first model. What the others say of theirs cannot be checked, and would keep everybody waiting.
static bool are_outnumbered(const struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    struct gossip_member_info self, other;
    size_t claim = 0, wait = 1;

    world->member(world->owner, 0, &self);
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        world->member(world->owner, i, &other);
        const bool trains = other.record->flags & GOSSIP_RECORD_TRAINING;
        if (!gossip_life_believes(&other))
            continue;
        if (trains ? !life_is_among(life->wanted, life->n_wanted, &other.record->id)
                   : other.record->first_model != self.record->first_model)
            return false;
        claim += trains;
        wait += !trains;
    }
    return claim > 0 && wait > claim;
}

// A new node waits for members that claim to train, and none of them gives a block: none trains.
static bool can_begin(const struct gossip_life *life)
{
    return !life->options.resumed && !life->options.gathers && life->census.finished == 0 &&
           life->now_ns - life->begun_ns >= life->options.start_timeout_ns && are_outnumbered(life);
}

static bool has_long_no_link(const struct gossip_life *life)
{
    for (size_t i = 0; i < life->n_wanted; i++)
        if (life->now_ns - life->wanted_ns[i] < FETCH_NS)
            return false;
    return life->n_wanted > 0;
}

// With its first model. Others that wait take it from this node.
static void begin_without(struct gossip_life *life)
{
    for (size_t i = 0; i < life->n_wanted; i++)
        life_mark_unfit(life, &life->wanted[i]);
    life_reach(life, LIFE_COMPLETE);
    life_tell(life, GOSSIP_LIFE_GAVE_UP, 0, 0);
    life_act(life, GOSSIP_LIFE_END_FETCH)->on = true;
    go_on(life);
}

// Donors with links send nothing: others are asked. A node that gets no block continues with its own model;
// if it has none, it ends.
void life_starved(struct gossip_life *life, uint64_t silent_ns)
{
    const bool own = life->course >= LIFE_COMPLETE;

    if (!life_fetches(life) || life->n_asked == 0)
        return;
    for (size_t i = 0; i < life->n_asked; i++)
        life_pass_over(life, &life->asked[i]);
    if (!own && silent_ns >= FETCH_NS && can_begin(life))
        begin_without(life);
    else if (silent_ns < (own ? FETCH_NS : LIFE_NOTHING_NS))
        life_tell(life, GOSSIP_LIFE_STARVED_BY, life->n_asked, silent_ns / LIFE_SECOND);
    else if (own)
        give_up_silent(life);
    else
        end_without_model(life, false, silent_ns);
}

void life_consider_donors(struct gossip_life *life)
{
    const bool own = life->course >= LIFE_COMPLETE;
    struct gossip_id chosen[GOSSIP_LIFE_DONORS];

    if (!life_fetches(life))
        return;
    const size_t count = life_choose_donors(life, chosen);
    life_wake(life, life->fetch_ns + FETCH_NS);
    const uint64_t silent_ns = life->now_ns - life->fetch_ns;
    if (!own && count == 0 && silent_ns >= LIFE_NOTHING_NS) { // all members that had a model may be dead
        end_without_model(life, false, silent_ns);
        return;
    }
    if (!own && has_long_no_link(life) && can_begin(life)) {
        begin_without(life);
        return;
    }
    life_wake(life, life->fetch_ns + LIFE_NOTHING_NS);
    const bool goes_on = !life->options.alone_stops && life->options.steps > 0 &&
                         life->step >= life->options.steps; // train.alone: with its own model to the end
    if (own && (count == 0 || goes_on)) {
        give_up(life);
        return;
    }
    if (own && life->now_ns - life->fetch_ns >= FETCH_NS) {
        give_up_silent(life);
        return;
    }
    look_at_links(life, chosen, count);
    if (count > 0)
        life->donor_ns = life->now_ns;
    life_wake(life, life->donor_ns + REMIND_NS);
    life_wake(life, life->now_ns + LIFE_SECOND);
    if (life->now_ns - life->donor_ns < REMIND_NS)
        return;
    if (!own && life_came_too_late(life)) {
        end_without_model(life, true, life->now_ns - life->donor_ns);
        return;
    }
    life->donor_ns = life->now_ns;
    life_tell(life, GOSSIP_LIFE_NO_DONOR, 0, 0);
}
