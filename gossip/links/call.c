// Which peers to call and when. An entry of the peer list is called as long as the node runs. While it stands
// for a member that is alive or linked, its turns only look for others under the same name. A member is
// called while it is wanted, and for one turn when packets wait for it. A member that has a link is looked
// at: a turn of calls to its direct addresses. A turn asks for the addresses and tries each of them; pauses
// between turns double, with jitter.
#include "base/array.h"
#include "base/hash.h"
#include "gossip/links/links_private.h"
#include <stdlib.h>

static bool is_entry(const struct gossip_links_target *target)
{
    return target->entry != GOSSIP_NO_ENTRY;
}

struct gossip_links_target call_member(const struct peer *peer)
{
    return (struct gossip_links_target){.entry = GOSSIP_NO_ENTRY, .peer = peer->id};
}

struct gossip_links_target call_look_target(const struct peer *peer)
{
    const bool stuck = peer->active && peer->active->stuck; // any other way is better
    return (struct gossip_links_target){
        .entry = GOSSIP_NO_ENTRY, .peer = peer->id, .direct = !stuck, .small = stuck};
}

static bool is_look(const struct gossip_links_target *target)
{
    return !is_entry(target) && (target->direct || target->small);
}

static struct gossip_links_target entry_target(size_t entry)
{
    return (struct gossip_links_target){.entry = entry};
}

struct call *call_of(struct gossip_links *links, const struct gossip_links_target *target)
{
    if (is_entry(target))
        return target->entry < links->options.entries ? &links->entry[target->entry].call : NULL;
    struct peer *peer = links_peer(links, &target->peer);
    if (!peer)
        return NULL;
    return is_look(target) ? &peer->look : &peer->call;
}

bool call_wanted(const struct peer *peer)
{
    return peer->wanted || peer->packets > 0;
}

static bool is_busy(enum call_state state)
{
    return state == CALL_PAUSED || state == CALL_RESOLVING || state == CALL_UNDER_WAY;
}

// Looks that wait because many are under way have a TIMER when one of them ends.
static void count_looks(struct gossip_links *links, enum call_state before, enum call_state after)
{
    const bool full = links->n_looks == GOSSIP_LINKS_LOOKS;
    links->n_looks += after == CALL_RESOLVING || after == CALL_UNDER_WAY;
    links->n_looks -= before == CALL_RESOLVING || before == CALL_UNDER_WAY;
    BASE_ASSERT(links->n_looks <= GOSSIP_LINKS_LOOKS);
    if (full && links->n_looks < GOSSIP_LINKS_LOOKS)
        links_due(links, links->now_ns);
}

static void become(struct gossip_links *links, const struct gossip_links_target *target, struct call *call,
                   enum call_state state)
{
    BASE_ASSERT(state != CALL_RESOLVING || call->state == CALL_IDLE || call->state == CALL_PAUSED ||
                (call->state == CALL_HELD && is_entry(target)));
    BASE_ASSERT(state != CALL_UNDER_WAY || call->state == CALL_RESOLVING || call->state == CALL_UNDER_WAY);
    if (is_look(target)) {
        count_looks(links, call->state, state);
    } else if (!is_entry(target)) {
        links->n_calls += is_busy(state);
        links->n_calls -= is_busy(call->state);
    }
    call->state = state;
}

static uint64_t random_below(struct gossip_links *links, uint64_t bound)
{
    BASE_ASSERT(bound > 0);
    links->entropy += 0x9e3779b97f4a7c15ull;
    return base_hash_mix(links->entropy) % bound;
}

static uint64_t with_jitter(struct gossip_links *links, uint64_t pause_ns)
{
    return pause_ns / 2 + random_below(links, pause_ns); // 0.5 to 1.5
}

static void wait_until(struct gossip_links *links, struct call *call, uint64_t due_ns)
{
    BASE_ASSERT(call->state != CALL_IDLE);
    call->due_ns = due_ns;
    links_due(links, due_ns);
}

void call_again(struct gossip_links *links, const struct gossip_links_target *target, struct call *call,
                uint64_t pause_ns)
{
    become(links, target, call, CALL_PAUSED);
    wait_until(links, call, links->now_ns + with_jitter(links, pause_ns));
}

void call_hurry(struct gossip_links *links, struct call *call)
{
    BASE_ASSERT(call->pause_ns > 0);
    uint64_t due_ns = links->now_ns + with_jitter(links, GOSSIP_LINKS_PAUSE_MIN_NS);
    call->pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    if (call->state == CALL_PAUSED && due_ns < call->due_ns)
        wait_until(links, call, due_ns);
}

// Nobody misses a link that this node refuses.
static void wait_for_ban(struct gossip_links *links, const struct gossip_links_target *target,
                         struct call *call, uint64_t ends_ns)
{
    struct peer *peer = links_peer(links, &target->peer);
    BASE_ASSERT(!is_entry(target) && ends_ns > links->now_ns);
    peer->missing_ns = ends_ns;
    become(links, target, call, CALL_PAUSED);
    wait_until(links, call, ends_ns);
}

static void ask(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    BASE_ASSERT(links->started && !links->leaving);
    const uint64_t banned_ns = is_entry(target) ? 0 : ban_ends(links, &target->peer);
    if (banned_ns > 0) {
        wait_for_ban(links, target, call, banned_ns);
        return;
    }
    call->looks = call->state == CALL_HELD;
    become(links, target, call, CALL_RESOLVING);
    wait_until(links, call, links->now_ns + GOSSIP_LINKS_RESOLVE_NS);
    links_act(links, GOSSIP_LINKS_RESOLVE)->target = *target;
}

void call_start(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    if (call->state == CALL_IDLE && links->started && !links->leaving)
        ask(links, target, call);
}

// A peer has called this node, or has become a member: entries without an answer may stand for it, or for
// other nodes that have just started. Their next turn comes soon; later pauses stay as long.
void call_entries_hurry(struct gossip_links *links)
{
    for (size_t i = 0; i < links->options.entries; i++) {
        const struct entry *entry = &links->entry[i];
        const uint64_t pause_ns = entry->call.pause_ns;
        BASE_ASSERT(pause_ns > 0);
        if (entry->shown.state != GOSSIP_ENTRY_UNKNOWN || entry->call.flapping)
            continue;
        call_hurry(links, &links->entry[i].call);
        links->entry[i].call.pause_ns = pause_ns;
    }
}

void call_idle(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    become(links, target, call, CALL_IDLE);
}

void call_hold(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    const bool was_held = call->state == CALL_HELD;
    BASE_ASSERT(call->pause_ns > 0);
    become(links, target, call, CALL_HELD);
    if (!call->flapping)
        call->pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    if (is_entry(target) && !was_held)
        wait_until(links, call, links->now_ns + with_jitter(links, GOSSIP_LINKS_LOOK_NS));
}

static uint64_t longest_look_pause(const struct peer *peer)
{
    BASE_ASSERT(peer->active);
    if (peer->active->stuck)
        return GOSSIP_LINKS_PAUSE_MEMBER_NS;
    return peer->active->relayed ? base_max(GOSSIP_LINKS_DIRECT_MAX_NS, peer->direct_ns)
                                 : GOSSIP_LINKS_BACK_NS;
}

// A node without any link has only its entries: the first one that answers leads to all others.
static uint64_t longest_pause(const struct gossip_links *links, const struct gossip_links_target *target)
{
    if (is_look(target))
        return longest_look_pause(links_peer(links, &target->peer));
    if (!is_entry(target))
        return GOSSIP_LINKS_PAUSE_MEMBER_NS;
    return links->totals.active ? GOSSIP_LINKS_PAUSE_MAX_NS : GOSSIP_LINKS_PAUSE_LONELY_NS;
}

static uint64_t next_pause(const struct gossip_links *links, const struct gossip_links_target *target,
                           struct call *call)
{
    BASE_ASSERT(call->pause_ns > 0);
    uint64_t most_ns = longest_pause(links, target);
    uint64_t pause_ns = call->pause_ns < most_ns ? call->pause_ns : most_ns;
    call->pause_ns = 2 * pause_ns < most_ns ? 2 * pause_ns : most_ns;
    return pause_ns;
}

// If links keep ending soon after they begin, the pauses between calls grow.
void call_after_link(struct gossip_links *links, const struct gossip_links_target *target, struct call *call,
                     uint64_t lasted_ns, bool hopeless)
{
    BASE_ASSERT(call->state != CALL_RESOLVING || is_entry(target));
    call->flapping = lasted_ns < GOSSIP_LINKS_PAUSE_MAX_NS;
    if (!call->flapping)
        call->pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    call_again(links, target, call,
               hopeless ? GOSSIP_LINKS_PAUSE_REFUSED_NS : next_pause(links, target, call));
}

// -- a turn

static bool was_reached(const struct gossip_links *links, const struct gossip_id *id)
{
    uint64_t hash = links_hash(links, id);
    for (size_t i = 0; i < links->n_reached && i < LINKS_REACHED; i++)
        if (links->reached[i] == hash)
            return true;
    return false;
}

void call_reached(struct gossip_links *links, const struct gossip_id *id)
{
    BASE_ASSERT(gossip_id_compare(id, &links->options.self) != 0);
    if (!links->reached)
        links->reached = calloc(LINKS_REACHED, sizeof *links->reached);
    if (links->reached && !was_reached(links, id))
        links->reached[links->n_reached++ % LINKS_REACHED] = links_hash(links, id);
}

void call_entry_state(struct gossip_links *links, size_t entry, enum gossip_entry_state state)
{
    BASE_ASSERT(entry < links->options.entries);
    struct gossip_entry *shown = &links->entry[entry].shown;
    if (shown->state != state)
        shown->since_ns = links->now_ns;
    shown->state = state;
    links_act(links, GOSSIP_LINKS_ENTRY)->target = entry_target(entry);
}

// A closed port is evidence only about a peer that a call of this node has reached: the refusal may come from
// a firewall in front of a host that can only call out.
static void tell_closed(struct gossip_links *links, const struct gossip_id *id)
{
    const struct peer *peer = links_peer(links, id);
    if (peer->active || !was_reached(links, id))
        return;
    BASE_ASSERT(peer->call.closed && peer->call.addresses > 0);
    links->totals.evidence++;
    links_act(links, GOSSIP_LINKS_UNREACHABLE)->peer = *id;
}

static void turn_over(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    BASE_ASSERT(call->state == CALL_RESOLVING || call->state == CALL_UNDER_WAY);
    if (call->looks) {
        links->entry[target->entry].self_seen = false;
        call_hold(links, target, call);
        return;
    }
    call_again(links, target, call, next_pause(links, target, call));
    if (is_entry(target)) {
        struct entry *entry = &links->entry[target->entry];
        if (entry->self_seen && entry->shown.state != GOSSIP_ENTRY_SELF) {
            entry->shown.known = false;
            call_entry_state(links, target->entry, GOSSIP_ENTRY_SELF);
        }
        entry->self_seen = false;
    } else if (!is_look(target) && call->closed && call->addresses > 0) {
        tell_closed(links, &target->peer);
    }
}

// After which another call begins beside this one.
static uint64_t patience_ns(const struct gossip_links_target *target, const struct call *call)
{
    if (target->small)
        return GOSSIP_LINKS_CALL_STUCK_NS;
    return call->tried < call->addresses ? GOSSIP_LINKS_CALL_NEXT_NS : GOSSIP_LINKS_CALL_LONELY_NS;
}

static void call_next_address(struct gossip_links *links, const struct gossip_links_target *target,
                              struct call *call)
{
    BASE_ASSERT(call->tried <= call->addresses);
    struct link *link = call->tried < call->addresses ? links_add(links) : NULL;
    if (!link) {
        call->closed &= call->tried == call->addresses;
        call->tried = call->addresses;
        if (call->links == 0)
            turn_over(links, target, call);
        return;
    }
    const size_t address = (call->first + call->tried++) % call->addresses;
    link->state = GOSSIP_LINK_CALLING;
    link->caller = true;
    link->relayed = address < 32 && call->relayed >> address & 1;
    link->target = *target;
    if (call->links++ == 0)
        call->oldest = link->handle;
    become(links, target, call, CALL_UNDER_WAY);
    wait_until(links, call, links->now_ns + patience_ns(target, call));
    links->totals.called++;
    struct gossip_links_action *action = links_act(links, GOSSIP_LINKS_CALL);
    action->target = *target;
    action->link = link->handle;
    action->address = address;
    action->relayed = link->relayed;
}

void call_resolved(struct gossip_links *links, const struct gossip_links_event *event)
{
    const struct gossip_links_target *target = &event->target;
    const size_t addresses = event->count;
    struct call *call = call_of(links, target);
    if (!call || call->state != CALL_RESOLVING)
        return;
    BASE_ASSERT(links->started && !links->leaving);
    call->addresses = addresses;
    call->relayed = is_entry(target) ? 0 : event->relayed;
    call->tried = call->links = 0;
    // Nodes should not all begin with the same address of a name.
    call->first = is_entry(target) && addresses ? (size_t)random_below(links, addresses) : 0;
    if (call->looks) // calls one address, or none if the name leads to one host only
        call->tried = addresses > 1 ? addresses - 1 : addresses;
    call->closed = true;
    call_next_address(links, target, call);
}

bool call_is_of(const struct call *call, const struct link *link)
{
    return call->state == CALL_UNDER_WAY && link->handle >= call->oldest;
}

void call_failed(struct gossip_links *links, const struct link *link, struct call *call, bool closed,
                 bool refused)
{
    const struct gossip_links_target *target = &link->target;
    BASE_ASSERT(call_is_of(call, link) && call->links > 0);
    call->links--;
    call->closed &= closed;
    if (is_look(target) && link->peer && gossip_id_compare(&link->peer->id, &target->peer) == 0)
        call->tried = call->addresses; // it has answered
    if (refused && !call->looks)
        call_again(links, target, call, GOSSIP_LINKS_PAUSE_REFUSED_NS);
    else
        call_next_address(links, target, call);
}

// A call to a wrong or filtered address takes its whole time, so it does not delay the one to the next
// address. A node without any link does not wait for the end of the last call to an entry, either: TCP
// repeats a lost attempt after one second, three, seven. Nor does the call of a member whose link is stuck:
// the way over a relay may work a moment later. The links of these calls stay, and may still succeed.
static bool may_overlap(const struct gossip_links *links, const struct gossip_links_target *target,
                        const struct call *call)
{
    const bool urgent = is_entry(target) ? links->totals.active == 0 : target->small;
    return call->tried < call->addresses || urgent;
}

static bool has_looks(const struct gossip_links *links, const struct link *active)
{
    return !active->caller || links->options.callers_look || active->relayed || active->stuck;
}

// The peer goes to the end of the list, so that each has its turn if more looks are due than may be under
// way.
static void look_now(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    struct peer *peer = links_peer(links, &target->peer);
    BASE_ASSERT(peer->active && call == &peer->look);
    if (!has_looks(links, peer->active)) { // it is no longer stuck
        call_idle(links, target, call);
        return;
    }
    if (links->n_looks == GOSSIP_LINKS_LOOKS)
        return;
    TAILQ_REMOVE(&links->peers, peer, all);
    TAILQ_INSERT_TAIL(&links->peers, peer, all);
    ask(links, target, call);
}

void call_timer(struct gossip_links *links, const struct gossip_links_target *target, struct call *call)
{
    if (call->state != CALL_PAUSED && call->state != CALL_RESOLVING &&
        !(call->state == CALL_HELD && is_entry(target)) &&
        !(call->state == CALL_UNDER_WAY && may_overlap(links, target, call)))
        return;
    BASE_ASSERT(links->started && !links->leaving);
    if (links->now_ns < call->due_ns) {
        links_due(links, call->due_ns);
    } else if (call->state == CALL_UNDER_WAY && call->tried < call->addresses) {
        call_next_address(links, target, call);
    } else if (call->state == CALL_UNDER_WAY || call->state == CALL_RESOLVING) {
        call->closed = false;
        turn_over(links, target, call);
    } else if (is_look(target)) {
        look_now(links, target, call);
    } else if (is_entry(target) || call_wanted(links_peer(links, &target->peer))) {
        ask(links, target, call);
    } else {
        call_idle(links, target, call);
    }
}

// -- looks at members

void call_look(struct gossip_links *links, struct peer *peer)
{
    const struct link *active = peer->active;
    const struct gossip_links_target target = call_look_target(peer);
    BASE_ASSERT(active);
    if (peer->look.state != CALL_IDLE || !links->started || links->leaving || !has_looks(links, active))
        return;
    peer->look.pause_ns =
        active->relayed ? base_max(GOSSIP_LINKS_DIRECT_MIN_NS, peer->direct_ns) : GOSSIP_LINKS_BACK_NS;
    call_again(links, &target, &peer->look,
               active->relayed ? next_pause(links, &target, &peer->look) : GOSSIP_LINKS_BACK_FIRST_NS);
}

// A direct path that dies again and again is looked for less and less often, and a relay that is no better
// than the other one replaced by it, so that the link does not alternate.
void call_path_died(struct peer *peer, bool relayed, uint64_t lasted_ns)
{
    uint64_t *pause_ns = relayed ? &peer->relayed_ns : &peer->direct_ns;
    const uint64_t least_ns = relayed ? GOSSIP_LINKS_RELAY_MIN_NS / 2 : GOSSIP_LINKS_DIRECT_MIN_NS,
                   next_ns = 2 * base_max(least_ns, *pause_ns);
    BASE_ASSERT(*pause_ns <= GOSSIP_LINKS_PATH_LATE_NS);
    *pause_ns = lasted_ns >= GOSSIP_LINKS_SETTLED_NS ? 0 : base_min(next_ns, GOSSIP_LINKS_PATH_LATE_NS);
}

void call_look_hurry(struct gossip_links *links, struct peer *peer, uint64_t within_ns)
{
    struct call *look = &peer->look;
    if (look->state == CALL_IDLE)
        return;
    BASE_ASSERT(peer->active);
    if (peer->active->relayed)
        look->pause_ns = GOSSIP_LINKS_DIRECT_MIN_NS;
    const uint64_t due_ns = links->now_ns + random_below(links, within_ns + 1);
    if (look->state == CALL_PAUSED && due_ns < look->due_ns)
        wait_until(links, look, due_ns);
}

// A look under way, at the direct addresses, goes on by itself.
void call_stuck(struct gossip_links *links, struct peer *peer)
{
    const struct gossip_links_target target = call_look_target(peer);
    struct call *look = &peer->look;
    BASE_ASSERT(peer->active && peer->active->stuck);
    if (!links->started || links->leaving)
        return;
    look->pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    become(links, &target, look, CALL_PAUSED);
    const uint64_t stays_ns = peer->active->relayed ? peer->active->state_ns + peer->relayed_ns : 0;
    wait_until(links, look, base_max(links->now_ns, stays_ns));
}

// -- after a link

static bool stands_for(const struct entry *entry, const struct gossip_id *id)
{
    return entry->shown.known && gossip_id_compare(&entry->shown.id, id) == 0;
}

void call_entries_hold(struct gossip_links *links, const struct gossip_id *id)
{
    const struct peer *peer = links_peer(links, id);
    for (size_t i = 0; i < links->options.entries && !links->leaving; i++) {
        const struct gossip_links_target target = entry_target(i);
        if (!stands_for(&links->entry[i], id))
            continue;
        if (links->entry[i].shown.state == GOSSIP_ENTRY_REFUSED && peer && peer->active)
            call_entry_state(links, i, GOSSIP_ENTRY_MEMBER); // an earlier link was refused, this one was not
        call_hold(links, &target, &links->entry[i].call);
    }
}

void call_entries_release(struct gossip_links *links, const struct gossip_id *id, uint64_t lasted_ns,
                          bool hopeless)
{
    for (size_t i = 0; i < links->options.entries && !links->leaving; i++) {
        const struct gossip_links_target target = entry_target(i);
        struct call *call = &links->entry[i].call;
        if (!stands_for(&links->entry[i], id))
            continue;
        call->looks = false;
        if (call->state == CALL_HELD)
            call_after_link(links, &target, call, lasted_ns, hopeless);
    }
}
