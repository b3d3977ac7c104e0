#include "gossip/member/state.h"

#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static size_t place_of(const struct gossip_membership *m, const struct gossip_id *id)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gossip_id_compare(&m->sorted[middle]->record.id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct member *member_find(const struct gossip_membership *m, const struct gossip_id *id)
{
    size_t at = place_of(m, id);
    bool there = at < m->count && gossip_id_compare(&m->sorted[at]->record.id, id) == 0;
    return there ? m->sorted[at] : NULL;
}

static bool grow(struct gossip_membership *m)
{
    BASE_ASSERT(m->count <= m->capacity);
    if (m->count < m->capacity)
        return true;
    size_t capacity = m->capacity ? 2 * m->capacity : 16;
    struct member **sorted = realloc(m->sorted, capacity * sizeof *sorted);
    if (sorted)
        m->sorted = sorted;
    struct member **order = realloc(m->order, capacity * sizeof *order);
    if (order)
        m->order = order;
    if (!sorted || !order)
        return false;
    m->capacity = capacity;
    return true;
}

// A new member is probed at a random place of the order (SWIM, section 4.3).
static void put_in_order(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(m->n_order < m->capacity);
    size_t at = (size_t)base_rng_below(&m->rng, m->n_order + 1);
    m->order[m->n_order] = at < m->n_order ? m->order[at] : x;
    m->order[at] = x;
    m->n_order++;
}

// The member that has been gone for longest makes room.
static bool make_room(struct gossip_membership *m)
{
    struct member *oldest = NULL;
    if (m->count < LIMIT_MEMBERS)
        return true;
    for (size_t i = 0; i < m->count; i++) {
        struct member *x = m->sorted[i];
        if (!member_is_here(x) && x != m->self && (!oldest || x->since_ns < oldest->since_ns))
            oldest = x;
    }
    if (oldest)
        member_remove(m, oldest);
    return oldest != NULL;
}

struct member *member_add(struct gossip_membership *m, const struct gossip_record *record)
{
    if (!make_room(m) || !grow(m))
        return NULL;
    struct member *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    size_t at = place_of(m, &record->id);
    BASE_ASSERT(at == m->count || gossip_id_compare(&m->sorted[at]->record.id, &record->id) > 0);
    x->record = *record;
    x->state = GOSSIP_MEMBER_UNPROVEN;
    x->introducer = m->teller;
    x->since_ns = x->record_ns = m->now_ns;
    x->credit_ns = m->now_ns;
    memmove(m->sorted + at + 1, m->sorted + at, (m->count - at) * sizeof *m->sorted);
    m->sorted[at] = x;
    m->count++;
    m->states[GOSSIP_MEMBER_UNPROVEN]++;
    if (m->self)
        put_in_order(m, x);
    return x;
}

void member_void_suspicions(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x->n_suspicions == 0 || !member_is_here(x) || m->n_suspected > 0);
    m->n_suspected -= x->n_suspicions > 0 && member_is_here(x);
    x->n_suspicions = 0;
}

void member_remove(struct gossip_membership *m, struct member *x)
{
    struct gossip_membership_action removed = {.kind = GOSSIP_MEMBERSHIP_REMOVED, .peer = x->record.id};
    size_t at = place_of(m, &x->record.id), in_order = 0;
    BASE_ASSERT(x != m->self && m->sorted[at] == x);
    member_void_suspicions(m, x);
    member_set_state(m, x, GOSSIP_MEMBER_LEFT, false, true); // counts nowhere
    memmove(m->sorted + at, m->sorted + at + 1, (m->count - at - 1) * sizeof *m->sorted);
    m->count--;
    m->states[GOSSIP_MEMBER_LEFT]--;
    while (m->order[in_order] != x)
        in_order++;
    m->order[in_order] = m->order[--m->n_order];
    free(x);
    member_act(m, &removed);
}

bool member_is_here(const struct member *x)
{
    return x->state == GOSSIP_MEMBER_ALIVE || x->state == GOSSIP_MEMBER_SUSPECT;
}

bool member_is_unproven(const struct member *x)
{
    return x->state == GOSSIP_MEMBER_UNPROVEN;
}

// If at least half of the members that could count are HELD, these count as well: a graph of few members is
// worse than one that changes.
static bool needs_held(const struct gossip_membership *m)
{
    return m->n_held > 0 && m->n_eligible <= m->n_held;
}

bool member_counts(const struct gossip_membership *m, const struct member *x)
{
    return x->eligible != 0 || (x->held != 0 && needs_held(m));
}

static void recount_term(uint64_t *sum, size_t *count, uint64_t *term, uint64_t now)
{
    *sum += now - *term;
    *count += (size_t)(now != 0) - (size_t)(*term != 0);
    *term = now;
}

void member_recount(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x->eligible == 0 || x->eligible == x->counted);
    const struct gossip_record *r = &x->record;
    uint64_t term = 0;
    if (member_is_here(x)) {
        const uint64_t parts[8] = {r->version.generation,
                                   r->version.instance_id,
                                   r->flags,
                                   (uint64_t)r->slot << 32 | r->shard,
                                   r->group,
                                   r->access,
                                   r->stop_round,
                                   base_hash_bytes(0, r->settings, sizeof r->settings)};
        term = base_hash_bytes(base_hash_bytes(1, r->id.bytes, GOSSIP_ID_BYTES), parts, sizeof parts);
        term += term == 0; // 0 means: not here
    }
    if (term != x->counted) {
        m->view_hash += term - x->counted;
        m->view_hash_ns = m->now_ns;
    }
    x->counted = term;
    recount_term(&m->eligible_hash, &m->n_eligible, &x->eligible,
                 r->flags & GOSSIP_RECORD_ELIGIBLE ? term : 0);
    recount_term(&m->held_hash, &m->n_held, &x->held, r->flags & GOSSIP_RECORD_HELD ? term : 0);
    uint64_t candidate = m->eligible_hash + (needs_held(m) ? m->held_hash : 0);
    if (candidate != m->candidate_hash)
        m->candidate_ns = m->now_ns;
    m->candidate_hash = candidate;
}

void member_set_state(struct gossip_membership *m, struct member *x, enum gossip_member_state state,
                      bool evidence, bool known)
{
    enum gossip_member_state before = x->state;
    if (state == before && known)
        return;
    BASE_ASSERT(m->states[before] > 0);
    m->states[before]--;
    m->states[state]++;
    x->state = state;
    x->since_ns = m->now_ns;
    member_recount(m, x);
    if (x == m->self || (before == GOSSIP_MEMBER_UNPROVEN && state == GOSSIP_MEMBER_LEFT))
        return;
    struct gossip_membership_action changed = {.kind = GOSSIP_MEMBERSHIP_CHANGED,
                                               .peer = x->record.id,
                                               .state = state,
                                               .before = before,
                                               .known = known,
                                               .evidence = evidence};
    member_act(m, &changed);
}

size_t member_others(const struct gossip_membership *m, const struct member *x)
{
    return m->states[GOSSIP_MEMBER_ALIVE] + m->states[GOSSIP_MEMBER_SUSPECT] - (member_is_here(x) ? 1 : 0);
}

bool member_in_reach(const struct member *x)
{
    return x->record.n_relays == 0 || x->direct || x->linked;
}

bool member_is_relay_of(const struct gossip_id *id, const struct member *x)
{
    const uint64_t beginning = gossip_id_beginning(id);
    BASE_ASSERT(x->record.n_relays <= GOSSIP_RECORD_RELAYS);
    for (size_t i = 0; i < x->record.n_relays; i++)
        if (x->record.relays[i] == beginning)
            return true;
    return false;
}

enum rank { RANK_RELAY, RANK_REACHABLE, RANK_OTHER, RANKS };

static enum rank rank_of(const struct member *x, const struct member *target)
{
    if (target && member_is_relay_of(&x->record.id, target))
        return RANK_RELAY;
    return target && x->record.ways & GOSSIP_WAY_REACHABLE ? RANK_REACHABLE : RANK_OTHER;
}

// Reservoir sampling (Vitter 1985, algorithm R): each set of `most` is as likely as any other.
static size_t pick_ranked(struct gossip_membership *m, const struct member *target, enum rank rank,
                          struct member **picked, size_t most)
{
    size_t found = 0, seen = 0;
    for (size_t i = 0; i < m->n_order && most > 0; i++) {
        struct member *x = m->order[i];
        if (x == target || !member_is_here(x) || !member_in_reach(x) || rank_of(x, target) != rank)
            continue;
        seen++;
        if (found < most) {
            picked[found++] = x;
            continue;
        }
        size_t at = (size_t)base_rng_below(&m->rng, seen);
        if (at < most)
            picked[at] = x;
    }
    return found;
}

size_t member_pick(struct gossip_membership *m, const struct member *target, struct member **picked,
                   size_t most)
{
    size_t found = 0;
    for (enum rank rank = RANK_RELAY; rank < RANKS; rank++)
        found += pick_ranked(m, target, rank, picked + found, most - found);
    BASE_ASSERT(found <= most);
    return found;
}

size_t member_successors(const struct gossip_membership *m, const struct member *x,
                         struct member *successors[RING_SUCCESSORS])
{
    size_t at = place_of(m, &x->record.id), found = 0;
    for (size_t i = 1; i < m->count && found < RING_SUCCESSORS; i++) {
        struct member *next = m->sorted[(at + i) % m->count];
        if (next->state == GOSSIP_MEMBER_ALIVE)
            successors[found++] = next;
    }
    return found;
}

bool member_is_successor(const struct gossip_membership *m, const struct member *x)
{
    struct member *successors[RING_SUCCESSORS];
    size_t count = member_successors(m, x, successors);
    for (size_t i = 0; i < count; i++)
        if (successors[i] == m->self)
            return true;
    return false;
}
