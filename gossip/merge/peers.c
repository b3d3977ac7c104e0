// The other nodes: their links, and what they have said.
#include "gossip/merge/private.h"
#include <stdlib.h>

size_t merge_peer_find(const struct gossip_merge *merge, const struct gossip_id *id)
{
    for (size_t i = 0; i < merge->n_peers; i++)
        if (gossip_id_compare(&merge->peers[i].id, id) == 0)
            return i;
    return SIZE_MAX;
}

size_t merge_peer_add(struct gossip_merge *merge, const struct gossip_id *id)
{
    const size_t found = merge_peer_find(merge, id);

    BASE_ASSERT(gossip_id_compare(id, &merge->options.self) != 0);
    if (found != SIZE_MAX)
        return found;
    if (merge->n_peers == merge->capacity) {
        const size_t capacity = merge->capacity ? 2 * merge->capacity : 8;
        struct merge_peer *larger = realloc(merge->peers, capacity * sizeof *larger);
        if (!larger)
            return SIZE_MAX;
        merge->peers = larger;
        merge->capacity = capacity;
    }
    merge->peers[merge->n_peers] = (struct merge_peer){.id = *id, .window = 1, .since_ns = merge->now_ns};
    return merge->n_peers++;
}

uint64_t merge_peer_key(const struct gossip_merge *merge, const struct merge_peer *peer)
{
    for (size_t i = 0; i < merge->n_members; i++)
        if (gossip_id_compare(&merge->members[i].id, &peer->id) == 0)
            return merge->members[i].key;
    return 0;
}

size_t merge_peer_of(const struct gossip_merge *merge, uint64_t key)
{
    for (size_t i = 0; i < merge->n_members; i++)
        if (merge->members[i].key == key)
            return merge_peer_find(merge, &merge->members[i].id);
    return SIZE_MAX;
}

bool merge_peer_talks(const struct gossip_merge *merge, size_t peer)
{
    BASE_ASSERT(peer < merge->n_peers);
    const struct merge_peer *p = &merge->peers[peer];

    return p->linked && p->heard && !p->refused && merge_peer_key(merge, p) != 0;
}
