// The table of a node's keys, what follows from them, the files of configs/node/, and addresses.
#include "compress/filter.h"
#include "compress/select.h"
#include "node/config/config.h"
#include "node/schema/private.h"
#include "test/support/node_keys.h"
#include "test/support/seeded.h"
#include "train/model.h"
#include "train/trainer.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void the_defaults_are_those_of_the_design(void **state)
{
    (void)state;
    struct node_config c;
    struct base_reason why = {""};
    start(&c);
    assert_int_equal(node_config_check(&c, &why), BASE_OK);
    assert_string_equal(c.node.name, "");
    assert_string_equal(c.node.dir, "p2pml-data");
    assert_string_equal(c.node.listen, "127.0.0.1:7400");
    assert_string_equal(c.node.http, "127.0.0.1:7480");
    assert_true(c.node.start_timeout_ns == 30000000000u && c.node.linger_ns == 10000000000u);
    assert_string_equal(c.cluster.name, "p2pml");
    assert_int_equal(c.peers.count, 0);
    assert_int_equal(c.model.kind, TRAIN_MLP);
    assert_int_equal(c.model.hidden.count, 1);
    assert_int_equal(c.model.hidden.items[0], 256);
    assert_int_equal(c.data.kind, NODE_DATA_DIGITS);
    assert_int_equal(c.data.classes, 10);
    assert_int_equal(c.data.partition, NODE_PARTITION_IID);
    assert_true(c.data.alpha == 0.1);
    assert_true(c.data.shard == 0 && c.data.shards == 1);
    assert_true(c.train.steps == 2000 && c.train.batch == 32 && c.train.eval_rounds == 50);
    assert_int_equal(c.train.optimizer, TRAIN_SGD);
    assert_true(c.train.rate == 0.1 && c.train.momentum == 0 && c.train.weight_decay == 0);
    assert_true(c.train.beta1 == 0.9 && c.train.beta2 == 0.999 && c.train.epsilon == 1e-8);
    assert_int_equal(c.average.mode, NODE_MODE_ASYNC);
    assert_int_equal(c.average.local_steps, 4);
    assert_true(c.average.ratio == 0);
    assert_int_equal(c.average.values, KERNELS_INT8);
    assert_int_equal(c.average.select, COMPRESS_EXACT);
    assert_int_equal(c.average.select_block, 0);
    assert_int_equal(c.average.filters.count, 0);
    assert_true(c.average.drift_correction && c.average.drift_gain == 2 && c.average.drift_limit == 0.25);
    assert_int_equal(c.average.share_second_moment, 20);
    assert_true(c.average.outer_momentum == 0);
    assert_true(c.average.deadline_floor_ns == 1000000000u && c.average.deadline_ceiling_ns == 10000000000u);
    assert_true(c.average.forget_after_ns == 60000000000u);
    assert_int_equal(c.topology.kind, 0);
    assert_true(c.checkpoint.every_ns == 60000000000u && c.checkpoint.keep == 3);
    assert_true(c.device.kind == 0 && c.device.threads == 1);
    assert_true(c.log.level == 1 && c.log.format == 0);
    assert_true(c.model.seed == 1 && c.data.seed == 1 && c.train.seed == 1 && c.topology.seed == 1);
    node_schema_free(schema, &c);
}

static void the_table_of_keys_is_consistent(void **state)
{
    (void)state;
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        assert_true(strlen(key->name) < SCHEMA_NAME_BYTES);
        assert_true(strlen(key->meaning) > 20);
        assert_int_equal(key->meaning[strlen(key->meaning) - 1], '.');
        assert_true((key->type == NODE_KEY_CHOICE) == (key->choices != NULL) || key->type == NODE_KEY_REAL);
        for (size_t j = 0; j < i; j++) { // also as environment variables, in which dots become underscores
            char a[SCHEMA_NAME_BYTES], b[SCHEMA_NAME_BYTES];
            snprintf(a, sizeof a, "%s", key->name);
            snprintf(b, sizeof b, "%s", schema->keys[j].name);
            for (char *c = a; *c; c++)
                *c = *c == '.' ? '_' : *c;
            for (char *c = b; *c; c++)
                *c = *c == '.' ? '_' : *c;
            assert_string_not_equal(a, b);
            assert_int_not_equal(schema->keys[j].offset, key->offset);
        }
    }
}

static void help_shows_type_default_and_meaning_of_every_key(void **state)
{
    (void)state;
    char *help = node_schema_help(schema), line[1024];
    assert_non_null(help);
    // The words, regardless of line breaks.
    char *flat = strdup(help);
    assert_non_null(flat);
    size_t used = 0;
    for (const char *c = help; *c; c++)
        if (!isspace((unsigned char)*c) || (used && flat[used - 1] != ' '))
            flat[used++] = isspace((unsigned char)*c) ? ' ' : *c;
    flat[used] = 0;
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        char expected[SCHEMA_EXPECTED_BYTES];
        node_schema_expected(key, expected);
        expected[strcspn(expected, ":")] = 0;
        snprintf(line, sizeof line, "%s = %s (%s) ", key->name, key->initial[0] ? key->initial : "\"\"",
                 expected);
        const char *entry = strstr(flat, line);
        if (!entry || strncmp(entry + strlen(line), key->meaning, strlen(key->meaning)) != 0)
            fail_msg("--help lacks: %s", line);
    }
    for (const char *at = help; *at; at += strcspn(at, "\n") + 1)
        assert_true(strcspn(at, "\n") <= 100);
    free(flat);
    free(help);
}

static void random_text(char *out, size_t capacity)
{
    static const char *const bits[] = {"a",
                                       "Z",
                                       "0",
                                       " ",
                                       ":",
                                       "\"",
                                       "\\",
                                       "'",
                                       "#",
                                       "- ",
                                       "{",
                                       "}",
                                       "\xc3\xa9",
                                       "\xe2\x80\xa8",
                                       "~",
                                       "null",
                                       "%",
                                       "\xef\xbb\xbf",
                                       "\xf0\x9f\x98\x80",
                                       "!x",
                                       "&x",
                                       "*x",
                                       "|"};
    size_t used = 0, count = base_rng_below(&rng, 12);
    out[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bit = bits[base_rng_below(&rng, sizeof bits / sizeof *bits)];
        if (used + strlen(bit) < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s", bit);
    }
}

static void random_value(const struct node_key *key, char *out, size_t capacity)
{
    uint64_t least = node_schema_bound(key->least, 1), span = node_schema_bound(key->most, 1) - least;
    uint64_t number = least + (span == UINT64_MAX ? base_rng_u64(&rng) : base_rng_below(&rng, span + 1));
    char word[128];
    size_t used = 0, count = base_rng_below(&rng, 5);
    switch (key->type) {
    case NODE_KEY_TEXT:
        random_text(out, capacity);
        break;
    case NODE_KEY_CHOICE: {
        size_t n = 1;
        for (const char *c = key->choices; *c; c++)
            n += *c == '|';
        const char *at = key->choices;
        for (size_t pick = base_rng_below(&rng, n); pick; pick--)
            at += strcspn(at, "|") + 1;
        snprintf(out, capacity, "%.*s", (int)strcspn(at, "|"), at);
        break;
    }
    case NODE_KEY_BOOL:
        snprintf(out, capacity, "%s", base_rng_below(&rng, 2) ? "on" : "false");
        break;
    case NODE_KEY_INTEGER:
        snprintf(out, capacity, "%" PRIu64, number);
        break;
    case NODE_KEY_REAL:
    case NODE_KEY_RATE:
        snprintf(out, capacity, "%.17g", key->least + base_rng_uniform(&rng) * (key->most - key->least));
        break;
    case NODE_KEY_DURATION:
        snprintf(out, capacity, "%" PRIu64 "s", number ? number : 1);
        break;
    case NODE_KEY_TEXTS:
    case NODE_KEY_INTEGERS:
        out[0] = 0;
        for (size_t i = 0; i < count; i++) {
            random_text(word, sizeof word);
            used += key->type == NODE_KEY_TEXTS // 'x' on both sides: blanks at the ends are trimmed
                        ? (size_t)snprintf(out + used, capacity - used, "%sx%sx", i ? "," : "", word)
                        : (size_t)snprintf(out + used, capacity - used, "%s%" PRIu64, i ? "," : "", number);
        }
        break;
    case NODE_KEY_MAPS: // a node has none
        snprintf(out, capacity, "[]");
        break;
    }
}

static void random_configurations_read_back_the_same(void **state)
{
    (void)state;
    seeded_begin((uint64_t)time(NULL));
    for (int run = 0; run < 200; run++) {
        struct node_config first, second;
        struct base_reason why;
        char value[1024], assignment[1200];
        start(&first);
        start(&second);
        for (size_t i = 0; i < schema->count; i++) {
            random_value(&schema->keys[i], value, sizeof value);
            snprintf(assignment, sizeof assignment, "%s=%s", schema->keys[i].name, value);
            set(&first, assignment);
        }
        char *text = node_schema_write(schema, &first);
        assert_non_null(text);
        if (node_schema_read_text(schema, "written", text, strlen(text), &second, &why))
            fail_msg("%s\n%s", why.text, text);
        for (size_t i = 0; i < schema->count; i++) {
            union schema_value a, b;
            node_schema_value_load(&schema->keys[i], &first, &a);
            node_schema_value_load(&schema->keys[i], &second, &b);
            if (!node_schema_value_equal(&schema->keys[i], &a, &b))
                fail_msg("%s reads back differently:\n%s", schema->keys[i].name, text);
        }
        free(text);
        node_schema_free(schema, &first);
        node_schema_free(schema, &second);
    }
}

static void keys_of_the_exchange_are_parsed(void **state)
{
    (void)state;
    static const char text[] = "average:\n  values: int4\n  select: bisection\n  filters: [random-skip:0.1, "
                               "\"same-keys: 3\"]\n";
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"average:\n  values: int3\n", "node.yaml:2: average.values: found \"int3\", expected one of fp32, "
                                       "fp16, int8, bf16, int4, int2, sign"},
        {"average:\n  select: all\n",
         "node.yaml:2: average.select: found \"all\", expected one of exact, threshold, bisection, random"},
        {"average:\n  select_block: -1\n",
         "node.yaml:2: average.select_block: found \"-1\", expected a whole number from 0 to 1073741824"},
    };
    struct node_config config;
    struct compress_filters filters;
    struct base_reason why = {""};
    start(&config);
    assert_int_equal(node_schema_read_text(schema, "node.yaml", text, strlen(text), &config, &why), BASE_OK);
    assert_int_equal(config.average.values, KERNELS_INT4);
    assert_int_equal(config.average.select, COMPRESS_BISECTION);
    assert_int_equal(node_config_filters(&config, &filters, &why), BASE_OK);
    assert_int_equal(filters.count, 2);
    assert_string_equal(filters.chain[0].filter->name, "random-skip");
    assert_true(filters.chain[0].number == 0.1 && filters.chain[1].number == 3);
    assert_string_equal(filters.chain[1].filter->name, "same-keys");
    node_schema_free(schema, &config);
    start(&config);
    set(&config, "average.filters=loud:1");
    assert_int_equal(node_config_check(&config, &why), BASE_ENOTFOUND);
    assert_non_null(
        strstr(why.text, "--set: average.filters: there is no filter \"loud\"; expected one of: "));
    node_schema_free(schema, &config);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        start(&config);
        assert_int_not_equal(
            node_schema_read_text(schema, "node.yaml", wrong[i].text, strlen(wrong[i].text), &config, &why),
            BASE_OK);
        assert_string_equal(why.text, wrong[i].message);
        node_schema_free(schema, &config);
    }
}

static void zeros_mean_what_the_help_says(void **state)
{
    (void)state;
    struct node_config config;
    struct node_data_ranges ranges;
    start(&config);
    node_config_data_ranges(&config, &ranges);
    assert_true(ranges.train_first == 0 && ranges.train_count == 8000);
    assert_true(ranges.test_first == 8000 && ranges.test_count == 2000);
    set(&config, "data.train_first=100");
    set(&config, "data.train_count=50");
    set(&config, "data.test_count=7");
    node_config_data_ranges(&config, &ranges);
    assert_true(ranges.train_first == 100 && ranges.train_count == 50);
    assert_true(ranges.test_first == 150 && ranges.test_count == 7);
    set(&config, "data.test_first=5");
    node_config_data_ranges(&config, &ranges);
    assert_true(ranges.test_first == 5);
    set(&config, "data.kind=idx");
    set(&config, "data.train_count=0");
    set(&config, "data.test_first=0");
    node_config_data_ranges(&config, &ranges);
    assert_true(ranges.train_count == 0 && ranges.test_first == 0 && ranges.test_count == 7);
    node_schema_free(schema, &config);
}

static void the_schedule_is_parsed(void **state)
{
    (void)state;
    struct node_config config;
    struct train_schedule schedule = {0};
    struct base_reason why = {""};
    start(&config);
    assert_int_equal(node_config_schedule(&config, &schedule, &why), BASE_OK);
    assert_int_equal(schedule.count, 2);
    assert_true(schedule.at[0] == 0.6 && schedule.factor[0] == 0.3);
    assert_true(schedule.at[1] == 0.85 && schedule.factor[1] == 0.1);
    set(&config, "train.schedule=1/2:1/4");
    assert_int_equal(node_config_schedule(&config, &schedule, &why), BASE_OK);
    assert_true(schedule.count == 1 && schedule.at[0] == 0.5 && schedule.factor[0] == 0.25);
    set(&config, "train.schedule=0.5:-1");
    assert_int_equal(node_config_schedule(&config, &schedule, &why), BASE_EINVAL);
    assert_true(schedule.count == 1 && schedule.at[0] == 0.5);
    node_schema_free(schema, &config);
}

static void addresses_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool loopback;
    } good[] = {
        {"127.0.0.1:7400", "127.0.0.1", 7400, true},
        {"127.255.0.3:0", "127.255.0.3", 0, true},
        {"LocalHost:65535", "LocalHost", 65535, true},
        {"[::1]:1", "::1", 1, true},
        {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, true},
        {"[::]:1", "::", 1, false},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", 1, false},
        {"0.0.0.0:1", "0.0.0.0", 1, false},
        {"128.0.0.1:1", "128.0.0.1", 1, false},
        {"node-3.example.org:7400", "node-3.example.org", 7400, false},
        {"example.org.:7400", "example.org.", 7400, false},
        {"localhost.example.org:1", "localhost.example.org", 1, false},
        {"under_score:1", "under_score", 1, false},
        {"3com:1", "3com", 1, false},
    };
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (node_address_parse(good[i].text, host, &port, &why))
            fail_msg("%s: %s", good[i].text, why.text);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
        assert_int_equal(node_address_is_loopback(host), good[i].loopback);
    }
}

static void an_invalid_address_changes_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "host",
                                      ":1",
                                      "host:",
                                      "host:x",
                                      "host:-1",
                                      "host:+1",
                                      "host: 1",
                                      "host:1 ",
                                      "host:65536",
                                      "[::1]",
                                      "[::1]1",
                                      "[::1:1",
                                      "[]:1",
                                      "[host]:1",
                                      "::1:1",
                                      "a..b:1",
                                      ".a:1",
                                      "a b:1",
                                      "127.0.0:1",
                                      "300.1.1.1:1",
                                      "1.2.3.4.5:1",
                                      "http://a:1",
                                      "a/b:1",
                                      "[::1%]:1",
                                      "host:99999999999999999999",
                                      "a\n:1",
                                      "\xc3\xa9:1"};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason why;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(host, sizeof host, "before");
        port = 9;
        why.text[0] = 0;
        if (node_address_parse(bad[i], host, &port, &why) != BASE_EINVAL)
            fail_msg("accepted: %s", bad[i]);
        assert_string_equal(host, "before");
        assert_int_equal(port, 9);
        assert_non_null(strstr(why.text, "expected"));
    }
}

static void a_host_name_of_the_maximum_length_fits(void **state)
{
    (void)state;
    char host[LIMIT_HOST_BYTES], longest[LIMIT_HOST_BYTES + 8];
    uint16_t port;
    struct base_reason why;
    for (size_t i = 0; i < LIMIT_HOST_BYTES; i++)
        longest[i] = i % 50 == 49 ? '.' : 'a';
    memcpy(longest + LIMIT_HOST_BYTES, ":1", 3);
    assert_int_equal(node_address_parse(longest, host, &port, &why), BASE_EINVAL);
    memcpy(longest + LIMIT_HOST_BYTES - 1, ":1", 3);
    assert_int_equal(node_address_parse(longest, host, &port, &why), BASE_OK);
}

static void configs_path(const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/configs/node/%s", P2PML_SOURCE_DIR, name);
}

static void every_file_of_configs_is_valid(void **state)
{
    (void)state;
    char pattern[1024];
    glob_t found;
    configs_path("*.yaml", pattern, sizeof pattern);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct node_config config;
        struct base_reason why = {""};
        start(&config);
        if (node_schema_read_file(schema, found.gl_pathv[i], &config, &why))
            fail_msg("%s", why.text);
        if (config.cluster.secret_file[0]) // the user makes it; here any file will do
            set(&config, "cluster.secret_file=/dev/null");
        if (node_config_check(&config, &why) || node_config_check_runnable(&config, &why))
            fail_msg("%s", why.text);
        node_schema_free(schema, &config);
    }
    globfree(&found);
}

static void node_yaml_shows_every_key_with_its_default(void **state)
{
    (void)state;
    char path[1024];
    struct node_config config;
    struct base_reason why = {""};
    configs_path("node.yaml", path, sizeof path);
    start(&config);
    if (node_schema_read_file(schema, path, &config, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].name;
        if (strcmp(node_schema_origin(schema, &config, key), "default") == 0)
            fail_msg("%s does not show %s", path, key);
        if (!node_schema_is_initial(schema, &config, key))
            fail_msg("%s shows %s with another value than its default", path, key);
    }
    node_schema_free(schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_the_design),
        cmocka_unit_test(the_table_of_keys_is_consistent),
        cmocka_unit_test(help_shows_type_default_and_meaning_of_every_key),
        cmocka_unit_test(random_configurations_read_back_the_same),
        cmocka_unit_test(zeros_mean_what_the_help_says),
        cmocka_unit_test(the_schedule_is_parsed),
        cmocka_unit_test(keys_of_the_exchange_are_parsed),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(an_invalid_address_changes_nothing),
        cmocka_unit_test(a_host_name_of_the_maximum_length_fits),
        cmocka_unit_test(every_file_of_configs_is_valid),
        cmocka_unit_test(node_yaml_shows_every_key_with_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
