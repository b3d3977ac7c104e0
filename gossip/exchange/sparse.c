// Makes q = C(x - r) as a packet, and applies two such packets, of which only one window each is unpacked at
// a time.
#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TURNS 128u // exchanges until every element has been open once

// r in bf16 (RULES.md): differences that are too small for r to follow are sent in one run of elements, the
// same at both ends and another one in each exchange.
static struct gossip_run open_run(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    size_t length = (exchange->options.parameters + OPEN_TURNS - 1) / OPEN_TURNS;

    return (struct gossip_run){(size_t)(edge->sequence % OPEN_TURNS) * length, length};
}

struct kernels_difference gossip_sparse_difference(const struct gossip_exchange *exchange,
                                                   const struct gossip_edge *edge)
{
    const struct gossip_run open = open_run(exchange, edge);
    const struct gossip_vector *r = gossip_vector_is(&edge->reference) ? &edge->reference : &exchange->seed;

    BASE_ASSERT(gossip_vector_is(r)); // gossip_edge_reads
    return (struct kernels_difference){.x = exchange->model,
                                       .r = r->fp32,
                                       .r_bf16 = r->bf16,
                                       .open_first = open.first,
                                       .open_count = open.count,
                                       .count = exchange->options.parameters};
}

// A different seed for every exchange and either end.
static uint64_t seed_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    uint64_t ours, theirs;

    memcpy(&ours, exchange->options.self.bytes, sizeof ours);
    memcpy(&theirs, edge->peer.bytes, sizeof theirs);
    uint64_t link = base_hash_mix(ours ^ base_hash_mix(theirs ^ exchange->options.selection.seed));
    return base_hash_mix(link ^ base_hash_mix(edge->epoch ^ base_hash_mix(edge->sequence)));
}

// If a filter chose the entries, the other elements have not been read yet.
static enum base_error look_over(const struct gossip_exchange *exchange, const struct kernels_difference *a,
                                 struct compress_energy *energy)
{
    const uint32_t floor = KERNELS_INFINITE;
    uint64_t beyond;
    struct kernels_seen seen;

    BASE_ASSERT(a->count == exchange->options.parameters);
    exchange->options.kernels->select->count(a, &floor, 1, &beyond, &seen);
    *energy = (struct compress_energy){.a = seen.a_energy, .x = seen.x_energy};
    return beyond > 0 ? BASE_EFORMAT : BASE_OK;
}

static enum base_error choose(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                              const struct kernels_difference *a, struct compress_energy *energy, bool *again)
{
    const struct gossip_exchange_options *options = &exchange->options;
    struct compress_selection selection = options->selection;
    struct compress_turn turn = {
        .kernels = options->kernels, .a = a, .seed = seed_of(exchange, edge), .last = &edge->sent};
    enum base_error error = compress_filters_choose(&options->filters, &turn, &exchange->chosen, again);

    BASE_ASSERT(!exchange->chosen_of);
    if (error)
        return error;
    if (*again)
        return look_over(exchange, a, energy);
    selection.seed = turn.seed;
    error = compress_select(options->kernels, &selection, a, &exchange->chosen, energy);
    return error ? error : compress_filters_drop(&options->filters, &turn, &exchange->chosen);
}

enum base_error gossip_sparse_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      size_t behind, struct gossip_packet *packet)
{
    const struct gossip_exchange_options *options = &exchange->options;
    struct compress_energy energy;
    bool again;

    exchange->chosen_of = NULL;
    if (!gossip_edge_reads(exchange, edge))
        return BASE_ENOMEM;
    const struct kernels_difference a = gossip_sparse_difference(exchange, edge);
    enum base_error error = choose(exchange, edge, &a, &energy, &again);
    size_t bound = compress_packet_bound(a.count, exchange->chosen.count, options->values);
    BASE_ASSERT(error || exchange->chosen.count <= a.count);
    if (!error)
        error = gossip_packet_reserve(packet, bound + behind + (again ? bound : 0));
    if (!error)
        error = compress_packet_encode(options->kernels, &exchange->chosen, a.count, options->values, NULL,
                                       packet->bytes, bound, &packet->delta_bytes);
    if (error)
        return error == BASE_EFORMAT ? BASE_ESTATE : error;
    packet->offset = 0;
    exchange->chosen_of = packet;
    packet->keys = compress_filters_remember(&options->filters);
    packet->again = again;
    packet->saved = 0;
    edge->residual_energy = fmax(energy.a - exchange->chosen.taken, 0); // |x - r - q|^2
    edge->model_energy = energy.x;
    exchange->norm = sqrt(energy.x);
    return BASE_OK;
}

static struct compress_keys keys_of(const struct compress_history *history)
{
    return (struct compress_keys){.index = history->index, .count = history->count, .hash = history->hash};
}

// The short form is stored after the moments, because several packets may be sent in one step.
void gossip_sparse_shorten(const struct gossip_edge *edge, struct gossip_packet *packet,
                           struct gossip_message *message)
{
    size_t used = packet->delta_bytes + packet->moment_bytes, bytes;

    BASE_ASSERT(used <= packet->capacity);
    if (!packet->again || edge->sent.count == 0)
        return;
    const struct compress_keys known = keys_of(&edge->sent);
    if (compress_packet_shorten(packet->bytes, packet->delta_bytes, &known, packet->bytes + used,
                                packet->capacity - used, &bytes) ||
        bytes >= packet->delta_bytes)
        return;
    packet->saved = packet->delta_bytes - bytes;
    message->as.exchange.delta = packet->bytes + used;
    message->as.exchange.delta_bytes = (uint32_t)bytes;
}

// The next list is written over the remembered one if there is room: only parts that have been read are
// overwritten.
static enum base_error room_for(size_t entries, bool remember, const struct compress_history *last,
                                uint32_t **index)
{
    *index = NULL;
    if (!remember)
        return BASE_OK;
    if (last->index && last->count >= entries)
        *index = last->index;
    else
        *index = malloc((entries ? entries : 1) * sizeof **index);
    return *index ? BASE_OK : BASE_ENOMEM;
}

// A packet over remembered indices cannot be read without them.
static enum base_error open_theirs(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                   const struct gossip_exchange_message *theirs, struct compress_keys *known,
                                   struct compress_reader *reader)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t d = exchange->options.parameters;
    enum base_error error =
        compress_reader_open(kernels, theirs->delta, theirs->delta_bytes, d, d, NULL, reader);

    BASE_ASSERT(edge->received.count <= d);
    *known = (struct compress_keys){0};
    if (error != BASE_ENOTFOUND || edge->received.count == 0)
        return error;
    *known = keys_of(&edge->received);
    return compress_reader_open(kernels, theirs->delta, theirs->delta_bytes, d, d, known, reader);
}

static void drop(const struct gossip_edge *edge, const struct gossip_pair *pair)
{
    if (pair->mine_index != edge->sent.index)
        free(pair->mine_index);
    if (pair->theirs_index != edge->received.index)
        free(pair->theirs_index);
}

// The norm of an update is computed on the host; if the list is not there, from the packets.
static bool norm_needs_packet(const struct gossip_exchange *exchange, const struct gossip_pair *pair)
{
    return isfinite(pair->common) && !exchange->options.kernels->shares_host;
}

enum base_error gossip_sparse_open(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   const struct gossip_packet *mine,
                                   const struct gossip_exchange_message *theirs, struct gossip_pair *pair)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t d = exchange->options.parameters;
    struct compress_keys known;

    *pair = (struct gossip_pair){.limit = gossip_clip_own(mine, theirs),
                                 .common = gossip_clip_common(mine, theirs)};
    BASE_ASSERT(mine->held);
    enum base_error error = open_theirs(exchange, edge, theirs, &known, &pair->theirs);
    if (!error &&
        gossip_plausible_exceeds(edge, (double)compress_reader_largest(&pair->theirs), exchange->norm))
        return gossip_plausible_refuse(exchange, edge);
    pair->list = exchange->chosen_of == mine;
    if (pair->list)
        pair->mine.entries = exchange->chosen.count;
    if ((!pair->list || norm_needs_packet(exchange, pair)) && !error &&
        compress_reader_open(kernels, mine->bytes, mine->delta_bytes, d, d, NULL, &pair->mine))
        error = BASE_EFORMAT; // our packet comes from a damaged record: no replay would help
    if (error)
        return error == BASE_ELIMIT ? BASE_EFORMAT : error;
    error = room_for(pair->theirs.entries, theirs->keys, &edge->received, &pair->theirs_index);
    if (!error)
        error = room_for(pair->mine.entries, mine->keys, &edge->sent, &pair->mine_index);
    if (!error)
        error = gossip_edge_own(exchange, edge);
    if (!error)
        error = gossip_pending_room(exchange, mine, theirs, known.count ? &known : NULL, &pair->update,
                                    &pair->sum);
    if (error)
        drop(edge, pair);
    return error;
}

static void remember(struct compress_history *history, uint32_t *index, size_t count, bool again)
{
    BASE_ASSERT(history->index || history->count == 0);
    if (!index) {
        compress_history_forget(history);
    } else if (index != history->index) {
        compress_history_take(history, index, count, again);
    } else {
        history->count = count;
        history->age = again ? history->age + 1 : 0;
        history->hash = compress_keys_hash(index, count);
    }
}

static struct gossip_side our_side(struct gossip_exchange *exchange, const struct gossip_pair *pair,
                                   uint32_t *copy)
{
    struct gossip_window *window = &exchange->window[0];

    return pair->list ? gossip_side_of_list(&exchange->chosen, window, copy)
                      : gossip_side_of_packet(&pair->mine, window, copy);
}

static double packet_energy(struct gossip_window *window, const struct compress_reader *reader)
{
    const struct kernels *host = reader->host;
    double energy = 0;

    BASE_ASSERT(window->room % GOSSIP_WINDOW == 0);
    for (size_t done = 0; done < reader->entries; done += GOSSIP_WINDOW) {
        const size_t left = reader->entries - done, count = left < GOSSIP_WINDOW ? left : GOSSIP_WINDOW;
        host->values->read(reader->format, count,
                           reader->values + kernels_section_bytes(reader->format, done), window->value);
        energy += host->vectors->energy(count, window->value, NULL);
    }
    return energy;
}

double gossip_sparse_norm_most(struct gossip_exchange *exchange, const struct gossip_pair *pair)
{
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    const double theirs = packet_energy(&exchange->window[1], &pair->theirs);
    const double mine = pair->list ? vectors->energy(exchange->chosen.count, exchange->chosen.value, NULL)
                                   : packet_energy(&exchange->window[0], &pair->mine);

    return sqrt(mine) + sqrt(theirs);
}

double gossip_sparse_norm(const struct gossip_exchange *exchange, const struct gossip_pair *pair)
{
    struct gossip_window window[2] = {gossip_window_on_host(&exchange->window[0]),
                                      gossip_window_on_host(&exchange->window[1])};
    struct gossip_side ours = pair->list && !norm_needs_packet(exchange, pair)
                                  ? gossip_side_of_list(&exchange->chosen, &window[0], NULL)
                                  : gossip_side_of_packet(&pair->mine, &window[0], NULL);
    struct gossip_side theirs = gossip_side_of_packet(&pair->theirs, &window[1], NULL);

    return gossip_merge_norm(&ours, &theirs);
}

// With reference_bf16: after the exchange is applied, one more pass over both packets.
static void sum_anew(struct gossip_exchange *exchange, const struct gossip_pair *pair, float *sum)
{
    struct gossip_side ours = our_side(exchange, pair, NULL);
    struct gossip_side theirs = gossip_side_of_packet(&pair->theirs, &exchange->window[1], NULL);

    gossip_sum_at(exchange, &ours, sum);
    gossip_sum_at(exchange, &theirs, sum);
}

// The random bits for rounding a correction to bf16: the same at both ends, different in each exchange.
static uint64_t rounding_of(const struct gossip_edge *edge)
{
    return base_hash_mix(edge->reference_hash ^ base_hash_mix(edge->sequence));
}

void gossip_sparse_apply(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_packet *mine, struct gossip_pair *pair,
                         const struct gossip_effect *effect)
{
    const float weight = effect->weight, gain = effect->gain;

    BASE_ASSERT(weight >= 0 && weight <= 1 && gain >= 0 && effect->keep > 0);
    BASE_ASSERT(gossip_vector_is(&edge->reference));
    struct gossip_side ours = our_side(exchange, pair, pair->mine_index);
    struct gossip_side theirs =
        gossip_side_of_packet(&pair->theirs, &exchange->window[1], pair->theirs_index);
    struct kernels_exchange step = {.x = exchange->model,
                                    .pending = pair->sum,
                                    .r = edge->reference.fp32,
                                    .r_bf16 = edge->reference.bf16,
                                    .weight = weight,
                                    .gain = gain};
    const bool corrects = gossip_vector_is(&edge->correction) && gain > 0;

    if (effect->keep < 1 && gossip_vector_is(&edge->correction))
        gossip_sum_shrink(exchange, edge, effect->keep);
    if (corrects) {
        step.correction = edge->correction.fp32;
        step.correction_bf16 = edge->correction.bf16;
        step.rounding = rounding_of(edge);
        step.correction_sum = step.correction ? exchange->sum.now : NULL; // or NULL: in the pending update
    }
    if (!(weight > 0)) // no bit of x changes
        step.x = step.pending = NULL;
    gossip_merge_apply(exchange->options.kernels, &ours, &theirs, &step, &edge->reference_hash);
    if (step.correction_bf16 && exchange->sum.now)
        sum_anew(exchange, pair, exchange->sum.now);
    if (pair->update && !(weight > 0) && !corrects) {
        gossip_pending_decline(pair->update);
    } else if (pair->update) {
        pair->update->weight = weight;
        pair->update->gain = corrects ? gain : 0;
        gossip_pending_keep(&exchange->pending, pair->update);
    }
    remember(&edge->sent, pair->mine_index, pair->mine.entries, mine->again);
    remember(&edge->received, pair->theirs_index, pair->theirs.entries, false);
}
