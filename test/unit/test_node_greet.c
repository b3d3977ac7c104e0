// Which settings all nodes of a cluster must share, and the messages if they do not.
#include "node/config/compatibility.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void configure(struct node_config *config, const char *const *assignments, size_t count)
{
    struct base_reason why = {""};
    memset(config, 0, sizeof *config);
    if (node_schema_defaults(&node_config_schema, config, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < count; i++)
        if (node_schema_set(&node_config_schema, assignments[i], config, &why))
            fail_msg("%s", why.text);
}

// The greeting of a node with topology.kind random and adamw, and one more setting.
static struct gossip_greeting greeting_of(const char *assignment, uint64_t graph)
{
    const char *const assignments[] = {"topology.kind=random", "train.optimizer=adamw", assignment};
    struct gossip_greeting greeting = {.schema = 1, .parameters = 2};
    struct node_config config;
    configure(&config, assignments, 3);
    assert_int_equal(node_greeting_rules(&config, graph, 0, greeting.rules), BASE_OK);
    node_schema_free(&node_config_schema, &config);
    return greeting;
}

static const char usual[] = "train.steps=2000"; // the default

static void nodes_must_share_these_settings(void **state)
{
    static const struct {
        const char *assignment, *told;
    } shared[] = {
        {"train.steps=40", "its train.steps: 40, here it is 2000"},
        {"train.schedule=[0.5:0.1]",
         "its train.schedule: [\"0.5:0.1\"], here it is [\"0.6:0.3\", \"0.85:0.1\"]"},
        {"train.optimizer=sgd", "its train.optimizer: sgd, here it is adamw"},
        {"average.local_steps=9", "its average.local_steps: 9, here it is 4"},
        {"average.method=model-average", "its average.method: model-average, here it is edge-ref"},
        {"average.method=local", "its average.method: local, here it is edge-ref"},
        {"average.reference=bf16", "its average.reference: bf16, here it is fp32"},
        {"average.drift_correction=false", "its average.drift_correction: false, here it is true"},
        {"average.drift_gain=3", "its average.drift_gain: 3, here it is 2"},
        {"average.drift_limit=0.5", "its average.drift_limit: 0.5, here it is 0.25"},
        {"average.outer_momentum=0.3", "its average.outer_momentum: 0.3, here it is 0"},
        {"average.share_second_moment=30", "its average.share_second_moment: 30, here it is 20"},
        {"average.mode=bounded", "its average.mode: bounded, here it is sync or async"},
        {"model.seed=7", "its model.seed: 7, here it is 1"},
        {"data.seed=3", "its data.seed: 3, here it is 1"},
        {"cluster.profile=wan", "its cluster.profile: wan, here it is lan"},
        {"topology.kind=ring", "its topology.kind: ring, here it is random"},
        {"topology.seed=2", "its topology.seed: 2, here it is 1"},
        {"topology.rings=3", "its topology.rings: 3, here it is 2"},
    };
    const struct gossip_greeting ours = greeting_of(usual, 0);
    (void)state;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const struct gossip_greeting theirs = greeting_of(shared[i].assignment, 0);
        struct base_reason why = {""};
        assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
        if (!strstr(why.text, shared[i].told))
            fail_msg("%s: %s", shared[i].assignment, why.text);
        assert_int_equal(node_greeting_compare(&theirs, &ours, &why), BASE_EMISMATCH);
    }
}

static void the_graph_of_a_file_is_shared(void **state)
{
    const struct gossip_greeting ours = greeting_of("topology.kind=file", 6);
    const struct gossip_greeting theirs = greeting_of("topology.kind=file", 7);
    struct base_reason why = {""};
    (void)state;
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "topology.file: 0000000000000007, here it is 0000000000000006"));
}

// The weights count, not the name of the file on each host.
static void the_weights_of_a_file_are_shared(void **state)
{
    static const char *const names[] = {"model.init=here", "model.init=there", "model.init="};
    static const uint64_t starts[] = {6, 6, 8};
    struct gossip_greeting greetings[3];
    struct base_reason why = {""};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct node_config config;
        greetings[i] = (struct gossip_greeting){.schema = 1, .parameters = 2};
        configure(&config, &names[i], 1);
        assert_int_equal(node_greeting_rules(&config, 0, starts[i], greetings[i].rules), BASE_OK);
        node_schema_free(&node_config_schema, &config);
    }
    assert_int_equal(node_greeting_compare(&greetings[0], &greetings[1], &why), BASE_OK);
    assert_int_equal(node_greeting_compare(&greetings[0], &greetings[2], &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "its model.init: none, here it is 0000000000000006"));
}

static void nodes_may_differ_in_these_settings(void **state)
{
    static const char *const own[] = {
        "average.ratio=1/8",  "average.values=int4",   "average.filters=random-skip:0.1",
        "average.mode=sync",  "average.on_death=keep", "average.max_delay=9",
        "train.proximal=0.1", "train.scale_rate=true", "train.rate=0.5",
        "data.shards=5",      "node.group=rack-1",     "train.seed=3",
        "topology.base_k=2",  "train.batch=9"};
    const struct gossip_greeting ours = greeting_of(usual, 0);
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const struct gossip_greeting theirs = greeting_of(own[i], 0);
        struct base_reason why = {""};
        if (node_greeting_compare(&ours, &theirs, &why))
            fail_msg("%s: %s", own[i], why.text);
    }
}

static void the_longest_rules_fit(void **state)
{
    static const char *const assignments[] = {
        "train.steps=999999999999",
        "train.schedule=[0.1000000000000001:0.1000000000000001, 0.2000000000000001:0.1000000000000001, "
        "0.3000000000000001:0.1000000000000001, 0.4000000000000001:0.1000000000000001, "
        "0.5000000000000001:0.1000000000000001]",
        "train.optimizer=adamw",
        "average.local_steps=1000000000",
        "average.method=model-average",
        "average.drift_gain=2.000000000000001",
        "average.drift_limit=0.2000000000000001",
        "average.outer_momentum=0.1000000000000001",
        "average.share_second_moment=1000000",
        "model.seed=9223372036854775807",
        "model.init=weights",
        "data.seed=9223372036854775807",
        "topology.kind=hierarchical",
        "topology.seed=9223372036854775807",
        "average.mode=sync"};
    struct gossip_greeting greeting = {0};
    struct gossip_message message = {.kind = GOSSIP_GREETING};
    struct node_config config;
    (void)state;
    configure(&config, assignments, sizeof assignments / sizeof *assignments);
    assert_int_equal(node_greeting_rules(&config, UINT64_MAX, UINT64_MAX, greeting.rules), BASE_OK);
    struct gossip_greeting other = greeting;
    struct base_reason why = {""};
    strstr(other.rules, "train.steps: ")[strlen("train.steps: ")] = '8';
    assert_int_equal(node_greeting_compare(&greeting, &other, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "its train.steps: 899999999999, here it is 999999999999"));
    message.as.greeting = greeting;
    snprintf(message.as.greeting.name, sizeof message.as.greeting.name, "a");
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_OK);
    node_schema_free(&node_config_schema, &config);
}

// A peer may write anything into its greeting.
static void any_text_is_shown_safely(void **state)
{
    static const char *const texts[] = {"",           ":",     "; ", "train.steps", "train.steps: 2000",
                                        "x: 1; y: 2", "; ; ; "};
    const struct gossip_greeting ours = greeting_of(usual, 0);
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gossip_greeting theirs = ours;
        struct base_reason why = {""};
        memset(theirs.rules, 0, sizeof theirs.rules);
        snprintf(theirs.rules, sizeof theirs.rules, "%s", texts[i]);
        assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
        assert_int_equal(node_greeting_compare(&theirs, &ours, &why), BASE_EMISMATCH);
        assert_true(why.text[0] != '\0');
    }
}

// A node as it would greet, `begun` or not; the caller frees the configuration.
static struct gossip_greeting node_of(struct node_config *config, const char *const *assignments,
                                      size_t count, bool begun)
{
    struct gossip_greeting greeting = {.schema = 1, .parameters = 2, .begun = begun, .shard = 3};
    configure(config, assignments, count);
    assert_int_equal(node_greeting_rules(config, 0, 0xabcdef, greeting.rules), BASE_OK);
    assert_int_equal(node_greeting_settings(config, &greeting), BASE_OK);
    return greeting;
}

static const char *const trains[] = {"train.steps=50000",    "train.schedule=[0.5:0.1, 0.7:0.02]",
                                     "train.rate=0.02",      "model.hidden=[64, 32]",
                                     "model.init=weights",   "average.filters=[random-skip:0.1]",
                                     "topology.kind=random", "topology.rings=3",
                                     "data.shards=4",        "data.train_count=800"};
#define N_TRAINS (sizeof trains / sizeof *trains)

// The settings that a node takes from the training above if it has set these; NULL: none. The caller frees
// the text.
static char *taken_by(const char *const *assignments, size_t count, bool begun_here, bool begun_there,
                      bool *comes_back)
{
    struct node_config here, there;
    char *text = NULL;
    const struct gossip_greeting theirs = node_of(&there, trains, N_TRAINS, begun_there);
    const struct gossip_greeting ours = node_of(&here, assignments, count, begun_here);
    assert_int_equal(node_greeting_take(&here, &ours, &theirs, &text), BASE_OK);
    *comes_back = node_greeting_comes_back(&theirs, &ours);
    node_schema_free(&node_config_schema, &here);
    node_schema_free(&node_config_schema, &there);
    return text;
}

static void a_late_node_takes_the_settings_that_it_has_not_set(void **state)
{
    static const char *const name[] = {"node.name=d", "average.ratio=1/8"};
    bool comes_back;
    struct node_config joined, cluster;
    struct base_reason why = {""};
    char *rest = NULL, *text = taken_by(name, 2, false, true, &comes_back);
    (void)state;
    assert_non_null(text);
    assert_true(comes_back);
    assert_string_equal(text, "model.hidden=[64, 32]\n"
                              "data.train_count=800\n"
                              "data.shards=4\n"
                              "train.steps=50000\n"
                              "train.rate=0.02\n"
                              "train.schedule=[0.5:0.1, 0.7:0.02]\n"
                              "average.filters=[random-skip:0.1]\n"
                              "topology.kind=random\n"
                              "topology.rings=3\n"
                              "model.init_digest=0000000000abcdef\n"
                              "data.shard=3\n");
    configure(&joined, name, 2);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (node_schema_assign(&node_config_schema, "the cluster", line, &joined, &why))
            fail_msg("%s", why.text);
    const struct gossip_greeting theirs = node_of(&cluster, trains, N_TRAINS, true);
    struct gossip_greeting ours = {.schema = 1, .parameters = 2};
    assert_int_equal(node_greeting_rules(&joined, 0, 0, ours.rules), BASE_OK);
    assert_int_equal(node_greeting_settings(&joined, &ours), BASE_OK);
    if (node_greeting_compare(&ours, &theirs, &why)) // it does not have the file of weights
        fail_msg("%s", why.text);
    free(text);
    assert_int_equal(node_greeting_take(&joined, &ours, &theirs, &text), BASE_OK);
    assert_null(text); // only once
    assert_float_equal(joined.average.ratio, 0.125, 0);
    node_schema_free(&node_config_schema, &joined);
    node_schema_free(&node_config_schema, &cluster);
}

// The cluster was stopped and continues with other settings.
static void settings_that_were_taken_earlier_are_replaced(void **state)
{
    static const char *const own[] = {"average.ratio=1/8"};
    struct node_config joined, cluster;
    struct base_reason why = {""};
    char *text = NULL;
    (void)state;
    for (int now = 0; now < 2; now++) {
        configure(&joined, own, 1);
        if (node_schema_assign(&node_config_schema, now ? NODE_ORIGIN_CLUSTER : NODE_ORIGIN_EARLIER,
                               "train.steps=2000", &joined, &why))
            fail_msg("%s", why.text);
        assert_true(node_config_is_told(&joined, "train.steps"));
        assert_true(node_config_has_earlier(&joined) == !now);
        const struct gossip_greeting theirs = node_of(&cluster, trains, N_TRAINS, true);
        struct gossip_greeting ours = {.schema = 1, .parameters = 2};
        assert_int_equal(node_greeting_rules(&joined, 0, 0, ours.rules), BASE_OK);
        assert_int_equal(node_greeting_settings(&joined, &ours), BASE_OK);
        assert_true(node_greeting_comes_back(&theirs, &ours) == !now);
        assert_int_equal(node_greeting_take(&joined, &ours, &theirs, &text), BASE_OK);
        // what it took a moment ago holds, so that two nodes do not pull at it
        assert_true((text != NULL) == !now);
        if (!now) {
            assert_non_null(strstr(text, "train.steps=50000\n"));
            assert_null(strstr(text, "average.ratio"));
        }
        free(text);
        node_schema_free(&node_config_schema, &joined);
        node_schema_free(&node_config_schema, &cluster);
    }
}

static void a_different_setting_is_refused(void **state)
{
    static const char *const other[] = {"train.steps=3"}, *const same[] = {"train.steps=50000"};
    bool comes_back;
    (void)state;
    assert_null(taken_by(other, 1, false, true, &comes_back));
    assert_false(comes_back);
    char *text = taken_by(same, 1, false, true, &comes_back);
    assert_non_null(text);
    assert_null(strstr(text, "train.steps"));
    assert_true(comes_back);
    free(text);
}

// Of all differences, the one that the user can change: a late node takes the others from the cluster.
static void the_setting_that_the_user_gave_is_named_first(void **state)
{
    static const char *const given[] = {"average.drift_gain=3"};
    struct node_config cluster, late;
    struct base_reason why = {""};
    (void)state;
    const struct gossip_greeting trained = node_of(&cluster, trains, N_TRAINS, true),
                                 comes = node_of(&late, given, 1, false);
    assert_int_equal(node_greeting_compare(&comes, &trained, &why), BASE_EMISMATCH);
    assert_string_equal(why.text, "its average.drift_gain: 2, here it is 3; make it the same on all nodes");
    assert_int_equal(node_greeting_compare(&trained, &comes, &why), BASE_EMISMATCH);
    assert_string_equal(why.text, "its average.drift_gain: 3, here it is 2; make it the same on all nodes");
    node_schema_free(&node_config_schema, &cluster);
    node_schema_free(&node_config_schema, &late);
}

static void no_node_takes_settings_from_a_newcomer(void **state)
{
    bool comes_back;
    (void)state;
    assert_null(taken_by(NULL, 0, true, true, &comes_back)); // it trains itself
    assert_false(comes_back);
    assert_null(taken_by(NULL, 0, true, false, &comes_back));
    assert_null(taken_by(NULL, 0, false, false, &comes_back)); // neither has begun
    assert_false(comes_back);
}

static void a_different_partition_of_the_data_is_reported(void **state)
{
    static const char *const four[] = {"data.shards=4", "data.shard=1"}, *const own[] = {"data.shard=0"};
    struct node_config here, there, alone;
    struct base_reason text = {""};
    const struct gossip_greeting ours = node_of(&here, four, 2, true),
                                 theirs = node_of(&there, trains, N_TRAINS, true),
                                 files = node_of(&alone, own, 1, true);
    (void)state;
    assert_true(node_greeting_deals_otherwise(&here, &ours, &theirs, &text));
    assert_non_null(strstr(text.text, "its data.train_count: 800, here it is default"));
    assert_false(node_greeting_deals_otherwise(&here, &ours, &ours, &text));
    assert_false(node_greeting_deals_otherwise(&here, &ours, &files, &text));
    assert_false(node_greeting_deals_otherwise(&alone, &files, &ours, &text));
    node_schema_free(&node_config_schema, &here);
    node_schema_free(&node_config_schema, &there);
    node_schema_free(&node_config_schema, &alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_must_share_these_settings),
        cmocka_unit_test(the_graph_of_a_file_is_shared),
        cmocka_unit_test(the_weights_of_a_file_are_shared),
        cmocka_unit_test(nodes_may_differ_in_these_settings),
        cmocka_unit_test(the_longest_rules_fit),
        cmocka_unit_test(any_text_is_shown_safely),
        cmocka_unit_test(a_late_node_takes_the_settings_that_it_has_not_set),
        cmocka_unit_test(settings_that_were_taken_earlier_are_replaced),
        cmocka_unit_test(a_different_setting_is_refused),
        cmocka_unit_test(the_setting_that_the_user_gave_is_named_first),
        cmocka_unit_test(no_node_takes_settings_from_a_newcomer),
        cmocka_unit_test(a_different_partition_of_the_data_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
