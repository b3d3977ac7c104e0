#include "gossip/reach/relays.h"

#include "base/hash.h"
#include "gossip/reach/reach.h"
#include <string.h>

void gossip_relays_begin(struct gossip_relays *relays, const struct gossip_id *self)
{
    memset(relays, 0, sizeof *relays);
    relays->self = *self;
}

static uint8_t families_of(const struct gossip_record *record)
{
    uint8_t families = 0;
    for (size_t i = 0; i < record->n_addresses; i++)
        if (!gossip_address_is_near(&record->addresses[i]))
            families |= (uint8_t)(record->addresses[i].family == 4 ? 1u : 2u);
    return families;
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
    if (!gossip_record_relays(member) || gossip_id_compare(&member->id, &relays->self) == 0 ||
        (relays->families & ~families_of(member)))
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

void gossip_relays_between(struct gossip_relays *relays, const struct gossip_membership *membership,
                           const struct gossip_record *other)
{
    struct gossip_member_info info;
    gossip_membership_info(membership, 0, &info);
    gossip_relays_begin(relays, &other->id);
    const uint8_t own = families_of(info.record), theirs = families_of(other);
    if (own == 0 || theirs == 0 || (own & theirs))
        return;
    for (size_t i = 0; i < GOSSIP_ID_BYTES; i++)
        relays->self.bytes[i] ^= info.record->id.bytes[i];
    relays->families = own | theirs;
    for (size_t i = 1; i < gossip_membership_count(membership); i++) {
        gossip_membership_info(membership, i, &info);
        if (gossip_membership_is_here(membership, &info.record->id))
            gossip_relays_offer(relays, info.record, false);
    }
}

bool gossip_relays_have(const struct gossip_relays *relays, const struct gossip_id *id)
{
    bool found = false;
    for (size_t i = 0; i < relays->count && !found; i++)
        found = gossip_id_compare(&relays->ids[i], id) == 0;
    return found;
}
