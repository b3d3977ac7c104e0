// p2pml-node: one node of a cluster. Exit status: 0 done or stopped cleanly, 1 failed while running, 2 bad
// usage or configuration.
#include "base/log.h"
#include "base/process.h"
#include "daemon/address.h"
#include "daemon/process.h"
#include "daemon/trainer.h"
#include "lib/open.h"
#include "node/config/compatibility.h"
#include "node/config/config.h"
#include "node/joining.h"
#include "node/learn/data.h"
#include "node/loop.h"
#include "node/memory.h"
#include "node/setup.h"
#include "node/threads.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, BEGIN_ANEW = 3 };

struct arguments {
    const char *config;
    const char **assignments; // of --set and --peers, in order; "key=value"
    size_t n_assignments;
    char *peers;         // "peers=..." of --peers
    const char *trainer; // "unix:PATH", or NULL
    bool check, resume, help, version;
    bool joined; // starts again with the cluster's settings; this program passes it to itself
};

static const char usage[] =
    "usage: p2pml-node [--config FILE] [--peers HOST:PORT,...] [--set KEY=VALUE]... [--check] [--resume]\n"
    "                  [--trainer unix:PATH]\n"
    "\n"
    "  --config FILE        YAML; every key is listed below\n"
    "  --peers LIST         the other nodes; same as --set peers=LIST\n"
    "  --set KEY=VALUE      overrides the file and the environment; may be repeated\n"
    "  --check              checks the configuration and the data, prints the memory needed, then ends\n"
    "  --resume             continues from the newest checkpoint in node.dir\n"
    "  --trainer unix:PATH  a program at this socket takes the local steps instead of the built-in trainer\n"
    "  --help, --version\n"
    "\n"
    "An environment variable such as P2PML_TRAIN_STEPS sets the key train.steps.\n"
    "On SIGTERM or SIGINT the node writes a last checkpoint and ends with status 0; before training begins\n"
    "it ends with status 0 at once. On SIGHUP it reads cluster.secret_file,\n"
    "cluster.allow_file and node.fault_file again.\n"
    "SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF and SIGIO are ignored.\n";

static bool parse_one(struct arguments *a, int option)
{
    switch (option) {
    case 'c':
        a->config = optarg;
        return true;
    case 's':
        a->assignments[a->n_assignments++] = optarg;
        return true;
    case 'p':
        if (a->peers || asprintf(&a->peers, "peers=%s", optarg) < 0)
            return false;
        a->assignments[a->n_assignments++] = a->peers;
        return true;
    case 't':
        a->trainer = optarg;
        return true;
    case 'k':
        return a->check = true;
    case 'r':
        return a->resume = true;
    case 'h':
        return a->help = true;
    case 'v':
        return a->version = true;
    case 'j':
        return a->joined = true;
    default:
        return false;
    }
}

static bool parse_arguments(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"peers", required_argument, NULL, 'p'},
        {"set", required_argument, NULL, 's'},    {"check", no_argument, NULL, 'k'},
        {"resume", no_argument, NULL, 'r'},       {"trainer", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},         {"version", no_argument, NULL, 'v'},
        {"joined", no_argument, NULL, 'j'},       {0}};
    a->assignments = calloc((size_t)argc + 1, sizeof *a->assignments);
    if (!a->assignments)
        return false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (!parse_one(a, option))
            return false;
    if (optind < argc)
        fprintf(stderr, "p2pml-node: '%s' is not an option\n", argv[optind]);
    return optind >= argc;
}

static enum base_error set_defaults(const struct arguments *a, struct node_config *config,
                                    struct base_reason *why)
{
    if (!a->trainer)
        return node_schema_defaults(&node_config_schema, config, why);
    const enum base_error error = daemon_address_check(a->trainer, why);
    return error ? error : lib_defaults(config, why);
}

static enum base_error read_config(const struct arguments *a, struct node_config *config,
                                   struct base_reason *why)
{
    static const char *const others[] = {"P2PML_DATA", "P2PML_SEED", "P2PML_CPU", NULL}; // of tests and tools
    enum base_error error = set_defaults(a, config, why);
    const struct node_schema_sources sources = {.path = a->config,
                                                .environment = environ,
                                                .others = others,
                                                .settings = a->assignments,
                                                .n_settings = a->n_assignments};
    if (!error)
        error = node_schema_read_all(&node_config_schema, &sources, config, why);
    if (!error && (a->joined || a->resume))
        error = node_joining_read(config, a->joined, why);
    if (error)
        return error;
    base_log_configure((enum base_log_level)config->log.level, (enum base_log_format)config->log.format,
                       config->node.name);
    error = node_config_check(config, why);
    if (!error)
        error = node_config_check_runnable(config, why);
    if (!error)
        node_config_complete(config);
    return error;
}

// For users of the trained model; training continues from the checkpoint instead.
static int leave_model(struct node_setup *s)
{
    struct base_reason why = {0};
    if (train_trainer_steps_done(s->trainer) == 0) { // nobody has trained these weights
        base_log(BASE_LOG_INFO, "model_file", "this node ends before its first step: it leaves no model");
        return EXIT_DONE;
    }
    if (!node_setup_model_file(s, &why))
        return EXIT_DONE;
    base_log(BASE_LOG_ERROR, "model_file", "%s", why.text);
    return EXIT_FAILED;
}

static int run(struct node_setup *s, bool joined, struct base_reason *why)
{
    const struct node_threads_options options = {.setup = s,
                                                 .signals = true,
                                                 .manager = true,
                                                 .joins = true,
                                                 .told_shard = !s->resumed &&
                                                               node_config_is_told(s->config, "data.shard")};
    struct node_threads *threads;
    if (node_threads_open(&options, &threads, why))
        return EXIT_FAILED;
    daemon_process_begun();
    int status = node_threads_run(threads, why);
    if (status == NODE_LOOP_ABANDONED)
        _exit(EXIT_FAILED);          // asked to end at once: the threads still run
    if (status == NODE_LOOP_JOINS) { // likewise, until the program starts again
        if (!node_joining_keep(s->config, node_threads_loop(threads), joined, why))
            return BEGIN_ANEW;
        base_log(BASE_LOG_ERROR, "joins", "%s", why->text);
        _exit(EXIT_FAILED);
    }
    if (status == NODE_THREADS_UNSTARTED) {
        status = EXIT_FAILED;
        goto out;
    }
    if (status == EXIT_DONE && node_starts_end(s->starts_path, why))
        base_log(BASE_LOG_WARN, "boot", "%s", why->text);
    why->text[0] = 0;
    if (status == EXIT_DONE)
        status = leave_model(s);
    base_log(BASE_LOG_INFO, "end", "exit status %d", status);
    daemon_process_over();
out:
    node_threads_destroy(threads);
    return status;
}

static int print_help(void)
{
    char *keys = node_schema_help(&node_config_schema);
    if (!keys)
        return EXIT_FAILED;
    printf("%s\n%s", usage, keys);
    free(keys);
    return EXIT_DONE;
}

// Also loads the data, which can be wrong like any key.
static int check_data(const struct node_config *config)
{
    struct train_dataset train = {0}, test = {0};
    struct base_reason why = {""};
    if (node_data_load(config, config->data.shard, &train, &test, &why)) {
        fprintf(stderr, "p2pml-node: data: %s\n", why.text);
        return EXIT_USAGE;
    }
    node_data_advise(config, config->data.shard, &train, &test);
    if (train.tokens)
        base_log(BASE_LOG_INFO, "data",
                 "%zu windows of %zu tokens to train on, %zu to test on; %zu different tokens",
                 train.examples, train.features, test.examples, train.classes);
    else
        base_log(BASE_LOG_INFO, "data", "%zu examples to train on, %zu to test on; %zu features, %zu %s",
                 train.examples, test.examples, train.features, train.outputs ? train.outputs : train.classes,
                 train.outputs ? "targets" : "classes");
    enum base_error error = node_setup_check_start(config, &train, &why);
    if (!error)
        error = node_memory_check(config, &train, &why);
    if (error)
        fprintf(stderr, "p2pml-node: model: %s\n", why.text);
    else
        puts("configuration is fine");
    train_dataset_destroy(&train);
    train_dataset_destroy(&test);
    return error ? EXIT_USAGE : EXIT_DONE;
}

static int serve_trainer(const struct arguments *a, const struct node_config *config)
{
    const struct daemon_trainer_options options = {
        .config = config, .resume = a->resume, .address = a->trainer};
    struct base_reason why = {""};
    if (daemon_trainer_serve(&options, &why))
        return EXIT_DONE;
    if (why.text[0])
        base_log(BASE_LOG_ERROR, "start_failed", "%s", why.text);
    return EXIT_FAILED;
}

static int serve(const struct arguments *a)
{
    if (!a->check)
        daemon_process_end_on_signal();
    struct node_config config = {0};
    const struct node_setup_options options = {
        .version = P2PML_VERSION, .resume = a->resume, .training = node_setup_training};
    struct node_setup setup;
    struct base_reason why = {0};
    int status = EXIT_USAGE;
    if (read_config(a, &config, &why)) {
        fprintf(stderr, "p2pml-node: %s\n", why.text);
    } else if (a->check && a->trainer) {
        status = puts("configuration is fine") >= 0 ? EXIT_DONE : EXIT_FAILED;
    } else if (a->check) {
        status = check_data(&config);
    } else if (a->trainer) {
        status = serve_trainer(a, &config);
    } else if (daemon_process_check(&why) || node_setup_create(&config, &options, &setup, &why)) {
        base_log(BASE_LOG_ERROR, "start_failed", "%s", why.text);
        status = EXIT_FAILED;
    } else {
        why.text[0] = 0; // a call that succeeds may leave notes
        status = run(&setup, a->joined, &why);
        if (status == BEGIN_ANEW)
            return status;
        if (why.text[0])
            base_log(BASE_LOG_ERROR, "start_failed", "%s", why.text);
        node_setup_destroy(&setup);
    }
    node_schema_free(&node_config_schema, &config);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    int status = EXIT_USAGE;
    base_process_begin();
    daemon_process_prepare();
    if (!parse_arguments(argc, argv, &a))
        fputs(usage, stderr);
    else if (a.help)
        status = print_help();
    else if (a.version)
        status = printf("p2pml-node %s\n", P2PML_VERSION) > 0 ? EXIT_DONE : EXIT_FAILED;
    else
        status = serve(&a);
    if (status == BEGIN_ANEW) {
        node_joining_restart(argc, argv);
        base_log(BASE_LOG_ERROR, "joins", "this program cannot start again: %s", strerror(errno));
        _exit(EXIT_FAILED);
    }
    free(a.peers);
    free(a.assignments);
    return status;
}
