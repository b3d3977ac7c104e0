// Which nodes merge, and when their mean is the model of the cluster (README.md, "Why there are never two").
#include "gossip/merge/private.h"

#define UNREACHED 3u // part of patience_ns after which a node without a link is left out

static uint64_t bit(size_t i)
{
    return 1ull << i;
}

static uint64_t all_bits(size_t count)
{
    return count == GOSSIP_MERGE_MOST ? UINT64_MAX : bit(count) - 1;
}

static bool is_own_set(const struct gossip_merge *merge, const struct merge_set *set)
{
    return merge->agreed.count > 0 && merge_set_equal(set, &merge->agreed);
}

// -- what others have said of `agreed`

static void note_state(struct gossip_merge *merge, const struct merge_peer *peer)
{
    const size_t i = merge_set_find(&merge->agreed, merge_peer_key(merge, peer));

    if (i == MERGE_NOT_IN || !is_own_set(merge, &peer->set))
        return;
    if (peer->phase >= GOSSIP_MERGE_AGREED)
        merge->sure |= bit(i);
    if (peer->phase < GOSSIP_MERGE_HOLDS)
        return;
    merge->sure = all_bits(merge->agreed.count); // it knew that of all
    merge->held |= bit(i);
    merge->held_hash[i] = peer->hash;
}

static void note_states(struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->n_peers; i++)
        if (merge_peer_talks(merge, i))
            note_state(merge, &merge->peers[i]);
}

static void begin_attempt(struct gossip_merge *merge, const struct merge_set *set, bool takes)
{
    const size_t self = merge_set_find(set, merge->key);

    merge->agreed = *set;
    merge->takes = takes;
    merge->attempts++;
    merge->sure = self == MERGE_NOT_IN ? 0 : bit(self);
    merge->held = merge->gave = 0;
    for (size_t i = 0; i < set->count; i++) {
        const size_t peer = merge_peer_of(merge, set->key[i]);
        if (i == self ? merge->gives : peer != SIZE_MAX && merge->peers[peer].gives)
            merge->gave |= bit(i);
    }
    if (merge->gave == 0)
        merge->gave = all_bits(set->count);
    merge_chunks_begin(merge);
    note_states(merge);
}

// -- which nodes this one offers to merge with

static bool begin_base(struct gossip_merge *merge)
{
    if (merge->many) {
        merge->end = GOSSIP_MERGE_MANY;
        return false;
    }
    for (size_t i = 0; i < merge->n_members; i++)
        merge_set_add(&merge->base, merge->members[i].key);
    BASE_ASSERT(merge_set_has(&merge->base, merge->key));
    merge->now = merge->base;
    merge->phase = GOSSIP_MERGE_OFFERS;
    merge->begun_ns = merge->moved_ns = merge->now_ns;
    if (merge->base.count == 1)
        merge->end = GOSSIP_MERGE_ALONE;
    return !merge->end;
}

// Of two nodes that cannot reach each other the one with the higher key is left out, if that is enough.
static bool is_unreached(const struct gossip_merge *merge, uint64_t key, const struct merge_peer *peer)
{
    const uint64_t share_ns = merge->options.patience_ns / UNREACHED;
    const uint64_t since_ns = peer->since_ns > merge->begun_ns ? peer->since_ns : merge->begun_ns;
    const uint64_t wait_ns = !peer->linked && merge->key < key ? share_ns : 2 * share_ns;

    return !(peer->linked && peer->heard) && merge->now_ns - since_ns >= wait_ns;
}

static void drop_the_gone(struct gossip_merge *merge)
{
    const struct merge_set before = merge->now;

    for (size_t i = 0; i < before.count; i++) {
        const size_t at = merge_peer_of(merge, before.key[i]);
        if (before.key[i] == merge->key)
            continue;
        if (at == SIZE_MAX || merge->peers[at].refused ||
            is_unreached(merge, before.key[i], &merge->peers[at]))
            merge_set_drop(&merge->now, before.key[i]);
    }
}

// Two nodes that offer different sets agree on what both have. If that is too little, one of the two is
// wrong: the one whose set is no majority of the nodes that began.
static void follow_offer(struct gossip_merge *merge, uint64_t key, const struct merge_peer *peer)
{
    const struct merge_set both = merge_set_both(&merge->now, &peer->set);

    if (merge_set_equal(&peer->set, &merge->now))
        return;
    if (!merge_set_has(&peer->set, merge->key)) {
        merge->out = merge->out || merge_set_is_most(&merge->base, &peer->set);
        merge_set_drop(&merge->now, key);
    } else if (peer->phase >= GOSSIP_MERGE_HOLDS || !merge_set_is_most(&merge->base, &both)) {
        merge_set_drop(&merge->now, key);
    } else {
        merge->now = both;
    }
}

static void shrink(struct gossip_merge *merge)
{
    const struct merge_set before = merge->now;

    drop_the_gone(merge);
    for (size_t i = 0; i < before.count; i++) {
        const size_t at = merge_peer_of(merge, before.key[i]);
        if (merge_set_has(&merge->now, before.key[i]) && at != SIZE_MAX && merge_peer_talks(merge, at))
            follow_offer(merge, before.key[i], &merge->peers[at]);
    }
    merge->out = merge->out || !merge_set_is_most(&merge->base, &merge->now);
}

static bool all_offer(const struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->now.count; i++) {
        const size_t at = merge_peer_of(merge, merge->now.key[i]);
        if (merge->now.key[i] != merge->key && (at == SIZE_MAX || !merge_peer_talks(merge, at) ||
                                                !merge_set_equal(&merge->peers[at].set, &merge->now)))
            return false;
    }
    return merge->now.count > 1;
}

// One node has the mean of the latest set that this node has agreed to: nothing else can come of it any more.
static bool has_holder(const struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->n_peers; i++)
        if (merge_peer_talks(merge, i) && merge->peers[i].phase >= GOSSIP_MERGE_HOLDS &&
            is_own_set(merge, &merge->peers[i].set))
            return true;
    return false;
}

static void settle(struct gossip_merge *merge)
{
    BASE_ASSERT(merge->phase < GOSSIP_MERGE_HOLDS && !merge->takes);
    if (has_holder(merge)) {
        merge->now = merge->agreed;
        merge->out = false;
        merge->phase = GOSSIP_MERGE_AGREED;
    } else {
        shrink(merge);
    }
    if (!merge->out && !is_own_set(merge, &merge->now)) {
        merge->phase = GOSSIP_MERGE_OFFERS;
        if (all_offer(merge)) {
            begin_attempt(merge, &merge->now, false);
            merge->phase = GOSSIP_MERGE_AGREED;
        }
    }
    if (merge->phase == GOSSIP_MERGE_AGREED && merge_chunks_reduced(merge))
        merge->phase = GOSSIP_MERGE_REDUCED;
}

// -- from the whole mean to the end

static void take(struct gossip_merge *merge, const struct merge_peer *peer)
{
    if (merge->phase == GOSSIP_MERGE_HOLDS && is_own_set(merge, &peer->set) && peer->hash == merge->hash) {
        merge->phase = GOSSIP_MERGE_DECIDED;
        return;
    }
    if (merge->phase == GOSSIP_MERGE_HOLDS || !is_own_set(merge, &peer->set))
        begin_attempt(merge, &peer->set, true);
    merge->takes = true;
    merge->phase = GOSSIP_MERGE_OFFERS; // not said: the others need nothing of this node
    merge->hash = peer->hash;
}

static void follow_decision(struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->n_peers; i++) {
        const struct merge_peer *peer = &merge->peers[i];
        if (!merge_peer_talks(merge, i) || peer->phase != GOSSIP_MERGE_DECIDED ||
            (merge->takes && is_own_set(merge, &peer->set)))
            continue;
        take(merge, peer);
        return;
    }
}

static void complete(struct gossip_merge *merge)
{
    const uint64_t hash = base_hash_vector(merge->model, merge->options.parameters);

    BASE_ASSERT(merge->phase < GOSSIP_MERGE_HOLDS);
    if (merge->takes && hash != merge->hash) {
        merge->end = GOSSIP_MERGE_DAMAGED;
        return;
    }
    merge->hash = hash;
    merge->phase = merge->takes ? GOSSIP_MERGE_DECIDED : GOSSIP_MERGE_HOLDS;
    merge->takes = false;
}

// With those of them that are gone by now: they held it, and never took another one.
static struct merge_set holders(const struct gossip_merge *merge)
{
    struct merge_set set = {.count = 0};

    BASE_ASSERT(merge->phase == GOSSIP_MERGE_HOLDS);
    for (size_t i = 0; i < merge->agreed.count; i++)
        if (merge->agreed.key[i] == merge->key ||
            (merge->held >> i & 1 && merge->held_hash[i] == merge->hash))
            merge_set_add(&set, merge->agreed.key[i]);
    return set;
}

static void hold(struct gossip_merge *merge)
{
    const bool sure =
        merge->takes || (is_own_set(merge, &merge->now) && merge->sure == all_bits(merge->agreed.count));

    if (merge->phase < GOSSIP_MERGE_HOLDS && sure && merge_chunks_complete(merge))
        complete(merge);
    if (merge->phase != GOSSIP_MERGE_HOLDS)
        return;
    const struct merge_set held = holders(merge);
    if (merge_set_is_most(&merge->agreed, &held))
        merge->phase = GOSSIP_MERGE_DECIDED;
}

static bool all_have_it(const struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->n_members; i++) {
        const size_t at = merge_peer_of(merge, merge->members[i].key);
        if (merge->members[i].key != merge->key && (at == SIZE_MAX || !merge_peer_talks(merge, at) ||
                                                    merge->peers[at].phase != GOSSIP_MERGE_DECIDED))
            return false;
    }
    return true;
}

// No node that is here can have the mean, or come to one.
static bool is_hopeless(const struct gossip_merge *merge)
{
    for (size_t i = 0; i < merge->n_members; i++) {
        const size_t at = merge_peer_of(merge, merge->members[i].key);
        if (merge->members[i].key != merge->key &&
            (at == SIZE_MAX || !merge_peer_talks(merge, at) || merge->peers[at].set.count > 1))
            return false;
    }
    return merge->out || merge->n_members == 1;
}

// A node that is out offers itself alone, so that no other waits for it.
static struct merge_state own_state(const struct gossip_merge *merge)
{
    struct merge_state state = {.phase = merge->phase, .set = merge->now};

    if (merge->phase >= GOSSIP_MERGE_HOLDS) {
        state.hash = merge->hash;
        state.set = merge->agreed;
    } else if (merge->out) {
        state.phase = GOSSIP_MERGE_OFFERS;
        state.set = (struct merge_set){.key = {merge->key}, .count = 1};
    }
    return state;
}

static void tell(struct gossip_merge *merge)
{
    const struct merge_state state = own_state(merge);

    if (merge->takes || (state.phase == merge->told.phase && state.hash == merge->told.hash &&
                         merge_set_equal(&state.set, &merge->told.set)))
        return;
    merge->told = state;
    merge->version++;
    merge->moved_ns = merge->now_ns;
}

void merge_consider(struct gossip_merge *merge)
{
    if (!merge->begun || !merge->known || merge->end || (merge->base.count == 0 && !begin_base(merge)))
        return;
    note_states(merge);
    if (merge->phase < GOSSIP_MERGE_DECIDED)
        follow_decision(merge);
    if (merge->phase < GOSSIP_MERGE_HOLDS && !merge->takes)
        settle(merge);
    hold(merge);
    if (merge->phase == GOSSIP_MERGE_DECIDED && all_have_it(merge))
        merge->end = GOSSIP_MERGE_MERGED;
    else if (merge->phase < GOSSIP_MERGE_DECIDED && !merge->end && is_hopeless(merge))
        merge->end = GOSSIP_MERGE_FEW;
    tell(merge);
}
