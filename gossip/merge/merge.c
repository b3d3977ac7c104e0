#include "gossip/merge/merge.h"

#include "base/hash.h"
#include "gossip/merge/private.h"
#include "gossip/plausible.h"
#include <math.h>
#include <stdlib.h>

#define LOOKS       12u                 // in patience_ns
#define IN_ALL      60u                 // times patience_ns
#define BLOCK_NS    (4 * 1000000000ull) // of one block at 32 kbit/s; one of each other node may be on its way
#define LINGERS     3u
#define PATIENCE_NS (60 * 1000000000ull)
#define NEVER       UINT64_MAX

const char *gossip_merge_end_text(enum gossip_merge_end end)
{
    static const char *const texts[] = {
        [GOSSIP_MERGE_GOES_ON] = "it was told to stop",
        [GOSSIP_MERGE_MERGED] = "merged",
        [GOSSIP_MERGE_ALONE] = "no other node that has finished is here",
        [GOSSIP_MERGE_MANY] = "more than 64 nodes have finished, which is the limit of a merge",
        [GOSSIP_MERGE_FEW] = "too many of the nodes that began to merge are gone",
        [GOSSIP_MERGE_LATE] = "nothing came from the other nodes for three times node.linger and longer",
        [GOSSIP_MERGE_DAMAGED] = "what the others sent is not the model that they have",
    };

    BASE_ASSERT(end <= GOSSIP_MERGE_DAMAGED);
    return texts[end];
}

uint64_t gossip_merge_key(const struct gossip_id *id, uint64_t generation, uint64_t instance_id)
{
    const uint64_t process[2] = {generation, instance_id};

    const uint64_t key =
        base_hash_bytes(base_hash_bytes(1, process, sizeof process), id->bytes, sizeof id->bytes);
    return key > 0 ? key : 1; // 0: no member
}

uint64_t gossip_merge_patience(uint64_t linger_ns)
{
    return linger_ns < PATIENCE_NS / LINGERS ? LINGERS * linger_ns : PATIENCE_NS;
}

enum base_error gossip_merge_create(const struct gossip_merge_options *options, struct gossip_merge **out)
{
    struct gossip_merge *merge = calloc(1, sizeof *merge);

    if (!merge)
        return BASE_ENOMEM;
    BASE_ASSERT(options->parameters > 0 && options->patience_ns > 0);
    merge->options = *options;
    *out = merge;
    return BASE_OK;
}

void gossip_merge_destroy(struct gossip_merge *merge)
{
    if (!merge)
        return;
    gossip_merge_finish(merge);
    free(merge->peers);
    free(merge);
}

// -- events

bool gossip_merge_is_of(const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_MERGE:
        return true;
    case GOSSIP_SNAPSHOT_ASK:
        return message->as.ask.part > GOSSIP_PART_BLOB;
    case GOSSIP_SNAPSHOT_TELL:
        return message->as.tell.part > GOSSIP_PART_BLOB;
    default:
        return false;
    }
}

static void drop_asks(struct gossip_merge *merge, size_t peer)
{
    size_t kept = 0;

    for (size_t i = 0; i < merge->n_asks; i++)
        if (merge->asks[i].peer != peer)
            merge->asks[kept++] = merge->asks[i];
    merge->n_asks = kept;
}

// What was said, asked or told over an older link is void: both ends say their state again.
static void relink(struct gossip_merge *merge, size_t at, bool linked)
{
    struct merge_peer *peer = &merge->peers[at];

    BASE_ASSERT(at < merge->n_peers);
    drop_asks(merge, at);
    merge_chunks_forget(merge, at);
    if (peer->linked != linked)
        peer->since_ns = merge->now_ns;
    peer->linked = linked;
    peer->heard = false;
    peer->told = 0;
}

void gossip_merge_linked(struct gossip_merge *merge, const struct gossip_id *peer, uint64_t now_ns)
{
    merge->now_ns = now_ns;
    const size_t at = merge_peer_add(merge, peer);

    if (at != SIZE_MAX)
        relink(merge, at, true);
    merge_consider(merge);
}

void gossip_merge_unlinked(struct gossip_merge *merge, const struct gossip_id *peer, uint64_t now_ns)
{
    const size_t at = merge_peer_find(merge, peer);

    merge->now_ns = now_ns;
    if (at != SIZE_MAX)
        relink(merge, at, false);
    merge_consider(merge);
}

// Whatever their order.
static bool are_known(const struct gossip_merge *merge, const struct gossip_merge_member *members,
                      size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < merge->n_members; k++)
            found += merge->members[k].key == members[i].key;
    return found == count && count == merge->n_members;
}

void gossip_merge_members(struct gossip_merge *merge, const struct gossip_merge_member *members, size_t count,
                          uint64_t now_ns)
{
    merge->now_ns = now_ns;
    if (merge->phase < GOSSIP_MERGE_DECIDED && !are_known(merge, members, count))
        merge->moved_ns = now_ns;
    merge->many = count > GOSSIP_MERGE_MOST;
    merge->n_members = merge->many ? 0 : count;
    merge->known = true;
    for (size_t i = 0; i < merge->n_members; i++) {
        merge->members[i] = members[i];
        if (gossip_id_compare(&members[i].id, &merge->options.self) == 0)
            merge->key = members[i].key;
        else
            (void)merge_peer_add(merge, &members[i].id); // without memory: as if it were gone
    }
    for (size_t i = 0; i < merge->n_peers; i++)
        if (merge_peer_key(merge, &merge->peers[i]) == 0)
            merge_chunks_forget(merge, i);
    merge_consider(merge);
}

static bool is_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

enum base_error gossip_merge_begin(struct gossip_merge *merge, const float *own, bool gives, uint64_t now_ns)
{
    BASE_ASSERT(!merge->begun && !merge->end);
    const enum base_error error = merge_chunks_create(merge);

    if (error)
        return error;
    merge->now_ns = now_ns;
    merge->own = own;
    merge->gives = gives && is_finite(own, merge->options.parameters);
    merge->limit = gossip_plausible_value(gossip_plausible_norm(own, merge->options.parameters));
    merge->begun = true;
    merge->begun_ns = merge->moved_ns = now_ns;
    merge_consider(merge);
    return BASE_OK;
}

void gossip_merge_finish(struct gossip_merge *merge)
{
    merge_chunks_release(merge);
    merge->begun = false;
    merge->own = NULL;
    merge->n_asks = 0;
}

static enum base_error read_keys(const struct gossip_merge_message *message, struct merge_set *set)
{
    set->count = message->keys_bytes / sizeof set->key[0];
    if (set->count == 0 || set->count > GOSSIP_MERGE_MOST)
        return BASE_EFORMAT;
    for (size_t i = 0; i < set->count; i++) {
        set->key[i] = 0;
        for (size_t b = sizeof set->key[0]; b-- > 0;)
            set->key[i] = set->key[i] << 8 | message->keys[i * sizeof set->key[0] + b];
        if (i > 0 && set->key[i] <= set->key[i - 1])
            return BASE_EFORMAT;
    }
    return BASE_OK;
}

static enum base_error hear_state(struct gossip_merge *merge, size_t at,
                                  const struct gossip_merge_message *message)
{
    struct merge_peer *peer = &merge->peers[at];
    struct merge_set set;
    const enum base_error error = read_keys(message, &set);

    if (error)
        return error;
    if (!peer->heard || !merge_set_equal(&peer->set, &set))
        merge_chunks_forget(merge, at); // it answers no ask of an earlier attempt
    peer->heard = true;
    peer->phase = (enum gossip_merge_phase)message->phase;
    peer->gives = message->gives;
    peer->hash = message->hash;
    peer->set = set;
    merge->moved_ns = merge->now_ns;
    return BASE_OK;
}

static void hear_ask(struct gossip_merge *merge, size_t at, const struct gossip_snapshot_ask *ask)
{
    size_t of_peer = 0;

    for (size_t i = 0; i < merge->n_asks; i++)
        of_peer += merge->asks[i].peer == at;
    if (!merge->begun || of_peer >= MERGE_AHEAD || merge->n_asks == MERGE_ASKS)
        return;
    merge->asks[merge->n_asks++] = (struct merge_ask){.peer = at, .ask = *ask};
    merge->moved_ns = merge->now_ns;
}

static enum base_error hear(struct gossip_merge *merge, size_t at, const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_MERGE:
        return hear_state(merge, at, &message->as.merge);
    case GOSSIP_SNAPSHOT_ASK:
        hear_ask(merge, at, &message->as.ask);
        return BASE_OK;
    case GOSSIP_SNAPSHOT_TELL:
        return merge->begun ? merge_chunks_tell(merge, at, &message->as.tell) : BASE_OK;
    default:
        return BASE_EFORMAT;
    }
}

enum base_error gossip_merge_heard(struct gossip_merge *merge, const struct gossip_id *peer,
                                   const struct gossip_message *message, uint64_t now_ns)
{
    const size_t at = merge_peer_find(merge, peer);

    merge->now_ns = now_ns;
    if (at == SIZE_MAX || !merge->peers[at].linked || merge->peers[at].refused)
        return BASE_OK;
    const enum base_error error = hear(merge, at, message);
    if (error) {
        merge->peers[at].refused = true;
        merge_chunks_forget(merge, at);
    }
    merge_consider(merge);
    return error;
}

void gossip_merge_tick(struct gossip_merge *merge, uint64_t now_ns)
{
    const uint64_t patience_ns = merge->options.patience_ns;

    merge->now_ns = now_ns;
    merge_consider(merge);
    if (!merge->begun || merge->end)
        return;
    if (now_ns - merge->moved_ns >= patience_ns + merge->base.count * BLOCK_NS ||
        (now_ns - merge->begun_ns) / IN_ALL >= patience_ns)
        merge->end = merge->phase == GOSSIP_MERGE_DECIDED ? GOSSIP_MERGE_MERGED : GOSSIP_MERGE_LATE;
}

uint64_t gossip_merge_deadline(const struct gossip_merge *merge)
{
    return merge->begun && !merge->end ? merge->now_ns + merge->options.patience_ns / LOOKS + 1 : NEVER;
}

// -- what follows

static void write_state(struct gossip_merge *merge, struct gossip_message *message)
{
    const struct merge_state *state = &merge->told;

    for (size_t i = 0; i < state->set.count; i++)
        for (size_t b = 0; b < sizeof state->set.key[0]; b++)
            merge->keys[i * sizeof state->set.key[0] + b] = (uint8_t)(state->set.key[i] >> 8 * b);
    *message = (struct gossip_message){.kind = GOSSIP_MERGE};
    message->as.merge =
        (struct gossip_merge_message){.phase = (uint8_t)state->phase,
                                      .gives = merge->gives,
                                      .hash = state->hash,
                                      .keys = merge->keys,
                                      .keys_bytes = (uint32_t)(state->set.count * sizeof state->set.key[0])};
}

static bool next_state(struct gossip_merge *merge, size_t *peer, struct gossip_message *message)
{
    for (*peer = 0; *peer < merge->n_peers; ++*peer) {
        struct merge_peer *p = &merge->peers[*peer];
        if (!p->linked || p->refused || p->told == merge->version || merge_peer_key(merge, p) == 0)
            continue;
        p->told = merge->version;
        write_state(merge, message);
        return true;
    }
    return false;
}

static bool next_answer(struct gossip_merge *merge, size_t *peer, struct gossip_message *message)
{
    while (merge->n_asks > 0) {
        const struct merge_ask first = merge->asks[0];
        memmove(&merge->asks[0], &merge->asks[1], --merge->n_asks * sizeof first);
        *peer = first.peer;
        *message = (struct gossip_message){.kind = GOSSIP_SNAPSHOT_TELL};
        if (merge_chunks_answer(merge, &first.ask, &message->as.tell))
            return true;
    }
    return false;
}

static bool next_ask(struct gossip_merge *merge, size_t *peer, struct gossip_message *message)
{
    *message = (struct gossip_message){.kind = GOSSIP_SNAPSHOT_ASK};
    return !merge->end && merge->phase < GOSSIP_MERGE_HOLDS &&
           merge_chunks_ask(merge, peer, &message->as.ask);
}

bool gossip_merge_next(struct gossip_merge *merge, struct gossip_id *peer, struct gossip_message *message)
{
    size_t at = 0;

    if (!merge->begun || merge->base.count == 0 ||
        !(next_state(merge, &at, message) || next_answer(merge, &at, message) ||
          next_ask(merge, &at, message)))
        return false;
    *peer = merge->peers[at].id;
    return true;
}

enum gossip_merge_end gossip_merge_end(const struct gossip_merge *merge)
{
    return merge->end;
}

const float *gossip_merge_model(const struct gossip_merge *merge)
{
    BASE_ASSERT(merge->end == GOSSIP_MERGE_MERGED && merge->model);
    return merge->model;
}

void gossip_merge_info(const struct gossip_merge *merge, struct gossip_merge_info *info)
{
    *info = (struct gossip_merge_info){.phase = merge->phase,
                                       .nodes = merge->agreed.count,
                                       .gave = (size_t)__builtin_popcountll(merge->gave),
                                       .attempts = merge->attempts,
                                       .bytes = merge->bytes,
                                       .hash = merge->phase >= GOSSIP_MERGE_HOLDS ? merge->hash : 0};
}
