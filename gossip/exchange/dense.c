// Runs of unchanged elements (RESYNC) and of second moments in log8, one window at a time.
#include "gossip/exchange/state.h"

#include <math.h>
#include <string.h>

#define LOG8_HEADER 4u // of every piece
// A neighbour's second moments of a piece count as at most so many times the own ones, in sum.
#define MOMENT_TIMES 8

static size_t piece_of(size_t count, size_t done, size_t most)
{
    return count - done < most ? count - done : most;
}

struct gossip_run gossip_dense_block(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                     size_t count)
{
    uint64_t left = exchange->options.parameters - edge->resync_offset;

    return (struct gossip_run){(size_t)edge->resync_offset, left < count ? (size_t)left : count};
}

enum base_error gossip_dense_prepare(const struct gossip_exchange *exchange, struct gossip_run block,
                                     struct gossip_packet *packet)
{
    BASE_ASSERT(block.count > 0 && block.first + block.count <= exchange->options.parameters);
    struct gossip_window *window = &exchange->window[0];
    enum base_error error = gossip_packet_reserve(packet, 4 * block.count + 8);
    size_t bytes;

    if (error)
        return error;
    packet->offset = block.first;
    packet->keys = packet->again = false;
    packet->saved = 0;
    for (size_t done = 0; done < block.count && !error; done += window->room) {
        size_t count = piece_of(block.count, done, window->room);
        const float *run = gossip_window_fetch(window, exchange->model + block.first + done, count);
        error =
            compress_block_encode(run, count, packet->bytes + 4 * done, packet->capacity - 4 * done, &bytes);
    }
    packet->delta_bytes = 4 * block.count;
    return error == BASE_EFORMAT ? BASE_ESTATE : error;
}

// A block has no header, so any piece of it is a block.
static enum base_error read_piece(struct gossip_window *window, const uint8_t *bytes, size_t first,
                                  size_t count)
{
    return compress_block_decode(bytes + 4 * first, 4 * count, window->value, count);
}

static float largest_of(const float *values, size_t count)
{
    float largest = 0;

    for (size_t i = 0; i < count; i++)
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    return largest;
}

static enum base_error check_block(struct gossip_window *window, const uint8_t *bytes, size_t n_bytes,
                                   size_t count, float *largest)
{
    enum base_error error = n_bytes == 4 * count ? BASE_OK : BASE_EFORMAT;

    *largest = 0;
    for (size_t done = 0; done < count && !error; done += window->room) {
        size_t piece = piece_of(count, done, window->room);
        error = read_piece(window, bytes, done, piece);
        float of_piece = error ? 0 : largest_of(window->value, piece);
        *largest = of_piece > *largest ? of_piece : *largest;
    }
    return error;
}

// |theirs - mine| of a block that was checked.
static double block_norm(struct gossip_window *window, const struct gossip_packet *mine,
                         const struct gossip_exchange_message *theirs, size_t count)
{
    double energy = 0;

    for (size_t done = 0; done < count; done += window->room) {
        const size_t piece = piece_of(count, done, window->room);
        enum base_error error = read_piece(&window[0], mine->bytes, done, piece);
        if (!error)
            error = read_piece(&window[1], theirs->delta, done, piece);
        BASE_ASSERT(!error);
        for (size_t i = 0; i < piece; i++) {
            const double apart = (double)window[1].value[i] - (double)window[0].value[i];
            energy += apart * apart;
        }
    }
    return sqrt(energy);
}

// The step of x in a block of which both ends take the mean.
static float weight_of(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       const struct gossip_packet *mine, const struct gossip_exchange_message *theirs,
                       struct gossip_run block)
{
    const float weight = 0.5f;

    const double limit = gossip_clip_own(mine, theirs);

    if (!isfinite(limit))
        return weight;
    const double norm = (double)weight * block_norm(exchange->window, mine, theirs, block.count);
    return weight * gossip_clip_block(exchange, edge, limit, norm, block.first == 0);
}

// One piece of a block, of both ends. If one end adopts the other's model, r becomes that model, and x of the
// other end does not change.
static void apply_piece(const struct gossip_exchange *exchange, const struct kernels_exchange *block,
                        int adopts, uint64_t *hash)
{
    const struct kernels_apply *apply = exchange->options.kernels->apply;
    struct kernels_exchange of_x = *block, of_r = *block;

    if (adopts == 0) {
        apply->exchange(block, hash);
        return;
    }
    of_r.x = of_r.pending = NULL;
    of_r.mine = of_r.theirs = adopts > 0 ? block->theirs : block->mine;
    apply->exchange(&of_r, hash);
    of_x.r = NULL;
    of_x.r_bf16 = NULL;
    of_x.weight = 1;
    if (adopts > 0)
        apply->exchange(&of_x, hash);
}

enum base_error gossip_dense_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    struct gossip_run block, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct gossip_effect *known)
{
    struct gossip_window *window = exchange->window;
    struct kernels_exchange step = {.x = exchange->model};
    int adopts = gossip_standing_adopts(mine->standing, (enum gossip_standing)theirs->standing);
    bool moves = adopts > 0 || (adopts == 0 && mine->standing != GOSSIP_FINISHED);
    float largest;

    if (theirs->offset != block.first || mine->offset != block.first || theirs->moment_bytes)
        return BASE_EFORMAT;
    enum base_error error = check_block(&window[0], mine->bytes, mine->delta_bytes, block.count, &largest);
    if (!error)
        error = check_block(&window[1], theirs->delta, theirs->delta_bytes, block.count, &largest);
    if (!error && gossip_plausible_exceeds(edge, (double)largest, exchange->norm))
        return gossip_plausible_refuse(exchange, edge);
    if (!error && moves)
        error = gossip_pending_sum(exchange, &step.pending);
    if (!error)
        error = gossip_edge_own(exchange, edge);
    step.r = edge->reference.fp32;
    step.r_bf16 = edge->reference.bf16;
    if (!moves)
        step.x = NULL;
    if (!error && adopts == 0)
        step.weight = known ? known->weight : weight_of(exchange, edge, mine, theirs, block);
    if (!error)
        gossip_journal_commit(exchange, edge, mine, theirs, 0,
                              &(struct gossip_effect){.weight = step.weight, .keep = 1}, NULL);
    for (size_t done = 0; done < block.count && !error; done += window->room) {
        size_t count = piece_of(block.count, done, window->room), first = block.first + done;
        error = read_piece(&window[0], mine->bytes, done, count);
        if (!error)
            error = read_piece(&window[1], theirs->delta, done, count);
        BASE_ASSERT(!error); // they were checked
        step.mine = (struct kernels_entries){
            .value = gossip_window_send(&window[0], count), .count = count, .first = first};
        step.theirs = (struct kernels_entries){
            .value = gossip_window_send(&window[1], count), .count = count, .first = first};
        apply_piece(exchange, &step, adopts, &edge->reference_hash);
    }
    if (error)
        return error;
    edge->resync_offset += block.count;
    if (adopts > 0 && edge->resync_offset == exchange->options.parameters)
        gossip_standing_adopted(exchange, edge);
    return BASE_OK;
}

// Adding clock / slices keeps a part from always going to the same neighbour if the schedule's period divides
// the number of parts.
struct gossip_run gossip_moment_slice(const struct gossip_exchange *exchange, uint64_t clock)
{
    uint64_t slices = exchange->options.share_second_moment, count = exchange->options.parameters;
    uint64_t length = (count + slices - 1) / slices;
    uint64_t first = (clock + clock / slices) % slices * length;

    if (first >= count)
        return (struct gossip_run){0, 0};
    return (struct gossip_run){(size_t)first, (size_t)(count - first < length ? count - first : length)};
}

size_t gossip_moment_bytes(size_t count)
{
    return count + (count + GOSSIP_WINDOW - 1) / GOSSIP_WINDOW * LOG8_HEADER;
}

// A window of moments, which the encoder overwrites, in pieces with a scale each. Grows *used.
static enum base_error encode_run(float *value, size_t count, struct gossip_packet *packet, size_t *used)
{
    enum base_error error = BASE_OK;
    size_t bytes;

    for (size_t done = 0; done < count && !error; done += GOSSIP_WINDOW) {
        error = compress_log8_encode(value + done, piece_of(count, done, GOSSIP_WINDOW),
                                     packet->bytes + *used, packet->capacity - *used, &bytes);
        *used += error ? 0 : bytes;
    }
    return error;
}

enum base_error gossip_moment_prepare(struct gossip_exchange *exchange, struct gossip_run slice,
                                      struct gossip_packet *packet)
{
    struct gossip_window *window = &exchange->window[0];
    size_t used = packet->delta_bytes;

    BASE_ASSERT(packet->capacity - used >= gossip_moment_bytes(slice.count));
    for (size_t done = 0; done < slice.count; done += window->room) {
        size_t count = piece_of(slice.count, done, window->room);
        exchange->options.kernels->download(window->value, exchange->second + slice.first + done,
                                            count * sizeof *window->value);
        enum base_error error = encode_run(window->value, count, packet, &used);
        if (error)
            return error == BASE_EFORMAT ? BASE_ESTATE : error;
    }
    packet->moment_bytes = used - packet->delta_bytes;
    return BASE_OK;
}

// `count` moments from the one at `first`, which begins a piece.
static enum base_error read_moments(struct gossip_window *window, const uint8_t *bytes, size_t first,
                                    size_t count)
{
    enum base_error error = BASE_OK;

    BASE_ASSERT(first % GOSSIP_WINDOW == 0 && count <= window->room);
    for (size_t done = 0; done < count && !error; done += GOSSIP_WINDOW) {
        size_t piece = piece_of(count, done, GOSSIP_WINDOW);
        error = compress_log8_decode(bytes + gossip_moment_bytes(first + done), LOG8_HEADER + piece,
                                     window->value + done, piece);
    }
    return error;
}

// Every piece begins with its largest value.
float gossip_moment_largest(size_t count, const uint8_t *bytes)
{
    float largest = 0, of_piece;

    for (size_t done = 0; done < count; done += GOSSIP_WINDOW) {
        memcpy(&of_piece, bytes + gossip_moment_bytes(done), sizeof of_piece);
        largest = of_piece > largest ? of_piece : largest;
    }
    return largest;
}

enum base_error gossip_moment_check(struct gossip_exchange *exchange, size_t count, const uint8_t *bytes,
                                    size_t n_bytes)
{
    enum base_error error = n_bytes == gossip_moment_bytes(count) ? BASE_OK : BASE_EFORMAT;

    for (size_t done = 0; done < count && !error; done += exchange->window->room)
        error =
            read_moments(&exchange->window[0], bytes, done, piece_of(count, done, exchange->window->room));
    return error;
}

// If the trainer waits for its v, the published one is the trainer's.
static bool holds_second(const struct gossip_exchange *exchange)
{
    return exchange->pace.open && exchange->round.second_moment;
}

enum base_error gossip_moment_room(struct gossip_exchange *exchange)
{
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->second && exchange->options.share_second_moment > 0);
    if (holds_second(exchange) || exchange->pending_second)
        return BASE_OK;
    exchange->pending_second = exchange->options.kernels->alloc(bytes);
    return exchange->pending_second ? BASE_OK : BASE_ENOMEM;
}

// The steps of the learner are divided by the roots of the second moments, and must not be stopped. Single
// ones may differ much between honest ends.
static void limit_piece(const float *mine, float *theirs, size_t count)
{
    double ours = 0, sum = 0;

    for (size_t i = 0; i < count; i++) {
        ours += (double)mine[i];
        sum += (double)theirs[i];
    }
    if (!(sum > MOMENT_TIMES * ours))
        return;
    const float part = (float)(MOMENT_TIMES * ours / sum);
    for (size_t i = 0; i < count; i++)
        theirs[i] *= part;
}

static void limit_moments(struct gossip_window window[2], size_t count)
{
    BASE_ASSERT(count <= window[0].room && count <= window[1].room);
    for (size_t done = 0; done < count; done += GOSSIP_WINDOW)
        limit_piece(window[0].value + done, window[1].value + done, piece_of(count, done, GOSSIP_WINDOW));
}

// v += (Q(v_j) - Q(v_i)) / 2 on one slice: the sum over the two ends does not change, as with x. The result
// is at least v / 4, although the coarse scale of Q could bring a small v to zero: the optimiser divides by
// its square root, and no average is below v / 2 (the levels of Q are 9% apart). Before the first round of a
// resumed node its v is not known here, and the update of a replayed answer waits for it.
void gossip_moment_apply(struct gossip_exchange *exchange, struct gossip_run slice, const uint8_t *mine,
                         const uint8_t *theirs)
{
    struct gossip_window *window = exchange->window;

    for (size_t done = 0; done < slice.count; done += window->room) {
        const size_t count = piece_of(slice.count, done, window->room), first = slice.first + done;
        enum base_error error = read_moments(&window[0], mine, done, count);
        if (!error)
            error = read_moments(&window[1], theirs, done, count);
        BASE_ASSERT(!error); // they were checked
        if (exchange->options.robust != GOSSIP_ROBUST_OFF)
            limit_moments(window, count);
        const struct kernels_moments step = {
            .count = count,
            .mine = gossip_window_send(&window[0], count),
            .theirs = gossip_window_send(&window[1], count),
            .v = exchange->second + first,
            .pending = holds_second(exchange) ? NULL : exchange->pending_second + first,
            .whole = !exchange->second_known};
        exchange->options.kernels->vectors->moments(&step);
    }
    exchange->second_moved |= !holds_second(exchange);
}
