// An edge restarts: its reference, sequence and correction.
#include "gossip/exchange/state.h"

// The edge's correction fades at an end that trained all along. An end that was away takes the other's model,
// and its own correction is as old as the model that it drops.
static bool correction_fades(const struct gossip_exchange *exchange)
{
    const bool away = gossip_standing_of(exchange, GOSSIP_DELTA_BLOCK) == GOSSIP_AWAY;

    return exchange->options.on_death == GOSSIP_ON_DEATH_FADE && !away;
}

static void end_correction(struct gossip_exchange *exchange, struct gossip_edge *edge, bool fades)
{
    if (!gossip_vector_is(&edge->correction))
        return;
    BASE_ASSERT(exchange->options.drift_correction);
    if (fades && !gossip_orphan_take(exchange, edge, false) && !gossip_vector_is(&edge->correction))
        gossip_sum_again(exchange);
    gossip_edge_drop_correction(exchange, edge);
}

void gossip_edge_restart(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch,
                         bool fades)
{
    BASE_ASSERT(edge->resync_offset <= exchange->options.parameters);
    end_correction(exchange, edge, fades);
    gossip_edge_drop_request(edge);
    gossip_hold_lose(exchange, edge);
    edge->answer.held = false;
    edge->deferred.held = false;
    compress_history_forget(&edge->sent);
    compress_history_forget(&edge->received);
    edge->epoch = epoch;
    edge->sequence = 0;
    edge->resync_offset = 0;
    edge->absence = 0;
    gossip_vector_free(exchange->options.kernels, &edge->reference);
    edge->reference_hash = exchange->zero_hash;
    edge->alarm_ns = 0;
    gossip_edge_rests(exchange, edge);
}

void gossip_edge_resync(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch)
{
    const bool fades = correction_fades(exchange);

    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && epoch != edge->epoch);
    gossip_journal_resync(exchange, edge, epoch, fades);
    gossip_edge_restart(exchange, edge, epoch, fades);
    edge->resyncs++;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_RESYNC);
}
