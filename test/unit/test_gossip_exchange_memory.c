// The memory that an exchange needs beside the model's own vectors, counted by an allocator that replaces the
// C library's.
#include "base/rng.h"
#include "gossip/exchange/exchange.h"
#include "test/support/cpu_kernels.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { D = 4u << 20, VECTOR = D * sizeof(float), ROUNDS = 3 };

static bool counting, correction_stays;
static size_t held, most, vectors; // bytes beside the vectors of models, their peak; number of vectors

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static void *taken(void *memory)
{
    if (!counting || !memory)
        return memory;
    size_t bytes = malloc_usable_size(memory);
    if (bytes >= VECTOR)
        vectors++;
    else
        held += bytes;
    most = held > most ? held : most;
    return memory;
}

static void given(void *memory)
{
    if (!counting || !memory)
        return;
    size_t bytes = malloc_usable_size(memory);
    if (bytes >= VECTOR)
        vectors--;
    else
        held -= bytes < held ? bytes : held;
}

void *malloc(size_t bytes)
{
    return taken(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return taken(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes)
{
    given(memory);
    return taken(__libc_realloc(memory, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return taken(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    *memory = taken(__libc_memalign(alignment, bytes));
    return *memory ? 0 : ENOMEM;
}

void free(void *memory)
{
    given(memory);
    __libc_free(memory);
}
#else
#define COUNTS 0
#endif

struct node {
    struct gossip_exchange *exchange;
    float *x, *correction; // the trainer's
};

static struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static void step(struct node *nodes, uint8_t from, const struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;

    assert_int_equal(gossip_exchange_step(nodes[from].exchange, event, &actions), BASE_OK);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.list[i].kind != GOSSIP_EXCHANGE_SEND)
            continue;
        uint8_t to = actions.list[i].peer.bytes[0];
        struct gossip_exchange_event message = {.kind = GOSSIP_EXCHANGE_MESSAGE,
                                                .now_ns = event->now_ns,
                                                .peer = id_of(from),
                                                .message = &actions.list[i].message};
        step(nodes, to, &message);
    }
}

static void link_up(struct node *nodes)
{
    struct gossip_exchange_actions first, second;
    struct gossip_exchange_event up = {.kind = GOSSIP_EXCHANGE_LINK_UP, .now_ns = 1, .peer = id_of(1)};

    assert_int_equal(gossip_exchange_step(nodes[0].exchange, &up, &first), BASE_OK);
    up.peer = id_of(0);
    assert_int_equal(gossip_exchange_step(nodes[1].exchange, &up, &second), BASE_OK);
    struct gossip_exchange_event hello = {.kind = GOSSIP_EXCHANGE_MESSAGE, .now_ns = 1, .peer = id_of(0)};
    hello.message = &first.list[0].message;
    step(nodes, 1, &hello);
    hello.peer = id_of(1);
    hello.message = &second.list[0].message;
    step(nodes, 0, &hello);
}

static void round_of(struct node *nodes, uint8_t node, uint64_t round, bool meets)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND, .now_ns = 1 + round};

    event.round.round = round;
    event.round.meets = meets;
    event.round.partner = id_of(!node);
    event.round.step_scale = 0.1f;
    event.round.model = nodes[node].x;
    event.round.correction = nodes[node].correction;
    event.round.correction_stays = correction_stays;
    step(nodes, node, &event);
}

// Two nodes at ratio 1/100; each has one edge, so there is one packet of each kind.
static void measure(enum kernels_format format, const char *filters, double limit)
{
    struct gossip_exchange_options options = {.kernels = cpu_kernels(),
                                              .parameters = D,
                                              .ratio = 0.01f,
                                              .values = format,
                                              .drift_correction = true,
                                              .drift_gain = 2,
                                              .drift_limit = 0.25f,
                                              .deadline_floor_ns = 1000000000,
                                              .deadline_ceiling_ns = 1000000000};
    struct node nodes[2];
    struct base_rng rng;
    struct base_reason why;
    struct gossip_exchange_totals totals;
    float *start = calloc(D, sizeof *start);

    assert_non_null(start);
    base_rng_seed(&rng, 7);
    assert_int_equal(compress_filters_parse(filters, &options.filters, &why), BASE_OK);
    options.start = start;
    for (size_t i = 0; i < 2; i++) {
        nodes[i].x = malloc(VECTOR);
        nodes[i].correction = malloc(VECTOR);
        assert_true(nodes[i].x && nodes[i].correction);
        for (size_t j = 0; j < D; j++)
            nodes[i].x[j] = (float)base_rng_normal(&rng);
    }
    held = most = vectors = 0;
    counting = true;
    for (uint8_t i = 0; i < 2; i++) {
        options.self = id_of(i);
        assert_int_equal(gossip_exchange_create(&options, &nodes[i].exchange, &why), BASE_OK);
    }
    link_up(nodes);
    for (uint64_t round = 1; round <= ROUNDS; round++) { // each of them initiates, and each of them responds
        round_of(nodes, round % 2, round, true);
        round_of(nodes, !(round % 2), round, false);
    }
    counting = false;
    gossip_exchange_totals(nodes[0].exchange, &totals);
    assert_int_equal(totals.exchanges, ROUNDS);
    double part = (double)most / 2 / VECTOR;
    printf("format %d, filters \"%s\": %.2f%% of the model beside %zu vectors a node\n", (int)format, filters,
           100 * part, vectors / 2);
    const size_t each = correction_stays ? 3 : 4; // x, r, c; the sum of corrections
    assert_int_equal(vectors, 2 * each);
    assert_true(totals.memory > each * VECTOR);
    assert_true((double)totals.memory <= ((double)each + limit) * VECTOR);
    assert_true(part <= limit);
    for (size_t i = 0; i < 2; i++) {
        gossip_exchange_destroy(nodes[i].exchange);
        free(nodes[i].x);
        free(nodes[i].correction);
    }
    free(start);
}

static void an_exchange_takes_a_twentieth_of_the_model(void **state)
{
    (void)state;
    measure(KERNELS_INT8, "", 0.05);
    measure(KERNELS_INT4, "random-skip:0.1", 0.05);
    measure(KERNELS_SIGN, "", 0.05);
    correction_stays = true;
    measure(KERNELS_INT8, "", 0.05);
    correction_stays = false;
}

// The indices of the latest packets of both directions are kept, and for a moment those before them.
static void remembered_indices_take_two_percent_more(void **state)
{
    (void)state;
    measure(KERNELS_INT8, "same-keys:4", 0.10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_takes_a_twentieth_of_the_model),
        cmocka_unit_test(remembered_indices_take_two_percent_more),
    };

    if (!COUNTS) {
        puts("skipped: a sanitizer, or a C library that is not GNU's, has the allocator");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
