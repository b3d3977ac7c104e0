// An exchange over kernels whose memory the host cannot touch: the same bits at both ends as over the CPU's
// table, the bytes that cross between the two memories, and what is refused.
#include "test/support/exchange_ends.h"
#include "test/support/far_kernels.h"

static void both_ends_have_the_same_bits(void **state)
{
    (void)state;
    static const struct ends_case cases[] = {
        {.name = "int8, sync", .parameters = 3000, .ratio = 0.05f, .values = KERNELS_INT8, .stays = true},
        {.name = "async", .parameters = 3000, .ratio = 0.05f, .values = KERNELS_INT4, .async = true},
        {.name = "moments", .parameters = 9001, .ratio = 0.05f, .values = KERNELS_INT8, .moments = 3},
        {.name = "clipped", .parameters = 3000, .ratio = 0.05f, .values = KERNELS_BF16, .clip = true},
        {.name = "kept",
         .parameters = 500,
         .ratio = 0.1f,
         .values = KERNELS_FP16,
         .keeps = true,
         .stays = true},
        {.name = "all", .parameters = 700, .ratio = 1, .values = KERNELS_FP32, .async = true, .stays = true},
        {.name = "threshold",
         .parameters = 3000,
         .ratio = 0.05f,
         .method = COMPRESS_THRESHOLD,
         .values = KERNELS_SIGN},
        {.name = "random",
         .parameters = 3000,
         .ratio = 0.05f,
         .method = COMPRESS_RANDOM,
         .values = KERNELS_INT2},
        {.name = "filters",
         .parameters = 3000,
         .ratio = 0.05f,
         .values = KERNELS_INT8,
         .filters = "same-keys:3, significantly-modified:0.01, random-skip:0.2"},
        {.name = "several windows",
         .parameters = 200000,
         .ratio = 0.6f,
         .values = KERNELS_INT8,
         .moments = 2,
         .rounds = 19}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ends_compare(&cases[i], far_kernels());
}

// In a round in which the two ends meet, packets, indices and sums cross, and no whole vector.
static void only_packets_cross_between_the_memories(void **state)
{
    (void)state;
    const struct ends_case c = {
        .parameters = 400000, .ratio = 0.01f, .values = KERNELS_INT8, .moments = 100, .stays = true};
    const size_t entries = 4000, slice = c.parameters / c.moments, most = 24 * entries + 12 * slice + 65536;
    struct ends ends;
    uint64_t largest = 0;

    ends_create(&ends, &c, far_kernels());
    for (unsigned round = 1; round <= 6; round++) {
        for (size_t i = 0; i < 2; i++)
            ends_train(&ends, i);
        const struct far_use before = far_use();
        net_round_all(ends.net, round);
        const struct far_use after = far_use();
        const uint64_t crossed = after.up - before.up + after.down - before.down;
        if (round > 1) // the first exchange of an edge needs the seed model
            largest = crossed > largest ? crossed : largest;
        for (size_t i = 0; i < 2; i++)
            ends_fetch(&ends, i);
    }
    printf("%llu bytes crossed in a round; a vector has %zu\n", (unsigned long long)largest,
           4 * c.parameters);
    assert_true(largest > 0 && largest <= most && most < c.parameters);
    assert_int_equal(net_edge(ends.net, 1, 0, &(struct gossip_edge_info){0})->exchanges, 6);
    ends_destroy(&ends);
    assert_int_equal(far_use().held, 0); // all vectors were released
}

static void references_in_bf16_are_refused(void **state)
{
    (void)state;
    float start[16] = {0};
    struct gossip_exchange_options options = {.kernels = far_kernels(),
                                              .parameters = 16,
                                              .start = start,
                                              .ratio = 0.5f,
                                              .reference_bf16 = true,
                                              .deadline_ceiling_ns = 1};
    struct gossip_exchange *exchange;
    struct base_reason why;

    assert_int_equal(gossip_exchange_create(&options, &exchange, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "bf16"));
    assert_non_null(strstr(why.text, "'far'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_have_the_same_bits),
                                       cmocka_unit_test(only_packets_cross_between_the_memories),
                                       cmocka_unit_test(references_in_bf16_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
