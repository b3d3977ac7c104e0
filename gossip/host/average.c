#include "gossip/host/average.h"

#include "base/array.h"
#include <stdlib.h>
#include <string.h>

#define READY (GOSSIP_EXCHANGE_ACTIONS + 8u) // actions of one event

struct gossip_average {
    struct gossip_average_options options;
    struct gossip_edges *edges;
    struct gossip_donor *donor;
    struct gossip_joiner *joiner; // BEGINS, FETCHES
    struct gossip_merge *merge;
    uint64_t now_ns;
    enum { // what the trainer waits for
        RESTS,
        ROUND, // what is no longer met is forgotten; then the exchange is told
        MEETS,
        BEGINS, // to fetch: the edges go down; then donors are wanted
        FETCHES,
        JUDGES_FETCHED, // its trainer judges a donor's model
        RETURNS,        // the edges go down; then the model is adopted
        RETURNED,       // they come up
        MERGES,
        JUDGES_MERGED,
    } work;
    struct gossip_average_round round; // ROUND, MEETS
    size_t surplus;                    // ROUND: how many edges may still be forgotten
    bool asks;                         // MEETS: the schedule names `partner`
    struct gossip_id partner;
    struct gossip_average_fetch fetch; // BEGINS, FETCHES; RETURNS: the last good model instead of a donor's
    float *merged;                     // MERGES
    // What is left to do.
    struct gossip_average_action ready[READY];
    size_t n_ready, taken;                  // taken of n_ready
    struct gossip_round_account account;    // of the latest boundary that met others
    struct gossip_exchange_actions actions; // of the latest step; `ready` points to their messages
    struct gossip_message message;          // of the latest action, or the answer of a donor
    bool follows;                           // edges may change
    bool finished;                          // the last step is done
    bool not_alone;                         // this fetch ends as END_FETCH says
    bool gives, given;                      // there may be a copy to make; there is one for those that wait
    bool moved;     // there may be something to send for a fetch or a merge, or its end
    bool times_out; // the exchange's deadline has passed
};

enum base_error gossip_average_create(const struct gossip_average_options *options,
                                      struct gossip_average **out)
{
    struct gossip_average *a = calloc(1, sizeof *a);
    const struct gossip_merge_options merge = {.self = options->self,
                                               .parameters = gossip_exchange_parameters(options->exchange),
                                               .patience_ns = options->merge_patience_ns};

    if (!a)
        return BASE_ENOMEM;
    a->options = *options;
    if (gossip_edges_create(options->local, &a->edges) || gossip_donor_create(merge.parameters, &a->donor) ||
        gossip_merge_create(&merge, &a->merge)) {
        gossip_average_destroy(a);
        return BASE_ENOMEM;
    }
    *out = a;
    return BASE_OK;
}

void gossip_average_destroy(struct gossip_average *a)
{
    if (!a)
        return;
    gossip_joiner_destroy(a->joiner);
    gossip_donor_destroy(a->donor);
    gossip_merge_destroy(a->merge);
    gossip_edges_destroy(a->edges);
    free(a);
}

static void push(struct gossip_average *a, struct gossip_average_action action)
{
    BASE_ASSERT(a->n_ready < READY);
    a->ready[a->n_ready++] = action;
}

static void refuse(struct gossip_average *a, const struct gossip_id *peer, enum gossip_average_why why)
{
    push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_REFUSE, .peer = *peer, .why = why});
}

// -- the exchange

static void look(struct gossip_average *a)
{
    struct gossip_look *look = a->round.look;

    if (look && look->state == GOSSIP_LOOK_WANTED &&
        gossip_exchange_look(a->options.exchange, &look->peer, look->model))
        look->state = GOSSIP_LOOK_GIVEN;
}

void gossip_look_compare(struct gossip_look *look, const struct gossip_learner *learner, size_t which)
{
    if (!look || look->state != GOSSIP_LOOK_GIVEN)
        return;
    learner->compare(learner->owner, which, look->model, &look->losses);
    look->state = GOSSIP_LOOK_JUDGED;
}

void gossip_look_want(struct gossip_look *look, const struct gossip_learner_steps *did)
{
    if (look && look->state == GOSSIP_LOOK_UNUSED && did->affords)
        look->state = GOSSIP_LOOK_WANTED;
}

// The vectors belong to the trainer again. After its last boundary nothing is answered, so that the
// checkpoint agrees with what the others know of this node.
static void end_round(struct gossip_average *a, uint64_t round)
{
    const struct gossip_rounds_meet *meet = &a->round.meet;
    const struct gossip_id *partner = a->asks ? &a->partner : NULL;
    const bool met = gossip_exchange_met(a->options.exchange, partner, meet->round);
    struct gossip_exchange_totals totals;

    a->work = RESTS;
    if (meet->last)
        gossip_exchange_freeze(a->options.exchange);
    gossip_exchange_totals(a->options.exchange, &totals);
    look(a);
    if (meet->meets)
        gossip_exchange_account(a->options.exchange, partner, met, &a->account);
    push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_DONE,
                                           .round = meet->meets ? round : meet->round,
                                           .account = meet->meets ? &a->account : NULL,
                                           .met = met,
                                           .apart = totals.apart});
}

_Static_assert((int)GOSSIP_REFUSAL_IMPLAUSIBLE == (int)GOSSIP_AVERAGE_IMPLAUSIBLE &&
                   (int)GOSSIP_REFUSAL_BROKEN == (int)GOSSIP_AVERAGE_BROKEN &&
                   (int)GOSSIP_REFUSAL_SCALING == (int)GOSSIP_AVERAGE_SCALING,
               "take_step");

static void push_verdict(struct gossip_average *a, const struct gossip_exchange_action *judged)
{
    struct gossip_average_action action = {
        .kind = GOSSIP_AVERAGE_JUDGED, .peer = judged->peer, .verdict = judged->verdict};

    for (size_t i = 0; i < gossip_exchange_edges(a->options.exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(a->options.exchange, i, &info);
        if (gossip_id_compare(&info.peer, &judged->peer) == 0)
            action.trust = info.trust;
    }
    push(a, action);
}

static const struct gossip_exchange_action *take_step(struct gossip_average *a)
{
    const struct gossip_exchange_action *done = NULL;

    for (size_t i = 0; i < a->actions.count; i++) {
        const struct gossip_exchange_action *action = &a->actions.list[i];
        if (action->kind == GOSSIP_EXCHANGE_SEND)
            push(a, (struct gossip_average_action){
                        .kind = GOSSIP_AVERAGE_SEND, .peer = action->peer, .message = &action->message});
        else if (action->kind == GOSSIP_EXCHANGE_REFUSE)
            refuse(a, &action->peer, (enum gossip_average_why)action->why);
        else if (action->kind == GOSSIP_EXCHANGE_JUDGED)
            push_verdict(a, action);
        else
            done = action;
    }
    return done;
}

static enum base_error step_exchange(struct gossip_average *a, const struct gossip_exchange_event *event)
{
    if (a->options.teller)
        return gossip_tell_step(a->options.exchange, event, &a->actions, a->options.teller);
    return gossip_exchange_step(a->options.exchange, event, &a->actions);
}

static void step(struct gossip_average *a, struct gossip_exchange_event event)
{
    struct gossip_average_action journal = {.kind = GOSSIP_AVERAGE_JOURNAL};

    BASE_ASSERT(a->taken == a->n_ready); // else messages of the step before are lost
    event.now_ns = a->now_ns;
    const bool failed = step_exchange(a, &event) != BASE_OK;
    if (event.kind == GOSSIP_EXCHANGE_FORGET)
        push(a, (struct gossip_average_action){
                    .kind = GOSSIP_AVERAGE_DROPS, .peer = event.peer, .dead = event.dead});
    journal.records = gossip_exchange_journal(a->options.exchange, &journal.bytes);
    if (journal.bytes > 0)
        push(a, journal);
    const struct gossip_exchange_action *done = take_step(a);
    if (failed)
        push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_SHORT});
    push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_STEPPED});
    if (done) {
        BASE_ASSERT(a->work == MEETS);
        end_round(a, done->round);
    }
}

// -- links and members

enum base_error gossip_average_linked(struct gossip_average *a, const struct gossip_id *peer, uint64_t now_ns)
{
    if (a->joiner)
        gossip_joiner_donor_down(a->joiner, peer, now_ns);
    gossip_merge_linked(a->merge, peer, now_ns);
    return gossip_edges_linked(a->edges, peer);
}

void gossip_average_unlinked(struct gossip_average *a, const struct gossip_id *peer, uint64_t now_ns)
{
    if (a->joiner)
        gossip_joiner_donor_down(a->joiner, peer, now_ns);
    gossip_merge_unlinked(a->merge, peer, now_ns);
    gossip_edges_unlinked(a->edges, peer);
}

void gossip_average_view(struct gossip_average *a, struct gossip_graph *graph)
{
    gossip_edges_follow(a->edges, graph);
}

void gossip_average_follow(struct gossip_average *a)
{
    a->follows = a->moved = true;
}

// False: no edge changes any more.
static bool next_edge(struct gossip_average *a)
{
    struct gossip_edge_change change;

    a->follows = a->follows && gossip_edges_next(a->edges, &change);
    if (a->follows)
        step(a, (struct gossip_exchange_event){.kind = change.up ? GOSSIP_EXCHANGE_LINK_UP
                                                                 : GOSSIP_EXCHANGE_LINK_DOWN,
                                               .peer = change.peer,
                                               .unmet = change.unmet});
    return a->follows;
}

// -- models that are given

// Nodes that ask while this one fetches wait for it, and it does not wait for them.
static void asked(struct gossip_average *a, const struct gossip_id *peer,
                  const struct gossip_snapshot_ask *ask)
{
    struct gossip_average_action served = {.kind = GOSSIP_AVERAGE_LIVE,
                                           .live = {.kind = GOSSIP_LIFE_SERVED, .peer = *peer}};

    if (a->joiner)
        gossip_joiner_donor_asks(a->joiner, peer, a->now_ns);
    if (gossip_donor_ask(a->donor, peer, ask, a->now_ns, &a->message, &served.answered)) {
        refuse(a, peer, GOSSIP_AVERAGE_ASK);
        return;
    }
    if (served.answered)
        push(a, (struct gossip_average_action){
                    .kind = GOSSIP_AVERAGE_SEND, .peer = *peer, .message = &a->message});
    push(a, served);
    a->gives = !a->joiner;
}

// What was received since the boundary is in the published model only.
static enum base_error copy(struct gossip_average *a, struct gossip_snapshot_vectors *vectors)
{
    vectors->part[GOSSIP_PART_MODEL] = (float *)(uintptr_t)gossip_exchange_model(a->options.exchange);
    vectors->read[GOSSIP_PART_MODEL] = gossip_exchange_kernels(a->options.exchange)->download;
    return gossip_donor_freeze(a->donor, vectors, a->now_ns);
}

bool gossip_average_give(struct gossip_average *a, uint64_t now_ns, struct gossip_average_action *action)
{
    struct gossip_snapshot_vectors vectors = {0};

    a->now_ns = now_ns;
    *action = (struct gossip_average_action){.kind = GOSSIP_AVERAGE_UNGIVEN};
    if (!a->given && gossip_donor_wants(a->donor) && a->options.rests(a->options.owner, &vectors)) {
        action->error = copy(a, &vectors);
        a->given = !action->error;
        if (action->error)
            return true;
    }
    action->kind = GOSSIP_AVERAGE_SEND;
    action->message = &a->message;
    a->given = a->given && gossip_donor_waiting(a->donor, &action->peer, &a->message);
    return a->given;
}

// -- a model that is fetched, or that is here

// Every edge begins anew.
static void adopt(struct gossip_average *a, uint64_t round)
{
    struct gossip_exchange *exchange = a->options.exchange;
    const struct gossip_average_fetch *fetch = &a->fetch;

    if (fetch->scaled)
        gossip_exchange_scaling(exchange, gossip_blob_hash(fetch->into.blob));
    gossip_exchange_adopt(exchange, fetch->into.part[GOSSIP_PART_MODEL], fetch->into.part[GOSSIP_PART_SECOND],
                          round);
    if (fetch->correction)
        gossip_exchange_kernels(exchange)->vectors->clear(
            fetch->correction, gossip_exchange_parameters(exchange) * sizeof *fetch->correction);
}

static void lower_edges(struct gossip_average *a)
{
    gossip_edges_fetching(a->edges, true);
    a->follows = true;
}

enum base_error gossip_average_fetch(struct gossip_average *a, const struct gossip_average_fetch *fetch)
{
    const struct gossip_joiner_options options = {.self = a->options.self,
                                                  .parameters =
                                                      gossip_exchange_parameters(a->options.exchange),
                                                  .into = &a->fetch.into,
                                                  .patience_ns = GOSSIP_SNAPSHOT_PATIENCE_NS,
                                                  .starve_ns = GOSSIP_SNAPSHOT_STARVE_NS,
                                                  .seed = fetch->seed};

    BASE_ASSERT(a->work == RESTS && !a->joiner);
    a->fetch = *fetch;
    const enum base_error error = gossip_joiner_create(&options, &a->joiner);
    if (error)
        return error;
    a->work = BEGINS;
    a->not_alone = false;
    gossip_donor_thaw(a->donor); // what it has is obsolete
    a->gives = a->given = false;
    lower_edges(a);
    return BASE_OK;
}

void gossip_average_return(struct gossip_average *a, const struct gossip_average_fetch *last)
{
    BASE_ASSERT(a->work == RESTS);
    a->work = RETURNS;
    a->fetch = *last;
    lower_edges(a);
}

static void end_fetch(struct gossip_average *a, bool complete, uint64_t round, uint64_t number)
{
    struct gossip_average_action fetched = {
        .kind = GOSSIP_AVERAGE_FETCHED,
        .not_alone = a->not_alone,
        .live = {.kind = GOSSIP_LIFE_FETCHED, .round = round, .step = number, .ok = complete}};

    gossip_joiner_progress(a->joiner, &fetched.fetched);
    gossip_joiner_destroy(a->joiner);
    a->joiner = NULL;
    a->work = RESTS;
    if (complete)
        adopt(a, round);
    gossip_edges_fetching(a->edges, false);
    push(a, fetched);
}

static void judge(struct gossip_average *a, const float *model)
{
    BASE_ASSERT(a->work == FETCHES || a->work == MERGES);
    a->work = a->work == FETCHES ? JUDGES_FETCHED : JUDGES_MERGED;
    push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_JUDGE, .model = model});
}

// Another donor's model is fetched; the life chooses others.
static void refuse_model(struct gossip_average *a)
{
    struct gossip_average_action unfit = {.kind = GOSSIP_AVERAGE_LIVE, .live.kind = GOSSIP_LIFE_UNFIT};

    a->work = FETCHES;
    a->moved = true;
    if (gossip_joiner_refuse(a->joiner, a->now_ns, &unfit.live.peer))
        push(a, unfit);
}

static void take_fetched(struct gossip_average *a)
{
    uint64_t round, number;
    const bool complete = gossip_joiner_complete(a->joiner, &round, &number);

    BASE_ASSERT(complete);
    end_fetch(a, true, round, number);
}

static bool next_of_fetch(struct gossip_average *a, struct gossip_average_action *action)
{
    uint64_t round, number;

    if (gossip_joiner_next(a->joiner, a->now_ns, &action->peer, &a->message))
        return true;
    if (gossip_joiner_complete(a->joiner, &round, &number)) {
        if (!a->options.judges)
            take_fetched(a);
        else if (a->work == FETCHES)
            judge(a, a->fetch.into.part[GOSSIP_PART_MODEL]);
        return false;
    }
    *action = (struct gossip_average_action){.kind = GOSSIP_AVERAGE_LIVE, .live.kind = GOSSIP_LIFE_STARVED};
    return gossip_joiner_starved(a->joiner, a->now_ns, &action->live.silent_ns);
}

// -- the merge

enum base_error gossip_average_merge(struct gossip_average *a, float *model, bool gives, uint64_t now_ns)
{
    struct gossip_exchange *exchange = a->options.exchange;

    BASE_ASSERT(a->work == RESTS);
    gossip_exchange_freeze(exchange); // with every update that has come: nothing changes it any more
    gossip_exchange_kernels(exchange)->download(model, gossip_exchange_model(exchange),
                                                gossip_exchange_parameters(exchange) * sizeof *model);
    const enum base_error error = gossip_merge_begin(a->merge, model, gives, now_ns);
    if (error)
        return error;
    a->work = MERGES;
    a->merged = model;
    a->moved = true;
    return BASE_OK;
}

static void end_merge(struct gossip_average *a, bool accepted)
{
    struct gossip_average_action merged = {.kind = GOSSIP_AVERAGE_MERGED, .end = gossip_merge_end(a->merge)};

    merged.refused = merged.end == GOSSIP_MERGE_MERGED && !accepted;
    merged.live = (struct gossip_life_event){.kind = GOSSIP_LIFE_MERGED,
                                             .ok = merged.end == GOSSIP_MERGE_MERGED && accepted};
    gossip_merge_info(a->merge, &merged.merged);
    if (merged.live.ok)
        memcpy(a->merged, gossip_merge_model(a->merge),
               gossip_exchange_parameters(a->options.exchange) * sizeof *a->merged);
    gossip_exchange_replace(a->options.exchange, a->merged);
    gossip_merge_finish(a->merge);
    a->work = RESTS;
    push(a, merged);
}

// -- rounds

void gossip_average_round(struct gossip_average *a, const struct gossip_average_round *round)
{
    BASE_ASSERT(a->work == RESTS); // the trainer does one thing at a time
    a->work = ROUND;
    a->surplus = gossip_exchange_edges(a->options.exchange);
    a->round = *round;
    a->asks = false;
    // Who asks from now on gets the final model. With a copy of up to two seconds before, a node that had
    // nobody to meet at its end trained on from there, alone, and asked again.
    if (round->meet.finished && !a->finished)
        gossip_donor_thaw(a->donor);
    a->finished = round->meet.finished;
    if (round->scaled)
        gossip_exchange_scaling(a->options.exchange, gossip_blob_hash(round->vectors.blob));
}

static void tell_losses(struct gossip_average *a, struct gossip_look *judged)
{
    judged->state = GOSSIP_LOOK_UNUSED;
    step(a, (struct gossip_exchange_event){
                .kind = GOSSIP_EXCHANGE_TRUST, .peer = judged->peer, .losses = judged->losses});
}

static void meet(struct gossip_average *a)
{
    const struct gossip_average_round *round = &a->round;
    struct gossip_exchange_event event;

    gossip_rounds_event(&round->meet, a->edges, round->others, &event);
    a->asks = event.round.meets;
    a->partner = event.round.partner;
    event.round.pace_ns = round->pace_ns;
    event.round.model = round->vectors.model;
    event.round.second_moment = round->vectors.second_moment;
    event.round.correction = round->vectors.correction;
    event.round.held = round->vectors.held;
    event.round.correction_stays = round->vectors.correction_stays;
    a->work = MEETS;
    step(a, event);
}

// Members that come, meet this node and go must not grow its memory. Without memory for its correction an
// edge stays, until the next boundary.
static void forget_surplus(struct gossip_average *a, const struct gossip_id *peer)
{
    BASE_ASSERT(a->surplus > 0);
    a->surplus--;
    step(a, (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_FORGET, .peer = *peer, .dead = true});
}

// Once the edges are at rest. False: the trainer's work waits for others, or there is none.
static bool works(struct gossip_average *a)
{
    struct gossip_exchange *exchange = a->options.exchange;
    struct gossip_id peer;

    switch (a->work) {
    case ROUND:
        if (gossip_exchange_frozen(exchange)) // since a merge
            end_round(a, a->round.meet.round);
        else if (a->round.look && a->round.look->state == GOSSIP_LOOK_JUDGED)
            tell_losses(a, a->round.look);
        else if (a->round.meet.meets && gossip_edges_forget(a->edges, exchange, &peer))
            step(a, (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_FORGET, .peer = peer});
        else if (a->surplus > 0 && gossip_exchange_surplus(exchange, &peer))
            forget_surplus(a, &peer);
        else
            meet(a);
        return true;
    case BEGINS:
        a->work = FETCHES;
        push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_LIVE, .live.kind = GOSSIP_LIFE_WANTS});
        return true;
    case RETURNS:
        adopt(a, a->fetch.into.round);
        gossip_edges_fetching(a->edges, false);
        a->follows = true;
        a->work = RETURNED;
        return true;
    case RETURNED:
        a->work = RESTS;
        push(a, (struct gossip_average_action){.kind = GOSSIP_AVERAGE_DONE, .round = a->fetch.into.round});
        return true;
    default:
        return false;
    }
}

static void end(struct gossip_average *a)
{
    if (a->joiner)
        end_fetch(a, false, 0, 0);
    else if (a->work == MERGES || a->work == JUDGES_MERGED)
        end_merge(a, true);
}

void gossip_average_verdict(struct gossip_average *a, bool accepts, uint64_t now_ns)
{
    a->now_ns = now_ns;
    if (a->work == JUDGES_MERGED)
        end_merge(a, accepts);
    else if (a->work == JUDGES_FETCHED && accepts)
        take_fetched(a);
    else if (a->work == JUDGES_FETCHED)
        refuse_model(a);
}

void gossip_average_give_up(struct gossip_average *a, uint64_t now_ns)
{
    a->now_ns = now_ns;
    if (a->work == MEETS)
        step(a, (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_GIVE_UP});
    end(a);
}

// -- messages, orders, time

static void tell_news(struct gossip_average *a, const struct gossip_life_action *order)
{
    step(a, (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_NEWS,
                                           .news = {.reports = order->reports,
                                                    .count = order->count,
                                                    .members = order->members,
                                                    .alone = !order->on}});
}

void gossip_average_order(struct gossip_average *a, const struct gossip_life_action *order, uint64_t now_ns)
{
    a->now_ns = now_ns;
    a->moved = true;
    switch (order->kind) {
    case GOSSIP_LIFE_ASK:
        if (!a->joiner)
            break; // too late
        gossip_joiner_limits(a->joiner, order->round, order->step);
        gossip_joiner_donors(a->joiner, order->ids, order->count, now_ns);
        break;
    case GOSSIP_LIFE_NEWS:
        tell_news(a, order);
        break;
    case GOSSIP_LIFE_END_FETCH:
        a->not_alone = order->on;
        end(a);
        break;
    case GOSSIP_LIFE_AMONG:
        gossip_merge_members(a->merge, order->merging, order->count, now_ns);
        break;
    case GOSSIP_LIFE_FORGET:
        if (gossip_exchange_knows(a->options.exchange, &order->peer))
            step(a, (struct gossip_exchange_event){
                        .kind = GOSSIP_EXCHANGE_FORGET, .peer = order->peer, .dead = true});
        break;
    default:
        BASE_ASSERT(false);
    }
}

void gossip_average_message(struct gossip_average *a, const struct gossip_id *peer,
                            const struct gossip_message *message, uint64_t now_ns)
{
    a->now_ns = now_ns;
    a->moved = true;
    if (gossip_merge_is_of(message)) {
        if (gossip_merge_heard(a->merge, peer, message, now_ns))
            refuse(a, peer, GOSSIP_AVERAGE_MERGE);
    } else if (message->kind == GOSSIP_SNAPSHOT_ASK) {
        asked(a, peer, &message->as.ask);
    } else if (message->kind == GOSSIP_SNAPSHOT_TELL) {
        if (a->joiner && gossip_joiner_tell(a->joiner, peer, &message->as.tell, now_ns))
            refuse(a, peer, GOSSIP_AVERAGE_BLOCK);
    } else { // while it fetches every edge is down, and requests are declined
        step(a, (struct gossip_exchange_event){
                    .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = *peer, .message = message});
    }
}

static uint64_t snapshot_deadline(const struct gossip_average *a)
{
    return base_min(gossip_donor_deadline(a->donor),
                    a->joiner ? gossip_joiner_deadline(a->joiner) : UINT64_MAX);
}

uint64_t gossip_average_deadline(const struct gossip_average *a)
{
    return base_min(gossip_exchange_deadline(a->options.exchange),
                    base_min(snapshot_deadline(a), gossip_merge_deadline(a->merge)));
}

void gossip_average_tick(struct gossip_average *a, uint64_t now_ns)
{
    if (now_ns >= snapshot_deadline(a))
        gossip_donor_tick(a->donor, now_ns);
    if (now_ns >= gossip_merge_deadline(a->merge))
        gossip_merge_tick(a->merge, now_ns);
    a->times_out = now_ns >= gossip_exchange_deadline(a->options.exchange);
    a->moved = true;
}

// What is sent for a fetch, to nodes that ask, or for a merge, and how those end. Ends are in `ready`.
static bool next_moved(struct gossip_average *a, struct gossip_average_action *action)
{
    *action = (struct gossip_average_action){.kind = GOSSIP_AVERAGE_SEND, .message = &a->message};
    if (a->joiner && next_of_fetch(a, action))
        return true;
    a->gives = a->gives && gossip_average_give(a, a->now_ns, action);
    if (a->gives)
        return true;
    *action = (struct gossip_average_action){.kind = GOSSIP_AVERAGE_SEND, .message = &a->message};
    if (gossip_merge_next(a->merge, &action->peer, &a->message))
        return true;
    if (a->work == MERGES && gossip_merge_end(a->merge) == GOSSIP_MERGE_MERGED && a->options.judges)
        judge(a, gossip_merge_model(a->merge));
    else if (a->work == MERGES && gossip_merge_end(a->merge))
        end_merge(a, true);
    return false;
}

bool gossip_average_next(struct gossip_average *a, uint64_t now_ns, struct gossip_average_action *action)
{
    a->now_ns = now_ns;
    for (;;) {
        if (a->taken < a->n_ready) {
            *action = a->ready[a->taken++];
            return true;
        }
        a->taken = a->n_ready = 0;
        if (next_edge(a) || works(a))
            continue;
        if (a->moved && next_moved(a, action))
            return true;
        a->moved = false;
        if (a->times_out)
            step(a, (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_TIMER});
        else if (a->n_ready == 0)
            return false;
        a->times_out = false;
    }
}
