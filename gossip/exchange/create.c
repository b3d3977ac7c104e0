// The object and its memory.
#include "gossip/exchange/state.h"

#include "base/array.h"
#include "base/bf16.h"
#include "base/hash.h"
#include "compress/select.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum base_error allocate(struct gossip_exchange *exchange)
{
    const struct gossip_exchange_options *options = &exchange->options;
    const struct kernels *kernels = options->kernels;
    size_t bytes = options->parameters * sizeof(float);

    BASE_ASSERT(!exchange->model && exchange->n_edges == 0);
    exchange->model = exchange->own = kernels->alloc(bytes);
    exchange->window = calloc(2, sizeof *exchange->window);
    bool short_of_memory = !exchange->model || !exchange->window ||
                           !gossip_window_make(kernels, &exchange->window[0]) ||
                           !gossip_window_make(kernels, &exchange->window[1]);
    if (options->drift_correction) {
        exchange->sum.now = exchange->sum.own = kernels->alloc(bytes);
        short_of_memory |= !exchange->sum.own;
    }
    if (options->share_second_moment) {
        exchange->second = exchange->own_second = kernels->alloc(bytes);
        short_of_memory |= !exchange->second;
    }
    size_t room = compress_select_room(&options->selection, options->parameters);
    if (short_of_memory || compress_sparse_create_on(kernels, room, &exchange->chosen))
        return BASE_ENOMEM;
    return BASE_OK;
}

static enum base_error check(const struct gossip_exchange_options *options, struct base_reason *why)
{
    BASE_ASSERT(options->hold >= 0 && options->hold <= 1);
    if (!(options->ratio >= 0 && options->ratio <= 1) || options->parameters == 0 ||
        options->parameters > LIMIT_PARAMETERS || options->deadline_ceiling_ns < options->deadline_floor_ns)
        return base_fail(
            why, BASE_EINVAL,
            "exchange: found ratio %g, %zu parameters; expected a ratio in [0, 1], 1 to %u parameters and a "
            "deadline ceiling that is not below the floor",
            (double)options->ratio, options->parameters, LIMIT_PARAMETERS);
    if (options->reference_bf16 && !options->kernels->shares_host)
        return base_fail(why, BASE_EINVAL,
                         "exchange: the device '%s' has no references in bf16; keep the exchange in the "
                         "host's memory, or references in fp32",
                         options->kernels->name);
    return BASE_OK;
}

// At least one entry of each block: elements that are never sent would never agree.
static size_t entries_of(const struct gossip_exchange_options *options)
{
    size_t d = options->parameters, block = options->selection.block;
    size_t blocks = block > 0 && block < d ? (d + block - 1) / block : 1;
    size_t entries = compress_select_count((double)options->ratio, d);

    return entries > blocks ? entries : blocks;
}

// The hash of r of an edge that begins at the seed model, which is published now.
static uint64_t start_hash(const struct gossip_exchange_options *options, const float *start)
{
    const struct kernels_apply *apply = options->kernels->apply;
    uint64_t hash = 0;

    if (!options->reference_bf16)
        return apply->hash(start, options->parameters, 0, false);
    for (size_t i = 0; i < options->parameters; i++)
        hash += base_hash_element(i, bf16_widen(bf16_nearest(start[i])));
    return hash;
}

static uint64_t zero_hash(const struct gossip_exchange_options *options)
{
    static const float zeros[1024];
    uint64_t hash = 0; // of a vector it is the sum over its pieces

    for (size_t done = 0, n; done < options->parameters; done += n) {
        n = base_min(options->parameters - done, sizeof zeros / sizeof zeros[0]);
        hash += options->kernels->host->apply->hash(zeros, n, done, false);
    }
    return hash;
}

// L, where the mode leaves it open: what an exchange or two can bring together again.
#define LEAST_LEAD 32u

static struct gossip_pace_options pace_options(const struct gossip_exchange *exchange)
{
    const struct gossip_exchange_options *options = &exchange->options;
    const uint64_t reach = gossip_exchange_reach(exchange);
    const uint64_t lead = reach > LEAST_LEAD ? reach : LEAST_LEAD;

    return (struct gossip_pace_options){
        .self = options->self,
        .mode = options->sync ? GOSSIP_PACE_SYNC : GOSSIP_PACE_ASYNC,
        .lead = options->bounded && options->max_delay < lead ? options->max_delay : lead,
        .reach = reach,
        .local = reach / 2,
        .overlap = options->overlap,
        .max_delay = options->max_delay,
        .ceiling_ns = options->deadline_ceiling_ns,
    };
}

enum base_error gossip_exchange_create(const struct gossip_exchange_options *options,
                                       struct gossip_exchange **exchange, struct base_reason *why)
{
    enum base_error error = check(options, why);

    if (error)
        return error;
    struct gossip_exchange *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return base_fail(why, BASE_ENOMEM, "exchange: out of memory");
    fresh->options = *options;
    fresh->entries = entries_of(options);
    BASE_ASSERT(fresh->entries >= 1 && fresh->entries <= options->parameters);
    fresh->options.selection.k = fresh->entries;
    fresh->totals.consensus = (double)NAN;
    fresh->age = options->round;
    fresh->pace.round = options->round;
    fresh->pace.options = pace_options(fresh);
    fresh->wait_ns = UINT64_MAX;
    fresh->begun = options->round == 0;
    if (allocate(fresh) || !gossip_edge_start(fresh, &(struct gossip_vector){.fp32 = fresh->model})) {
        gossip_exchange_destroy(fresh);
        return base_fail(why, BASE_ENOMEM, "exchange: out of memory for %zu parameters", options->parameters);
    }
    fresh->start_hash = start_hash(options, fresh->model);
    fresh->zero_hash = zero_hash(options);
    if (options->model)
        options->kernels->upload(fresh->model, options->model, options->parameters * sizeof(float));
    gossip_plausible_learn(fresh);
    *exchange = fresh;
    return BASE_OK;
}

void gossip_exchange_destroy(struct gossip_exchange *exchange)
{
    if (!exchange)
        return;
    const struct kernels *kernels = exchange->options.kernels;
    BASE_ASSERT(exchange->n_orphans <= GOSSIP_ORPHANS_MAX);
    for (size_t i = 0; i < exchange->n_edges; i++)
        gossip_edge_free(exchange, exchange->edges[i]);
    gossip_vector_free(kernels, &exchange->seed);
    free(exchange->edges);
    free(exchange->pace.peers);
    while (exchange->n_orphans > 0)
        kernels->release(exchange->orphans[--exchange->n_orphans].correction);
    free(exchange->orphans);
    gossip_pending_drop(exchange);
    kernels->release(exchange->pending.sum);
    kernels->release(exchange->own);
    kernels->release(exchange->own_second);
    kernels->release(exchange->pending_second);
    kernels->release(exchange->sum.own);
    for (size_t i = 0; exchange->window && i < 2; i++)
        gossip_window_free(&exchange->window[i]);
    free(exchange->window);
    compress_sparse_destroy(&exchange->chosen);
    free(exchange->journal.records);
    free(exchange);
}

uint64_t gossip_exchange_reach(const struct gossip_exchange *exchange)
{
    return 2 * (exchange->options.parameters / exchange->entries);
}
