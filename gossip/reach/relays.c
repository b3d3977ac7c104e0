#include "gossip/reach/relays.h"

#include "base/hash.h"
#include <string.h>

void gossip_relays_begin(struct gossip_relays *relays, const struct gossip_id *self)
{
    memset(relays, 0, sizeof *relays);
    relays->self = *self;
}

bool gossip_record_relays(const struct gossip_record *record)
{
    return record->ways == (GOSSIP_WAY_REACHABLE | GOSSIP_WAY_RELAYS);
}

bool gossip_record_is_private(const struct gossip_record *record)
{
    return !(record->ways & GOSSIP_WAY_REACHABLE) && record->n_relays > 0;
}

bool gossip_record_names(const struct gossip_record *record, const struct gossip_id *relay)
{
    const uint64_t named = gossip_id_beginning(relay);
    bool found = false;
    for (size_t i = 0; i < record->n_relays && !found; i++)
        found = record->relays[i] == named;
    return found;
}

// The upper bit says that it is not missing.
static uint64_t score_of(const struct gossip_relays *relays, const struct gossip_id *member, bool missing)
{
    uint8_t both[2 * GOSSIP_ID_BYTES];
    memcpy(both, relays->self.bytes, GOSSIP_ID_BYTES);
    memcpy(both + GOSSIP_ID_BYTES, member->bytes, GOSSIP_ID_BYTES);
    return base_hash_bytes(0, both, sizeof both) >> 1 | (uint64_t)!missing << 63;
}

void gossip_relays_offer(struct gossip_relays *relays, const struct gossip_record *member, bool missing)
{
    if (!gossip_record_relays(member) || gossip_id_compare(&member->id, &relays->self) == 0)
        return;
    const uint64_t score = score_of(relays, &member->id, missing);
    size_t at = relays->count;
    while (at > 0 && score > relays->scores[at - 1])
        at--;
    if (at == GOSSIP_RECORD_RELAYS)
        return;
    const size_t kept = relays->count < GOSSIP_RECORD_RELAYS ? relays->count : GOSSIP_RECORD_RELAYS - 1;
    memmove(&relays->ids[at + 1], &relays->ids[at], (kept - at) * sizeof *relays->ids);
    memmove(&relays->scores[at + 1], &relays->scores[at], (kept - at) * sizeof *relays->scores);
    relays->ids[at] = member->id;
    relays->scores[at] = score;
    relays->count = kept + 1;
    BASE_ASSERT(relays->count <= GOSSIP_RECORD_RELAYS);
}
