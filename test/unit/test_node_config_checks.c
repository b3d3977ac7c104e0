// The checks that span several keys of a node: each impossible combination is named, and each valid one
// passes.
#include "base/limits.h"
#include "kernels/kernels.h"
#include "node/config/config.h"
#include "test/support/node_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct wrong {
    const char *assignments[6];
    const char *message;
};

static void expect_each_is_named(const struct wrong *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
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

static void wrong_names_and_addresses_are_named(void **state)
{
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
         "--set: node.listen: found \"localhost:70000\", expected a port from 0 to 65535 after the host"},
        {{"node.listen=0.0.0.0:7400"},
         "--set: node.listen: found \"0.0.0.0:7400\", which other hosts can reach, with neither "
         "cluster.secret_file nor "
         "cluster.allow_file, expected one of them: make a secret with 'p2pml keygen --secret FILE', copy it "
         "to every "
         "node and name it in cluster.secret_file"},
        {{"node.http=localhost"},
         "--set: node.http: found \"localhost\", expected host:port or [IPv6 address]:port"},
        {{"node.http=127.0.0.1:7400"},
         "--set: node.http: found \"127.0.0.1:7400\", which is also node.listen, expected another port"},
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
        {{"peers=http://localhost:7480/"},
         "--set: peers: found \"http://localhost:7480/\", which is a URL, expected host:port alone"},
        {{"node.group=rack 7"},
         "--set: node.group: found \"rack 7\", expected only letters, digits, '.', '_' and '-'"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void wrong_graphs_and_whole_models_are_named(void **state)
{
    static const struct wrong cases[] = {
        {{"device.precision=bf16"},
         "--set: device.precision: found bf16, expected fp32: device.kind is cpu, and bf16 is for cuda"},
        {{"topology.kind=file"}, "default: topology.file: found \"\", expected a file with a graph"},
        {{"topology.kind=file", "topology.file=/nowhere"},
         "--set: topology.file: found \"/nowhere\", which cannot be read (No such file or directory), "
         "expected a file with a graph"},
        {{"topology.kind=file", "topology.file=/dev/null"},
         "--set: topology.file: /dev/null: no edges; expected lines 'name name'"},
        {{"average.method=model-average", "average.ratio=1/4"},
         "--set: average.ratio: found 0.25; leave the key out, or set it to 1: average.method is model-average, "
         "which "
         "sends whole models"},
        {{"average.method=model-average", "average.values=int4"},
         "--set: average.values: found int4; leave the key out, or set it to fp32: average.method is model-average, "
         "which sends whole models"},
        {{"average.method=model-average", "average.select_block=4096"},
         "--set: average.select_block: found 4096; leave the key out, or set it to 0: average.method is "
         "model-average, which sends whole models"},
        {{"average.method=model-average", "average.reference=bf16"},
         "--set: average.reference: found bf16; leave the key out, or set it to fp32: average.method is "
         "model-average, which sends whole models"},
        {{"average.method=model-average", "average.filters=random-skip:0.1"},
         "--set: average.filters: found 1 filters; leave the key out, or set it to []: average.method is "
         "model-average, which sends whole models"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void wrong_data_is_named(void **state)
{
    static const struct wrong cases[] = {
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
        {{"data.kind=libsvm", "data.features=3", "data.train_file=/dev/null", "data.test_file=/dev/null",
          "model.kind=logistic", "data.scale=minmax"},
         "--set: data.scale: found a scale with model.kind logistic, whose libsvm rows stay sparse: "
         "after a shift no value would be 0; expected none"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void wrong_models_are_named(void **state)
{
    static const struct wrong cases[] = {
        {{"train.l1=0.1"}, "--set: train.l1: found a value for model.kind mlp, expected model.kind logistic"},
        {{"device.exchange=device"},
         "--set: device.exchange: found device, expected auto or host beside device.kind cpu: it works in the "
         "host's memory only"},
        {{"device.exchange=device", "device.kind=auto", "average.outer_momentum=0.5"},
         "--set: device.exchange: found device, expected auto or host beside average.outer_momentum: it works "
         "in the host's memory only"},
        {{"device.exchange=device", "device.kind=cuda", "average.reference=bf16"},
         "--set: device.exchange: found device, expected auto or host beside average.reference bf16: it works "
         "in the host's memory only"},
        {{"train.blocks=2", "model.kind=softmax"},
         "--set: train.blocks: found a value for model.kind softmax, expected model.kind logistic"},
        {{"model.kind=logistic", "train.l2=0.1", "train.optimizer=adamw", "train.rate=0.001"},
         "--set: train.optimizer: found adamw with train.l1 or train.l2, expected sgd"},
        {{"model.kind=logistic", "train.l1=0.1", "average.outer_momentum=0.5"},
         "--set: average.outer_momentum: found a value with train.l1 or train.l2, expected 0: it moves weights "
         "that are 0"},
        {{"model.kind=logistic", "train.l2=0.1", "train.scale_rate=true"},
         "--set: train.scale_rate: found true with train.l1 or train.l2, expected false: their steps must "
         "have the same length on all nodes"},
        {{"model.hidden="},
         "--set: model.hidden: found an empty list, expected the units of at least one layer, such as [256]; "
         "without "
         "hidden layers it is model.kind softmax"},
        {{"model.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"},
         "--set: model.hidden: found 33 layers, expected at most 32"},
        {{"model.hidden=65536,65536"},
         "--set: model.hidden: found layers with 4347133962 parameters, expected at most 1073741824"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void wrong_schedules_are_named(void **state)
{
    static const struct wrong cases[] = {
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
         "--set: train.schedule: found \"0.5:2\" after \"0.5:1\", expected steps in ascending order"},
        {{"train.schedule=0:1,.1:1,.2:1,.3:1,.4:1,.5:1,.6:1,.7:1,.8:1"},
         "--set: train.schedule: found 9 steps, expected at most 8"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void wrong_exchanges_are_named(void **state)
{
    static const struct wrong cases[] = {
        {{"train.steps=3"},
         "default: average.local_steps: found 4, expected at most train.steps, which is 3"},
        {{"average.filters=random-skip"},
         "--set: average.filters: found \"random-skip\", expected filter:number, like random-skip:0.1"},
        {{"average.filters=random-skip:1"},
         "--set: average.filters: filter random-skip: found 1, expected a number from 0 to 0.99: part of "
         "the entries that is dropped"},
        {{"average.filters=random-skip:0.1,random-skip:0.2"},
         "--set: average.filters: filter random-skip is named twice; name it once"},
        {{"average.select_block=31"},
         "--set: average.select_block: found 31, expected at least 1 / average.ratio, which is 32: each "
         "block must have a value to send"},
        {{"average.deadline_floor=1m"},
         "--set: average.deadline_floor: found 1m, expected at most average.deadline_ceiling, which is 10s"},
    };

    (void)state;
    expect_each_is_named(cases, sizeof cases / sizeof *cases);
}

static void a_check_names_file_and_line(void **state)
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

static void valid_combinations_pass(void **state)
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
        {{"average.method=model-average", "average.ratio=1", "average.values=fp32"}, NULL},
        {{"average.method=model-average", "average.ratio=auto", "average.values=int8"}, NULL}, // defaults
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

static void a_node_that_is_left_alone_stops_unless_configured_otherwise(void **state)
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

// What the simulator can do and a node cannot.
static void settings_for_the_simulator_only_are_refused(void **state)
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
    node_config_complete(&config);
    assert_true(config.average.ratio == 0 && config.average.drift_correction); // auto
    set(&config, "average.method=model-average");
    node_config_complete(&config);
    assert_true(config.average.ratio == 1 && !config.average.drift_correction);
    assert_int_equal(config.average.values, KERNELS_FP32);
    node_schema_free(schema, &config);
}

// average.hold: auto.
static void steps_with_second_moments_hold_back_half(void **state)
{
    static const struct {
        const char *assignment;
        double hold;
    } cases[] = {
        {"train.optimizer=sgd", 0},     {"train.optimizer=adamw", 0.5}, {"train.optimizer=lion", 0},
        {"train.optimizer=muon", 0.5},  {"average.hold=0.25", 0.25},    {"average.hold=0", 0},
        {"average.hold=auto", 0.5},     {"average.hold=1", 1},          {"average.method=model-average", 0},
        {"average.method=edge-ref", 1},
    };
    (void)state;
    struct node_config config;
    start(&config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(&config, cases[i].assignment);
        assert_true(node_config_hold(&config) >= cases[i].hold && node_config_hold(&config) <= cases[i].hold);
    }
    node_schema_free(schema, &config);
}

// Its word is stored as a number below the least one, since 0 is one of them.
static void hold_is_written_as_it_was_read(void **state)
{
    static const char *const values[] = {"auto", "0", "0.5", "1"};
    (void)state;
    struct node_config config;
    start(&config);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char assignment[32];
        snprintf(assignment, sizeof assignment, "average.hold=%s", values[i]);
        set(&config, assignment);
        char *written = node_schema_value(schema, &config, "average.hold");
        assert_string_equal(written, values[i]);
        free(written);
    }
    node_schema_free(schema, &config);
}

static void too_many_peers_are_refused(void **state)
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

static void outer_momentum_is_limited_to_what_converges(void **state)
{
    (void)state;
    struct node_config config;
    struct base_reason why = {""};
    start(&config);
    assert_int_equal(node_schema_set(schema, "average.outer_momentum=0.8", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text,
                        "--set: average.outer_momentum: found \"0.8\", expected a number from 0 to 0.79");
    assert_int_equal(node_schema_set(schema, "average.ratio=0", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text,
                        "--set: average.ratio: found \"0\", expected a number from 0.00001 to 1, or auto");
    assert_int_equal(node_schema_set(schema, "data.alpha=0", &config, &why), BASE_EINVAL);
    assert_string_equal(why.text, "--set: data.alpha: found \"0\", expected a number from 0.001 to 1000000");
    node_schema_free(schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_names_and_addresses_are_named),
        cmocka_unit_test(wrong_graphs_and_whole_models_are_named),
        cmocka_unit_test(wrong_data_is_named),
        cmocka_unit_test(wrong_models_are_named),
        cmocka_unit_test(wrong_schedules_are_named),
        cmocka_unit_test(wrong_exchanges_are_named),
        cmocka_unit_test(a_check_names_file_and_line),
        cmocka_unit_test(valid_combinations_pass),
        cmocka_unit_test(a_node_that_is_left_alone_stops_unless_configured_otherwise),
        cmocka_unit_test(settings_for_the_simulator_only_are_refused),
        cmocka_unit_test(model_average_sends_whole_models),
        cmocka_unit_test(steps_with_second_moments_hold_back_half),
        cmocka_unit_test(hold_is_written_as_it_was_read),
        cmocka_unit_test(too_many_peers_are_refused),
        cmocka_unit_test(outer_momentum_is_limited_to_what_converges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
