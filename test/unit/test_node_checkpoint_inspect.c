// The output of `p2pml inspect` for a checkpoint, and for safetensors files of other programs.
#include "checkpoint_net.h"

#include <math.h>

static char *inspect(struct world *world, const char *path, enum base_error expected, struct base_reason *why)
{
    char out[128];
    snprintf(out, sizeof out, "%s/stdout", world->directory);
    int stream = capture_begin(1, out);
    why->text[0] = 0;
    enum base_error error = node_checkpoint_inspect(path, why);
    char *text = capture_end(1, stream, out);
    assert_int_equal(error, expected);
    return text;
}

static void inspect_shows_the_contents_of_a_checkpoint(void **state)
{
    struct world *world = *state;
    struct net net = {0};
    struct base_reason why;
    char hex[GOSSIP_ID_HEX];
    const struct gossip_id one = id_of(1);
    net_make(&net);
    exchange_some(&net, 4);
    net.learner.parts.round = 31;
    write_here(world, &net);
    const char *path = path_of(world, "checkpoint-0.safetensors");
    char *text = inspect(world, path, BASE_OK, &why);
    gossip_id_hex(&one, hex);
    const char *const expected[] = {path,          "p2pml checkpoint, version 2, digest right",
                                    "node-01",     "mlp 784-6-10",
                                    "round    31", "model.layers.0.weight",
                                    "784 x 6",     "state.sgd.momentum",
                                    "edges",       hex};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (!strstr(text, expected[i]))
            fail_msg("'%s' is missing in:\n%s", expected[i], text);
    const char *outer = strstr(text, "outer.momentum");
    assert_non_null(outer);
    assert_memory_equal(strchr(outer, '\n') - 3, "  0", 3); // no NaN
    free(text);
    poison(path, "outer.momentum", NAN);
    poison(path, "state.sgd.momentum", INFINITY);
    text = inspect(world, path, BASE_EFORMAT, &why);
    outer = strstr(text, "outer.momentum");
    assert_memory_equal(strchr(outer, '\n') - 3, "  1", 3); // it is shown all the same
    assert_non_null(strstr(why.text, "'state.sgd.momentum' holds 1 number"));
    free(text);
    flip(path, -1);
    text = inspect(world, path, BASE_EFORMAT, &why);
    assert_string_equal(text, "");
    assert_non_null(strstr(why.text, "digest"));
    free(text);
    free(inspect(world, world->directory, BASE_EIO, &why));
    net_free(&net);
}

static void inspect_accepts_files_of_other_programs(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    static const uint16_t halves[4] = {0x3c00, 0xc000, 0x7e00, 0x0001}; // 1, -2, NaN, 2^-24
    static const char header[] =
        "{\"__metadata__\":{\"by\":\"\\u001b[31m\"},\"h\":{\"dtype\":\"F16\",\"shape\":[2,1,2],"
        "\"data_offsets\":[0,8]},\"none\":{\"dtype\":\"I64\",\"shape\":[0],"
        "\"data_offsets\":[8,8]}}";
    const uint64_t length = sizeof header - 1;
    const struct base_span spans[] = {{&length, 8}, {header, sizeof header - 1}, {halves, sizeof halves}};
    const char *path = path_of(world, "elsewhere");
    assert_int_equal(base_file_write(path, 0600, spans, 3, &why), BASE_OK);
    char *text = inspect(world, path, BASE_OK, &why);
    static const char *const expected[] = {"not a checkpoint", "digest missing", "?[31m",   "F16",
                                           "2 x 1 x 2",        "2.2361",         "-0.3333", "I64"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (!strstr(text, expected[i]))
            fail_msg("'%s' is missing in:\n%s", expected[i], text);
    assert_null(strchr(text, 0x1b));
    free(text);
}

// One that p2pml exported has a meaning, and a digest of another kind is not one that was checked.
static void inspect_fails_for_models_that_are_broken(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    static const struct {
        const char *metadata;
        float value;
        const char *words;
    } cases[] = {{"\"p2pml\":\"model 1\"", NAN, "'w' holds 1 number that is NaN or infinite"},
                 {"\"p2pml\":\"model 1\",\"digest\":\"sha256:0\"", 1, "its digest is of a kind"}};
    const char *path = path_of(world, "model");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[256];
        const float values[2] = {1, cases[i].value};
        const uint64_t length = (uint64_t)snprintf(header, sizeof header,
                                                   "{\"__metadata__\":{%s},\"w\":{\"dtype\":\"F32\","
                                                   "\"shape\":[2],\"data_offsets\":[0,8]}}",
                                                   cases[i].metadata);
        const struct base_span spans[] = {{&length, 8}, {header, length}, {values, sizeof values}};
        assert_int_equal(base_file_write(path, 0600, spans, 3, &why), BASE_OK);
        free(inspect(world, path, BASE_EFORMAT, &why));
        if (!strstr(why.text, cases[i].words))
            fail_msg("expected '%s' in '%s'", cases[i].words, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inspect_shows_the_contents_of_a_checkpoint, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(inspect_accepts_files_of_other_programs, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(inspect_fails_for_models_that_are_broken, world_set_up,
                                        world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
