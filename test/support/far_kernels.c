#include "test/support/far_kernels.h"

#include "test/support/cpu_kernels.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPACE  ((size_t)1 << 30)
#define BLOCKS 8192u
#define ALIGN  64u
#define SPOILT 0xff // written over released memory: NaN

struct block { // in the order of their addresses
    size_t at, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *shut, *open_; // [SPACE] what the host is given, and where the data are
static struct block blocks[BLOCKS];
static size_t n_blocks;
static struct far_use used;

_Noreturn static void stop(const char *why)
{
    (void)fprintf(stderr, "far kernels: %s\n", why);
    abort();
}

static void *map(int access)
{
    void *memory = mmap(NULL, SPACE, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        stop("no address space");
    return memory;
}

// The last block that begins at `at` or before it; NULL if there is none.
static const struct block *block_of(size_t at)
{
    size_t low = 0, high = n_blocks;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (blocks[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &blocks[low - 1] : NULL;
}

// The address of the data of the `bytes` at `far`; NULL for NULL.
static void *near(const void *far, size_t bytes)
{
    const size_t at = (size_t)((uintptr_t)far - (uintptr_t)shut);

    if (!far)
        return NULL;
    if (at >= SPACE)
        stop("a function was given the host's memory in place of the table's");
    pthread_mutex_lock(&lock);
    const struct block *block = block_of(at);
    if (!block || at + bytes > block->at + block->bytes)
        stop("a function was given more than a vector, or one that was released");
    pthread_mutex_unlock(&lock);
    return open_ + at;
}

static float *near_floats(const float *far, size_t count)
{
    return near(far, count * sizeof *far);
}

static uint32_t *near_index(const uint32_t *far, size_t count)
{
    return near(far, count * sizeof *far);
}

// -- memory

static size_t room_before(size_t i, size_t bytes, size_t *at)
{
    *at = i == 0 ? 0 : (blocks[i - 1].at + blocks[i - 1].bytes + 2 * ALIGN - 1) / ALIGN * ALIGN;
    return (i < n_blocks ? blocks[i].at : SPACE) >= *at + bytes + ALIGN;
}

static void *far_alloc(size_t bytes)
{
    size_t at = 0, i = 0;

    pthread_mutex_lock(&lock);
    while (i < n_blocks && !room_before(i, bytes, &at))
        i++;
    if (n_blocks == BLOCKS || !room_before(i, bytes, &at))
        stop("out of memory");
    memmove(&blocks[i + 1], &blocks[i], (n_blocks++ - i) * sizeof blocks[0]);
    blocks[i] = (struct block){at, bytes};
    used.held += bytes;
    pthread_mutex_unlock(&lock);
    memset(open_ + at, 0, bytes);
    return shut + at;
}

static void far_release(void *memory)
{
    const size_t at = (size_t)((uintptr_t)memory - (uintptr_t)shut);
    size_t i = 0;

    if (!memory)
        return;
    pthread_mutex_lock(&lock);
    while (i < n_blocks && blocks[i].at != at)
        i++;
    if (i == n_blocks)
        stop("something was released that was not allocated");
    memset(open_ + at, SPOILT, blocks[i].bytes);
    used.held -= blocks[i].bytes;
    memmove(&blocks[i], &blocks[i + 1], (--n_blocks - i) * sizeof blocks[0]);
    pthread_mutex_unlock(&lock);
}

static void far_upload(void *to, const void *from, size_t bytes)
{
    memcpy(near(to, bytes), from, bytes);
    __atomic_fetch_add(&used.up, bytes, __ATOMIC_RELAXED);
}

static void far_download(void *to, const void *from, size_t bytes)
{
    memcpy(to, near(from, bytes), bytes);
    __atomic_fetch_add(&used.down, bytes, __ATOMIC_RELAXED);
}

static void far_wait(void)
{
}

struct far_use far_use(void)
{
    struct far_use now = {.up = __atomic_load_n(&used.up, __ATOMIC_RELAXED),
                          .down = __atomic_load_n(&used.down, __ATOMIC_RELAXED)};

    pthread_mutex_lock(&lock);
    now.held = used.held;
    pthread_mutex_unlock(&lock);
    return now;
}

// -- training

static void far_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                     const float *a, const float *b, float beta, float *c)
{
    cpu_kernels()->gemm(transpose_a, transpose_b, m, n, k, alpha, near_floats(a, m * k),
                        near_floats(b, k * n), beta, near_floats(c, m * n));
}

static void far_bias_add(size_t rows, size_t cols, const float *bias, float *z)
{
    cpu_kernels()->bias_add(rows, cols, near_floats(bias, cols), near_floats(z, rows * cols));
}

static void far_bias_add_relu(size_t rows, size_t cols, const float *bias, float *z)
{
    cpu_kernels()->bias_add_relu(rows, cols, near_floats(bias, cols), near_floats(z, rows * cols));
}

static void far_relu_backward(size_t count, const float *activation, float *grad)
{
    cpu_kernels()->relu_backward(count, near_floats(activation, count), near_floats(grad, count));
}

static void far_column_sum(size_t rows, size_t cols, const float *z, float *sum)
{
    cpu_kernels()->column_sum(rows, cols, near_floats(z, rows * cols), near_floats(sum, cols));
}

static void far_softmax(size_t rows, size_t cols, float *logits, const uint32_t *labels, float scale,
                        struct kernels_loss *loss)
{
    cpu_kernels()->softmax_cross_entropy(rows, cols, near_floats(logits, rows * cols),
                                         near_index(labels, rows), scale, loss);
}

static void far_sgd(size_t count, const struct kernels_sgd *options, const float *grad,
                    const float *correction, float *m, float *x)
{
    cpu_kernels()->sgd_step(count, options, near_floats(grad, count), near_floats(correction, count),
                            near_floats(m, count), near_floats(x, count));
}

static void far_adamw(size_t count, const struct kernels_adamw *options, const float *grad,
                      const float *correction, float *m, float *v, float *x)
{
    cpu_kernels()->adamw_step(count, options, near_floats(grad, count), near_floats(correction, count),
                              near_floats(m, count), near_floats(v, count), near_floats(x, count));
}

// -- selection

static struct kernels_difference near_difference(const struct kernels_difference *a)
{
    struct kernels_difference there = *a;

    if (a->r_bf16)
        stop("no references in bf16");
    there.x = near_floats(a->x, a->count);
    there.r = near_floats(a->r, a->count);
    return there;
}

static void far_sample(const struct kernels_difference *a, size_t samples, uint32_t *magnitude)
{
    const struct kernels_difference there = near_difference(a);

    cpu_kernels()->select->sample(&there, samples, magnitude);
}

// All or nothing, as a device does it.
static size_t far_gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                         uint32_t *index, float *value, struct kernels_seen *seen)
{
    const struct kernels_difference there = near_difference(a);
    const size_t found = cpu_kernels()->select->gather(&there, first, floor, room, near_index(index, room),
                                                       near_floats(value, room), seen);

    if (seen->read == a->count - first)
        return found;
    *seen = (struct kernels_seen){0};
    return 0;
}

static void far_histogram(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                          uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    const struct kernels_difference there = near_difference(a);

    cpu_kernels()->select->histogram(&there, floor, shift, bins, seen);
}

static void far_count(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                      struct kernels_seen *seen)
{
    const struct kernels_difference there = near_difference(a);

    cpu_kernels()->select->count(&there, floors, n, counts, seen);
}

static size_t far_keep(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high,
                       size_t ties)
{
    return cpu_kernels()->select->keep(entries, near_index(index, entries), near_floats(value, entries), low,
                                       high, ties);
}

static void far_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index, float *value)
{
    const struct kernels_difference there = near_difference(a);

    cpu_kernels()->select->pick(&there, entries, near_index(index, entries), near_floats(value, entries));
}

static const struct kernels_select select_table = {.sample = far_sample,
                                                   .gather = far_gather,
                                                   .histogram = far_histogram,
                                                   .count = far_count,
                                                   .keep = far_keep,
                                                   .pick = far_pick};

// -- values

static void far_write(enum kernels_format format, size_t count, float *value, uint8_t *section)
{
    cpu_kernels()->values->write(format, count, near_floats(value, count),
                                 near(section, kernels_section_bytes(format, count)));
}

static void far_read(enum kernels_format format, size_t count, const uint8_t *section, float *value)
{
    cpu_kernels()->values->read(format, count, near(section, kernels_section_bytes(format, count)),
                                near_floats(value, count));
}

static bool far_valid(enum kernels_format format, size_t count, const uint8_t *section)
{
    return cpu_kernels()->values->valid(format, count, near(section, kernels_section_bytes(format, count)));
}

static const struct kernels_values values_table = {.write = far_write, .read = far_read, .valid = far_valid};

// -- the end of an exchange

static struct kernels_entries near_entries(const struct kernels_entries *e, size_t *end)
{
    struct kernels_entries there = *e;

    there.index = near_index(e->index, e->count);
    there.value = near_floats(e->value, e->count);
    if (e->count > 0) {
        const size_t last = e->index ? there.index[e->count - 1] : e->first + e->count - 1;
        *end = last + 1 > *end ? last + 1 : *end;
    }
    return there;
}

static void far_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    struct kernels_exchange there = *e;
    size_t end = 0; // end of the last element that is touched

    if (e->r_bf16 || e->correction_bf16)
        stop("no vectors in bf16");
    there.mine = near_entries(&e->mine, &end);
    there.theirs = near_entries(&e->theirs, &end);
    there.x = near_floats(e->x, end);
    there.r = near_floats(e->r, end);
    there.pending = near_floats(e->pending, end);
    there.correction = near_floats(e->correction, end);
    there.correction_sum = near_floats(e->correction_sum, end);
    cpu_kernels()->apply->exchange(&there, hash);
}

static uint64_t far_hash(const float *x, size_t count, size_t first, bool magnitudes)
{
    return cpu_kernels()->apply->hash(near_floats(x, count), count, first, magnitudes);
}

static bool far_finite(const float *x, size_t count)
{
    return cpu_kernels()->apply->finite(near_floats(x, count), count);
}

static const struct kernels_apply apply_table = {
    .exchange = far_exchange, .hash = far_hash, .finite = far_finite};

// -- whole vectors

static void far_copy(void *to, const void *from, size_t bytes)
{
    cpu_kernels()->vectors->copy(near(to, bytes), near(from, bytes), bytes);
}

static void far_clear(void *to, size_t bytes)
{
    cpu_kernels()->vectors->clear(near(to, bytes), bytes);
}

static void far_add(size_t count, float part, const float *from, float *to)
{
    cpu_kernels()->vectors->add(count, part, near_floats(from, count), near_floats(to, count));
}

static void far_scale(size_t count, float part, float *x)
{
    cpu_kernels()->vectors->scale(count, part, near_floats(x, count));
}

static void far_fade(size_t count, float part, float *x, float *sum)
{
    cpu_kernels()->vectors->fade(count, part, near_floats(x, count), near_floats(sum, count));
}

static void far_hold(size_t count, float part, const float *x, const float *r, float *copy, float *held)
{
    cpu_kernels()->vectors->hold(count, part, near_floats(x, count), near_floats(r, count),
                                 near_floats(copy, count), near_floats(held, count));
}

static bool far_give_back(size_t count, const float *held, float *x)
{
    return cpu_kernels()->vectors->give_back(count, near_floats(held, count), near_floats(x, count));
}

static float far_settle(size_t count, const float *pending, float *v)
{
    return cpu_kernels()->vectors->settle(count, near_floats(pending, count), near_floats(v, count));
}

static void far_moments(const struct kernels_moments *m)
{
    struct kernels_moments there = *m;

    there.mine = near_floats(m->mine, m->count);
    there.theirs = near_floats(m->theirs, m->count);
    there.v = near_floats(m->v, m->count);
    there.pending = near_floats(m->pending, m->count);
    cpu_kernels()->vectors->moments(&there);
}

static double far_energy(size_t count, const float *x, const float *y)
{
    return cpu_kernels()->vectors->energy(count, near_floats(x, count), near_floats(y, count));
}

static const struct kernels_vectors vectors_table = {.copy = far_copy,
                                                     .clear = far_clear,
                                                     .add = far_add,
                                                     .scale = far_scale,
                                                     .fade = far_fade,
                                                     .hold = far_hold,
                                                     .give_back = far_give_back,
                                                     .settle = far_settle,
                                                     .moments = far_moments,
                                                     .energy = far_energy};

static struct kernels table = {.name = "far",
                               .shares_host = false,
                               .alloc = far_alloc,
                               .release = far_release,
                               .upload = far_upload,
                               .download = far_download,
                               .wait = far_wait,
                               .gemm = far_gemm,
                               .bias_add = far_bias_add,
                               .bias_add_relu = far_bias_add_relu,
                               .relu_backward = far_relu_backward,
                               .column_sum = far_column_sum,
                               .softmax_cross_entropy = far_softmax,
                               .sgd_step = far_sgd,
                               .adamw_step = far_adamw,
                               .select = &select_table,
                               .values = &values_table,
                               .apply = &apply_table,
                               .vectors = &vectors_table};

const struct kernels *far_kernels(void)
{
    if (!table.host) { // before other threads start
        shut = map(PROT_NONE);
        open_ = map(PROT_READ | PROT_WRITE);
        table.coding = cpu_kernels()->coding;
        table.host = cpu_kernels();
    }
    return &table;
}
