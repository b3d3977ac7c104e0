// The configuration of one node. Keys, types, defaults and meanings: the table in node/config/config.c,
// printed by `p2pml-node --help`. Immutable once threads run.
#ifndef NODE_CONFIG_CONFIG_H
#define NODE_CONFIG_CONFIG_H

#include "node/schema/schema.h"

enum node_loss { NODE_LOSS_CROSS_ENTROPY, NODE_LOSS_MSE, NODE_LOSS_MAE, NODE_LOSSES }; // as enum train_loss
enum node_data {
    NODE_DATA_DIGITS,
    NODE_DATA_IDX,
    NODE_DATA_LIBSVM,
    NODE_DATA_CSV, // this and the following have their own classes
    NODE_DATA_NPY,
    NODE_DATA_IMAGES,
    NODE_DATA_TEXT, // these two are windows of tokens (train/tokens.h)
    NODE_DATA_TOKENS,
    NODE_DATA_CIFAR10,
    NODE_DATA_KINDS
};
enum node_text { NODE_TEXT_BYTES, NODE_TEXT_CHARACTERS };
enum node_partition { NODE_PARTITION_IID, NODE_PARTITION_DIRICHLET, NODE_PARTITION_CONTIGUOUS };
enum node_mode { NODE_MODE_SYNC, NODE_MODE_ASYNC, NODE_MODE_BOUNDED };
enum node_method {
    NODE_METHOD_EDGE_REF,
    NODE_METHOD_MODEL_AVERAGE, // pairwise, dense
    NODE_METHOD_LOCAL,         // nothing is averaged
    NODE_METHOD_CHOCO,         // this and the following: p2pml sim only
    NODE_METHOD_DPSGD,
    NODE_METHOD_ALLREDUCE,
    NODE_METHOD_DILOCO,
    NODE_METHOD_NOLOCO,
    NODE_METHOD_SPARSELOCO,
    NODE_METHODS
};
enum node_alone { NODE_ALONE_STOP, NODE_ALONE_GO_ON };
enum node_robust { NODE_ROBUST_OFF, NODE_ROBUST_CLIP, NODE_ROBUST_CLIP_PROBE };
enum node_reference { NODE_REFERENCE_FP32, NODE_REFERENCE_BF16 };
enum node_device { NODE_DEVICE_CPU, NODE_DEVICE_CUDA, NODE_DEVICE_AUTO, NODE_DEVICES };
enum node_exchange_place { NODE_EXCHANGE_AUTO, NODE_EXCHANGE_DEVICE, NODE_EXCHANGE_HOST };
enum node_on_death { NODE_ON_DEATH_DROP, NODE_ON_DEATH_KEEP, NODE_ON_DEATH_FADE }; // as enum gossip_on_death
enum node_port_mapping { NODE_PORT_MAPPING_AUTO, NODE_PORT_MAPPING_OFF };
enum node_finish { NODE_FINISH_MERGE, NODE_FINISH_NONE };
enum node_partition_mode { NODE_MERGE, NODE_MAJORITY, NODE_PAUSE_MINORITY };

struct node_config {
    struct node_origins origins;
    struct {                       // node.*
        char *name;                // "" : first 8 hex digits of the id
        char *dir;                 // state: identity, checkpoints, metrics.jsonl
        char *listen;              // host:port of the peer port; port 0: any
        char *http;                // host:port, "" for none
        char *advertise;           // host:port told to others; "": found automatically
        char *fault_file;          // "" : none; ids cut off as by a broken network, for experiments
        char *group;               // host or rack; "": none
        uint64_t start_members;    // 0: the peers of the list; else this many in the view, this node included
        char *identity;            // file; "" : <dir>/identity
        uint64_t start_timeout_ns; // how long to wait for listed peers before training begins
        uint64_t linger_ns;        // how long to answer neighbours after the last step
        int port_mapping;          // enum node_port_mapping: whether the router is asked to forward the port
        double relay;              // bytes per second that are forwarded for others; 0: off
        uint64_t trainer_timeout_ns; // how long a trainer of --trainer may be silent in its turn; 0: for ever
    } node;
    struct { // cluster.*
        char *name;
        char *secret_file;  // "" : none
        char *allow_file;   // "" : none
        char *operator_id;  // "" : none
        uint64_t join_rate; // new identities that are let in a minute; 0: any number
        int profile;        // enum gossip_member_profile: lan|wan|local
        int partition;      // enum node_partition_mode
    } cluster;
    struct node_texts peers; // host:port
    struct {                 // model.*
        int kind;            // enum train_model_kind
        int loss;            // enum node_loss
        struct node_integers hidden;
        uint64_t layers, width, heads, context; // gpt2
        double dropout;                         // gpt2
        char *init;                             // file of the first weights; "": from `seed`
        char *init_digest;                      // of those weights, where others have the file; "": not known
        uint64_t seed;
    } model;
    struct {                                                           // data.*
        int kind;                                                      // enum node_data
        char *train_images, *train_labels, *test_images, *test_labels; // idx
        char *train_file, *test_file;                                  // libsvm, csv, npy; images: folders
        double test_part; // csv, npy, images without test_file: this part of the examples
        int header;       // csv: enum train_header
        char *delimiter;  // csv: one character, or "tab"
        int decimal;      // csv: 0 found out, 1 a point, 2 a comma
        struct node_texts target, categorical, ignore; // csv: columns
        struct node_texts labels;                      // libsvm: of the classes, in order
        char *image_size;                              // images: "WIDTHxHEIGHT"; "": of the first one
        int image_colour;                              // images: 0 as the first one, 1 grey, 2 rgb
        uint64_t crop;                                 // of images: pixels; 0: off
        bool flip;                                     // of images
        int scale;                                     // enum train_scale
        char *scale_from;                              // file of p2pml data info --stats; "cluster"; "": none
        int text;                                      // text: enum node_text
        uint64_t vocabulary;                           // tokens: ids are below it
        uint64_t token_bytes;                          // tokens: of an id, 2 or 4
        uint64_t features, classes;
        uint64_t train_first, train_count, test_first, test_count; // what 0 means: node_config_data_ranges
        int partition;                                             // enum node_partition
        double alpha;
        uint64_t shard, shards; // this node trains on shard `shard` of `shards`
        uint64_t seed;
        bool takeover;              // living nodes train on the shards of dead ones
        uint64_t takeover_after_ns; // dead for this long
    } data;
    struct { // train.*
        uint64_t steps, batch;
        int optimizer; // enum train_optimizer_kind
        double rate, momentum, weight_decay, beta1, beta2, epsilon;
        double weight;                // of the gradient; 0: by this shard's part of the examples
        int decay;                    // enum train_decay
        uint64_t warmup, micro_batch; // steps; examples, 0: the whole batch
        double floor, clip_norm;      // of the rate; of the gradient, 0: off
        struct node_texts schedule;   // "0.6:0.3": from 60% of the steps on, 0.3 x rate
        uint64_t seed;
        double l1, l2;        // logistic: l1 |w| + l2/2 |w|^2 beside the loss
        uint64_t blocks;      // logistic: of features, one a step
        double proximal;      // mu of mu/2 |x - x_round|^2; 0: off
        bool scale_rate;      // multiplies the rate by this node's time per step over the median time
        int alone;            // enum node_alone: when all others have finished
        uint64_t eval_rounds; // rounds between two measurements on the test set, and one at the end; 0: only
                              // at the end
    } train;
    struct {                // average.*
        int method;         // enum node_method
        int mode;           // enum node_mode
        uint64_t max_delay; // maximum of rounds without an exchange; bounded: also of rounds that a live
                            // neighbour may be behind
        uint64_t local_steps;
        double ratio;              // 0: auto, by the size of the model (compress_select_count)
        int values;                // enum kernels_format: fp32|fp16|int8|bf16|int4|int2|sign
        int select;                // enum compress_method: exact|threshold|bisection|random
        uint64_t select_block;     // elements; 0: the whole model
        struct node_texts filters; // "random-skip:0.1": name and number
        int reference;             // enum node_reference: fp32|bf16
        bool drift_correction;
        double drift_gain, drift_limit;
        uint64_t share_second_moment;      // rounds; AdamW only; 0: never
        double hold;                       // part of what is unsent; -1: auto; see node_config_hold
        double outer_momentum;             // 0: off; below 0.8
        int robust;                        // enum node_robust: off|clip|clip+probe
        int on_death;                      // enum node_on_death
        uint64_t fade_rounds;              // of on_death: fade
        int finish;                        // enum node_finish
        double step_size;                  // choco: gamma; 0: tuned while it runs
        double outer_rate, outer_nesterov; // diloco, noloco
        uint64_t deadline_floor_ns, deadline_ceiling_ns;
        uint64_t forget_after_ns; // how long the edge of a dead neighbour is kept
    } average;
    struct {      // topology.*
        int kind; // enum topology_kind
        uint64_t seed;
        uint64_t rings;  // random: K
        uint64_t base_k; // base: k
        char *file;      // file: the graph
    } topology;
    struct {               // checkpoint.*
        uint64_t every_ns; // 0: only at the end
        uint64_t keep;     // checkpoints
    } checkpoint;
    struct {                 // metrics.*: metrics.jsonl, events.jsonl and files for TensorBoard
        char *tensorboard;   // directory; "": none
        uint64_t file_bytes; // 0: one file each, without end
        uint64_t files;
    } metrics;
    struct {           // device.*
        int kind;      // enum node_device: cpu|cuda|auto
        int precision; // 0 fp32, 1 bf16
        int exchange;  // enum node_exchange_place: auto|device|host
        uint64_t threads;
    } device;
    struct {                  // log.*
        int level, format;    // enum base_log_level (debug|info|warn|error), enum base_log_format (text|json)
        uint64_t progress_ns; // between two lines about progress; 0: none
    } log;
};

extern const struct node_schema node_config_schema;

// All checks of several keys together (a loopback bind or a secret; dirichlet needs alpha; files of the
// chosen data kind; shard < shards; steps of the schedule parsable and in ascending order; local_steps <=
// steps; peers well formed: host:port, no duplicates), each naming file, line and key through its origin.
// Duplicates and other harmless entries of the peer list are warnings in the log, not errors.
enum base_error node_config_check(const struct node_config *config, struct base_reason *why) BASE_CHECK;

// Checks only the keys that node_data_load_tests needs. `known`: a model says what the data mean, so the
// training file is needed only if the test examples are a part of it.
enum base_error node_config_check_tests(const struct node_config *config, bool known,
                                        struct base_reason *why) BASE_CHECK;

// Further checks of p2pml-node and p2pml run, but not of p2pml sim: methods that only the simulator has, and
// graphs with more neighbours than a node has room for. After node_config_check.
enum base_error node_config_check_runnable(const struct node_config *config,
                                           struct base_reason *why) BASE_CHECK;

// Sets the keys that average.method decides: model-average sends whole models in fp32, without drift
// correction. Called after the checks, so that readers of the configuration need not know the method.
void node_config_complete(struct node_config *config);

// The part of what is unsent that the steps of a node hold back: average.hold, or what its `auto` stands for.
double node_config_hold(const struct node_config *config);

// train.alone is `stop`, and models are averaged.
bool node_config_stops_alone(const struct node_config *config);

// topology.file, read and checked; *graph is the caller's, NULL for other kinds. known[n]: the nodes that
// exist; NULL: the nodes that the file names.
struct topology_graph;
struct topology_member;
enum base_error node_config_graph(const struct node_config *config, const struct topology_member *known,
                                  size_t n, struct topology_graph **graph,
                                  struct base_reason *why) BASE_CHECK;
// BASE_OK: the graph has a node of this name, or is NULL.
enum base_error node_config_check_place(const struct node_config *config, const struct topology_graph *graph,
                                        const char *name, struct base_reason *why) BASE_CHECK;

// The ranges of the training and the test examples, with the meaning of 0 filled in. Files: a count of 0
// means up to the end of the file, and stays 0. Digits: train_count 0 becomes 8,000, test_count 0 becomes
// 2,000, and test_first 0 becomes the first example after the training examples, so that the two do not
// overlap by default.
struct node_data_ranges {
    uint64_t train_first, train_count, test_first, test_count;
};
void node_config_data_ranges(const struct node_config *config, struct node_data_ranges *ranges);

// data.scale_from is "cluster": the statistics are computed from the examples of all nodes. Nodes that cut
// one set into shards have all examples; other nodes have to tell each other their statistics (gathers).
bool node_config_scales_together(const struct node_config *config);
bool node_config_gathers(const struct node_config *config);
bool node_config_finds_classes(const struct node_config *config);
// There is no test file: data.test_part of the examples are held out.
bool node_config_splits(const struct node_config *config);
// The test examples come from the file (or folder, by whatever path) of the training examples, or are digits.
bool node_config_tests_on_training_file(const struct node_config *config);
// Text and tokens.
bool node_config_is_text(const struct node_config *config);
// The name of data.kind; static.
const char *node_config_data_kind(const struct node_config *config);
// The character that data.delimiter stands for, and that of data.decimal, 0 for auto.
char node_config_delimiter(const struct node_config *config);
char node_config_decimal(const struct node_config *config);
// data.image_size: both 0 for the size of the first image. Never fails after node_config_check.
enum base_error node_config_image_size(const struct node_config *config, size_t *width, size_t *height,
                                       struct base_reason *why) BASE_CHECK;

// train.schedule as the trainer takes it. Never fails after node_config_check.
struct train_schedule;
enum base_error node_config_schedule(const struct node_config *config, struct train_schedule *schedule,
                                     struct base_reason *why) BASE_CHECK;

// average.filters as the exchange takes it. Never fails after node_config_check.
struct compress_filters;
enum base_error node_config_filters(const struct node_config *config, struct compress_filters *filters,
                                    struct base_reason *why) BASE_CHECK;

// "host:port", "[v6]:port" -> parts. host[LIMIT_HOST_BYTES]. BASE_EINVAL with the reason.
enum base_error node_address_parse(const char *text, char *host, uint16_t *port,
                                   struct base_reason *why) BASE_CHECK;
bool node_address_is_loopback(const char *host);

#endif
