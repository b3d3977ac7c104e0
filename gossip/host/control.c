#include "gossip/host/private.h"

#include <stdlib.h>
#include <string.h>

enum base_error gossip_control_create(const struct gossip_control_options *options,
                                      struct gossip_control **out)
{
    struct gossip_control *control = calloc(1, sizeof *control);

    if (!control)
        return BASE_ENOMEM;
    BASE_ASSERT(options->links && options->rng && !options->membership != !options->members);
    control->options = *options;
    *out = control;
    return BASE_OK;
}

void gossip_control_destroy(struct gossip_control *control)
{
    if (!control)
        return;
    gossip_life_destroy(control->life);
    gossip_graph_drop(control->graph);
    free(control->wanted);
    free(control);
}

enum base_error gossip_control_begin(struct gossip_control *control,
                                     const struct gossip_life_options *options)
{
    BASE_ASSERT(!control->life && control->n_events == 0);
    if (control->options.membership)
        gossip_membership_progress(control->options.membership, options->round, options->step);
    control->look_ns = options->now_ns;
    return gossip_life_create(options, &control->life);
}

// -- what the parts are told

// An event of this object's own. Without memory it is left out: the links go on as if it were still to come.
static void tell_links(struct gossip_control *control, struct gossip_links_event event)
{
    event.now_ns = control->now_ns;
    event.entropy = base_rng_u64(control->options.rng);
    (void)!gossip_links_step(control->options.links, &event);
}

static void hurry(struct gossip_control *control, const struct gossip_id *peer)
{
    tell_links(control, (struct gossip_links_event){.kind = GOSSIP_LINKS_HURRY, .peer = *peer});
}

static void tell_members(struct gossip_control *control, enum gossip_membership_event_kind kind,
                         const struct gossip_id *peer)
{
    const struct gossip_membership_event event = {.kind = kind, .now_ns = control->now_ns, .peer = *peer};

    if (control->options.membership)
        BASE_ASSERT(!gossip_membership_step(control->options.membership, &event)); // it has no bytes
}

void gossip_control_live(struct gossip_control *control, const struct gossip_life_event *event)
{
    const bool moved =
        event->kind == GOSSIP_LIFE_PROGRESS || (event->kind == GOSSIP_LIFE_FETCHED && event->ok);

    if (!control->life)
        return;
    BASE_ASSERT(control->n_events < CONTROL_EVENTS && event->now_ns > 0);
    if (moved && control->options.membership)
        gossip_membership_progress(control->options.membership, event->round, event->step);
    control->event[control->n_events++] = *event;
}

static void live(struct gossip_control *control, struct gossip_life_event event)
{
    event.now_ns = control->now_ns;
    gossip_control_live(control, &event);
}

void gossip_control_changed(struct gossip_control *control)
{
    control->changed = true;
}

void gossip_control_viewed(struct gossip_control *control)
{
    control->view_changed = true;
}

void gossip_control_unedged(struct gossip_control *control)
{
    control->edges_changed = true;
}

// -- the record of this node

static void claim_slot(struct gossip_control *control)
{
    const struct gossip_life_world world = control_world(control);
    struct gossip_member_info self;

    world.member(control, 0, &self);
    const uint32_t slot = gossip_graph_slot(control->graph, self.record->slot, control->trains);
    if (slot == self.record->slot)
        return;
    if (control->options.membership)
        gossip_membership_slot(control->options.membership, slot);
    else
        control->options.members->slot(control->options.owner, slot);
}

static void set_flags(struct gossip_control *control, const struct gossip_life_action *action)
{
    if (control->options.membership)
        gossip_membership_flags(control->options.membership, action->set, action->clear);
    else
        control->options.members->flags(control->options.owner, action->set, action->clear);
    if (!((action->set | action->clear) & GOSSIP_RECORD_TRAINING))
        return;
    control->trains = action->set & GOSSIP_RECORD_TRAINING;
    claim_slot(control);
}

static void announce(struct gossip_control *control, uint64_t round)
{
    if (control->options.membership)
        gossip_membership_stop_at(control->options.membership, round);
    else
        control->options.members->stop_at(control->options.owner, round);
}

static void announce_setting(struct gossip_control *control, const struct gossip_life_action *action)
{
    if (control->options.membership)
        gossip_membership_setting(control->options.membership, action->setting_kind, &action->setting);
    else
        control->options.members->setting(control->options.owner, action->setting_kind, &action->setting);
}

// -- the life

static void keep_links(struct gossip_control *control, const struct gossip_id *ids, size_t count)
{
    BASE_ASSERT(count <= GOSSIP_LIFE_LINKS_MOST);
    control->n_kept = count;
    if (count > 0)
        memcpy(control->kept, ids, count * sizeof *ids);
    control->wants_changed = true;
}

// False: it is carried out here.
static bool is_of_owner(struct gossip_control *control, const struct gossip_life_action *action)
{
    switch (action->kind) {
    case GOSSIP_LIFE_FLAGS:
        set_flags(control, action);
        return false;
    case GOSSIP_LIFE_ANNOUNCE:
        announce(control, action->round);
        return false;
    case GOSSIP_LIFE_SETTING:
        announce_setting(control, action);
        return true;
    case GOSSIP_LIFE_LINKS:
        keep_links(control, action->ids, action->count);
        return false;
    case GOSSIP_LIFE_GATHER:
        if (!gossip_control_linked(control, &action->peer))
            keep_links(control, &action->peer, 1);
        return true;
    default:
        return true;
    }
}

static bool next_of_life(struct gossip_control *control, struct gossip_control_action *action)
{
    action->kind = GOSSIP_CONTROL_LIFE;
    while (control->life) {
        while (control->acts && (control->acts = gossip_life_next(control->life, &action->life)))
            if (is_of_owner(control, &action->life))
                return true;
        if (control->n_events == 0)
            break;
        const struct gossip_life_event event = control->event[0];
        const struct gossip_life_world world = control_world(control);
        memmove(control->event, control->event + 1, --control->n_events * sizeof *control->event);
        control->changed = false;
        gossip_life_step(control->life, &event, &world);
        control->acts = true;
    }
    return false;
}

// -- members

static void tell_links_of_member(struct gossip_control *control)
{
    const struct gossip_membership_action *change = &control->change;
    const bool removed = change->kind == GOSSIP_MEMBERSHIP_REMOVED;
    const bool here =
        !removed && (change->state == GOSSIP_MEMBER_ALIVE || change->state == GOSSIP_MEMBER_SUSPECT);
    const struct gossip_links_event member = {
        .kind = GOSSIP_LINKS_MEMBER, .peer = change->peer, .alive = here};
    struct gossip_links_event part = {.kind = GOSSIP_LINKS_PART, .peer = change->peer};

    control->changes = false;
    part.why = removed ? GOSSIP_CLOSE_IDLE : GOSSIP_CLOSE_SILENT;
    if (removed)
        tell_links(control, part);
    tell_links(control, member);
    if (!removed && change->state == GOSSIP_MEMBER_DEAD)
        tell_links(control, part);
}

static void note_change(struct gossip_control *control, const struct gossip_membership_action *action)
{
    BASE_ASSERT(!control->changes);
    control->changes = true;
    control->wants_changed = true;
    control->change = *action;
    live(control,
         (struct gossip_life_event){.kind = action->kind == GOSSIP_MEMBERSHIP_REMOVED ? GOSSIP_LIFE_REMOVED
                                                                                      : GOSSIP_LIFE_MEMBER,
                                    .peer = action->peer,
                                    .state = action->state});
}

// The relays may be others now; of a private node, the way to this member.
static void record_changed(struct gossip_control *control, const struct gossip_id *member)
{
    control->wants_changed = true;
    if (control->reach == GOSSIP_REACH_PRIVATE && gossip_links_wants(control->options.links, member) &&
        !gossip_control_linked(control, member))
        hurry(control, member);
}

static bool next_of_members(struct gossip_control *control, struct gossip_control_action *action)
{
    struct gossip_membership *membership = control->options.membership;

    if (!membership || !gossip_membership_next(membership, &action->member))
        return false;
    action->kind = GOSSIP_CONTROL_MEMBER;
    switch (action->member.kind) {
    case GOSSIP_MEMBERSHIP_CHANGED:
    case GOSSIP_MEMBERSHIP_REMOVED:
        note_change(control, &action->member);
        break;
    case GOSSIP_MEMBERSHIP_VIEW:
        control->view_changed = true;
        break;
    case GOSSIP_MEMBERSHIP_RECORD:
        record_changed(control, &action->member.peer);
        break;
    case GOSSIP_MEMBERSHIP_CONFLICT:
        live(control, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE, .ok = true});
        break;
    default:
        break;
    }
    return true;
}

static void depart(struct gossip_control *control)
{
    control->departs = false;
    tell_members(control, GOSSIP_MEMBERSHIP_LEAVE, &control->options.self);
    if (!control->options.membership)
        control->options.members->leave(control->options.owner);
    if (!control->options.links_end_with_it)
        tell_links(control, (struct gossip_links_event){.kind = GOSSIP_LINKS_LEAVE});
}

// -- links

static void relay_up(struct gossip_control *control, const struct gossip_id *relay)
{
    for (size_t i = 0; i < gossip_graph_neighbours(control->graph); i++)
        if (control_calls_over(control, relay, gossip_graph_neighbour(control->graph, i)))
            hurry(control, gossip_graph_neighbour(control->graph, i));
}

static bool next_of_links(struct gossip_control *control, struct gossip_control_action *action)
{
    if (!gossip_links_next(control->options.links, &action->link))
        return false;
    action->kind = GOSSIP_CONTROL_LINK;
    switch (action->link.kind) {
    case GOSSIP_LINKS_UP:
        BASE_ASSERT(control->up == CONTROL_UP_TOLD);
        control->linked = action->link.peer;
        control->up = CONTROL_UP_MEMBERS;
        control->edges_changed = true;
        relay_up(control, &action->link.peer);
        break;
    case GOSSIP_LINKS_DOWN:
        if (control->options.membership)
            gossip_membership_unlinked(control->options.membership, &action->link.peer);
        control->edges_changed = true;
        break;
    case GOSSIP_LINKS_DUPLICATE:
        live(control, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE});
        break;
    case GOSSIP_LINKS_ENTRY:
        control->changed = true;
        break;
    case GOSSIP_LINKS_MISSING: // it may be a relay
        control->wants_changed = true;
        break;
    default:
        break;
    }
    return true;
}

// Told only if they have changed: every view repeats them. Without memory they stay as they were.
static void tell_wanted(struct gossip_control *control)
{
    struct gossip_id relays[CONTROL_RELAYS];
    const size_t n_relays = control_relays(control, relays);
    const size_t most = gossip_graph_neighbours(control->graph) + control->n_kept + n_relays;
    struct gossip_id *ids = malloc((most + 1) * sizeof *ids);

    control->wants_changed = false;
    if (!ids)
        return;
    size_t count = gossip_graph_links(control->graph, control->kept, control->n_kept, ids);
    for (size_t i = 0; i < n_relays; i++)
        ids[count++] = relays[i];
    if (count == control->n_wanted && (!count || memcmp(ids, control->wanted, count * sizeof *ids) == 0)) {
        free(ids);
        return;
    }
    free(control->wanted);
    control->wanted = ids;
    control->n_wanted = count;
    tell_links(control, (struct gossip_links_event){.kind = GOSSIP_LINKS_WANT, .ids = ids, .count = count});
}

// -- view and look

const struct gossip_record *gossip_control_view(const struct gossip_control *control, size_t *count)
{
    return control->options.membership ? gossip_membership_view(control->options.membership, count)
                                       : control->options.members->view(control->options.owner, count);
}

enum base_error gossip_control_plan(struct gossip_control *control, struct gossip_plan *plan,
                                    struct gossip_graph **graph)
{
    struct gossip_graph *fresh;
    enum base_error error =
        gossip_graph_create(plan, &control->options.self, control->options.neighbours_most, &fresh);

    if (error)
        return error;
    gossip_graph_drop(control->graph);
    control->graph = fresh;
    control->wants_changed = true;
    claim_slot(control);
    *graph = gossip_graph_keep(fresh);
    return BASE_OK;
}

static bool takes_view(struct gossip_control *control)
{
    const struct gossip_life_world world = control_world(control);

    control->view_changed = false;
    control->edges_changed = true;
    return !control->graph || !control->life || !gossip_life_keeps_graph(control->life, &world);
}

// In these states it waits for something that may change at any moment.
static bool waits(const struct gossip_control *control)
{
    if (!control->life)
        return false;
    const enum gossip_life_state state = gossip_life_state(control->life);
    return state == GOSSIP_LIFE_WAITING || state == GOSSIP_LIFE_PAUSED || state == GOSSIP_LIFE_FETCHING;
}

// Only a look puts off the next one: if every event did, short rounds would put it off for ever.
static void look(struct gossip_control *control)
{
    control->look_ns = control->now_ns + control->options.look_every_ns;
    if (control->n_events == 0)
        live(control, (struct gossip_life_event){.kind = GOSSIP_LIFE_LOOK});
}

static uint64_t look_at(const struct gossip_control *control)
{
    if (!control->life)
        return UINT64_MAX;
    const uint64_t due_ns = gossip_life_deadline(control->life);
    const bool rests = control->options.never_trains && waits(control);
    return rests || due_ns < control->look_ns ? due_ns : control->look_ns;
}

void gossip_control_depart(struct gossip_control *control)
{
    control->departs = true;
}

void gossip_control_look(struct gossip_control *control, uint64_t now_ns)
{
    control->now_ns = now_ns;
    if (now_ns >= look_at(control))
        look(control);
}

uint64_t gossip_control_deadline(const struct gossip_control *control)
{
    const uint64_t links_ns = gossip_links_deadline(control->options.links);
    const uint64_t members_ns =
        control->options.membership ? gossip_membership_deadline(control->options.membership) : UINT64_MAX;
    const uint64_t sooner_ns = links_ns < members_ns ? links_ns : members_ns;

    return look_at(control) < sooner_ns ? look_at(control) : sooner_ns;
}

// -- the order of all that

// What waits until the life and membership are at rest. True: something has been told to a part.
static bool goes_on(struct gossip_control *control)
{
    if (control->up == CONTROL_UP_LIFE) {
        control->up = CONTROL_UP_TOLD;
        live(control, (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = control->linked});
    } else if (control->departs) {
        depart(control);
    } else {
        return false;
    }
    return true;
}

// What waits until the links are at rest, too.
static bool settles(struct gossip_control *control, struct gossip_control_action *action)
{
    if (control->view_changed && takes_view(control)) {
        action->kind = GOSSIP_CONTROL_VIEW;
        return true;
    }
    if (!control->edges_changed)
        return false;
    control->edges_changed = false;
    control->changed = true;
    action->kind = GOSSIP_CONTROL_EDGES;
    return true;
}

bool gossip_control_next(struct gossip_control *control, enum gossip_control_depth depth, uint64_t now_ns,
                         struct gossip_control_action *action)
{
    control->now_ns = now_ns;
    for (;;) {
        if (next_of_life(control, action))
            return true;
        if (depth < GOSSIP_CONTROL_MEMBERS_TOO)
            return false;
        if (control->changes)
            tell_links_of_member(control);
        if (control->up == CONTROL_UP_MEMBERS) {
            control->up = CONTROL_UP_LIFE;
            tell_members(control, GOSSIP_MEMBERSHIP_LINKED, &control->linked);
        }
        if (next_of_members(control, action))
            return true;
        if (depth < GOSSIP_CONTROL_LINKS_TOO)
            return false;
        if (goes_on(control))
            continue;
        if (next_of_links(control, action))
            return true;
        if (depth < GOSSIP_CONTROL_WHOLE)
            return false;
        if (settles(control, action))
            return true;
        if (control->changed && waits(control))
            look(control);
        else if (control->wants_changed)
            tell_wanted(control);
        else
            return false;
    }
}

const struct gossip_graph *gossip_control_graph(const struct gossip_control *control)
{
    return control->graph;
}

struct gossip_life *gossip_control_life(const struct gossip_control *control)
{
    return control->life;
}
