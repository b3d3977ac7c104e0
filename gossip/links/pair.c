// One link per pair: what a proof of identity, a greeting, a message, a BYE and the end of a link mean.
#include "gossip/links/links_private.h"

static uint64_t idle_ns(const struct peer *peer)
{
    return peer->alive ? GOSSIP_LINKS_IDLE_NS : GOSSIP_LINKS_GONE_NS;
}

static bool may_idle(const struct link *link)
{
    return !link->peer->wanted && !link->stalled;
}

// A process that has a link calls once more only if it has given that link up, or is looking for a direct
// one.
static bool calls_again(const struct link *link)
{
    return link->state == GOSSIP_LINK_CANDIDATE && !link->caller && !link->relayed &&
           link->instance_id == link->peer->active->instance_id;
}

uint64_t pair_due(const struct gossip_links *links, const struct link *link)
{
    static const uint64_t patience_ns[] = {[GOSSIP_LINK_ACCEPTED] = LIMIT_HANDSHAKE_NS,
                                           [GOSSIP_LINK_AUTHENTICATED] = GOSSIP_LINKS_GREETING_NS,
                                           [GOSSIP_LINK_CANDIDATE] = GOSSIP_LINKS_CANDIDATE_NS};
    const bool active = link->state == GOSSIP_LINK_ACTIVE;
    if (link->state == GOSSIP_LINK_CLOSING || (active && !may_idle(link)))
        return UINT64_MAX;
    uint64_t limit_ns = active                               ? idle_ns(link->peer)
                        : calls_again(link)                  ? GOSSIP_LINKS_AGAIN_NS
                        : link->state == GOSSIP_LINK_CALLING ? links->options.call_ns
                                                             : patience_ns[link->state];
    uint64_t since_ns = active ? link->used_ns : link->state_ns;
    return since_ns > UINT64_MAX - limit_ns ? UINT64_MAX : since_ns + limit_ns;
}

static void become(struct gossip_links *links, struct link *link, enum gossip_link_state state)
{
    static const bool follows[6][6] = {
        [GOSSIP_LINK_CALLING] = {[GOSSIP_LINK_AUTHENTICATED] = true, [GOSSIP_LINK_CLOSING] = true},
        [GOSSIP_LINK_ACCEPTED] = {[GOSSIP_LINK_AUTHENTICATED] = true, [GOSSIP_LINK_CLOSING] = true},
        [GOSSIP_LINK_AUTHENTICATED] =
            {[GOSSIP_LINK_CANDIDATE] = true, [GOSSIP_LINK_ACTIVE] = true, [GOSSIP_LINK_CLOSING] = true},
        [GOSSIP_LINK_CANDIDATE] =
            {[GOSSIP_LINK_CANDIDATE] = true, [GOSSIP_LINK_ACTIVE] = true, [GOSSIP_LINK_CLOSING] = true},
        [GOSSIP_LINK_ACTIVE] = {[GOSSIP_LINK_CLOSING] = true}};
    BASE_ASSERT(follows[link->state][state]);
    link->state = state;
    link->state_ns = links->now_ns;
    links_due(links, pair_due(links, link));
}

bool pair_allows(const struct gossip_links *links, const struct gossip_id *id)
{
    return !links->options.allow || gossip_allow_list_has(links->options.allow, id);
}

static bool decides(const struct gossip_links *links, const struct gossip_id *peer)
{
    return gossip_id_compare(&links->options.self, peer) < 0;
}

static struct gossip_links_action *act(struct gossip_links *links, enum gossip_links_action_kind kind,
                                       const struct link *link)
{
    BASE_ASSERT(!link->peer || !link->self);
    struct gossip_links_action *action = links_act(links, kind);
    action->link = link->handle;
    action->owner = link->owner;
    if (link->peer)
        action->peer = link->peer->id;
    return action;
}

static struct gossip_links_action *say_close(struct gossip_links *links, const struct link *link,
                                             enum gossip_close why)
{
    BASE_ASSERT(!link->peer || link->state != GOSSIP_LINK_CLOSING);
    struct gossip_links_action *action = act(links, GOSSIP_LINKS_CLOSE, link);
    action->why = why;
    if (link->peer && link->peer->active)
        action->other = link->peer->active->owner;
    return action;
}

static void detach(struct link *link)
{
    struct peer *peer = link->peer;
    BASE_ASSERT(link->state == GOSSIP_LINK_ACTIVE || peer->undecided > 0);
    peer->undecided -= link->state != GOSSIP_LINK_ACTIVE;
    TAILQ_REMOVE(&peer->links, link, pair);
    link->peer = NULL;
}

// -- taking into use

static void deactivate(struct gossip_links *links, struct peer *peer)
{
    const struct gossip_links_target look = call_look_target(peer);
    BASE_ASSERT(peer->active && links->totals.active > 0);
    act(links, GOSSIP_LINKS_DOWN, peer->active);
    links->totals.active--;
    peer->active = NULL;
    call_idle(links, &look, &peer->look);
    peer->missing_ns = links->now_ns;
    peer->told = false;
}

static bool improves(const struct link *link)
{
    const struct link *active = link->peer->active;
    BASE_ASSERT(active != link);
    return active && (active->stuck || (active->relayed && !link->relayed));
}

// It did not end in agreement: it broke, or was given up for a relayed one.
static void note_death(const struct gossip_links *links, const struct link *link)
{
    BASE_ASSERT(link->state != GOSSIP_LINK_CLOSING);
    if (link->state == GOSSIP_LINK_ACTIVE)
        call_path_died(link->peer, link->relayed, links_after(links->now_ns, link->state_ns));
}

// The other end has called once more over a relay: it has found the older one late. If that is younger, both
// ends may have called at the same time.
static bool is_instead(const struct gossip_links *links, const struct link *link)
{
    const struct link *active = link->peer->active;
    return active && active->relayed && link->relayed && !link->caller &&
           links_after(links->now_ns, active->state_ns) >= GOSSIP_LINKS_INSTEAD_NS;
}

static bool takes_over(const struct gossip_links *links, const struct link *link)
{
    return (improves(link) || is_instead(links, link)) &&
           link->instance_id == link->peer->active->instance_id;
}

static void replace(struct gossip_links *links, struct link *old)
{
    say_close(links, old, GOSSIP_CLOSE_REPLACED)->other = NULL;
    deactivate(links, old->peer);
    detach(old);
    become(links, old, GOSSIP_LINK_CLOSING);
}

static void activate(struct gossip_links *links, struct link *link)
{
    struct peer *peer = link->peer;
    const struct gossip_links_target member = call_member(peer);
    struct link *other, *next;
    BASE_ASSERT(peer->undecided > 0 && link->state != GOSSIP_LINK_ACTIVE);
    if (peer->active && link->relayed)
        note_death(links, peer->active);
    if (peer->active)
        replace(links, peer->active);
    link->used_ns = links->now_ns;
    become(links, link, GOSSIP_LINK_ACTIVE);
    links_release_half_open(links, link);
    peer->active = link;
    peer->undecided--;
    link->told_before = links->told_duplicate; // the count goes on from here if this is a duplicate, too
    links->told_duplicate = 0;
    links->totals.active++;
    links->totals.activated++;
    if (decides(links, &peer->id))
        act(links, GOSSIP_LINKS_GREET, link);
    call_hold(links, &member, &peer->call);
    call_look(links, peer);
    call_entries_hold(links, &peer->id);
    if (!link->caller)
        call_entries_hurry(links);
    for (other = TAILQ_FIRST(&peer->links); other; other = next) {
        next = TAILQ_NEXT(other, pair);
        // A direct link that waits to be taken may still replace a relayed one.
        if (other != link && (other->state == GOSSIP_LINK_CANDIDATE || !improves(other)))
            pair_close(links, other, GOSSIP_CLOSE_NOT_NEEDED);
    }
    act(links, GOSSIP_LINKS_UP, link);
    packets_send(links, link);
}

// -- the end

// The consequences of a link's end for the call that made it.
static void call_ended(struct gossip_links *links, const struct link *link, enum gossip_link_end end,
                       bool refused)
{
    struct call *call = link->caller ? call_of(links, &link->target) : NULL;
    const struct peer *peer = link->peer;
    if (!call || !call_is_of(call, link))
        return;
    if (link->target.entry != GOSSIP_NO_ENTRY && peer && !refused && (peer->active || peer->alive))
        call_hold(links, &link->target, call);
    else
        call_failed(links, link, call, end == GOSSIP_END_REFUSED && !link->relayed, refused);
}

// No link to this peer is in use any more. Wanted peers are called again; before START no peer is called.
static void after_active(struct gossip_links *links, const struct link *link, struct peer *peer, bool refused,
                         bool broken)
{
    const struct gossip_links_target member = call_member(peer);
    uint64_t lasted_ns = links_after(links->now_ns, link->state_ns);
    if (call_wanted(peer) && links->started && !links->leaving)
        call_after_link(links, &member, &peer->call, lasted_ns, refused);
    else
        call_idle(links, &member, &peer->call);
    if (refused || broken || !peer->alive)
        call_entries_release(links, &peer->id, lasted_ns, refused || broken);
}

static struct link *successor(const struct peer *peer)
{
    struct link *link;
    TAILQ_FOREACH(link, &peer->links, pair)
        if (link->state == GOSSIP_LINK_CANDIDATE)
            return link;
    return NULL;
}

// Takes the link out of use; only its handle remains.
static void leave(struct gossip_links *links, struct link *link, enum gossip_link_end end, bool refused)
{
    struct peer *peer = link->peer;
    bool was_active = link->state == GOSSIP_LINK_ACTIVE;
    BASE_ASSERT(!was_active || peer->active == link);
    if (peer)
        ban_link_ends(links, link);
    if (was_active)
        deactivate(links, peer);
    call_ended(links, link, end, refused);
    if (!peer)
        return;
    detach(link);
    struct link *next = was_active && !ban_ends(links, &peer->id) ? successor(peer) : NULL;
    if (next) {
        activate(links, next);
    } else if (was_active) {
        if (end == GOSSIP_END_GONE && !link->relayed) { // a relayed one may have ended at the relay
            links->totals.evidence++;
            links_act(links, GOSSIP_LINKS_UNREACHABLE)->peer = peer->id;
        }
        after_active(links, link, peer, refused, end == GOSSIP_END_BROKEN);
    }
    links_peer_release(links, peer);
}

// No link of its peer stays, or takes the place of this one.
static void ban(struct gossip_links *links, struct link *link)
{
    struct link *other, *next;
    ban_note(links, link);
    for (other = TAILQ_FIRST(&link->peer->links); other; other = next) {
        next = TAILQ_NEXT(other, pair);
        if (other != link)
            pair_close(links, other, GOSSIP_CLOSE_BANNED);
    }
}

void pair_close(struct gossip_links *links, struct link *link, enum gossip_close why)
{
    BASE_ASSERT(link->state != GOSSIP_LINK_CLOSING);
    bool refused = gossip_close_is_refusal(why) || why == GOSSIP_CLOSE_REFUSED_THERE;
    bool broken = why == GOSSIP_CLOSE_BROKEN || why == GOSSIP_CLOSE_IMPLAUSIBLE;
    enum gossip_link_end end = broken ? GOSSIP_END_BROKEN : GOSSIP_END_OTHER;
    if (broken && link->peer)
        ban(links, link);
    struct gossip_links_action *action = say_close(links, link, why);
    size_t entry = link->caller ? link->target.entry : GOSSIP_NO_ENTRY;
    action->target = link->target;
    action->changed = refused;
    links->totals.refused += gossip_close_is_refusal(why);
    if (refused && entry != GOSSIP_NO_ENTRY) {
        action->changed = links->entry[entry].shown.state != GOSSIP_ENTRY_REFUSED;
        call_entry_state(links, entry, GOSSIP_ENTRY_REFUSED);
    }
    leave(links, link, end, refused);
    become(links, link, GOSSIP_LINK_CLOSING);
}

// A connection without a fitting first message may be closed. A caller that knows the secret has a moment for
// the rest of the handshake: if many members on one host call at once, each would otherwise displace another
// before a busy process reads what it has sent.
static bool may_give_way(const struct gossip_links *links, const struct link *link, bool answered_too)
{
    if (link->state == GOSSIP_LINK_CLOSING)
        return true; // a refused link that has not ended yet
    if (link->state != GOSSIP_LINK_ACCEPTED)
        return false;
    return answered_too || !link->answered ||
           links_after(links->now_ns, link->state_ns) >= GOSSIP_LINKS_ANSWERED_NS;
}

// The oldest connection that may be closed: of this host, if it is at the limit of a host (`own`), else of
// the host that has the most.
static struct link *oldest_to_go(const struct gossip_links *links, uint64_t host, bool own, bool answered_too)
{
    struct link *link, *chosen = NULL;
    size_t most = 0;
    TAILQ_FOREACH(link, &links->links, all) {
        if (!link->half_open || link->relayed || !may_give_way(links, link, answered_too) ||
            (own && link->host != host))
            continue;
        size_t count = links_half_open(links, link->host);
        if (count > most)
            chosen = link;
        most = count > most ? count : most;
    }
    return chosen;
}

// Any host can replay a recorded first message, so such a message protects a connection only from others of
// the same host: it keeps out no other host.
bool pair_give_way(struct gossip_links *links, uint64_t host)
{
    const bool own = links_half_open(links, host) >= LIMIT_HALF_OPEN_ADDRESS;
    if (!links_reserve(links, LINKS_ACTIONS))
        return false;
    struct link *oldest = oldest_to_go(links, host, own, false);
    if (!oldest && !own)
        oldest = oldest_to_go(links, host, own, true);
    if (!oldest)
        return false;
    if (oldest->state == GOSSIP_LINK_CLOSING)
        say_close(links, oldest, GOSSIP_CLOSE_CROWDED); // at once, even with unread data
    else
        pair_close(links, oldest, GOSSIP_CLOSE_CROWDED);
    links_release_half_open(links, oldest);
    BASE_ASSERT(!oldest->half_open && links->n_half_open < LIMIT_HALF_OPEN);
    return true;
}

void pair_ended(struct gossip_links *links, struct link *link, enum gossip_link_end end)
{
    if (link->state != GOSSIP_LINK_CLOSING) {
        note_death(links, link);
        leave(links, link, end, false);
    }
    links_free(links, link);
}

// -- what is heard

static void entry_answered(struct gossip_links *links, size_t entry, const struct gossip_id *id)
{
    BASE_ASSERT(entry < links->options.entries);
    struct entry *at = &links->entry[entry];
    bool changed = at->shown.state != GOSSIP_ENTRY_MEMBER || gossip_id_compare(&at->shown.id, id) != 0;
    at->shown.known = true;
    at->shown.id = *id;
    at->self_seen = false;
    if (changed)
        call_entry_state(links, entry, GOSSIP_ENTRY_MEMBER);
}

static void proven_self(struct gossip_links *links, struct link *link)
{
    BASE_ASSERT(!link->peer && !link->self);
    link->self = true;
    become(links, link, GOSSIP_LINK_AUTHENTICATED);
    if (!link->caller)
        act(links, GOSSIP_LINKS_GREET, link);
}

static bool looks_for_others(const struct gossip_links *links, const struct link *link)
{
    return link->caller && link->target.entry != GOSSIP_NO_ENTRY &&
           links->entry[link->target.entry].call.looks;
}

// Whether the link is needed, now that its peer is known.
static bool is_useful(const struct gossip_links *links, const struct link *link)
{
    const struct peer *peer = link->peer;
    if (link->caller && link->target.entry == GOSSIP_NO_ENTRY &&
        gossip_id_compare(&link->target.peer, &peer->id) != 0)
        return false;
    if (peer->alive && looks_for_others(links, link))
        return false;
    return peer->undecided <= GOSSIP_LINKS_UNDECIDED && !(link->caller && peer->active && !improves(link));
}

void pair_authenticated(struct gossip_links *links, struct link *link, const struct gossip_links_event *event)
{
    if (link->state != GOSSIP_LINK_CALLING && link->state != GOSSIP_LINK_ACCEPTED)
        return;
    if (event->protocol == 0) { // the other end knows it, too: no word follows that both would understand
        pair_close(links, link, GOSSIP_CLOSE_OTHER_PROTOCOL);
        return;
    }
    if (gossip_id_compare(&event->peer, &links->options.self) == 0) {
        proven_self(links, link);
        return;
    }
    struct peer *peer = links_peer_made(links, &event->peer);
    if (!peer) {
        pair_close(links, link, GOSSIP_CLOSE_NOT_NEEDED); // no memory
        return;
    }
    BASE_ASSERT(!link->peer && !link->self);
    become(links, link, GOSSIP_LINK_AUTHENTICATED);
    TAILQ_INSERT_TAIL(&peer->links, link, pair);
    link->peer = peer;
    peer->undecided++;
    peer->alive = event->alive;
    if (link->caller && !link->relayed)
        link->host = event->host;
    if (peer->active)
        links_due(links, pair_due(links, peer->active)); // it ends sooner if its peer is gone
    bool allowed = pair_allows(links, &peer->id);
    if (allowed && link->caller && link->target.entry != GOSSIP_NO_ENTRY && !looks_for_others(links, link))
        entry_answered(links, link->target.entry, &peer->id);
    if (link->caller && !link->relayed)
        call_reached(links, &peer->id);
    if (allowed && !link->caller && !link->relayed)
        act(links, GOSSIP_LINKS_REACHED, link);
    if (!is_useful(links,
                   link)) // with BYE, so that the other end sees a complete handshake, not a stranger
        pair_close(links, link, GOSSIP_CLOSE_NOT_NEEDED);
    else if (!allowed)
        pair_close(links, link, GOSSIP_CLOSE_NOT_ALLOWED);
    else if (ban_holds(links, link))
        pair_close(links, link, GOSSIP_CLOSE_BANNED);
    else if (!ban_lets_in(links, link))
        pair_close(links, link, GOSSIP_CLOSE_CROWD);
    else if (!decides(links, &peer->id))
        act(links, GOSSIP_LINKS_GREET, link);
}

static void tell_duplicate(struct gossip_links *links, const struct link *link, bool at)
{
    BASE_ASSERT(!link->peer || !link->self);
    links->totals.duplicates++;
    act(links, GOSSIP_LINKS_DUPLICATE, link)->at = at;
}

// Our own id has answered: this process, or another one with our identity.
static void greeted_by_self(struct gossip_links *links, struct link *link, uint64_t instance_id)
{
    BASE_ASSERT(link->self && !link->peer);
    if (!link->caller) {
        pair_close(links, link, GOSSIP_CLOSE_BROKEN); // out of turn
        return;
    }
    if (instance_id != links->options.greeting->instance_id)
        tell_duplicate(links, link, true);
    else if (link->target.entry != GOSSIP_NO_ENTRY)
        links->entry[link->target.entry].self_seen = true;
    pair_close(links, link, GOSSIP_CLOSE_SELF);
}

void pair_greeting(struct gossip_links *links, struct link *link, const struct gossip_greeting *theirs)
{
    if (link->state != GOSSIP_LINK_AUTHENTICATED) {
        if (link->state != GOSSIP_LINK_CLOSING)
            pair_close(links, link, GOSSIP_CLOSE_BROKEN); // before the proof of identity, or twice
        return;
    }
    BASE_ASSERT(link->self == !link->peer);
    if (link->self) {
        greeted_by_self(links, link, theirs->instance_id);
        return;
    }
    struct peer *peer = link->peer;
    bool lower = decides(links, &peer->id);
    enum gossip_close verdict = gossip_links_compare(links->options.greeting, theirs);
    link->instance_id = theirs->instance_id;
    if (gossip_close_is_refusal(verdict)) {
        if (lower)
            act(links, GOSSIP_LINKS_GREET, link); // so that the other end can report it, too
        pair_close(links, link, verdict);
    } else if (!peer->active || !lower || takes_over(links, link)) { // or the lower id has taken this one
        activate(links, link);
    } else {
        become(links, link, GOSSIP_LINK_CANDIDATE);
    }
}

// The other end has a working link to this id, and this process has none to it. Once or twice, that may be a
// link that was given up here.
static void suspect_duplicate(struct gossip_links *links, const struct link *link)
{
    if (!link->peer || (link->peer->active && link->peer->active != link))
        return;
    BASE_ASSERT(!link->self);
    if (link->peer->active) // in use since then, but the earlier answers still count
        links->told_duplicate = link->told_before;
    if (links->told_duplicate == 0)
        links->duplicate_ns = links->now_ns;
    links->told_duplicate++;
    if (links->told_duplicate >= GOSSIP_LINKS_DUPLICATES &&
        links_after(links->now_ns, links->duplicate_ns) >= GOSSIP_LINKS_DUPLICATE_NS)
        tell_duplicate(links, link, false);
}

void pair_bye(struct gossip_links *links, struct link *link, const char *reason)
{
    enum gossip_close said = gossip_close_of(reason);
    if (link->state == GOSSIP_LINK_CLOSING)
        return;
    if (said == GOSSIP_CLOSE_DUPLICATE_IDENTITY)
        suspect_duplicate(links, link);
    pair_close(links, link, said == GOSSIP_CLOSE_REFUSED_THERE ? said : GOSSIP_CLOSE_HEARD);
}

// A message on the active link shows that it works: the candidate is not needed. (A process calls again when
// it has given up a link whose last bytes were still on the way. Another process with this identity is told
// about the first one; nothing else is sent to it or accepted from it.)
static void drop_candidates(struct gossip_links *links, const struct link *works)
{
    struct link *link, *next;
    for (link = TAILQ_FIRST(&works->peer->links); link; link = next) {
        next = TAILQ_NEXT(link, pair);
        if (link->state != GOSSIP_LINK_CANDIDATE)
            continue;
        if (link->instance_id == works->instance_id) {
            pair_close(links, link, GOSSIP_CLOSE_REPLACED);
        } else {
            act(links, GOSSIP_LINKS_GREET, link); // the other end uses it until the BYE
            act(links, GOSSIP_LINKS_EXPLAIN, link);
            pair_close(links, link, GOSSIP_CLOSE_DUPLICATE_IDENTITY);
        }
    }
}

void pair_message(struct gossip_links *links, struct link *link)
{
    if (link->state == GOSSIP_LINK_ACTIVE) {
        BASE_ASSERT(link->peer->active == link);
        link->used_ns = links->now_ns;
        if (link->peer->undecided)
            drop_candidates(links, link);
        act(links, GOSSIP_LINKS_DELIVER, link);
    } else if (link->state != GOSSIP_LINK_CLOSING) {
        pair_close(links, link, GOSSIP_CLOSE_BROKEN); // before the greeting
    }
}

void pair_broken(struct gossip_links *links, struct link *link)
{
    if (link->state != GOSSIP_LINK_CLOSING)
        pair_close(links, link, GOSSIP_CLOSE_BROKEN);
}

// -- time

// Data on the active link may not have been read yet. Only once: a process that is always late must get a
// working link, too.
static bool waits_once_more(const struct gossip_links *links, struct link *link)
{
    BASE_ASSERT(link->state == GOSSIP_LINK_CANDIDATE);
    const bool waits = links->late && !link->spared;
    link->spared |= waits;
    return waits;
}

static void candidate_waited(struct gossip_links *links, struct link *link)
{
    BASE_ASSERT(link->state == GOSSIP_LINK_CANDIDATE);
    if (waits_once_more(links, link))
        become(links, link, GOSSIP_LINK_CANDIDATE);
    else
        activate(links, link);
}

void pair_timer(struct gossip_links *links, struct link *link)
{
    const uint64_t due_ns = pair_due(links, link);
    if (links->now_ns < due_ns)
        links_due(links, due_ns);
    else if (link->state == GOSSIP_LINK_ACTIVE)
        pair_close(links, link, GOSSIP_CLOSE_IDLE);
    else if (link->state == GOSSIP_LINK_CANDIDATE)
        candidate_waited(links, link);
    else
        pair_close(links, link,
                   link->state == GOSSIP_LINK_AUTHENTICATED ? GOSSIP_CLOSE_NO_GREETING
                                                            : GOSSIP_CLOSE_TIMEOUT);
}
