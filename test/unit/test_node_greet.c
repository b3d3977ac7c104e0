// Which settings all nodes of a cluster must share, and what is said when they do not.
#include "node/greet.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rules_of(const char *assignment, uint64_t graph)
{
    struct node_config config;
    struct base_reason why = {""};
    memset(&config, 0, sizeof config);
    if (node_schema_defaults(&node_config_schema, &config, &why) ||
        node_schema_set(&node_config_schema, "topology.kind=random", &config, &why) ||
        node_schema_set(&node_config_schema, "train.optimizer=adamw", &config, &why) ||
        node_schema_set(&node_config_schema, assignment, &config, &why))
        fail_msg("%s", why.text);
    uint64_t rules = node_greeting_rules(&config, graph);
    node_schema_free(&node_config_schema, &config);
    return rules;
}

static void what_all_must_share(void **state)
{
    static const char *const shared[] = {"topology.kind=ring",
                                         "topology.seed=2",
                                         "topology.rings=3",
                                         "cluster.profile=wan",
                                         "average.method=model-average",
                                         "average.method=local",
                                         "average.drift_correction=false",
                                         "average.drift_gain=3",
                                         "average.drift_limit=0.5",
                                         "average.clip=1.5",
                                         "average.mode=bounded",
                                         "average.share_second_moment=30",
                                         "train.optimizer=sgd"};
    (void)state;
    uint64_t ours = rules_of("train.steps=2000", 0);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (rules_of(shared[i], 0) == ours)
            fail_msg("%s changes no rule", shared[i]);
    assert_true(rules_of("topology.base_k=2", 0) == ours); // of base only
    assert_true(rules_of("train.steps=2000", 7) != ours);  // another graph in topology.file
}

static void what_each_may_have_as_it_likes(void **state)
{
    static const char *const own[] = {
        "average.ratio=1/8",     "average.values=int4",   "average.filters=random-skip:0.1",
        "average.mode=sync",     "average.on_death=keep", "average.max_delay=9",
        "train.proximal=0.1",    "train.scale_rate=true", "train.rate=0.5",
        "average.local_steps=9", "node.group=rack-1",     "data.seed=3"};
    (void)state;
    uint64_t ours = rules_of("train.steps=2000", 0);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (rules_of(own[i], 0) != ours)
            fail_msg("%s changes the rules", own[i]);
}

static void other_rules_are_named(void **state)
{
    struct gossip_greeting ours = {.protocol = GOSSIP_PROTOCOL, .schema = 1, .parameters = 2, .rules = 3};
    struct gossip_greeting theirs = ours;
    struct base_reason why = {""};
    (void)state;
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_OK);
    theirs.rules = 4;
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "topology.file"));
    assert_non_null(strstr(why.text, "average.method"));
    theirs = ours;
    ours.steps = 2000;
    theirs.steps = 40;
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "train.steps"));
    assert_non_null(strstr(why.text, "2000"));
    assert_non_null(strstr(why.text, "40"));
    theirs.protocol++;
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "run the same version on both"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_all_must_share),
        cmocka_unit_test(what_each_may_have_as_it_likes),
        cmocka_unit_test(other_rules_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
