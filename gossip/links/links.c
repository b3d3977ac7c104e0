#include "gossip/links/links.h"
#include "gossip/links/links_private.h"
#include <stdlib.h>
#include <string.h>

// -- life

enum base_error gossip_links_create(const struct gossip_links_options *options, struct gossip_links **out)
{
    BASE_ASSERT(options->entries < GOSSIP_NO_ENTRY);
    struct gossip_links *links = calloc(1, sizeof *links);
    if (!links)
        return BASE_ENOMEM;
    links->options = *options;
    if (!links->options.call_ns)
        links->options.call_ns = GOSSIP_LINKS_CALL_NS;
    BASE_ASSERT(links->options.call_ns >= GOSSIP_LINKS_CALL_LONELY_NS); // a call is looked at then
    links->now_ns = options->now_ns;
    links->due_ns = UINT64_MAX;
    TAILQ_INIT(&links->links);
    TAILQ_INIT(&links->peers);
    STAILQ_INIT(&links->packets);
    links->entry = calloc(options->entries + 1, sizeof *links->entry);
    if (!links->entry) {
        gossip_links_destroy(links);
        return BASE_ENOMEM;
    }
    for (size_t i = 0; i < options->entries; i++) {
        links->entry[i].shown.since_ns = options->now_ns;
        links->entry[i].call.pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    }
    *out = links;
    return BASE_OK;
}

void gossip_links_destroy(struct gossip_links *links)
{
    struct link *link;
    struct peer *peer;
    if (!links)
        return;
    for (size_t i = 0; i < links->n_actions; i++)
        free(links->action[(links->first_action + i) % links->actions_capacity].packet);
    packets_drop(links, NULL);
    while ((link = TAILQ_FIRST(&links->links))) {
        TAILQ_REMOVE(&links->links, link, all);
        free(link);
    }
    while ((peer = TAILQ_FIRST(&links->peers))) {
        TAILQ_REMOVE(&links->peers, peer, all);
        free(peer);
    }
    free(links->handed);
    free(links->slot);
    free(links->bucket);
    free(links->reached);
    free(links->bans);
    free(links->proven);
    free(links->came);
    free(links->action);
    free(links->entry);
    free(links);
}

// -- events

static void start(struct gossip_links *links)
{
    struct peer *peer;
    BASE_ASSERT(links->n_actions <= links->actions_capacity);
    links->started = true;
    for (size_t i = 0; i < links->options.entries && links_reserve(links, LINKS_ACTIONS); i++) {
        const struct gossip_links_target target = {.entry = i};
        call_start(links, &target, &links->entry[i].call);
    }
    TAILQ_FOREACH(peer, &links->peers, all) {
        const struct gossip_links_target member = call_member(peer);
        if (peer->active)
            call_look(links, peer);
        else if (call_wanted(peer) && links_reserve(links, LINKS_ACTIONS))
            call_start(links, &member, &peer->call);
    }
}

static void want_one(struct gossip_links *links, const struct gossip_id *id)
{
    struct peer *peer = gossip_id_compare(id, &links->options.self) ? links_peer_made(links, id) : NULL;
    if (!peer)
        return;
    BASE_ASSERT(!links->leaving);
    const struct gossip_links_target member = call_member(peer);
    peer->want_turn = links->want_turn;
    if (peer->wanted)
        return;
    peer->wanted = peer->alive = true;
    peer->told = false;
    peer->missing_ns = links->now_ns;
    links_due(links, links->now_ns + GOSSIP_LINKS_MISSING_NS);
    call_hurry(links, &peer->call);
    call_start(links, &member, &peer->call);
}

static void want(struct gossip_links *links, const struct gossip_id *ids, size_t count)
{
    struct peer *peer, *next;
    links->want_turn++;
    for (size_t i = 0; i < count && !links->leaving && links_reserve(links, LINKS_ACTIONS); i++)
        want_one(links, &ids[i]);
    for (peer = TAILQ_FIRST(&links->peers); peer; peer = next) {
        next = TAILQ_NEXT(peer, all);
        if (!peer->wanted || peer->want_turn == links->want_turn)
            continue;
        peer->wanted = false;
        if (peer->active)
            links_due(links, pair_due(links, peer->active));
        BASE_ASSERT(!peer->active || peer->active->state == GOSSIP_LINK_ACTIVE);
        links_peer_release(links, peer);
    }
}

// Entries that stand for a living member are not called; members that are gone are called.
static void member(struct gossip_links *links, const struct gossip_id *id, bool alive)
{
    struct peer *peer = links_peer(links, id);
    if (peer) {
        BASE_ASSERT(!peer->active || peer->active->peer == peer);
        if (alive && !peer->alive) {
            call_hurry(links, &peer->call);
            peer->told = false;
            peer->missing_ns = links->now_ns;
            links_due(links, links->now_ns + GOSSIP_LINKS_MISSING_NS);
        }
        peer->alive = alive;
        if (!alive && peer->active)
            links_due(links, pair_due(links, peer->active));
    }
    if (alive) {
        call_entries_hold(links, id);
        call_entries_hurry(links);
    } else if (!peer || !peer->active)
        call_entries_release(links, id, UINT64_MAX, false);
}

static void hurry(struct gossip_links *links, const struct gossip_id *id)
{
    struct peer *peer = links_peer(links, id);
    if (!peer)
        return;
    BASE_ASSERT(gossip_id_compare(id, &links->options.self) != 0);
    call_hurry(links, &peer->call);
    call_look_hurry(links, peer, GOSSIP_LINKS_HURRY_NS);
}

static void look_all(struct gossip_links *links)
{
    struct peer *peer;
    BASE_ASSERT(links->n_looks <= GOSSIP_LINKS_LOOKS);
    TAILQ_FOREACH(peer, &links->peers, all)
        if (peer->active && peer->active->relayed)
            call_look_hurry(links, peer, 0);
}

static void part(struct gossip_links *links, const struct gossip_id *id, enum gossip_close why)
{
    struct peer *peer = links_peer(links, id);
    if (!peer)
        return;
    packets_drop(links, peer);
    if (peer->active)
        pair_close(links, peer->active, why);
    else
        links_peer_release(links, peer);
}

static void allow(struct gossip_links *links)
{
    struct link *link;
    TAILQ_FOREACH(link, &links->links, all)
        if (link->peer && !pair_allows(links, &link->peer->id) && links_reserve(links, LINKS_ACTIONS))
            pair_close(links, link, GOSSIP_CLOSE_NOT_ALLOWED);
}

static void stalled(struct gossip_links *links, struct link *link, bool on)
{
    BASE_ASSERT(links_find(links, link->handle) == link);
    if (link->stalled == on)
        return;
    link->stalled = on;
    link->used_ns = links->now_ns; // a stalled link was not idle
    links_due(links, pair_due(links, link));
}

// Before anything else, it is called again: the new link takes over.
static void stuck(struct gossip_links *links, struct link *link, bool on)
{
    if (link->state != GOSSIP_LINK_ACTIVE)
        return;
    BASE_ASSERT(link->peer->active == link);
    link->stuck = on;
    if (on)
        call_stuck(links, link->peer);
}

static bool is_missing(const struct gossip_links *links, const struct peer *peer, uint64_t now_ns)
{
    return peer->wanted && peer->alive && !peer->active && !links->leaving &&
           links_after(now_ns, peer->missing_ns) >= GOSSIP_LINKS_MISSING_NS;
}

static void tell_missing(struct gossip_links *links, struct peer *peer)
{
    if (!peer->wanted || peer->active || peer->told)
        return;
    BASE_ASSERT(!links->leaving);
    if (!is_missing(links, peer, links->now_ns)) {
        uint64_t due_ns = peer->missing_ns + GOSSIP_LINKS_MISSING_NS;
        if (peer->alive)
            links_due(links, due_ns);
        return;
    }
    peer->told = true;
    struct gossip_links_action *action = links_act(links, GOSSIP_LINKS_MISSING);
    action->peer = peer->id;
    action->since_ns = peer->missing_ns;
}

// Out of memory for actions: the rest is handled soon.
static bool may_go_on(struct gossip_links *links)
{
    if (links_reserve(links, LINKS_ACTIONS))
        return true;
    links_due(links, links->now_ns + GOSSIP_LINKS_PAUSE_MIN_NS);
    return false;
}

// What relayed links still send, such as their BYE, may pass over it.
static bool may_carry(const struct link *link)
{
    return link->state == GOSSIP_LINK_ACTIVE && !link->relayed;
}

// Once no relayed link is left, or after a while.
static void leave_directly(struct gossip_links *links)
{
    const uint64_t due_ns = links->leave_ns + GOSSIP_LINKS_LEAVE_NS;
    struct link *link;
    bool carries = false;
    BASE_ASSERT(links->leaving);
    TAILQ_FOREACH(link, &links->links, all)
        carries |= link->relayed;
    if (carries && links->now_ns < due_ns) {
        links_due(links, due_ns);
        return;
    }
    TAILQ_FOREACH(link, &links->links, all)
        if (may_carry(link) && may_go_on(links))
            pair_close(links, link, GOSSIP_CLOSE_LEAVING);
}

static void timer(struct gossip_links *links)
{
    struct link *link;
    struct peer *peer, *next;
    if (links->now_ns < links->due_ns)
        return;
    links->late = links_after(links->now_ns, links->due_ns) >= GOSSIP_LINKS_LATE_NS;
    links->due_ns = UINT64_MAX;
    BASE_ASSERT(links->n_peers == 0 || links->buckets > 0);
    packets_expire(links);
    TAILQ_FOREACH(link, &links->links, all)
        if (may_go_on(links))
            pair_timer(links, link);
    for (size_t i = 0; i < links->options.entries && may_go_on(links); i++) {
        const struct gossip_links_target target = {.entry = i};
        call_timer(links, &target, &links->entry[i].call);
    }
    for (peer = TAILQ_FIRST(&links->peers); peer && may_go_on(links); peer = next) {
        const struct gossip_links_target target = call_member(peer), look = call_look_target(peer);
        next = TAILQ_NEXT(peer, all);
        call_timer(links, &target, &peer->call);
        call_timer(links, &look, &peer->look);
        tell_missing(links, peer);
        links_peer_release(links, peer);
    }
    if (links->leaving)
        leave_directly(links);
}

static void leave(struct gossip_links *links)
{
    struct link *link;
    struct peer *peer, *next;
    BASE_ASSERT(!links->leaving);
    links->leaving = true;
    links->leave_ns = links->now_ns;
    packets_drop(links, NULL);
    for (size_t i = 0; i < links->options.entries; i++) {
        const struct gossip_links_target target = {.entry = i};
        call_idle(links, &target, &links->entry[i].call);
    }
    for (peer = TAILQ_FIRST(&links->peers); peer; peer = next) {
        const struct gossip_links_target target = call_member(peer), look = call_look_target(peer);
        next = TAILQ_NEXT(peer, all);
        peer->wanted = false;
        call_idle(links, &target, &peer->call);
        call_idle(links, &look, &peer->look);
        links_peer_release(links, peer);
    }
    TAILQ_FOREACH(link, &links->links, all)
        if (link->state != GOSSIP_LINK_CLOSING && !may_carry(link) && links_reserve(links, LINKS_ACTIONS))
            pair_close(links, link,
                       link->state == GOSSIP_LINK_ACTIVE ? GOSSIP_CLOSE_LEAVING : GOSSIP_CLOSE_NOT_NEEDED);
    leave_directly(links);
}

static void on_link(struct gossip_links *links, struct link *link, const struct gossip_links_event *event)
{
    BASE_ASSERT(links_find(links, link->handle) == link);
    switch (event->kind) {
    case GOSSIP_LINKS_ANSWERED:
        link->answered = link->state == GOSSIP_LINK_ACCEPTED;
        break;
    case GOSSIP_LINKS_AUTHENTICATED:
        pair_authenticated(links, link, event);
        break;
    case GOSSIP_LINKS_GREETING:
        pair_greeting(links, link, event->greeting);
        break;
    case GOSSIP_LINKS_BYE:
        pair_bye(links, link, event->reason);
        break;
    case GOSSIP_LINKS_MESSAGE:
        pair_message(links, link);
        break;
    case GOSSIP_LINKS_BROKEN:
        pair_broken(links, link);
        break;
    case GOSSIP_LINKS_ENDED:
        pair_ended(links, link, event->end);
        if (links->leaving)
            leave_directly(links);
        break;
    case GOSSIP_LINKS_REVOKED:
        if (link->state != GOSSIP_LINK_CLOSING)
            pair_close(links, link, GOSSIP_CLOSE_OLD_SECRET);
        break;
    case GOSSIP_LINKS_STUCK:
        stuck(links, link, event->on);
        break;
    default:
        stalled(links, link, event->on);
        break;
    }
}

static void take(struct gossip_links *links, const struct gossip_links_event *event)
{
    struct link *link;
    switch (event->kind) {
    case GOSSIP_LINKS_START:
        start(links);
        break;
    case GOSSIP_LINKS_WANT:
        want(links, event->ids, event->count);
        break;
    case GOSSIP_LINKS_RESOLVED:
        call_resolved(links, event);
        break;
    case GOSSIP_LINKS_PACKET:
        packets_take(links, event);
        break;
    case GOSSIP_LINKS_MEMBER:
        member(links, &event->peer, event->alive);
        break;
    case GOSSIP_LINKS_HURRY:
        hurry(links, &event->peer);
        break;
    case GOSSIP_LINKS_LOOK_ALL:
        look_all(links);
        break;
    case GOSSIP_LINKS_PART:
        part(links, &event->peer, event->why);
        break;
    case GOSSIP_LINKS_ALLOW:
        allow(links);
        break;
    case GOSSIP_LINKS_TIMER:
        timer(links);
        break;
    case GOSSIP_LINKS_LEAVE:
        if (!links->leaving)
            leave(links);
        break;
    default:
        link = links_find(links, event->link);
        if (link)
            on_link(links, link, event);
        break;
    }
}

// As many actions as one link can cause: its own, those of links that wait behind it, its peer's packets. A
// loop over many links reserves again for each.
static size_t actions_of(const struct gossip_links *links, const struct gossip_links_event *event)
{
    const struct link *link = event->kind == GOSSIP_LINKS_GREETING ? links_find(links, event->link) : NULL;
    return LINKS_ACTIONS + (link && link->peer ? link->peer->packets : 0);
}

enum base_error gossip_links_step(struct gossip_links *links, const struct gossip_links_event *event)
{
    if (!links_reserve(links, actions_of(links, event)))
        return BASE_ENOMEM;
    links->now_ns = event->now_ns;
    links->entropy ^= event->entropy;
    take(links, event);
    BASE_ASSERT(links->totals.active <= links->n_peers && links->n_half_open <= LIMIT_HALF_OPEN);
    return BASE_OK;
}

bool gossip_links_next(struct gossip_links *links, struct gossip_links_action *action)
{
    BASE_ASSERT(links->n_actions <= links->actions_capacity);
    free(links->handed);
    links->handed = NULL;
    if (links->n_actions == 0)
        return false;
    const struct queued *first = &links->action[links->first_action];
    *action = first->action;
    // The owner may have been set after the action was queued; a link closed before its CALL has none.
    if (!action->owner && action->link) {
        const struct link *link = links_find(links, action->link);
        action->owner = link ? link->owner : NULL;
    }
    links->handed = first->packet;
    links->first_action = (links->first_action + 1) % links->actions_capacity;
    links->n_actions--;
    return true;
}

uint64_t gossip_links_deadline(const struct gossip_links *links)
{
    return links->due_ns;
}

// -- beside events

uint64_t gossip_links_accept(struct gossip_links *links, uint64_t now_ns, uint64_t host, bool relayed,
                             void *owner)
{
    bool full = links->totals.links + links->options.entries >= GOSSIP_LINKS_MAX; // kept for own calls
    links->now_ns = now_ns;
    full |= relayed && links->n_relayed == GOSSIP_LINKS_RELAYED;
    if (!full && !links->leaving && !relayed &&
        (links->n_half_open == LIMIT_HALF_OPEN || links_half_open(links, host) >= LIMIT_HALF_OPEN_ADDRESS)) {
        full = !pair_give_way(links, host);
        links->totals.turned_away += !full;
    }
    struct link *link = full || links->leaving ? NULL : links_add(links);
    links->totals.turned_away += full;
    if (!link)
        return 0;
    BASE_ASSERT(links->n_half_open + !relayed <= LIMIT_HALF_OPEN);
    link->state = GOSSIP_LINK_ACCEPTED;
    link->owner = owner;
    link->host = host;
    link->relayed = relayed;
    link->half_open = true;
    if (relayed)
        links->n_relayed++;
    else
        links->half_open[links->n_half_open++] = host;
    links->totals.accepted++;
    links_due(links, pair_due(links, link));
    return link->handle;
}

void gossip_links_bind(struct gossip_links *links, uint64_t handle, void *owner)
{
    struct link *link = links_find(links, handle);
    BASE_ASSERT(!link || link->handle == handle);
    if (link)
        link->owner = owner;
}

uint64_t gossip_links_active(const struct gossip_links *links, const struct gossip_id *id, void **owner)
{
    const struct peer *peer = links_peer(links, id);
    bool is = peer && peer->active;
    if (owner)
        *owner = is ? peer->active->owner : NULL;
    return is ? peer->active->handle : 0;
}

bool gossip_links_is_relayed(const struct gossip_links *links, const struct gossip_id *id)
{
    const struct peer *peer = links_peer(links, id);
    BASE_ASSERT(!peer || !peer->active || peer->active->peer == peer);
    return peer && peer->active && peer->active->relayed;
}

void gossip_links_sent(struct gossip_links *links, uint64_t handle, uint64_t now_ns)
{
    struct link *link = links_find(links, handle);
    BASE_ASSERT(!link || link->handle == handle);
    if (link)
        link->used_ns = now_ns;
}

bool gossip_links_wants(const struct gossip_links *links, const struct gossip_id *id)
{
    const struct peer *peer = links_peer(links, id);
    return peer && peer->wanted;
}

size_t gossip_links_entries(const struct gossip_links *links)
{
    return links->options.entries;
}

const struct gossip_entry *gossip_links_entry(const struct gossip_links *links, size_t entry)
{
    BASE_ASSERT(entry < links->options.entries);
    return &links->entry[entry].shown;
}

size_t gossip_links_missing(const struct gossip_links *links, uint64_t now_ns, struct gossip_missing *missing,
                            size_t capacity)
{
    const struct peer *peer;
    size_t count = 0;
    TAILQ_FOREACH(peer, &links->peers, all)
        if (is_missing(links, peer, now_ns)) {
            if (count < capacity)
                missing[count] = (struct gossip_missing){.peer = peer->id, .since_ns = peer->missing_ns};
            count++;
        }
    return count;
}

uint64_t gossip_links_banned_ns(const struct gossip_links *links, uint64_t now_ns, const struct gossip_id *id)
{
    const uint64_t until_ns = ban_ends(links, id);
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

void gossip_links_totals(const struct gossip_links *links, struct gossip_links_totals *totals)
{
    *totals = links->totals;
    totals->half_open = links->n_half_open;
    totals->calls = links->n_calls;
}

// Nothing is done late: the deadline is that of the first thing that time alone brings about.
static void check_call(const struct gossip_links *links, const struct call *call)
{
    BASE_ASSERT(call->state != CALL_UNDER_WAY || call->links > 0);
    if (call->state == CALL_PAUSED || call->state == CALL_RESOLVING ||
        (call->state == CALL_UNDER_WAY && call->tried < call->addresses))
        BASE_ASSERT(links->due_ns <= call->due_ns || links->due_ns <= links->now_ns);
}

static void check_deadline(const struct gossip_links *links)
{
    const struct link *link;
    const struct peer *peer;
    const struct packet *oldest = STAILQ_FIRST(&links->packets);
    TAILQ_FOREACH(link, &links->links, all)
        BASE_ASSERT(links->due_ns <= pair_due(links, link));
    for (size_t i = 0; i < links->options.entries; i++)
        check_call(links, &links->entry[i].call);
    TAILQ_FOREACH(peer, &links->peers, all) {
        check_call(links, &peer->call);
        if (links->n_looks < GOSSIP_LINKS_LOOKS) // else the end of a look brings the next
            check_call(links, &peer->look);
        BASE_ASSERT(!peer->wanted || !peer->alive || peer->active || peer->told ||
                    links->due_ns <= peer->missing_ns + GOSSIP_LINKS_MISSING_NS);
    }
    BASE_ASSERT(!oldest || links->due_ns <= oldest->since_ns + GOSSIP_LINKS_PACKET_NS);
}

static void check_peer(const struct gossip_links *links, const struct peer *peer)
{
    const struct link *link;
    size_t undecided = 0, packets = 0;
    const struct packet *p;
    TAILQ_FOREACH(link, &peer->links, pair) {
        BASE_ASSERT(link->peer == peer && links_find(links, link->handle) == link);
        BASE_ASSERT((link->state == GOSSIP_LINK_ACTIVE) == (peer->active == link));
        BASE_ASSERT(link->state != GOSSIP_LINK_CANDIDATE || peer->active);
        undecided += link->state != GOSSIP_LINK_ACTIVE;
    }
    STAILQ_FOREACH(p, &links->packets, next)
        packets += p->peer == peer;
    BASE_ASSERT(undecided == peer->undecided && packets == peer->packets);
    BASE_ASSERT(!peer->active || links->leaving || peer->call.state == CALL_HELD);
    BASE_ASSERT(!peer->active || peer->packets == 0);
    BASE_ASSERT(peer->active || peer->look.state == CALL_IDLE);
    BASE_ASSERT(!peer->active || links->leaving || peer->look.state != CALL_IDLE || !links->started ||
                (peer->active->caller && !peer->active->relayed && !links->options.callers_look));
}

void gossip_links_check(const struct gossip_links *links)
{
    const struct link *link;
    const struct peer *peer;
    size_t count = 0, active = 0, half_open = 0, relayed = 0, peers = 0, packets = 0, calls = 0, looks = 0;
    TAILQ_FOREACH(link, &links->links, all) {
        bool authenticated = link->state >= GOSSIP_LINK_AUTHENTICATED && link->state <= GOSSIP_LINK_ACTIVE;
        BASE_ASSERT((link->peer != NULL) == (authenticated && !link->self));
        BASE_ASSERT(!links->leaving || link->state == GOSSIP_LINK_CLOSING || may_carry(link));
        active += link->state == GOSSIP_LINK_ACTIVE;
        half_open += link->half_open && !link->relayed;
        relayed += link->half_open && link->relayed;
        count++;
    }
    TAILQ_FOREACH(peer, &links->peers, all) {
        check_peer(links, peer);
        calls += peer->call.state != CALL_IDLE && peer->call.state != CALL_HELD;
        looks += peer->look.state == CALL_RESOLVING || peer->look.state == CALL_UNDER_WAY;
        packets += peer->packets;
        peers++;
    }
    check_deadline(links);
    BASE_ASSERT(peers == links->n_peers && packets == links->totals.packets && calls == links->n_calls);
    BASE_ASSERT(looks == links->n_looks && relayed == links->n_relayed && relayed <= GOSSIP_LINKS_RELAYED);
    BASE_ASSERT(count == links->totals.links && count <= GOSSIP_LINKS_MAX);
    BASE_ASSERT(active == links->totals.active && half_open == links->n_half_open);
    BASE_ASSERT(links->totals.packets <= GOSSIP_LINKS_PACKETS);
}
