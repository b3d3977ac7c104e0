// Trust that outlives its edge, and the process.
#include "gossip/exchange/state.h"

#include "base/array.h"
#include <math.h>
#include <string.h>

#define MOST_LOOKS 1000000u // in a row, in a checkpoint: more say no more

void gossip_trust_remember(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    struct gossip_trust_member *members = exchange->members;

    if (!edge->trust.looked && edge->trust.verdicts == 0)
        return;
    if (exchange->n_members == GOSSIP_TRUST_MEMBERS)
        memmove(members, members + 1, --exchange->n_members * sizeof *members);
    members[exchange->n_members++] = (struct gossip_trust_member){edge->peer, edge->trust};
}

void gossip_trust_recall(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    struct gossip_trust_member *members = exchange->members;

    for (size_t i = 0; i < exchange->n_members; i++)
        if (gossip_id_compare(&members[i].peer, &edge->peer) == 0) {
            edge->trust = members[i].trust;
            edge->trust.exchanges = 0;
            exchange->n_members--;
            memmove(&members[i], &members[i + 1], (exchange->n_members - i) * sizeof *members);
            return;
        }
}

void gossip_trust_store(const struct gossip_trust *trust, struct base_writer *writer)
{
    base_write_u8(writer, (uint8_t)trust->state);
    base_write_u8(writer, trust->looked);
    base_write_f64(writer, trust->looked ? trust->lost : 0);
    base_write_u32(writer, (uint32_t)base_min(trust->bad, MOST_LOOKS));
    base_write_u32(writer, (uint32_t)base_min(trust->good, MOST_LOOKS));
    base_write_u32(writer, (uint32_t)base_min(trust->verdicts, MOST_LOOKS));
}

void gossip_trust_restore(struct gossip_trust *trust, struct base_reader *reader)
{
    const uint8_t state = base_read_u8(reader), looked = base_read_u8(reader);
    const double lost = base_read_f64(reader);
    const uint32_t bad = base_read_u32(reader), good = base_read_u32(reader),
                   verdicts = base_read_u32(reader);

    if (state > GOSSIP_DISTRUSTED || (state == GOSSIP_DISTRUSTED && verdicts == 0) || looked > 1 ||
        !isfinite(lost) || bad > MOST_LOOKS || good > MOST_LOOKS || verdicts > MOST_LOOKS)
        reader->failed = true;
    if (!reader->failed)
        *trust = (struct gossip_trust){
            .state = state, .looked = looked, .lost = lost, .bad = bad, .good = good, .verdicts = verdicts};
}
