// Each filter compared with its definition, and chains of filters.
#include "compress/packet.h"
#include "compress_filters.h"
#include "test/support/compress_tools.h"
#include <stdio.h>

static bool significant(size_t i)
{
    float x = fabsf(world.x[world.index[i]]), a = fabsf(world.value[i]);
    return !(a < 0.25f * fmaxf(x, 0x1p-20f));
}

static void significantly_modified_follows_its_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        world_fill(counts[i]);
        world_drop("significantly-modified:0.25");
        assert_keeps(counts[i], significant);
        if (counts[i] == COUNT_MAX) // both cases occur
            assert_true(world.entries.count > COUNT_MAX / 10 && world.entries.count < COUNT_MAX * 9 / 10);
        world_fill(counts[i]);
        world_drop("significantly-modified:0");
        assert_keeps(counts[i], all);
    }
}

static void significance_has_a_smallest_threshold(void **state)
{
    (void)state;
    static const float changes[] = {0x1p-22f, 0x1.8p-23f, -0x1p-21f, -0x1p-30f};
    world_fill(4);
    for (size_t i = 0; i < 4; i++) {
        world.x[world.index[i]] = 0;
        world.value[i] = world.kept_value[i] = changes[i];
    }
    world_drop("significantly-modified:0.25"); // of 2^-20
    assert_int_equal(world.entries.count, 2);
    assert_int_equal(world.kept_index[0], world.index[0]);
    assert_int_equal(world.kept_index[1], world.index[2]);
}

static void no_element_may_be_significant(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        world_fill(counts[i]);
        for (size_t j = 0; j < counts[i]; j++)
            world.kept_value[j] = 0;
        world_drop("significantly-modified:0.01");
        assert_int_equal(world.entries.count, 0);
    }
}

static void a_chain_says_how_much_an_exchange_sends_anew(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double fresh;
    } known[] = {{"", 0.25},
                 {"significantly-modified:0.5", 0.25}, // it depends on the values
                 {"random-skip:0.2", 0.2},
                 {"same-keys:0", 0.25},
                 {"same-keys:4", 0.05}, // one exchange in five
                 {"significantly-modified:0.5, random-skip:0.2, same-keys:4", 0.04}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct compress_filters filters = {0};
        struct base_reason why;
        assert_int_equal(compress_filters_parse(known[i].text, &filters, &why), BASE_OK);
        assert_true(fabs(compress_filters_fresh(&filters, 0.25) - known[i].fresh) < 1e-12);
    }
}

static void random_skip_of_zero_keeps_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        world_fill(counts[i]);
        world_drop("random-skip:0");
        assert_keeps(counts[i], all);
    }
}

// Which of COUNT_MAX entries are kept with a seed.
static void kept_by(uint64_t seed, const char *text, bool kept[COUNT_MAX])
{
    world_fill(COUNT_MAX);
    world.turn.seed = seed;
    world_drop(text);
    memset(kept, 0, COUNT_MAX * sizeof *kept);
    for (size_t i = 0; i < world.entries.count; i++)
        kept[(world.kept_index[i] - 3) / STRIDE] = true;
}

static size_t common(const bool a[COUNT_MAX], const bool b[COUNT_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT_MAX; i++)
        n += a[i] && b[i];
    return n;
}

// Within 7 standard deviations: a random failure in one of 10^11 cases.
static void assert_near(size_t found, double trials, double p)
{
    double deviation = sqrt(trials * p * (1 - p));
    if (fabs((double)found - trials * p) > 7 * deviation)
        fail_msg("%zu of %g, expected about %g +- %g", found, trials, trials * p, deviation);
}

static void random_skip_drops_the_configured_part(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double p;
    } cases[] = {{"random-skip:0.01", 0.01}, {"random-skip:0.3", 0.3}, {"random-skip:0.99", 0.99}};
    static bool before[COUNT_MAX], kept[COUNT_MAX], again[COUNT_MAX];
    for (size_t i = 0; i < 3; i++) {
        size_t sum = 0, both = 0;
        double p = 1 - cases[i].p;
        for (uint64_t seed = 0; seed < 20; seed++) {
            kept_by(seed, cases[i].text, kept);
            kept_by(seed, cases[i].text, again);
            assert_memory_equal(kept, again, sizeof kept);
            sum += common(kept, kept);
            if (seed > 0) // and consecutive seeds are independent
                both += common(before, kept);
            memcpy(before, kept, sizeof kept);
        }
        assert_near(sum, 20.0 * COUNT_MAX, p);
        assert_near(both, 19.0 * COUNT_MAX, p * p);
    }
}

// Whether an entry is dropped does not depend on the other entries.
static void random_skip_depends_only_on_the_index(void **state)
{
    (void)state;
    static bool whole[COUNT_MAX];
    kept_by(5, "random-skip:0.5", whole);
    world_fill(COUNT_MAX);
    world.turn.seed = 5;
    size_t n = 0;
    for (size_t i = 1; i < COUNT_MAX; i += 3, n++)
        world.kept_index[n] = world.index[i];
    world.entries.count = n;
    world_drop("random-skip:0.5");
    size_t expected = 0;
    for (size_t i = 1; i < COUNT_MAX; i += 3)
        if (whole[i])
            assert_int_equal(world.kept_index[expected++], world.index[i]);
    assert_int_equal(world.entries.count, expected);
}

// Two custom filters: one keeps the even indices of the vector, one records its input.
static void keep_even(double number, const struct compress_filter_run *run, uint8_t *keep)
{
    assert_null(run->model);
    for (size_t i = 0; i < run->count; i++)
        keep[i] = run->index[i] % 2 == 0 && number > 0;
}

static size_t noted;

static void keep_noting(double number, const struct compress_filter_run *run, uint8_t *keep)
{
    (void)number;
    for (size_t i = 0; i < run->count; i++) {
        assert_true(run->model[i] == world.x[run->index[i]]);
        assert_true(run->value[i] == world.x[run->index[i]] - world.r[run->index[i]]);
        keep[i] = 255; // any value but 0 keeps the entry
    }
    noted += run->count;
}

static const struct compress_filter even = {.name = "even", .most = 1, .keep = keep_even};
static const struct compress_filter noting = {.name = "noting", .reads_model = true, .keep = keep_noting};

static size_t noted_by(const struct compress_filter *first, const struct compress_filter *second,
                       double number)
{
    struct compress_filters filters = {.count = 2, .chain = {{first, number}, {second, number}}};
    world_fill(COUNT_MAX);
    noted = 0;
    assert_int_equal(compress_filters_drop(&filters, &world.turn, &world.entries), BASE_OK);
    assert_int_equal(world.entries.count, number > 0 ? COUNT_MAX / 2 : 0);
    return noted;
}

static void a_filter_gets_what_the_filters_before_it_left(void **state)
{
    (void)state;
    assert_int_equal(noted_by(&even, &noting, 1), COUNT_MAX / 2);
    assert_int_equal(noted_by(&noting, &even, 1), COUNT_MAX);
    assert_int_equal(noted_by(&even, &noting, 0), 0);
}

static void an_empty_chain_keeps_all(void **state)
{
    (void)state;
    bool chosen = true;
    struct compress_filters none = {0};
    world_fill(100);
    world_drop("  ");
    assert_keeps(100, all);
    assert_int_equal(compress_filters_choose(&none, &world.turn, &world.entries, &chosen), BASE_OK);
    assert_false(chosen);
}

// Chooses indices with the chain; returns whether it gave a list.
static bool choose(const char *text)
{
    bool chosen;
    struct compress_filters filters = chain_of(text);
    assert_int_equal(compress_filters_choose(&filters, &world.turn, &world.entries, &chosen), BASE_OK);
    return chosen;
}

static void same_keys_are_used_for_their_number_of_exchanges(void **state)
{
    (void)state;
    struct compress_history history = {0};
    for (unsigned n = 0; n < 4; n++) {
        char text[32];
        snprintf(text, sizeof text, "same-keys:%u", n);
        world_fill(1000);
        world.turn.last = &history;
        assert_false(choose(text)); // nothing sent yet
        history_sent(&history, world.index, 1000, false);
        // no other code needs to hash it again
        assert_true(history.hash == compress_keys_hash(world.index, 1000));
        for (unsigned i = 0; i < n; i++) {
            memset(world.kept_index, 0, sizeof world.kept_index);
            memset(world.kept_value, 0, sizeof world.kept_value);
            world.entries.count = 0;
            assert_true(choose(text));
            assert_keeps(1000, all);
            history_sent(&history, world.kept_index, 1000, true);
        }
        assert_false(choose(text));
        // A new selection begins a new count.
        history_sent(&history, world.index, 10, false);
        assert_int_equal(choose(text), n > 0);
        compress_history_forget(&history);
        assert_false(choose(text));
    }
}

static void same_keys_need_room_and_a_history(void **state)
{
    (void)state;
    struct compress_history history = {0};
    world_fill(100);
    assert_false(choose("same-keys:5"));
    world.turn.last = &history;
    history_sent(&history, world.index, 0, false);
    assert_false(choose("same-keys:5")); // an empty list has no indices to reuse
    history_sent(&history, world.index, 100, false);
    world.entries.capacity = 99;
    assert_false(choose("same-keys:5"));
    assert_int_equal(world.entries.count, 100);
    world.entries.capacity = 100;
    assert_true(choose("random-skip:0.5, same-keys:5")); // and complete
    assert_keeps(100, all);
    world_drop("same-keys:5"); // which itself drops nothing
    assert_keeps(100, all);
    compress_history_forget(&history);
}

// The same with the product's backend.
static void the_cpu_backend_returns_the_values_of_a_list(void **state)
{
    (void)state;
    struct compress_history history = {0};
    world_fill(COUNT_MAX);
    assert_int_equal(kernels_open("cpu", 1, &world.turn.kernels, NULL), BASE_OK);
    history_sent(&history, world.index, COUNT_MAX, false);
    world.turn.last = &history;
    memset(world.kept_value, 0, sizeof world.kept_value);
    world.entries.count = 0;
    assert_true(choose("same-keys:1"));
    assert_keeps(COUNT_MAX, all);
    compress_history_forget(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(significantly_modified_follows_its_definition),
        cmocka_unit_test(significance_has_a_smallest_threshold),
        cmocka_unit_test(no_element_may_be_significant),
        cmocka_unit_test(random_skip_of_zero_keeps_all),
        cmocka_unit_test(random_skip_drops_the_configured_part),
        cmocka_unit_test(random_skip_depends_only_on_the_index),
        cmocka_unit_test(a_filter_gets_what_the_filters_before_it_left),
        cmocka_unit_test(an_empty_chain_keeps_all),
        cmocka_unit_test(a_chain_says_how_much_an_exchange_sends_anew),
        cmocka_unit_test(same_keys_are_used_for_their_number_of_exchanges),
        cmocka_unit_test(same_keys_need_room_and_a_history),
        cmocka_unit_test(the_cpu_backend_returns_the_values_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
