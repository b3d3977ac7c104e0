// The table of a node's keys, the checks that span keys, the files of configs/node/, and addresses.
#include "base/limits.h"
#include "base/rng.h"
#include "compress/filter.h"
#include "compress/select.h"
#include "node/config/config.h"
#include "node/schema/private.h"
#include "train/model.h"
#include "train/trainer.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct node_schema *const schema = &node_config_schema;

static void start(struct node_config *config)
{
    struct base_reason why = {""};
    memset(config, 0, sizeof *config);
    if (node_schema_defaults(schema, config, &why))
        fail_msg("%s", why.text);
}

static void set(struct node_config *config, const char *assignment)
{
    struct base_reason why = {""};
    if (node_schema_set(schema, assignment, config, &why))
        fail_msg("%s", why.text);
}

static void defaults_are_those_of_the_design(void **state)
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
    assert_true(c.average.ratio == 1.0 / 32);
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

static void the_table_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        assert_true(strlen(key->name) < SCHEMA_NAME_BYTES);
        assert_true(strlen(key->meaning) > 20);
        assert_int_equal(key->meaning[strlen(key->meaning) - 1], '.');
        assert_true((key->type == NODE_KEY_CHOICE) == (key->choices != NULL));
        for (size_t j = 0; j < i; j++) { // also as variables, where dots become underscores
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
    // The same words, whatever the wrapping.
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

static uint64_t seed_of_this_run(void)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("P2PML_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static void random_text(struct base_rng *rng, char *out, size_t capacity)
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
    size_t used = 0, count = base_rng_below(rng, 12);
    out[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bit = bits[base_rng_below(rng, sizeof bits / sizeof *bits)];
        if (used + strlen(bit) < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s", bit);
    }
}

static void random_value(struct base_rng *rng, const struct node_key *key, char *out, size_t capacity)
{
    uint64_t least = node_schema_bound(key->least, 1), span = node_schema_bound(key->most, 1) - least;
    uint64_t number = least + (span == UINT64_MAX ? base_rng_u64(rng) : base_rng_below(rng, span + 1));
    char word[128];
    size_t used = 0, count = base_rng_below(rng, 5);
    switch (key->type) {
    case NODE_KEY_TEXT:
        random_text(rng, out, capacity);
        break;
    case NODE_KEY_CHOICE: {
        size_t n = 1;
        for (const char *c = key->choices; *c; c++)
            n += *c == '|';
        const char *at = key->choices;
        for (size_t pick = base_rng_below(rng, n); pick; pick--)
            at += strcspn(at, "|") + 1;
        snprintf(out, capacity, "%.*s", (int)strcspn(at, "|"), at);
        break;
    }
    case NODE_KEY_BOOL:
        snprintf(out, capacity, "%s", base_rng_below(rng, 2) ? "on" : "false");
        break;
    case NODE_KEY_INTEGER:
        snprintf(out, capacity, "%" PRIu64, number);
        break;
    case NODE_KEY_REAL:
        snprintf(out, capacity, "%.17g", key->least + base_rng_uniform(rng) * (key->most - key->least));
        break;
    case NODE_KEY_DURATION:
        snprintf(out, capacity, "%" PRIu64 "s", number ? number : 1);
        break;
    case NODE_KEY_TEXTS:
    case NODE_KEY_INTEGERS:
        out[0] = 0;
        for (size_t i = 0; i < count; i++) {
            random_text(rng, word, sizeof word);
            used +=
                key->type ==
                        NODE_KEY_TEXTS // 'x' on both sides: blanks at the ends of an element are not its own
                    ? (size_t)snprintf(out + used, capacity - used, "%sx%sx", i ? "," : "", word)
                    : (size_t)snprintf(out + used, capacity - used, "%s%" PRIu64, i ? "," : "", number);
        }
        break;
    case NODE_KEY_MAPS: // a node has none
        snprintf(out, capacity, "[]");
        break;
    }
}

static void random_configurations_read_back(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed_of_this_run());
    for (int run = 0; run < 200; run++) {
        struct node_config first, second;
        struct base_reason why;
        char value[1024], assignment[1200];
        start(&first);
        start(&second);
        for (size_t i = 0; i < schema->count; i++) {
            random_value(&rng, &schema->keys[i], value, sizeof value);
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

struct wrong {
    const char *assignments[6];
    const char *message;
};

static void every_impossible_combination_is_named(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {{"node.name=a b"},
         "--set: node.name: found \"a b\", expected only letters, digits, '.', '_' and '-'"},
        {{"node.name=0123456789012345678901234567890123456789012345678901234567890123"},
         "--set: node.name: found \"0123456789012345678901234567890123456789012345678901234567890123\" with "
         "64 "
         "characters, expected at most 63"},
        {{"cluster.name="}, "--set: cluster.name: found \"\", expected a name"},
        {{"cluster.name=\xc3\xa9"},
         "--set: cluster.name: found \"\xc3\xa9\", expected only letters, digits, '.', '_' and '-'"},
        {{"node.dir="}, "--set: node.dir: found \"\", expected a directory"},
        {{"node.listen=7400"},
         "--set: node.listen: found \"7400\", expected host:port or [IPv6 address]:port"},
        {{"node.listen=localhost:70000"},
         "--set: node.listen: found \"localhost:70000\", expected a port from 0 to 65535 behind the host"},
        {{"node.listen=0.0.0.0:7400"},
         "--set: node.listen: found \"0.0.0.0:7400\", which other hosts can reach, with neither "
         "cluster.secret_file nor "
         "cluster.allow_file, expected one of them: make a secret with 'p2pml keygen --secret FILE', copy it "
         "to every "
         "node and name it in cluster.secret_file"},
        {{"node.http=localhost"},
         "--set: node.http: found \"localhost\", expected host:port or [IPv6 address]:port"},
        {{"node.http=127.0.0.1:7400"},
         "--set: node.http: found \"127.0.0.1:7400\", which is node.listen too, expected another port"},
        {{"cluster.secret_file=/nowhere/secret"},
         "--set: cluster.secret_file: found \"/nowhere/secret\", which cannot be read (No such file or "
         "directory), "
         "expected a file with the cluster's secret"},
        {{"cluster.allow_file=/"},
         "--set: cluster.allow_file: found \"/\", which is a directory, expected a file with ids of nodes"},
        {{"peers=localhost:1,localhost"},
         "--set: peers: found \"localhost\", expected host:port or [IPv6 address]:port"},
        {{"peers=localhost:0"},
         "--set: peers: found \"localhost:0\", expected the port where that node listens"},
        {{"peers=::1:7400"},
         "--set: peers: found \"::1:7400\", expected an IPv6 address in brackets: [address]:port"},
        {{"node.group=rack 7"},
         "--set: node.group: found \"rack 7\", expected only letters, digits, '.', '_' and '-'"},
        {{"topology.kind=file"}, "default: topology.file: found \"\", expected a file with a graph"},
        {{"topology.kind=file", "topology.file=/nowhere"},
         "--set: topology.file: found \"/nowhere\", which cannot be read (No such file or directory), "
         "expected a file with a graph"},
        {{"topology.kind=file", "topology.file=/dev/null"},
         "--set: topology.file: /dev/null: no edges; expected lines 'name name'"},
        {{"average.method=model-average", "average.ratio=1/4"},
         "--set: average.ratio: found 0.25, expected 1 or no such key: average.method is model-average, "
         "which "
         "sends whole models"},
        {{"average.method=model-average", "average.values=int4"},
         "--set: average.values: found int4, expected fp32 or no such key: average.method is model-average, "
         "which sends whole models"},
        {{"average.method=model-average", "average.select_block=4096"},
         "--set: average.select_block: found 4096, expected 0 or no such key: average.method is "
         "model-average, which sends whole models"},
        {{"average.method=model-average", "average.filters=random-skip:0.1"},
         "--set: average.filters: found 1 filters, expected [] or no such key: average.method is "
         "model-average, which sends whole models"},
        {{"data.kind=idx"},
         "default: data.train_images: found \"\", expected a file with the training images"},
        {{"data.kind=idx", "data.train_images=/dev/null", "data.train_labels=/dev/null",
          "data.test_images=/x.gz"},
         "--set: data.test_images: found \"/x.gz\", which cannot be read (No such file or directory), "
         "expected a file "
         "with the test images"},
        {{"data.kind=libsvm"},
         "default: data.train_file: found \"\", expected a file with the training examples"},
        {{"data.kind=libsvm", "data.train_file=/dev/null", "data.test_file=/dev/null"},
         "default: data.features: found 0, expected the number of features of the libsvm files"},
        {{"data.shard=8", "data.shards=8"},
         "--set: data.shard: found 8, expected less than data.shards, which is 8: shards are counted from 0"},
        {{"data.shards=9", "data.train_count=8"},
         "--set: data.shards: found 9, expected at most the number of training examples, 8"},
        {{"train.l1=0.1"}, "--set: train.l1: found it beside model.kind mlp, expected logistic"},
        {{"train.blocks=2", "model.kind=softmax"},
         "--set: train.blocks: found it beside model.kind softmax, expected logistic"},
        {{"data.kind=libsvm", "data.features=3", "data.train_file=/dev/null", "data.test_file=/dev/null",
          "model.kind=logistic", "data.scale=minmax"},
         "--set: data.scale: found a scale beside model.kind logistic, whose libsvm rows stay sparse: "
         "shifted, no "
         "value would be 0; expected none"},
        {{"model.kind=logistic", "train.l2=0.1", "train.optimizer=adamw", "train.rate=0.001"},
         "--set: train.optimizer: found adamw beside train.l1 or train.l2, expected sgd"},
        {{"model.kind=logistic", "train.l1=0.1", "average.outer_momentum=0.5"},
         "--set: average.outer_momentum: found it beside train.l1 or train.l2, expected 0: it moves weights "
         "that are 0"},
        {{"model.hidden="},
         "--set: model.hidden: found an empty list, expected the units of at least one layer, such as [256]; "
         "without "
         "hidden layers it is model.kind softmax"},
        {{"model.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"},
         "--set: model.hidden: found 33 layers, expected at most 32"},
        {{"model.hidden=65536,65536"},
         "--set: model.hidden: found layers with 4347133962 parameters, expected at most 1073741824"},
        {{"train.schedule=half:0.1"},
         "--set: train.schedule: found \"half:0.1\", expected at:factor, the first from 0 to "
         "1, the second from 0 to 1000, such as 0.6:0.3"},
        {{"train.schedule=0.5"},
         "--set: train.schedule: found \"0.5\", expected at:factor, the first from 0 to 1, the "
         "second from 0 to 1000, such as 0.6:0.3"},
        {{"train.schedule=1.5:1"},
         "--set: train.schedule: found \"1.5:1\", expected at:factor, the first from 0 to 1, "
         "the second from 0 to 1000, such as 0.6:0.3"},
        {{"train.schedule=0.5:1,0.5:2"},
         "--set: train.schedule: found \"0.5:2\" behind \"0.5:1\", expected steps in ascending order"},
        {{"train.schedule=0:1,.1:1,.2:1,.3:1,.4:1,.5:1,.6:1,.7:1,.8:1"},
         "--set: train.schedule: found 9 steps, expected at most 8"},
        {{"train.steps=3"},
         "default: average.local_steps: found 4, expected at most train.steps, which is 3"},
        {{"average.filters=random-skip"},
         "--set: average.filters: found \"random-skip\", expected filter:number, like random-skip:0.1"},
        {{"average.filters=random-skip:1"},
         "--set: average.filters: filter random-skip: found 1, expected a number from 0 to 0.99: part of "
         "the entries that is dropped"},
        {{"average.filters=random-skip:0.1,random-skip:0.2"},
         "--set: average.filters: filter random-skip is there twice; name it once"},
        {{"average.select_block=31"},
         "--set: average.select_block: found 31, expected at least 1 / average.ratio, which is 32: each "
         "block must have a value to send"},
        {{"average.deadline_floor=1m"},
         "--set: average.deadline_floor: found 1m, expected at most average.deadline_ceiling, which is 10s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        struct base_reason why = {""};
        start(&config);
        for (size_t j = 0; j < 6 && cases[i].assignments[j]; j++)
            set(&config, cases[i].assignments[j]);
        assert_int_not_equal(node_config_check(&config, &why), BASE_OK);
        assert_string_equal(why.text, cases[i].message);
        node_schema_free(schema, &config);
    }
}

static void checks_name_file_and_line(void **state)
{
    (void)state;
    struct node_config config;
    struct base_reason why = {""};
    const char text[] = "data:\n  shards: 4\n  shard: 4\n";
    start(&config);
    assert_int_equal(node_schema_read_text(schema, "node.yaml", text, strlen(text), &config, &why), BASE_OK);
    assert_int_equal(node_config_check(&config, &why), BASE_EINVAL);
    assert_string_equal(
        why.text, "node.yaml:3: data.shard: found 4, expected less than data.shards, which is 4: shards "
                  "are counted from 0");
    node_schema_free(schema, &config);
}

static void combinations_that_are_fine(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {{"node.http=", "node.listen=localhost:0"}, NULL},
        {{"node.listen=0.0.0.0:7400", "cluster.allow_file=/dev/null"}, NULL},
        {{"node.listen=[::]:7400", "cluster.secret_file=/dev/null"}, NULL},
        {{"node.listen=[::1]:7400", "node.http=127.8.9.1:0"}, NULL},
        {{"peers=a:1,A:1,b:2,127.0.0.1:7400,[fe80::1%eth0]:3"}, NULL},
        {{"data.kind=idx", "data.train_images=/dev/null", "data.train_labels=/dev/null",
          "data.test_images=/dev/null", "data.test_labels=/dev/null"},
         NULL},
        {{"data.kind=libsvm", "data.train_file=/dev/null", "data.test_file=/dev/null", "data.features=123",
          "model.kind=softmax", "data.classes=2"},
         NULL},
        {{"model.kind=softmax", "model.hidden="}, NULL},
        {{"model.kind=logistic", "train.l1=0.001", "train.l2=0.1", "train.blocks=8"}, NULL},
        {{"train.l1=0", "train.l2=0", "train.blocks=1"}, NULL},
        {{"train.schedule=", "train.optimizer=adamw", "train.rate=0.001"}, NULL},
        {{"average.values=sign", "average.select=random", "average.select_block=4096",
          "average.filters=same-keys:4,random-skip:0.5"},
         NULL},
        {{"data.shards=8", "data.shard=7", "data.partition=dirichlet", "topology.kind=butterfly"}, NULL},
        {{"topology.kind=base"}, NULL},
        {{"topology.kind=hierarchical", "node.group=rack-7"}, NULL},
        {{"average.method=model-average", "average.ratio=1", "average.values=fp32", "average.clip=1.5"},
         NULL},
        {{"average.method=model-average", "average.ratio=1/32", "average.values=int8"}, NULL}, // defaults
        {{"average.method=local", "average.ratio=1/4"}, NULL},
        {{"average.mode=bounded", "average.max_delay=0", "train.proximal=0.1", "train.scale_rate=true",
          "average.on_death=keep"},
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        struct base_reason why = {""};
        start(&config);
        for (size_t j = 0; j < 6 && cases[i].assignments[j]; j++)
            set(&config, cases[i].assignments[j]);
        if (node_config_check(&config, &why) || node_config_check_runnable(&config, &why))
            fail_msg("case %zu: %s", i, why.text);
        node_schema_free(schema, &config);
    }
}

static void who_is_left_alone_stops_where_models_are_averaged_out_of_step(void **state)
{
    (void)state;
    static const struct {
        const char *assignments[2];
        bool stops;
    } cases[] = {
        {{NULL}, true}, // async
        {{"average.mode=bounded"}, true},
        {{"average.mode=sync"}, true},
        {{"train.alone=go-on"}, false},
        {{"average.method=local"}, false},
        {{"average.method=model-average"}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        start(&config);
        for (size_t j = 0; j < 2 && cases[i].assignments[j]; j++)
            set(&config, cases[i].assignments[j]);
        assert_int_equal(node_config_stops_alone(&config), cases[i].stops);
        node_schema_free(schema, &config);
    }
}

// What the simulator may do and a node may not.
static void what_no_node_can_run(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {{"average.method=choco"},
         "--set: average.method: choco is a baseline of p2pml sim; expected edge-ref, model-average or "
         "local"},
        {{"average.method=dpsgd"},
         "--set: average.method: dpsgd is a baseline of p2pml sim; expected edge-ref, model-average or "
         "local"},
        {{"average.method=allreduce"},
         "--set: average.method: allreduce is a baseline of p2pml sim; expected edge-ref, model-average or "
         "local"},
        {{"average.method=diloco"},
         "--set: average.method: diloco is a baseline of p2pml sim; expected edge-ref, model-average or "
         "local"},
        {{"average.method=noloco"},
         "--set: average.method: noloco is a baseline of p2pml sim; expected edge-ref, model-average or "
         "local"},
        {{"topology.kind=complete", "data.shards=66"},
         "--set: topology.kind: found complete for 66 nodes, where a node may meet all others; expected at "
         "most 65 nodes, or another kind, such as random"},
        {{"topology.kind=star", "node.start_members=100"},
         "--set: topology.kind: found star for 100 nodes, where a node may meet all others; expected at "
         "most 65 nodes, or another kind, such as random"},
        {{"topology.kind=matchings", "data.shards=1000"},
         "--set: topology.kind: found matchings for 1000 nodes, where a node may meet all others; expected "
         "at "
         "most 65 nodes, or another kind, such as random"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        struct base_reason why = {""};
        start(&config);
        for (size_t j = 0; j < 6 && cases[i].assignments[j]; j++)
            set(&config, cases[i].assignments[j]);
        if (node_config_check(&config, &why))
            fail_msg("%s", why.text);
        assert_int_not_equal(node_config_check_runnable(&config, &why), BASE_OK);
        assert_string_equal(why.text, cases[i].message);
        node_schema_free(schema, &config);
    }
}

static void model_average_sends_whole_models(void **state)
{
    (void)state;
    struct node_config config;
    start(&config);
    node_config_settle(&config);
    assert_true(config.average.ratio == 1.0 / 32 && config.average.drift_correction);
    set(&config, "average.method=model-average");
    node_config_settle(&config);
    assert_true(config.average.ratio == 1 && !config.average.drift_correction);
    assert_int_equal(config.average.values, KERNELS_FP32);
    node_schema_free(schema, &config);
}

// A file of this process with these lines; the caller removes it.
static void write_graph(const char *text, char path[32])
{
    snprintf(path, 32, "/tmp/p2pml-graph-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
}

static void a_graph_names_its_line_and_needs_this_node(void **state)
{
    (void)state;
    static const struct {
        const char *text, *node, *message; // behind the file's name
    } cases[] = {
        {"a b\nb c\n", "", NULL},
        {"a b\nb c\n", "c", NULL},
        {"a b\nc d\n", "", ":2: not connected: no way leads from 'c' to 'a'"},
        {"a b\nb c\nb\n", "", ":3: expected an edge as 'name name [weight]', found one of these words"},
        {"a b\nb c\n", "d",
         " does not name this node, 'd'; expected a line with it, or one of the "
         "names there, 'a' to 'c', as node.name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        struct base_reason why = {""};
        char path[32], text[128], name[64], expected[512];
        write_graph(cases[i].text, path);
        start(&config);
        snprintf(text, sizeof text, "topology:\n  kind: file\n  file: %s\n", path);
        snprintf(name, sizeof name, "node.name=%s", cases[i].node);
        assert_int_equal(node_schema_read_text(schema, "node.yaml", text, strlen(text), &config, &why),
                         BASE_OK);
        set(&config, name);
        enum base_error error = node_config_check(&config, &why);
        assert_int_equal(error == BASE_OK, cases[i].message == NULL);
        snprintf(expected, sizeof expected, cases[i].message ? cases[i].message : "", path);
        snprintf(expected, sizeof expected, "node.yaml:3: topology.file: %s%s", path,
                 cases[i].message ? cases[i].message : "");
        assert_string_equal(why.text, error ? expected : "");
        node_schema_free(schema, &config);
        unlink(path);
    }
}

static void a_node_has_room_for_so_many_neighbours(void **state)
{
    (void)state;
    for (int leaves = 64; leaves <= 65; leaves++) {
        struct node_config config;
        struct base_reason why = {""};
        char path[32], text[4096], expected[256];
        size_t used = 0;
        for (int i = 0; i < leaves; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "leaf-%d hub\n", i);
        write_graph(text, path);
        start(&config);
        set(&config, "topology.kind=file");
        snprintf(text, sizeof text, "topology.file=%s", path);
        set(&config, text);
        assert_int_equal(node_config_check(&config, &why), BASE_OK);
        snprintf(expected, sizeof expected,
                 "--set: topology.file: %s: 'hub' has 65 neighbours, expected at most 64", path);
        assert_int_equal(node_config_check_runnable(&config, &why), leaves == 64 ? BASE_OK : BASE_ELIMIT);
        if (leaves > 64)
            assert_string_equal(why.text, expected);
        node_schema_free(schema, &config);
        unlink(path);
    }
}

static void what_an_exchange_sends(void **state)
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

static void too_many_peers(void **state)
{
    (void)state;
    struct node_config config;
    struct base_reason why = {""};
    char *list = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&list, &bytes);
    assert_non_null(out);
    fputs("peers=h0:1", out);
    for (unsigned i = 1; i <= LIMIT_PEERS; i++)
        fprintf(out, ",h%u:1", i);
    fclose(out);
    start(&config);
    set(&config, list);
    assert_int_equal(node_config_check(&config, &why), BASE_ELIMIT);
    assert_string_equal(why.text, "--set: peers: found 1025 peers, expected at most 1024");
    free(list);
    node_schema_free(schema, &config);
}

static void outer_momentum_stays_below_what_diverges(void **state)
{
    (void)state;
    struct node_config config;
    struct base_reason why = {""};
    start(&config);
    assert_int_equal(node_schema_set(schema, "average.outer_momentum=0.8", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text,
                        "--set: average.outer_momentum: found \"0.8\", expected a number from 0 to 0.79");
    assert_int_equal(node_schema_set(schema, "average.ratio=0", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text, "--set: average.ratio: found \"0\", expected a number from 0.00001 to 1");
    assert_int_equal(node_schema_set(schema, "data.alpha=0", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text, "--set: data.alpha: found \"0\", expected a number from 0.001 to 1000000");
    node_schema_free(schema, &config);
}

static void zero_counts_mean_what_the_help_says(void **state)
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

static void addresses(void **state)
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
    char host[LIMIT_HOST_BYTES], longest[LIMIT_HOST_BYTES + 8];
    uint16_t port;
    struct base_reason why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (node_address_parse(good[i].text, host, &port, &why))
            fail_msg("%s: %s", good[i].text, why.text);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
        assert_int_equal(node_address_is_loopback(host), good[i].loopback);
    }
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

static void every_file_of_configs_is_good(void **state)
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
        if (config.cluster.secret_file[0]) // the user makes it; here any file stands for it
            set(&config, "cluster.secret_file=/dev/null");
        if (node_config_check(&config, &why) || node_config_check_runnable(&config, &why))
            fail_msg("%s", why.text);
        node_schema_free(schema, &config);
    }
    globfree(&found);
}

static void node_yaml_shows_every_key_at_its_default(void **state)
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
            fail_msg("%s shows %s at another value than its default", path, key);
    }
    node_schema_free(schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_design),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(help_shows_type_default_and_meaning_of_every_key),
        cmocka_unit_test(random_configurations_read_back),
        cmocka_unit_test(every_impossible_combination_is_named),
        cmocka_unit_test(checks_name_file_and_line),
        cmocka_unit_test(combinations_that_are_fine),
        cmocka_unit_test(who_is_left_alone_stops_where_models_are_averaged_out_of_step),
        cmocka_unit_test(what_no_node_can_run),
        cmocka_unit_test(model_average_sends_whole_models),
        cmocka_unit_test(a_graph_names_its_line_and_needs_this_node),
        cmocka_unit_test(a_node_has_room_for_so_many_neighbours),
        cmocka_unit_test(too_many_peers),
        cmocka_unit_test(outer_momentum_stays_below_what_diverges),
        cmocka_unit_test(zero_counts_mean_what_the_help_says),
        cmocka_unit_test(the_schedule_is_parsed),
        cmocka_unit_test(what_an_exchange_sends),
        cmocka_unit_test(addresses),
        cmocka_unit_test(every_file_of_configs_is_good),
        cmocka_unit_test(node_yaml_shows_every_key_at_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
