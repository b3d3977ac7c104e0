// Whole nodes in one process, one of them over kernels whose memory the host cannot touch: it trains with the
// others, writes a checkpoint and resumes from it, gives its model to a late node, and takes one.
#include "test/support/far_kernels.c"

#include "node/loop.h"
#include "node/schema/schema.h"
#include "node/setup.h"
#include "node/store/safetensors.h"
#include "node/threads.h"
#include "test/support/temporary.h"

static char root[TEMPORARY_BYTES];

struct node {
    struct node_config config;
    struct node_setup setup;
    struct node_threads *threads;
    pthread_t thread;
    int status;
};

static void set(struct node *node, const char *setting)
{
    struct base_reason why;
    if (node_schema_set(&node_config_schema, setting, &node->config, &why))
        fail_msg("%s", why.text);
}

static void *run(void *argument)
{
    struct node *node = argument;
    struct base_reason why = {""};
    node->status = node_threads_run(node->threads, &why);
    if (node->status != 0)
        (void)fprintf(stderr, "node ends with %d: %s\n", node->status, why.text);
    return NULL;
}

// `peer`: a running node, or NULL. `more`: settings, ends with NULL.
static void begin(struct node *node, const char *name, const struct kernels *kernels, const struct node *peer,
                  bool resume, const char *const *more)
{
    static const char *const all[] = {"model.hidden=[24]",
                                      "train.batch=20",
                                      "average.local_steps=2",
                                      "average.ratio=0.2",
                                      "average.mode=sync",
                                      "node.listen=127.0.0.1:0",
                                      "node.http=",
                                      "log.level=warn",
                                      "train.eval_rounds=20",
                                      "data.shards=2",
                                      "train.optimizer=adamw",
                                      "train.rate=0.005",
                                      "average.share_second_moment=4",
                                      "checkpoint.every=0",
                                      "data.takeover=false"};
    const struct node_setup_options options = {.version = "test",
                                               .resume = resume,
                                               .training = node_setup_training,
                                               .context = (void *)(uintptr_t)kernels};
    struct base_reason why = {""};
    char text[200];
    *node = (struct node){0};
    assert_int_equal(node_schema_defaults(&node_config_schema, &node->config, &why), BASE_OK);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        set(node, all[i]);
    for (size_t i = 0; more[i]; i++)
        set(node, more[i]);
    snprintf(text, sizeof text, "node.dir=%s/%s", root, name);
    set(node, text);
    snprintf(text, sizeof text, "node.name=%s", name);
    set(node, text);
    if (peer) {
        snprintf(text, sizeof text, "peers=127.0.0.1:%u",
                 (unsigned)node_loop_port(node_threads_loop(peer->threads)));
        set(node, text);
    }
    assert_int_equal(node_config_check(&node->config, &why), BASE_OK);
    node_config_complete(&node->config);
    if (node_setup_create(&node->config, &options, &node->setup, &why))
        fail_msg("%s", why.text);
    const struct node_threads_options threads = {.setup = &node->setup};
    if (node_threads_open(&threads, &node->threads, &why))
        fail_msg("%s", why.text);
    assert_int_equal(pthread_create(&node->thread, NULL, run, node), 0);
}

// Waits for its orderly end; its parts still exist.
static void await(struct node *node)
{
    assert_int_equal(pthread_join(node->thread, NULL), 0);
    assert_int_equal(node->status, 0);
    train_trainer_fetch(node->setup.trainer);
}

static void destroy(struct node *node)
{
    struct base_reason why = {""};
    assert_int_equal(node_setup_model_file(&node->setup, &why), BASE_OK);
    assert_int_equal(node_starts_end(node->setup.starts_path, &why), BASE_OK);
    node_threads_destroy(node->threads);
    node_setup_destroy(&node->setup);
    node_schema_free(&node_config_schema, &node->config);
}

static double accuracy_of(const struct node *node)
{
    struct train_score score;
    const struct kernels *kernels = node->setup.kernels;
    const size_t bytes = train_model_parameters(node->setup.model) * sizeof(float);
    float *x = kernels->alloc(bytes);
    kernels->upload(x, train_trainer_model(node->setup.trainer), bytes);
    train_model_evaluate(node->setup.model, x, &node->setup.test, &score);
    kernels->release(x);
    return score.accuracy;
}

static uint64_t exchanges_of(const struct node *node)
{
    struct gossip_exchange_totals totals;
    gossip_exchange_totals(node->setup.exchange, &totals);
    return totals.exchanges;
}

static struct gossip_edge_info edge_of(const struct node *node)
{
    struct gossip_edge_info info;
    assert_int_equal(gossip_exchange_edges(node->setup.exchange), 1);
    gossip_exchange_edge_info(node->setup.exchange, 0, &info);
    return info;
}

static void have_the_same_reference(const struct node *far, const struct node *near)
{
    const size_t d = train_model_parameters(far->setup.model);
    const struct gossip_edge_info a = edge_of(far), b = edge_of(near);
    assert_int_equal(a.resyncs + b.resyncs, 0);
    assert_int_equal(a.sequence, b.sequence);
    assert_true(far_kernels()->apply->hash(a.reference, d, 0, false) ==
                near->setup.kernels->apply->hash(b.reference, d, 0, false));
}

static void train_two(const char *steps, bool resume)
{
    const char *const first[] = {steps, "data.shard=0", "node.start_members=2", NULL},
                      *const second[] = {steps, "data.shard=1", "node.start_members=2", NULL};
    struct node far, near;
    begin(&far, "far", far_kernels(), NULL, resume, first);
    begin(&near, "near", NULL, &far, resume, second);
    assert_ptr_equal(gossip_exchange_kernels(far.setup.exchange), far_kernels());
    assert_ptr_equal(gossip_exchange_kernels(near.setup.exchange), near.setup.kernels);
    assert_true(far.setup.resumed == resume && near.setup.resumed == resume);
    await(&far);
    await(&near);
    printf("accuracy %.3f over other memory, %.3f over the host's; %llu exchanges\n", accuracy_of(&far),
           accuracy_of(&near), (unsigned long long)exchanges_of(&far));
    assert_true(exchanges_of(&far) > 0 && exchanges_of(&near) == exchanges_of(&far));
    assert_true(accuracy_of(&far) > 0.8 && accuracy_of(&near) > 0.8);
    have_the_same_reference(&far, &near);
    destroy(&far);
    destroy(&near);
}

// A node resumes from its checkpoint with the edge that it had: none begins again.
static void a_node_over_other_memory_trains_and_resumes(void **state)
{
    (void)state;
    train_two("train.steps=200", false);
    train_two("train.steps=260", true);
    assert_int_equal(far_use().held, 0);
}

// The step that it has reached, once that is at least `least`.
static uint64_t await_step(const struct node *node, uint64_t least)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    uint64_t step = 0;
    while (step < least) {
        char *status = node_threads_status(node->threads);
        const char *found = status ? strstr(status, "\"step\":") : NULL;
        step = found ? strtoull(found + strlen("\"step\":"), NULL, 10) : 0;
        free(status);
        (void)nanosleep(&moment, NULL);
    }
    return step;
}

// The second of two nodes, which have no last step, takes the model of the first one and continues at its
// step.
static void takes_the_model(const char *first_name, const struct kernels *first_kernels,
                            const char *late_name, const struct kernels *late_kernels)
{
    static const char *const one[] = {"train.steps=0", "data.shard=0", NULL}, *const two[] = {"train.steps=0",
                                                                                              "data.shard=1",
                                                                                              NULL};
    struct node first, late;
    begin(&first, first_name, first_kernels, NULL, false, one);
    const uint64_t step = await_step(&first, 400);
    begin(&late, late_name, late_kernels, &first, false, two);
    assert_true(await_step(&late, 1) >= step);
    (void)await_step(&late, step + 20);
    node_threads_leave(late.threads);
    await(&late);
    node_threads_leave(first.threads);
    await(&first);
    printf("from step %llu on: accuracy %.3f of the first, %.3f of the late one\n", (unsigned long long)step,
           accuracy_of(&first), accuracy_of(&late));
    assert_true(accuracy_of(&late) > 0.7 && accuracy_of(&first) > 0.7);
    destroy(&first);
    destroy(&late);
}

static void a_node_over_other_memory_gives_its_model(void **state)
{
    (void)state;
    takes_the_model("giving", far_kernels(), "taking", NULL);
}

static void a_node_over_other_memory_takes_a_model(void **state)
{
    (void)state;
    takes_the_model("given", NULL, "taken", far_kernels());
    assert_int_equal(far_use().held, 0);
}

static bool lends_with(const char *setting, const char *exchange)
{
    struct node_config config = {0};
    struct base_reason why;
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    assert_int_equal(node_schema_set(&node_config_schema, setting, &config, &why), BASE_OK);
    assert_int_equal(node_schema_set(&node_config_schema, exchange, &config, &why), BASE_OK);
    const bool lends = node_setup_lends(&config);
    node_schema_free(&node_config_schema, &config);
    return lends;
}

static void the_exchange_is_where_device_exchange_says(void **state)
{
    (void)state;
    assert_true(lends_with("device.kind=auto", "device.exchange=auto"));
    assert_true(lends_with("device.kind=auto", "device.exchange=device"));
    assert_false(lends_with("device.kind=auto", "device.exchange=host"));
    assert_false(lends_with("average.outer_momentum=0.5", "device.exchange=auto"));
    assert_false(lends_with("average.reference=bf16", "device.exchange=auto"));
}

int main(void)
{
    temporary_make(root, "device");
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_node_over_other_memory_trains_and_resumes),
                                       cmocka_unit_test(a_node_over_other_memory_gives_its_model),
                                       cmocka_unit_test(a_node_over_other_memory_takes_a_model),
                                       cmocka_unit_test(the_exchange_is_where_device_exchange_says)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temporary_remove(root);
    return failed;
}
