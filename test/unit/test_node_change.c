// Settings that are changed while the cluster trains: which keys and values are taken, and the file that
// keeps them for the next process.
#include "node/config/change.h"
#include "node/config/life.h"
#include "node/store/settings.h"
#include "test/support/temporary.h"

#include <stdio.h>

static void only_some_keys_are_taken_and_only_values_of_a_configuration(void **state)
{
    const struct {
        const char *text, *said; // NULL: taken
        enum gossip_setting_kind kind;
        double value;
    } cases[] = {
        {"train.rate=0.02", NULL, GOSSIP_SETTING_RATE, 0.02},
        {"train.rate=1000", NULL, GOSSIP_SETTING_RATE, 1000},
        {"train.weight_decay=0", NULL, GOSSIP_SETTING_DECAY, 0},
        {"train.rate=1000.1", "train.rate: found \"1000.1\", expected a number from 0 to 1000", 0, 0},
        {"train.rate=-1", "expected a number from 0 to 1000", 0, 0},
        {"train.rate=", "train.rate: found", 0, 0},
        {"train.rate=nan", "expected a number", 0, 0},
        {"train.weight_decay=11", "from 0 to 10", 0, 0},
        {"average.clip=1.5",
         "found the key \"average.clip\", which average.robust has replaced since version 0.1.0", 0, 0},
        {"train.rates=1", "unknown key \"train.rates\", did you mean train.rate?", 0, 0},
        {"train.steps=10", "train.steps cannot be changed while the cluster trains, only train.rate and", 0,
         0},
        {"average.ratio=0.1", "average.ratio cannot be changed", 0, 0},
        {"train.steps=many", "train.steps: found \"many\"", 0, 0},
        {"train.rate", "expected key=value", 0, 0},
        {"", "expected key=value", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum gossip_setting_kind kind = GOSSIP_SETTINGS;
        double value = -1;
        struct base_reason why = {""};
        const enum base_error error = node_change_parse(cases[i].text, &kind, &value, &why);
        if (cases[i].said) {
            assert_true(error && value == -1);
            if (!strstr(why.text, cases[i].said))
                fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].text, cases[i].said, why.text);
        } else {
            assert_int_equal(error, BASE_OK);
            assert_int_equal(kind, cases[i].kind);
            assert_true(value == cases[i].value);
        }
    }
}

// What a neighbour says is bounded like what is typed here.
static void the_life_has_the_bounds_of_the_keys(void **state)
{
    struct node_config config = {0};
    struct base_reason why;
    (void)state;
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    const struct gossip_life_options options = node_config_life(&config);
    assert_true(options.least[GOSSIP_SETTING_RATE] == 0 && options.most[GOSSIP_SETTING_RATE] == 1000);
    assert_true(options.least[GOSSIP_SETTING_DECAY] == 0 && options.most[GOSSIP_SETTING_DECAY] == 10);
    node_schema_free(&node_config_schema, &config);
}

static void settings_are_kept_bit_for_bit(void **state)
{
    char directory[TEMPORARY_BYTES], path[TEMPORARY_BYTES + 16];
    struct base_reason why;
    const struct gossip_setting settings[GOSSIP_SETTINGS] = {
        {.round = 1, .by = UINT64_MAX, .value = 0.1, .before = (double)NAN},
        {.round = 1ull << 60, .value = 1e-300, .before = 1.0 / 3}};
    struct gossip_setting read[GOSSIP_SETTINGS];
    (void)state;
    temporary_make(directory, "settings");
    assert_int_equal(node_settings_read(directory, read, &why), BASE_OK); // there is no file
    assert_int_equal(read[0].round + read[1].round, 0);
    assert_int_equal(node_settings_write(directory, settings, &why), BASE_OK);
    assert_int_equal(node_settings_read(directory, read, &why), BASE_OK);
    assert_memory_equal(read, settings, sizeof read);
    struct gossip_setting one[GOSSIP_SETTINGS] = {settings[0]}; // the other was never changed
    assert_int_equal(node_settings_write(directory, one, &why), BASE_OK);
    assert_int_equal(node_settings_read(directory, read, &why), BASE_OK);
    assert_memory_equal(read, one, sizeof read);
    static const char *const damaged[] = {"0 5 7 0.1",     "9 5 7 0.1 0.2", "0 0 7 0.1 0.2",
                                          "0 5 7 inf 0.2", "0 5 7 0.1 inf", "hello"};
    snprintf(path, sizeof path, "%s/settings", directory);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%s\n", damaged[i]);
        fclose(file);
        assert_int_equal(node_settings_read(directory, read, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, damaged[i]));
    }
    temporary_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_some_keys_are_taken_and_only_values_of_a_configuration),
        cmocka_unit_test(the_life_has_the_bounds_of_the_keys),
        cmocka_unit_test(settings_are_kept_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
