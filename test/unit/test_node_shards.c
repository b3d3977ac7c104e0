// Shards that are taken over and given back. The object starts a thread (pthread_create in
// node/learn/takeover.c), so this also runs under ThreadSanitizer. A load waits for a named pipe: the test
// decides when it continues.
#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "node/learn/data.h"
#include "node/learn/takeover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SHARDS   5u
#define EXAMPLES 300u
#define FOREVER  UINT64_MAX

static uint64_t seed = 20260512;
static const uint32_t all[SHARDS] = {0, 1, 2, 3, 4}, without_3[] = {0, 1, 2, 4}, without_13[] = {0, 2, 4};

static struct node_config digits(size_t shard)
{
    struct node_config config = {0};
    config.data.kind = NODE_DATA_DIGITS;
    config.data.train_count = EXAMPLES;
    config.data.partition = NODE_PARTITION_DIRICHLET;
    config.data.alpha = 0.3;
    config.data.seed = seed;
    config.data.shard = shard;
    config.data.shards = SHARDS;
    return config;
}

// One node: its configuration, its own shard, the object.
struct node {
    struct node_config config;
    struct train_dataset own;
    struct node_shards *shards;
};

static void open_node(struct node *node, struct node_config config)
{
    struct base_reason why = {""};
    *node = (struct node){.config = config};
    if (node_data_load(&node->config, node->config.data.shard, &node->own, NULL, &why))
        fail_msg("%s", why.text);
    assert_int_equal(node_shards_create(&node->config, &node->own, &node->shards), BASE_OK);
}

static void close_node(struct node *node)
{
    node_shards_destroy(node->shards, FOREVER);
    train_dataset_destroy(&node->own);
}

static struct node_shards_set take(struct node *node)
{
    struct node_shards_set set;
    assert_true(node_shards_wait(node->shards, FOREVER));
    assert_true(node_shards_ready(node->shards, 1, &set));
    node_shards_commit(node->shards, true);
    return set;
}

static void assert_nothing_new(struct node *node)
{
    struct node_shards_set set;
    assert_true(node_shards_wait(node->shards, FOREVER));
    assert_false(node_shards_ready(node->shards, 1, &set));
}

static uint64_t hash_of_row(const struct train_dataset *data, size_t row)
{
    return base_hash_bytes(data->labels[row], data->x + row * data->features,
                           data->features * sizeof *data->x);
}

// A sum that does not depend on the order of the examples.
static uint64_t hash_of(const struct train_dataset *data)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < data->examples; i++)
        sum += hash_of_row(data, i);
    return sum;
}

static bool has_row(const struct train_dataset *data, uint64_t hash)
{
    for (size_t i = 0; i < data->examples; i++)
        if (hash_of_row(data, i) == hash)
            return true;
    return false;
}

static void nothing_is_new_at_first(void **state)
{
    (void)state;
    struct node node;
    open_node(&node, digits(2));
    assert_nothing_new(&node);
    node_shards_want(node.shards, all, SHARDS);
    assert_nothing_new(&node);
    node_shards_want(node.shards, all + 3, 2);  // asks for others,
    node_shards_want(node.shards, all, SHARDS); // and withdraws the request
    assert_nothing_new(&node);
    close_node(&node);
}

// Together the survivors have every example once; the weights are 1 on average, so that the mean over nodes
// is the mean over examples. Then every node gets back exactly its own examples.
static void living_nodes_divide_all_examples(void **state)
{
    (void)state;
    struct base_reason why = {""};
    struct train_dataset whole;
    struct node_config config = digits(0);
    assert_int_equal(node_data_load(&config, NODE_DATA_ALL, &whole, NULL, &why), BASE_OK);
    uint64_t sum = 0;
    double weights = 0;
    size_t examples = 0;
    for (size_t k = 0; k < 3; k++) {
        struct node node;
        open_node(&node, digits(without_13[k]));
        node_shards_want(node.shards, without_13, 3);
        const struct node_shards_set set = take(&node);
        assert_int_equal(set.orphans, 2);
        assert_int_equal(set.taken + node.own.examples, set.data->examples);
        assert_true(set.data->whole == EXAMPLES);
        for (size_t i = 0; i < node.own.examples; i++)
            assert_true(has_row(set.data, hash_of_row(&node.own, i)));
        sum += hash_of(set.data);
        examples += set.data->examples;
        weights += set.weight;
        node_shards_want(node.shards, all, SHARDS);
        const struct node_shards_set back = take(&node);
        assert_ptr_equal(back.data, &node.own);
        assert_int_equal(back.orphans + back.taken, 0);
        assert_true(back.weight == node_data_weight(&node.config, &node.own, SHARDS));
        assert_nothing_new(&node);
        close_node(&node);
    }
    assert_int_equal(examples, EXAMPLES);
    assert_true(sum == hash_of(&whole));
    assert_true(fabs(weights / 3 - 1) < 1e-9);
    train_dataset_destroy(&whole);
}

static void the_weight_can_be_fixed(void **state)
{
    (void)state;
    struct node node;
    struct node_config config = digits(0);
    config.train.weight = 0.75;
    open_node(&node, config);
    node_shards_want(node.shards, without_3, 4);
    assert_true(take(&node).weight == 0.75);
    close_node(&node);
}

// A member's record may name any shard. The node's own shard is always considered living.
static void invalid_shards_are_ignored(void **state)
{
    (void)state;
    static const uint32_t strange[] = {UINT32_MAX, 4, 1, 1, SHARDS, 0, LIMIT_PEERS, 1};
    struct node node;
    open_node(&node, digits(2));
    node_shards_want(node.shards, strange, sizeof strange / sizeof *strange);
    assert_int_equal(take(&node).orphans, 1);
    node_shards_want(node.shards, without_3, 4);
    assert_nothing_new(&node); // the same shards in another form
    node_shards_want(node.shards, NULL, 0);
    const struct node_shards_set set = take(&node);
    assert_int_equal(set.orphans, 4);
    assert_int_equal(set.data->examples, EXAMPLES);
    assert_true(set.weight == 1.0);
    close_node(&node);
}

static void a_refused_set_is_dropped(void **state)
{
    (void)state;
    struct node node;
    struct node_shards_set set;
    open_node(&node, digits(0));
    node_shards_want(node.shards, without_3, 4);
    assert_true(node_shards_wait(node.shards, FOREVER));
    assert_true(node_shards_ready(node.shards, 1, &set));
    node_shards_commit(node.shards, false);
    assert_nothing_new(&node);
    node_shards_want(node.shards, without_3, 4); // asked again, tried again
    assert_int_equal(take(&node).orphans, 1);
    close_node(&node);
}

// Whatever was wanted before, and whether it was taken or not: the result of the last request is that of a
// node that has requested nothing else.
static void the_newest_request_counts(void **state)
{
    (void)state;
    struct base_rng rng;
    struct node node;
    base_rng_seed(&rng, seed);
    open_node(&node, digits(1));
    const struct train_dataset *used = &node.own;
    for (int k = 0; k < 100; k++) {
        uint32_t living[SHARDS];
        bool lives[SHARDS] = {[1] = true};
        size_t count = 0;
        struct node_shards_set set;
        struct train_dataset expected;
        struct base_reason why = {""};
        for (uint32_t i = 0; i < SHARDS; i++)
            if (base_rng_below(&rng, 2)) {
                lives[i] = true;
                living[count++] = i;
            }
        node_shards_want(node.shards, living, count);
        bool last = base_rng_below(&rng, 4) == 0;
        if (last)
            assert_true(node_shards_wait(node.shards, FOREVER));
        if ((last || base_rng_below(&rng, 2)) && node_shards_ready(node.shards, 1, &set)) {
            used = set.data;
            node_shards_commit(node.shards, true);
        }
        if (!last)
            continue;
        assert_int_equal(node_data_load_living(&node.config, 1, lives, &expected, &why), BASE_OK);
        assert_int_equal(used->examples, expected.examples);
        assert_true(hash_of(used) == hash_of(&expected));
        train_dataset_destroy(&expected);
    }
    close_node(&node);
}

// A LIBSVM file in a temporary directory.
struct place {
    char directory[64], file[80], spare[80];
};

static void write_examples(FILE *file, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%zu 1:%zu 2:%g\n", i % 3, i, (double)(i % 7) / 8);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *path, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    write_examples(file, count);
}

static struct node_config open_place(struct place *place)
{
    struct node_config config = digits(0);
    snprintf(place->directory, sizeof place->directory, "/tmp/p2pml-shards-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->file, sizeof place->file, "%s/train", place->directory);
    snprintf(place->spare, sizeof place->spare, "%s/spare", place->directory);
    write_file(place->file, EXAMPLES);
    config.data.kind = NODE_DATA_LIBSVM;
    config.data.train_file = config.data.test_file = place->file;
    config.data.train_count = 0;
    config.data.features = 2;
    config.data.classes = 3;
    return config;
}

static void close_place(struct place *place)
{
    (void)unlink(place->file);
    (void)unlink(place->spare);
    assert_int_equal(rmdir(place->directory), 0);
}

// Replaces the file by a pipe; the file is moved aside.
static void put_pipe(struct place *place)
{
    assert_int_equal(rename(place->file, place->spare), 0);
    assert_int_equal(mkfifo(place->file, 0600), 0);
}

// Returns once a reader has opened the pipe.
static FILE *open_pipe(const struct place *place)
{
    FILE *pipe = fdopen(open(place->file, O_WRONLY | O_CLOEXEC), "w");
    assert_non_null(pipe);
    return pipe;
}

// A newer request arrives during a load: the result of the load is discarded, and that of the newer request
// comes next.
static void a_request_during_a_load_replaces_it(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    struct node_shards_set set;
    open_node(&node, open_place(&place));
    put_pipe(&place);
    node_shards_want(node.shards, without_3, 4);
    FILE *pipe = open_pipe(&place);
    assert_false(node_shards_ready(node.shards, 1, &set));
    assert_false(node_shards_wait(node.shards, 1));
    node_shards_want(node.shards, without_13, 3);
    assert_false(node_shards_ready(node.shards, 1, &set));
    assert_int_equal(rename(place.spare, place.file), 0); // for the second load
    write_examples(pipe, EXAMPLES);
    assert_int_equal(take(&node).orphans, 2);
    close_node(&node);
    close_place(&place);
}

// The owner returns before the load has ended: nothing was new, and nothing becomes new.
static void an_owner_that_returns_during_a_load_cancels_it(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    open_node(&node, open_place(&place));
    put_pipe(&place);
    node_shards_want(node.shards, without_3, 4);
    FILE *pipe = open_pipe(&place);
    node_shards_want(node.shards, all, SHARDS);
    write_examples(pipe, EXAMPLES);
    assert_nothing_new(&node);
    close_node(&node);
    close_place(&place);
}

// While other examples are in use, the owner's return needs no file and waits for no load.
static void giving_back_needs_no_file(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    struct node_shards_set set;
    open_node(&node, open_place(&place));
    node_shards_want(node.shards, without_3, 4);
    assert_true(take(&node).taken > 0);
    put_pipe(&place);
    node_shards_want(node.shards, without_13, 3);
    FILE *pipe = open_pipe(&place);
    node_shards_want(node.shards, all, SHARDS);
    assert_true(node_shards_ready(node.shards, 1, &set));
    assert_ptr_equal(set.data, &node.own);
    node_shards_commit(node.shards, true);
    assert_int_equal(fclose(pipe), 0); // an empty file: it does not matter
    assert_nothing_new(&node);
    close_node(&node);
    close_place(&place);
}

static void a_file_that_is_gone_or_changed_is_refused(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    open_node(&node, open_place(&place));
    assert_int_equal(rename(place.file, place.spare), 0);
    node_shards_want(node.shards, without_3, 4);
    assert_nothing_new(&node);
    write_file(place.file, EXAMPLES - 1); // no longer the same data set: shards would overlap
    node_shards_want(node.shards, without_3, 4);
    assert_nothing_new(&node);
    assert_int_equal(rename(place.spare, place.file), 0);
    node_shards_want(node.shards, without_3, 4);
    assert_int_equal(take(&node).orphans, 1);
    close_node(&node);
    close_place(&place);
}

// No new request is needed: at a round boundary half a minute later it is tried again.
static void a_failed_load_is_tried_again(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    struct node_shards_set set;
    open_node(&node, open_place(&place));
    assert_int_equal(rename(place.file, place.spare), 0);
    node_shards_want(node.shards, without_3, 4);
    assert_nothing_new(&node); // at time 1
    assert_int_equal(rename(place.spare, place.file), 0);
    assert_false(node_shards_ready(node.shards, NODE_SHARDS_RETRY_NS, &set));
    assert_true(node_shards_wait(node.shards, FOREVER));
    assert_false(node_shards_ready(node.shards, NODE_SHARDS_RETRY_NS, &set));
    (void)node_shards_ready(node.shards, NODE_SHARDS_RETRY_NS + 1, &set);
    assert_int_equal(take(&node).orphans, 1);
    close_node(&node);
    close_place(&place);
}

// If the trainer could not take its own shard back (out of memory), it is offered again, itself and not a
// copy.
static void the_own_shard_is_offered_again(void **state)
{
    (void)state;
    struct node node;
    struct node_shards_set set;
    open_node(&node, digits(0));
    node_shards_want(node.shards, without_3, 4);
    (void)take(&node);
    node_shards_want(node.shards, all, SHARDS);
    assert_true(node_shards_ready(node.shards, 1, &set));
    node_shards_commit(node.shards, false);
    assert_nothing_new(&node);
    assert_true(node_shards_ready(node.shards, NODE_SHARDS_RETRY_NS + 1, &set));
    assert_ptr_equal(set.data, &node.own);
    node_shards_commit(node.shards, true);
    assert_nothing_new(&node);
    close_node(&node);
}

// A load that hangs delays no one: its thread continues alone and frees what it has.
static void the_end_does_not_wait_for_a_load(void **state)
{
    (void)state;
    struct place place;
    struct node node;
    open_node(&node, open_place(&place));
    put_pipe(&place);
    node_shards_want(node.shards, without_3, 4);
    FILE *pipe = open_pipe(&place);
    node_shards_destroy(node.shards, 1);
    train_dataset_destroy(&node.own);
    write_examples(pipe, EXAMPLES);
    close_place(&place);
}

int main(void)
{
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 10) : seed;
    print_message("P2PML_SEED=%" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_new_at_first),
        cmocka_unit_test(living_nodes_divide_all_examples),
        cmocka_unit_test(the_weight_can_be_fixed),
        cmocka_unit_test(invalid_shards_are_ignored),
        cmocka_unit_test(a_refused_set_is_dropped),
        cmocka_unit_test(the_newest_request_counts),
        cmocka_unit_test(a_request_during_a_load_replaces_it),
        cmocka_unit_test(an_owner_that_returns_during_a_load_cancels_it),
        cmocka_unit_test(giving_back_needs_no_file),
        cmocka_unit_test(a_file_that_is_gone_or_changed_is_refused),
        cmocka_unit_test(a_failed_load_is_tried_again),
        cmocka_unit_test(the_own_shard_is_offered_again),
        cmocka_unit_test(the_end_does_not_wait_for_a_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
