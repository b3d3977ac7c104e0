// Which neighbours are trusted (RULES.md): looks at their references in turn, and what follows from them.
#include "gossip/exchange/state.h"

#include "base/array.h"
#include <math.h>

#define MOST 1e6 // lost: a model may be worse by any factor

// -- the rule

double gossip_trust_lost(const struct gossip_losses *losses)
{
    const double known = losses->nothing - losses->own;

    if (!(losses->nothing > 0) || !(losses->own <= GOSSIP_TRUST_LEARNED * losses->nothing))
        return (double)NAN;
    BASE_ASSERT(known > 0);
    return isfinite(losses->other) ? fmin((losses->other - losses->own) / known, MOST) : MOST;
}

unsigned gossip_trust_good(const struct gossip_trust *trust)
{
    BASE_ASSERT(trust->verdicts > 0);
    return GOSSIP_TRUST_LOOKS << base_min(trust->verdicts - 1, GOSSIP_TRUST_DOUBLES);
}

enum gossip_verdict gossip_trust_note(struct gossip_trust *trust, double beyond, bool may)
{
    const bool bad = beyond > (trust->state == GOSSIP_DISTRUSTED ? GOSSIP_TRUST_AGAIN : GOSSIP_TRUST_LOST);

    BASE_ASSERT(!isnan(beyond));
    trust->bad = bad ? trust->bad + 1 : 0;
    trust->good = bad ? 0 : trust->good + 1;
    if (trust->state == GOSSIP_TRUSTED && trust->bad >= GOSSIP_TRUST_LOOKS && may) {
        trust->state = GOSSIP_DISTRUSTED;
        trust->verdicts++;
        return GOSSIP_VERDICT_DISTRUST;
    }
    if (trust->state == GOSSIP_DISTRUSTED && trust->good >= gossip_trust_good(trust)) {
        trust->state = GOSSIP_TRUSTED;
        return GOSSIP_VERDICT_TRUST;
    }
    return GOSSIP_VERDICT_NONE;
}

// -- the edges

// Exchanges of one edge in which every element is sent once, or a part of them.
static uint64_t part_of_all(const struct gossip_exchange *exchange, unsigned part)
{
    return base_max(exchange->options.parameters / exchange->entries / part, 1);
}

static bool may_be_looked_at(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->state == GOSSIP_EDGE_LIVE && edge->standing != GOSSIP_AWAY &&
           edge->exchanges >= part_of_all(exchange, GOSSIP_TRUST_FIRST) &&
           edge->exchanges - edge->trust.exchanges >= part_of_all(exchange, GOSSIP_TRUST_EVERY);
}

// One whose latest look was bad comes first, then the one with the most exchanges since its latest look.
static bool is_before(const struct gossip_edge *edge, const struct gossip_edge *other)
{
    const bool bad = edge->trust.bad > 0, others = other->trust.bad > 0;

    if (bad != others)
        return bad;
    return edge->exchanges - edge->trust.exchanges > other->exchanges - other->trust.exchanges;
}

static const struct gossip_edge *turn(const struct gossip_exchange *exchange)
{
    const struct gossip_edge *next = NULL;

    for (size_t i = 0; i < exchange->n_edges; i++)
        if (may_be_looked_at(exchange, exchange->edges[i]) && (!next || is_before(exchange->edges[i], next)))
            next = exchange->edges[i];
    return next;
}

bool gossip_exchange_look(const struct gossip_exchange *exchange, struct gossip_id *peer, float *reference)
{
    const struct gossip_edge *edge = turn(exchange);
    const struct kernels *kernels = exchange->options.kernels;
    const size_t d = exchange->options.parameters;

    if (!edge || exchange->standing == GOSSIP_AWAY)
        return false;
    *peer = edge->peer;
    if (edge->reference.fp32) {
        kernels->download(reference, edge->reference.fp32, d * sizeof *reference);
    } else { // only where the kernels share the host's memory
        kernels->vectors->clear(reference, d * sizeof *reference);
        gossip_vector_add(kernels, &edge->reference, d, 1, reference);
    }
    return true;
}

// What all references have lost shows that they lag, not that somebody lies. INFINITY: there is no other.
static double least_other(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    double least = gossip_edges_met(exchange) > 1 ? (double)INFINITY : 0;

    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i] != edge && exchange->edges[i]->trust.looked)
            least = fmin(least, exchange->edges[i]->trust.lost);
    return fmax(least, 0);
}

size_t gossip_trust_distrusted(const struct gossip_exchange *exchange)
{
    size_t count = 0;

    for (size_t i = 0; i < exchange->n_edges; i++)
        count += exchange->edges[i]->trust.state == GOSSIP_DISTRUSTED &&
                 gossip_edge_is_met(exchange, exchange->edges[i]);
    return count;
}

// At most half of the neighbours that exchange: a node that distrusts all of them would train alone. Edges
// to earlier neighbours stay, without a link, and are of no help.
static bool may_distrust(const struct gossip_exchange *exchange)
{
    return 2 * (gossip_trust_distrusted(exchange) + 1) <= gossip_edges_met(exchange);
}

void gossip_trust_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       const struct gossip_losses *losses, struct gossip_exchange_actions *actions)
{
    struct gossip_trust *trust = &edge->trust;
    const double lost = gossip_trust_lost(losses), least = least_other(exchange, edge);

    exchange->blind = isnan(losses->nothing);
    trust->exchanges = edge->exchanges;
    trust->looked = !isnan(lost);
    trust->lost = lost;
    if (!trust->looked || !isfinite(least))
        return;
    const enum gossip_verdict verdict = gossip_trust_note(trust, lost - least, may_distrust(exchange));
    gossip_clip_looked(edge);
    if (verdict != GOSSIP_VERDICT_NONE)
        actions->list[actions->count++] = (struct gossip_exchange_action){
            .kind = GOSSIP_EXCHANGE_JUDGED, .peer = edge->peer, .verdict = verdict};
}
