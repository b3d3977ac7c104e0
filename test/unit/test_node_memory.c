// Which vectors are in which memory, as --check prints it.
#include "node/memory.h"
#include "node/schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void memory_is_counted_for_host_and_device(void **state)
{
    (void)state;
    struct node_config config = {0};
    struct base_reason why;
    struct node_memory memory;
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    node_memory_of(&config, 1000, false, false, &memory); // model, gradient, sum, kept, published
    assert_int_equal(memory.host.bytes, 5 * 4000);
    assert_int_equal(memory.host.edge_bytes, 2 * 4000);
    assert_int_equal(memory.device.bytes + memory.device.edge_bytes, 0);
    node_memory_of(&config, 1000, true, true, &memory);
    assert_int_equal(memory.device.bytes, 4 * 4000);
    assert_int_equal(memory.device.edge_bytes, 2 * 4000);
    assert_int_equal(memory.host.bytes, 3 * 4000); // copies of model and sum, the last good model
    assert_int_equal(memory.host.edge_bytes, 0);
    node_memory_of(&config, 1000, true, false, &memory);
    assert_int_equal(memory.device.bytes, 4 * 4000); // without the published one, with one for evaluation
    assert_int_equal(memory.device.edge_bytes, 0);
    assert_int_equal(memory.host.bytes, 4 * 4000);
    assert_int_equal(memory.host.edge_bytes, 2 * 4000);
    node_schema_free(&node_config_schema, &config);
}

static void the_memory_follows_from_the_configuration(void **state)
{
    (void)state;
    static const char *const settings[] = {"train.optimizer=adamw", "train.rate=0.001",
                                           "average.share_second_moment=20", "average.reference=bf16",
                                           "average.outer_momentum=0.5"};
    struct node_config config = {0};
    struct base_reason why;
    struct node_memory memory;
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(node_schema_set(&node_config_schema, settings[i], &config, &why), BASE_OK);
    node_memory_of(&config, 1000, false, false, &memory);
    // model, gradient, sum, held back (auto), two moments; the last good model and second moment; two of
    // outer momentum; published model and moments, and their changes
    assert_int_equal(memory.host.bytes, (6 + 2 + 2 + 3) * 4000);
    assert_int_equal(memory.host.edge_bytes, 4000); // two vectors, each half as large
    assert_string_equal(memory.host.edge, "reference, correction");
    assert_non_null(strstr(memory.host.vectors, "outer momentum"));
    node_schema_free(&node_config_schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_counted_for_host_and_device),
                                       cmocka_unit_test(the_memory_follows_from_the_configuration)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
