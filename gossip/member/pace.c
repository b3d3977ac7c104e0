// How long answers take here, and how much this node may send. Traffic that suits a fast link must not fill a
// slow one: every answer would be late there, and every member suspected.
#include "gossip/member/state.h"

#define PATIENCE_NS     (8 * SECOND_NS) // the maximum, however long answers took
#define RATE_BYTES      1024            // per second, for all that is sent ...
#define RATE_EACH_BYTES 256             // ... and for each member
#define SAVED_SECONDS   30              // of the budget may be saved and sent at once
#define WORD_NS         (200 * MILLISECOND_NS)
#define WORD_POOR_NS    SECOND_NS
#define WIRE_BYTES      (LIMIT_DATAGRAM_OVERHEAD + 28u) // seal, UDP and IP

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// As in TCP (RFC 6298). After three pings the time counts from the last one. On a slow link that is too
// short, by at most two thirds of the patience; but a probe waits for the patience twice.
void member_timing_learn(struct member_timing *timing, uint64_t took_ns)
{
    uint64_t mean_ns = timing->mean_ns, off_ns = took_ns > mean_ns ? took_ns - mean_ns : mean_ns - took_ns;

    BASE_ASSERT(mean_ns > 0 || timing->spread_ns == 0);
    if (mean_ns == 0) {
        *timing = (struct member_timing){.mean_ns = took_ns, .spread_ns = took_ns / 2};
        return;
    }
    timing->spread_ns = timing->spread_ns - timing->spread_ns / 4 + off_ns / 4;
    timing->mean_ns = mean_ns - mean_ns / 8 + took_ns / 8;
}

static uint64_t patience(const struct member_timing *timing)
{
    return timing->mean_ns + 4 * timing->spread_ns;
}

uint64_t member_patience_ns(const struct gossip_membership *m, const struct member *x)
{
    uint64_t wait_ns = larger(patience(&m->timing), x ? patience(&x->timing) : 0);

    return earlier(wait_ns, PATIENCE_NS);
}

uint64_t member_pause_ns(const struct member *x)
{
    return patience(&x->pauses);
}

// It is here, though it did not answer in time.
void member_was_impatient(const struct gossip_membership *m, struct member *x)
{
    member_timing_learn(&x->timing, 2 * larger(m->profile.period_ns, member_patience_ns(m, x)));
}

// Only one window of packets is on the way at a time: from this node ...
uint64_t member_gossip_ns(const struct gossip_membership *m)
{
    return larger(m->profile.gossip_ns, earlier(m->timing.mean_ns, PATIENCE_NS));
}

// ... and to a member, whose link may be slower than ours.
static uint64_t window_ns(const struct member *x)
{
    return earlier(x->timing.mean_ns, PATIENCE_NS);
}

bool member_has_room(const struct gossip_membership *m, const struct member *x)
{
    return m->now_ns - x->gossiped_ns >= window_ns(x);
}

static int64_t rate(const struct gossip_membership *m)
{
    return RATE_BYTES + RATE_EACH_BYTES * (int64_t)m->count;
}

// A token bucket. A new member adds its share.
static void save(struct gossip_membership *m)
{
    uint64_t most_ns = SAVED_SECONDS * SECOND_NS, past_ns = earlier(m->now_ns - m->saved_ns, most_ns);
    int64_t most = SAVED_SECONDS * rate(m), saved = rate(m) * (int64_t)(past_ns / 1000) / 1000000;

    BASE_ASSERT(m->saved_ns <= m->now_ns);
    if (most > m->savings_most)
        saved += most - m->savings_most;
    else if (past_ns < MILLISECOND_NS)
        return;
    m->savings_most = most;
    m->saved_ns = m->now_ns;
    m->savings = m->savings + saved < most ? m->savings + saved : most;
}

// Regular probes and answers are always sent; they are few.
void member_spend(struct gossip_membership *m, size_t bytes)
{
    save(m);
    BASE_ASSERT(m->savings <= m->savings_most);
    m->savings -= (int64_t)(bytes + WIRE_BYTES);
    if (m->savings < -rate(m))
        m->savings = -rate(m);
}

bool member_is_poor(struct gossip_membership *m)
{
    save(m);
    return m->savings <= 0;
}

// A suspect that does not hear of a suspicion, or cannot refute it, would be declared dead: without budget
// such packets become rare, but do not stop. A refuted suspicion is no longer sent.
uint64_t member_word_ns(struct gossip_membership *m, const struct member *to)
{
    return member_is_poor(m) ? WORD_POOR_NS : larger(WORD_NS, window_ns(to));
}

// A part is kept for more urgent packets.
size_t member_update_bytes(struct gossip_membership *m)
{
    save(m);
    int64_t left = m->savings - rate(m);

    return left > 0 ? (size_t)left : 0;
}
