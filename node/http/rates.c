#include "node/http/rates.h"
#include "base/array.h"
#include "base/error.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES   9u            // eight intervals
#define GAP_NS    1250000000ull // between two of them
#define PATIENCE  4u            // after so many usual intervals a counter has stopped
#define GRACE_NS  2000000000ull
#define SECOND_NS 1000000000.0

#define QUIET_NS    30000000000ull // without an exchange, or without a live edge
#define QUIET_TURNS 3u

struct sample {
    uint64_t value, at_ns;
};

struct counter {
    struct gossip_id id;
    uint64_t era, told_ns;          // told_ns: the latest note
    struct sample samples[SAMPLES]; // oldest first
    unsigned count;
    bool noted;
};

struct node_rates {
    struct counter *counters; // by id
    size_t count;
};

struct node_rates *node_rates_create(void)
{
    return calloc(1, sizeof(struct node_rates));
}

void node_rates_destroy(struct node_rates *rates)
{
    if (rates)
        free(rates->counters);
    free(rates);
}

static size_t place(const struct node_rates *rates, const struct gossip_id *id, bool *there)
{
    return gossip_id_place(id, rates->counters, rates->count, sizeof *rates->counters, there);
}

static struct counter *find(const struct node_rates *rates, const struct gossip_id *id)
{
    bool known;
    size_t at = place(rates, id, &known);
    return known ? &rates->counters[at] : NULL;
}

static struct counter *add(struct node_rates *rates, const struct gossip_id *id)
{
    bool known;
    size_t at = place(rates, id, &known);
    BASE_ASSERT(!known && at <= rates->count);
    struct counter *more = base_array_grow(rates->counters, rates->count, sizeof *more);
    if (!more)
        return NULL;
    rates->counters = more;
    struct counter *counter = &rates->counters[at];
    memmove(counter + 1, counter, (rates->count - at) * sizeof *counter);
    rates->count++;
    *counter = (struct counter){.id = *id};
    return counter;
}

static void push(struct counter *counter, struct sample sample)
{
    BASE_ASSERT(!counter->count || counter->samples[counter->count - 1].value < sample.value);
    if (counter->count == SAMPLES) {
        memmove(counter->samples, counter->samples + 1, (SAMPLES - 1) * sizeof *counter->samples);
        counter->count--;
    }
    counter->samples[counter->count++] = sample;
}

void node_rates_note(struct node_rates *rates, const struct gossip_id *id, uint64_t era, uint64_t value,
                     uint64_t at_ns)
{
    struct counter *counter = find(rates, id);
    if (!counter)
        counter = add(rates, id);
    if (!counter)
        return;
    const struct sample *latest = counter->count > 0 ? &counter->samples[counter->count - 1] : NULL;
    if (latest && (counter->era != era || value < latest->value))
        counter->count = 0;
    if (counter->count == 0 || (value > latest->value && at_ns >= latest->at_ns + GAP_NS))
        push(counter, (struct sample){value, at_ns});
    counter->era = era;
    counter->told_ns = at_ns;
    counter->noted = true;
}

void node_rates_sweep(struct node_rates *rates)
{
    size_t kept = 0;
    for (size_t i = 0; i < rates->count; i++) {
        if (rates->counters[i].noted)
            rates->counters[kept++] = rates->counters[i];
    }
    rates->count = kept;
    for (size_t i = 0; i < rates->count; i++) {
        BASE_ASSERT(i == 0 || gossip_id_compare(&rates->counters[i - 1].id, &rates->counters[i].id) < 0);
        rates->counters[i].noted = false;
    }
}

uint64_t node_rates_still_ns(const struct node_rates *rates, const struct gossip_id *id)
{
    const struct counter *c = find(rates, id);
    if (!c || c->count < 2)
        return 0;
    const struct sample *oldest = c->samples, *latest = &c->samples[c->count - 1];
    uint64_t usual_ns = (latest->at_ns - oldest->at_ns) / (c->count - 1);
    uint64_t still_ns = c->told_ns - latest->at_ns;
    return still_ns > PATIENCE * usual_ns + GRACE_NS ? still_ns : 0;
}

double node_rates_per_second(const struct node_rates *rates, const struct gossip_id *id)
{
    const struct counter *c = find(rates, id);
    if (!c || c->count < 2)
        return NAN;
    const struct sample *oldest = c->samples, *latest = &c->samples[c->count - 1];
    uint64_t until_ns = node_rates_still_ns(rates, id) > 0 ? c->told_ns : latest->at_ns;
    return (double)(latest->value - oldest->value) * SECOND_NS / (double)(until_ns - oldest->at_ns);
}

static size_t place_of_meet(const struct node_meets *meets, const struct gossip_id *peer)
{
    size_t at = 0;
    BASE_ASSERT(meets->count <= LIMIT_NEIGHBOURS);
    while (at < meets->count && gossip_id_compare(&meets->list[at].peer, peer) != 0)
        at++;
    return at;
}

void node_meets_note(struct node_meets *meets, const struct gossip_id *peer, enum node_meet_edge edge,
                     uint64_t exchanges, uint64_t round, uint64_t now_ns)
{
    const size_t at = place_of_meet(meets, peer);
    const bool first = at == meets->count;
    if (at == LIMIT_NEIGHBOURS)
        return;
    struct node_meet *meet = &meets->list[at];
    if (first) {
        meets->count++;
        *meet = (struct node_meet){.peer = *peer, .met_ns = now_ns};
    }
    BASE_ASSERT(now_ns >= meet->met_ns);
    meet->noted = true;
    if (first || edge != NODE_MEET_DOWN)
        meet->live_ns = now_ns;
    if (!first && edge != NODE_MEET_EXCUSED && exchanges == meet->exchanges)
        return;
    if (edge == NODE_MEET_LIVE && now_ns - meet->met_ns > meet->longest_ns)
        meet->longest_ns = now_ns - meet->met_ns;
    meet->exchanges = exchanges;
    meet->round = round;
    meet->met_ns = now_ns;
}

void node_meets_sweep(struct node_meets *meets)
{
    size_t kept = 0;
    for (size_t i = 0; i < meets->count; i++)
        if (meets->list[i].noted)
            meets->list[kept++] = meets->list[i];
    meets->count = kept;
    for (size_t i = 0; i < kept; i++)
        meets->list[i].noted = false;
}

uint64_t node_meets_quiet_ns(const struct node_meets *meets, const struct gossip_id *peer, uint64_t round,
                             uint64_t turn, uint64_t now_ns)
{
    const size_t at = place_of_meet(meets, peer);
    const struct node_meet *meet = &meets->list[at];
    if (at == meets->count)
        return 0;
    BASE_ASSERT(now_ns >= meet->met_ns && now_ns >= meet->live_ns);
    const uint64_t quiet_ns = now_ns - meet->met_ns;
    const bool down = now_ns - meet->live_ns >= QUIET_NS && quiet_ns > 0;
    const bool due = quiet_ns >= QUIET_NS && quiet_ns >= PATIENCE * meet->longest_ns &&
                     round >= meet->round + QUIET_TURNS * turn;
    return down || due ? quiet_ns : 0;
}
