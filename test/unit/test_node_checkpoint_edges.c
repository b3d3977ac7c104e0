// Edges in checkpoints: an exchange whose end was lost in a crash is settled after the restart, bit for bit.
// Also the output of `inspect`.
#include "checkpoint_world.h"

#include "base/bf16.h"
#include "gossip/session/identity.h"
#include "test/support/cpu_kernels.h"
#include <math.h>

#define ENDS 3

struct letter {
    size_t from, to;
    uint8_t *bytes;
    size_t count;
    struct letter *next;
};

// The node under test (end 0, with a learner) and its neighbours; the links keep order and take no time.
struct net {
    struct learner learner;
    size_t parameters;
    float *start, *x[ENDS], *correction;
    struct gossip_exchange *exchange[ENDS];
    struct letter *first, **last;
    uint64_t now_ns, round;
    enum gossip_message_kind lost; // messages of this kind never arrive
};

static bool in_bf16; // references and corrections of all exchanges

static struct gossip_id id_of(size_t end)
{
    return (struct gossip_id){{(uint8_t)(0x10 + end), 7}};
}

static size_t end_of(const struct gossip_id *id)
{
    return (size_t)id->bytes[0] - 0x10;
}

static struct gossip_exchange *make_exchange(const struct net *net, size_t end)
{
    struct base_reason why = {.text = ""};
    struct gossip_exchange *exchange = NULL;
    const struct gossip_exchange_options options = {.self = id_of(end),
                                                    .kernels = cpu_kernels(),
                                                    .parameters = net->parameters,
                                                    .start = net->start,
                                                    .model = net->x[end],
                                                    .ratio = 1.0f / 32,
                                                    .values = KERNELS_INT8,
                                                    .reference_bf16 = in_bf16,
                                                    .drift_correction = true,
                                                    .drift_gain = 2,
                                                    .drift_limit = 0.25f,
                                                    .on_death = GOSSIP_ON_DEATH_KEEP,
                                                    .fade_rounds = 40,
                                                    .deadline_floor_ns = 1000000000,
                                                    .deadline_ceiling_ns = 2000000000};
    if (gossip_exchange_create(&options, &exchange, &why))
        fail_msg("%s", why.text);
    return exchange;
}

static void net_make(struct net *net)
{
    learner_make(&net->learner, TRAIN_SGD, 6);
    net->learner.parts.id = id_of(0);
    net->parameters = train_model_parameters(net->learner.model);
    net->last = &net->first;
    net->start = calloc(net->parameters, sizeof(float));
    net->correction = calloc(net->parameters, sizeof(float));
    assert_true(net->start && net->correction);
    train_model_initialise(net->learner.model, 1, net->start);
    net->x[0] = train_trainer_model(net->learner.trainer);
    for (size_t i = 0; i < ENDS; i++) {
        if (i > 0) {
            net->x[i] = malloc(net->parameters * sizeof(float));
            assert_non_null(net->x[i]);
        }
        memcpy(net->x[i], net->start, net->parameters * sizeof(float));
        net->exchange[i] = make_exchange(net, i);
    }
    net->learner.parts.exchange = net->exchange[0];
}

static void net_free(struct net *net)
{
    assert_null(net->first);
    for (size_t i = 0; i < ENDS; i++) {
        gossip_exchange_destroy(net->exchange[i]);
        if (i > 0)
            free(net->x[i]);
    }
    free(net->start);
    free(net->correction);
    learner_free(&net->learner);
}

static void post(struct net *net, size_t from, const struct gossip_exchange_action *action)
{
    const struct gossip_message *message = &action->message;
    if (net->lost && message->kind == net->lost)
        return;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t count;
    assert_int_equal(gossip_message_encode_header(message, header, sizeof header, &count), BASE_OK);
    const bool carries = message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK;
    const size_t delta = carries ? message->as.exchange.delta_bytes : 0;
    struct letter *letter = calloc(1, sizeof *letter);
    assert_non_null(letter);
    *letter = (struct letter){.from = from, .to = end_of(&action->peer), .count = count + delta};
    letter->bytes = malloc(letter->count);
    assert_non_null(letter->bytes);
    memcpy(letter->bytes, header, count);
    if (delta)
        memcpy(letter->bytes + count, message->as.exchange.delta, delta);
    *net->last = letter;
    net->last = &letter->next;
}

static void step(struct net *net, size_t end, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;
    event->now_ns = ++net->now_ns;
    assert_int_equal(gossip_exchange_step(net->exchange[end], event, &actions), BASE_OK);
    for (size_t i = 0; i < actions.count; i++)
        if (actions.list[i].kind == GOSSIP_EXCHANGE_SEND)
            post(net, end, &actions.list[i]);
}

static void deliver_all(struct net *net)
{
    while (net->first) {
        struct letter *letter = net->first;
        struct gossip_message message;
        net->first = letter->next;
        if (!net->first)
            net->last = &net->first;
        assert_int_equal(gossip_message_decode(letter->bytes, letter->count, &message), BASE_OK);
        step(net, letter->to,
             &(struct gossip_exchange_event){
                 .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = id_of(letter->from), .message = &message});
        free(letter->bytes);
        free(letter);
    }
}

static void link_ends(struct net *net, size_t a, size_t b, enum gossip_exchange_event_kind kind)
{
    step(net, a, &(struct gossip_exchange_event){.kind = kind, .peer = id_of(b)});
    step(net, b, &(struct gossip_exchange_event){.kind = kind, .peer = id_of(a)});
    deliver_all(net);
}

// Changes x of `end` a little and begins its round with `partner`.
static void begin_round(struct net *net, size_t end, size_t partner)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};
    for (size_t i = 0; i < net->parameters; i++)
        net->x[end][i] += 0.01f * (float)((i * 7 + net->round * 13 + end * 5) % 11) - 0.05f;
    event.round.round = ++net->round;
    event.round.meets = true;
    event.round.partner = id_of(partner);
    event.round.step_scale = 0.1f;
    event.round.model = net->x[end];
    event.round.correction = net->correction;
    step(net, end, &event);
}

static struct gossip_edge_info info_of(const struct net *net, size_t end, size_t peer)
{
    const struct gossip_id id = id_of(peer);
    struct gossip_edge_info info = {0};
    for (size_t i = 0; i < gossip_exchange_edges(net->exchange[end]); i++) {
        gossip_exchange_edge_info(net->exchange[end], i, &info);
        if (!gossip_id_compare(&info.peer, &id))
            return info;
    }
    fail_msg("node %zu has no edge to %zu", end, peer);
    return info;
}

static void check_both_ends(const struct net *net, size_t peer)
{
    const struct gossip_edge_info here = info_of(net, 0, peer), there = info_of(net, peer, 0);
    assert_int_equal(here.state, GOSSIP_EDGE_LIVE);
    assert_int_equal(there.state, GOSSIP_EDGE_LIVE);
    assert_int_equal(here.sequence, there.sequence);
    for (size_t i = 0; i < net->parameters && in_bf16; i++) {
        assert_int_equal(here.reference_bf16[i], there.reference_bf16[i]);
        assert_true(bf16_widen(here.correction_bf16[i]) == -bf16_widen(there.correction_bf16[i]));
    }
    for (size_t i = 0; i < net->parameters && !in_bf16; i++) {
        assert_true(here.reference[i] == there.reference[i]);
        assert_true(here.correction[i] == -there.correction[i]);
    }
}

// Node 0 after a restart: a new trainer and a new exchange object from the directory.
static void restart(struct world *world, struct net *net)
{
    struct base_reason why = {.text = ""};
    struct node_safetensors *file;
    gossip_exchange_destroy(net->exchange[0]);
    learner_free(&net->learner);
    net->learner = (struct learner){0};
    learner_make(&net->learner, TRAIN_SGD, 6);
    net->learner.parts.id = id_of(0);
    if (node_checkpoint_resume(world->directory, &net->learner.parts, &file, &why))
        fail_msg("%s", why.text);
    net->x[0] = train_trainer_model(net->learner.trainer);
    net->exchange[0] = make_exchange(net, 0);
    net->learner.parts.exchange = net->exchange[0];
    node_checkpoint_resume_edges(file, net->exchange[0]);
    node_safetensors_free(file);
}

static void write_here(struct world *world, struct net *net)
{
    struct base_reason why;
    if (node_checkpoint_write(world->directory, 3, &net->learner.parts, &why))
        fail_msg("%s", why.text);
}

static void exchange_some(struct net *net, size_t rounds)
{
    link_ends(net, 0, 1, GOSSIP_EXCHANGE_LINK_UP);
    link_ends(net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
    for (size_t i = 0; i < rounds; i++) {
        begin_round(net, 0, 1 + i % 2);
        deliver_all(net);
        begin_round(net, 1, 0);
        deliver_all(net);
    }
    assert_true(info_of(net, 0, 1).sequence > 2);
}

// `lost`: the kind of message at which the crash happens. If it is the answer, the partner has committed.
static void crash_and_restart(struct world *world, enum gossip_message_kind lost, size_t replays,
                              size_t discards)
{
    struct net net = {0};
    net_make(&net);
    exchange_some(&net, 8);
    const uint64_t raised_generations = info_of(&net, 1, 0).resyncs, sequence = info_of(&net, 0, 1).sequence;
    net.lost = lost;
    begin_round(&net, 0, 1);
    deliver_all(&net);
    net.lost = 0;
    write_here(world, &net);
    float *published = malloc(net.parameters * sizeof(float));
    assert_non_null(published);
    memcpy(published, gossip_exchange_model(net.exchange[0]), net.parameters * sizeof(float));
    step(&net, 1, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = id_of(0)});
    step(&net, 2, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = id_of(0)});

    restart(world, &net);
    assert_memory_equal(gossip_exchange_model(net.exchange[0]), published, net.parameters * sizeof(float));
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 2);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence);
    link_ends(&net, 0, 1, GOSSIP_EXCHANGE_LINK_UP);
    link_ends(&net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
    check_both_ends(&net, 1);
    check_both_ends(&net, 2);
    assert_int_equal(info_of(&net, 1, 0).resyncs, raised_generations);
    assert_int_equal(info_of(&net, 0, 1).replays + info_of(&net, 1, 0).replays, replays);
    assert_int_equal(info_of(&net, 0, 1).discards + info_of(&net, 1, 0).discards, discards);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence + replays);
    begin_round(&net, 0, 1);
    deliver_all(&net);
    check_both_ends(&net, 1);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence + replays + 1);
    free(published);
    net_free(&net);
}

static void an_answer_lost_in_the_crash_is_replayed(void **state)
{
    crash_and_restart(*state, GOSSIP_XACK, 1, 0);
}

static void a_request_lost_in_the_crash_is_discarded(void **state)
{
    crash_and_restart(*state, GOSSIP_XCHG, 0, 1);
}

static void edges_are_the_same_after_writing_and_reading(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct net net = {0};
    uint8_t *first, *second;
    size_t first_bytes, second_bytes;
    net_make(&net);
    exchange_some(&net, 6);
    write_here(world, &net);
    const char *path = path_of(world, "checkpoint-0.safetensors");
    assert_int_equal(base_file_read(path, 1 << 24, &first, &first_bytes, &why), BASE_OK);
    restart(world, &net);
    write_here(world, &net);
    assert_int_equal(base_file_read(path, 1 << 24, &second, &second_bytes, &why), BASE_OK);
    assert_int_equal(first_bytes, second_bytes);
    assert_memory_equal(first, second, first_bytes);
    free(first);
    free(second);
    net_free(&net);
}

static void edges_in_bf16_are_written_and_read(void **state)
{
    in_bf16 = true;
    edges_are_the_same_after_writing_and_reading(state);
    crash_and_restart(*state, GOSSIP_XACK, 1, 0);
    crash_and_restart(*state, GOSSIP_XCHG, 0, 1);
    in_bf16 = false;
}

// average.reference was changed: the edges begin again.
static void edges_of_the_other_form_are_left_out(void **state)
{
    struct world *world = *state;
    for (unsigned of = 0; of < 2; of++) {
        struct net net = {0};
        in_bf16 = of;
        net_make(&net);
        exchange_some(&net, 4);
        write_here(world, &net);
        in_bf16 = !of;
        restart(world, &net);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 0);
        net_free(&net);
    }
    in_bf16 = false;
}

static void the_pulls_of_dead_nodes_are_written_and_read(void **state)
{
    struct world *world = *state;
    struct net net = {0};
    char hex[GOSSIP_ID_HEX], name[128], log_path[128];
    const struct gossip_id two = id_of(2);
    net_make(&net);
    exchange_some(&net, 6);
    step(&net, 0, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_FORGET, .peer = two, .dead = true});
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 1);
    const size_t bytes = net.parameters * sizeof(float);
    float *pull = malloc(bytes);
    assert_non_null(pull);
    memcpy(pull, gossip_exchange_correction(net.exchange[0]), bytes);
    write_here(world, &net);
    restart(world, &net);
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 1);
    assert_memory_equal(gossip_exchange_correction(net.exchange[0]), pull, bytes);
    assert_int_equal(gossip_exchange_orphan_at(net.exchange[0], 0).left, 40);

    gossip_id_hex(&two, hex);
    snprintf(name, sizeof name, "kept.%s", hex);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "70", NULL);
    restart(world, &net);
    assert_int_equal(gossip_exchange_orphan_at(net.exchange[0], 0).left, 70);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "soon", NULL);
    restart(world, &net);
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 0);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "40", NULL);
    restart(world, &net);
    snprintf(name, sizeof name, "kept.%s.correction", hex);
    snprintf(log_path, sizeof log_path, "%s/log", world->directory);
    write_here(world, &net);
    rewrite(path_of(world, "checkpoint-0.safetensors"), NULL, NULL, name); // of another shape
    int stream = capture_begin(2, log_path);
    restart(world, &net);
    char *log = capture_end(2, stream, log_path);
    assert_non_null(strstr(log, "checkpoint_kept"));
    assert_non_null(strstr(log, hex));
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 0);
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
    free(log);
    free(pull);
    net_free(&net);
}

static void a_damaged_edge_is_left_out(void **state)
{
    struct world *world = *state;
    struct net net = {0};
    char hex[GOSSIP_ID_HEX], key[96], name[128], log_path[128];
    const struct gossip_id one = id_of(1);
    net_make(&net);
    exchange_some(&net, 4);
    gossip_id_hex(&one, hex);
    snprintf(key, sizeof key, "edge.%s", hex);
    snprintf(name, sizeof name, "edge.%s.reference", hex);
    snprintf(log_path, sizeof log_path, "%s/log", world->directory);
    static const char *const numbers[] = {"1 2 3", "1 2 3 x", "1 2 99999999 4", "", NULL};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        write_here(world, &net);
        if (numbers[i])
            rewrite(path_of(world, "checkpoint-0.safetensors"), key, numbers[i], NULL);
        else
            rewrite(path_of(world, "checkpoint-0.safetensors"), NULL, NULL, name); // of another shape
        int stream = capture_begin(2, log_path);
        restart(world, &net);
        char *log = capture_end(2, stream, log_path);
        assert_non_null(strstr(log, "checkpoint_edge"));
        assert_non_null(strstr(log, hex));
        free(log);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
        assert_true(info_of(&net, 0, 2).sequence > 0);
        link_ends(&net, 0, 1, GOSSIP_EXCHANGE_LINK_UP); // the edge begins again
        link_ends(&net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 2);
    }
    net_free(&net);
}

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
    const char *const expected[] = {path,          "p2pml checkpoint, version 1, digest right",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_lost_in_the_crash_is_replayed, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_request_lost_in_the_crash_is_discarded, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(edges_are_the_same_after_writing_and_reading, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(edges_in_bf16_are_written_and_read, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(edges_of_the_other_form_are_left_out, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(the_pulls_of_dead_nodes_are_written_and_read, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_edge_is_left_out, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(inspect_shows_the_contents_of_a_checkpoint, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(inspect_accepts_files_of_other_programs, world_set_up,
                                        world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
