// The keys of a node: the one place that names them.
#include "node/config/config.h"

#include "base/limits.h"
#include "compress/select.h"
#include "gossip/member/member.h"
#include "topology/topology.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/trainer.h"

#include <stddef.h>

// Choices are stored as their place in the list, which must be the enum's value.
_Static_assert(KERNELS_FP32 == 0 && KERNELS_FP16 == 1 && KERNELS_INT8 == 2 && KERNELS_BF16 == 3 &&
                   KERNELS_INT4 == 4 && KERNELS_INT2 == 5 && KERNELS_SIGN == 6 && KERNELS_FORMATS == 7,
               "average.values");
_Static_assert(COMPRESS_EXACT == 0 && COMPRESS_THRESHOLD == 1 && COMPRESS_BISECTION == 2 &&
                   COMPRESS_RANDOM == 3 && COMPRESS_METHODS == 4,
               "average.select");
_Static_assert(TOPOLOGY_RING == 0 && TOPOLOGY_BUTTERFLY == 1 && TOPOLOGY_RANDOM == 2 && TOPOLOGY_TORUS == 3 &&
                   TOPOLOGY_EXPONENTIAL == 4 && TOPOLOGY_ONE_PEER == 5 && TOPOLOGY_COMPLETE == 6 &&
                   TOPOLOGY_STAR == 7 && TOPOLOGY_MATCHINGS == 8 && TOPOLOGY_BASE == 9 &&
                   TOPOLOGY_HIERARCHICAL == 10 && TOPOLOGY_FILE == 11 && TOPOLOGY_KINDS == 12,
               "topology.kind");
_Static_assert(TRAIN_SOFTMAX == 0 && TRAIN_MLP == 1 && TRAIN_GPT2 == 2 && TRAIN_LENET == 3 &&
                   TRAIN_CNN == 4 && TRAIN_RESNET20 == 5 && TRAIN_LOGISTIC == 6 && TRAIN_MODELS == 7,
               "model.kind");
_Static_assert(TRAIN_DECAY_STEPS == 0 && TRAIN_DECAY_COSINE == 1, "train.decay");
_Static_assert(GOSSIP_PROFILE_LAN == 0 && GOSSIP_PROFILE_WAN == 1 && GOSSIP_PROFILE_LOCAL == 2,
               "cluster.profile");

#define ANY    0x1p64  // no bound but the type's
#define WIDEST 65536.0 // units of one hidden layer
#define HOUR   3600.0
#define DAY    86400.0
#define COUNT  4294967295.0 // examples

#define TEXT(key, field, initial, ...)                                                                       \
    {                                                                                                        \
        key, NODE_KEY_TEXT, offsetof(struct node_config, field), initial, 0, 0, NULL, .meaning = __VA_ARGS__ \
    }
#define CHOICE(key, field, initial, choices, ...)                                                            \
    {                                                                                                        \
        key, NODE_KEY_CHOICE, offsetof(struct node_config, field), initial, 0, 0, choices,                   \
            .meaning = __VA_ARGS__                                                                           \
    }
#define BOOL(key, field, initial, ...)                                                                       \
    {                                                                                                        \
        key, NODE_KEY_BOOL, offsetof(struct node_config, field), initial, 0, 0, NULL, .meaning = __VA_ARGS__ \
    }
#define INTEGER(key, field, initial, least, most, ...)                                                       \
    {                                                                                                        \
        key, NODE_KEY_INTEGER, offsetof(struct node_config, field), initial, least, most, NULL,              \
            .meaning = __VA_ARGS__                                                                           \
    }
#define REAL(key, field, initial, least, most, ...)                                                          \
    {                                                                                                        \
        key, NODE_KEY_REAL, offsetof(struct node_config, field), initial, least, most, NULL,                 \
            .meaning = __VA_ARGS__                                                                           \
    }
#define DURATION(key, field, initial, least, most, ...)                                                      \
    {                                                                                                        \
        key, NODE_KEY_DURATION, offsetof(struct node_config, field), initial, least, most, NULL,             \
            .meaning = __VA_ARGS__                                                                           \
    }

// Follows the meaning of a key: what all nodes share, and what a late node is told. A key that counts only
// with another one follows that one: where two nodes differ in the other one, that is reported.
#define SHARED               NODE_KEY_SHARED, NULL
#define TOLD                 NODE_KEY_TOLD, NULL
#define SHARED_IF(condition) NODE_KEY_SHARED, condition
#define TOLD_IF(condition)   NODE_KEY_TOLD, condition

static bool is_random(const void *config)
{
    return ((const struct node_config *)config)->topology.kind == TOPOLOGY_RANDOM;
}

static bool is_base(const void *config)
{
    return ((const struct node_config *)config)->topology.kind == TOPOLOGY_BASE;
}

static bool corrects(const void *config)
{
    return ((const struct node_config *)config)->average.drift_correction;
}

static bool has_moments(const void *config)
{
    const int kind = ((const struct node_config *)config)->train.optimizer;
    return train_optimizer((enum train_optimizer_kind)kind)->shared >= 0;
}

static bool is_cosine(const void *config)
{
    return ((const struct node_config *)config)->train.decay == TRAIN_DECAY_COSINE;
}

static bool warms_up(const void *config)
{
    return ((const struct node_config *)config)->train.warmup > 0;
}

static bool clips(const void *config)
{
    return ((const struct node_config *)config)->train.clip_norm > 0;
}

static bool is_logistic(const void *config)
{
    return ((const struct node_config *)config)->model.kind == TRAIN_LOGISTIC;
}

static bool is_digits(const void *config)
{
    return ((const struct node_config *)config)->data.kind == NODE_DATA_DIGITS;
}

static const struct node_key keys[] = {
    TEXT("node.name", node.name, "",
         "Name of this node in logs, metrics and status: letters, digits, '.', '_' and '-'. Empty: the first "
         "8 digits of "
         "its id."),
    TEXT("node.dir", node.dir, "p2pml-data",
         "Directory of this node's state: identity, checkpoints and metrics.jsonl. Made when missing; every "
         "node on a "
         "host needs its own."),
    TEXT("node.listen", node.listen, "127.0.0.1:7400",
         "Address and port where other nodes connect, as host:port or [IPv6 address]:port. 0.0.0.0:7400 is "
         "every IPv4 "
         "interface, port 0 any free port. Beyond loopback it needs cluster.secret_file or "
         "cluster.allow_file."),
    TEXT("node.http", node.http, "127.0.0.1:7480",
         "Address and port of /status, /metrics, /healthz and the page for people. It asks for no password, "
         "so keep it "
         "on loopback. Empty: none."),
    TEXT("node.advertise", node.advertise, "",
         "Address and port that other nodes are told for this one, as host:port. Empty: node.listen, or "
         "where that is "
         "every interface, the addresses from which this node reaches its peers."),
    TEXT("node.fault_file", node.fault_file, "",
         "For experiments: file with ids of nodes, one a line, from and to which everything is dropped, as a "
         "broken "
         "network would; read again on SIGHUP. Empty: none."),
    TEXT("node.identity", node.identity, "",
         "File of this node's secret key, made by the node itself or by 'p2pml keygen'. Empty: identity in "
         "node.dir."),
    TEXT("node.group", node.group, "",
         "Host or rack of this node, any short name: topology.kind hierarchical averages inside it first. "
         "Empty: "
         "a group of its own."),
    DURATION("node.start_timeout", node.start_timeout_ns, "30s", 0, DAY,
             "How long to wait for them before training begins with those that came."),
    INTEGER("node.start_members", node.start_members, "0", 0, LIMIT_MEMBERS,
            "Training begins when so many nodes are there, this one included. 0: when all peers of the list "
            "are."),
    DURATION(
        "node.linger", node.linger_ns, "10s", 0, DAY,
        "How long to go on answering neighbours after the last step of this node, while they finish theirs.",
        TOLD),
    DURATION("node.trainer_timeout", node.trainer_timeout_ns, "10m", 0, DAY,
             "--trainer: a trainer that says nothing for so long when the next message is its to send is "
             "dropped, and its steps are undone; it may come back. 0: it is waited for."),

    TEXT("cluster.name", cluster.name, "p2pml",
         "Name of the cluster. Nodes of another name are strangers, even with the same secret."),
    TEXT("cluster.secret_file", cluster.secret_file, "",
         "File with the secret that all nodes of the cluster share ('p2pml keygen --secret FILE' makes one); "
         "only its "
         "owner may be able to read it. Empty: no secret."),
    TEXT("cluster.allow_file", cluster.allow_file, "",
         "File with the ids of the nodes that may train along, one a line; read again on SIGHUP. Empty: "
         "every node that has the secret."),
    CHOICE("cluster.profile", cluster.profile, "lan", "lan|wan|local",
           "How patient the search for dead nodes is. lan: a silent host is dead after about 7 s. wan: slow "
           "and lossy "
           "links, about 20 s. local: many nodes on one host, about 5 s. A killed process is found in under "
           "a second "
           "by all but wan.",
           SHARED),
    CHOICE("cluster.partition", cluster.partition, "merge", "merge|majority|pause-minority",
           "When the network splits. merge: both sides train on and average when it heals. majority: then "
           "the smaller "
           "side takes the model of the larger. pause-minority: the smaller side waits.",
           TOLD),
    {"peers", NODE_KEY_TEXTS, offsetof(struct node_config, peers), "[]", 0, 0, NULL,
     .meaning = "Other nodes, as host:port, to begin with: one that is alive is enough, all others are found "
                "through "
                "it. A name "
                "may stand for many addresses; it is asked for again and again. A node may find itself in "
                "the list, so "
                "that all "
                "can share one."},

    CHOICE(
        "model.kind", model.kind, "mlp", "softmax|mlp|gpt2|lenet|cnn|resnet20|logistic",
        "Softmax regression, a multi-layer perceptron with ReLU, or a decoder as GPT-2 is (needs data.kind "
        "text or tokens, and device.kind cpu). lenet (LeNet-5), cnn (convolutions of 32 and 64 channels) and "
        "resnet20 (with group norm) take images: data.kind digits, idx or images, and device.kind cpu. "
        "logistic: "
        "logistic regression (of more than two classes softmax) whose examples stay sparse with data.kind "
        "libsvm, "
        "with train.l1, train.l2 and train.blocks; device.kind cpu.",
        TOLD),
    CHOICE("model.loss", model.loss, "cross-entropy", "cross-entropy|mse|mae",
           "cross-entropy: the target is a class. mse, mae: it is one number or several, of which the mean "
           "squared or "
           "absolute error falls (regression, told as R2 and RMSE; with data.kind csv or npy; model.kind "
           "softmax is "
           "then linear).",
           TOLD),
    {"model.hidden", NODE_KEY_INTEGERS, offsetof(struct node_config, model.hidden), "[256]", 1, WIDEST, NULL,
     .meaning = "Units of each hidden layer of the mlp, from the input on.", TOLD},
    INTEGER("model.layers", model.layers, "12", 1, LIMIT_BLOCKS, "gpt2: number of blocks.", TOLD),
    INTEGER("model.width", model.width, "768", 1, WIDEST, "gpt2: numbers a token.", TOLD),
    INTEGER("model.heads", model.heads, "12", 1, WIDEST, "gpt2: heads of attention; they divide model.width.",
            TOLD),
    INTEGER("model.context", model.context, "1024", 1, 1048576,
            "gpt2: tokens that it sees at once, and of one example.", TOLD),
    REAL("model.dropout", model.dropout, "0", 0, 0.99,
         "gpt2: part of the numbers of the embedding and of each branch that a step leaves out.", TOLD),
    TEXT("model.init", model.init, "",
         "File of the model that training begins with: model.safetensors or averaged.safetensors of an "
         "earlier "
         "one, a checkpoint, or safetensors from elsewhere with torch's names and these shapes. Must be the "
         "same "
         "on all nodes. Empty: random weights, from model.seed."),
    TEXT("model.init_digest", model.init_digest, "",
         "Digest of the weights of model.init, for a node that comes late and fetches the model instead. The "
         "cluster tells it."),
    INTEGER("model.seed", model.seed, "1", 0, ANY,
            "Seed of the first weights: all nodes start from the same model.", SHARED),

    CHOICE("data.kind", data.kind, "digits", "digits|idx|libsvm|csv|npy|images|text|tokens|cifar10",
           "digits: handwritten-looking digits drawn by the program, which need no file. idx: MNIST's file "
           "format, plain or "
           "gzip. libsvm: text with a label and index:value pairs a line. csv: a table of numbers and words, "
           "plain or gzip. npy: arrays of NumPy, .npy or .npz. images: PNG and JPEG files, a folder a class. "
           "text: a text file, plain or gzip, as data.text says. tokens: uint16 ids, as train.bin of nanoGPT "
           "and "
           "llm.c. cifar10: its binary version. "
           "'p2pml data info FILE' tells what a file is.",
           TOLD),
    TEXT("data.train_images", data.train_images, "", "idx: file of the training images."),
    TEXT("data.train_labels", data.train_labels, "",
         "idx: file of the training labels. npy: file of the array y, where data.train_file is that of x."),
    TEXT("data.test_images", data.test_images, "",
         "idx: file of the test images; may be that of the training images, with another data.test_first."),
    TEXT("data.test_labels", data.test_labels, "", "idx: file of the test labels; npy: of y."),
    TEXT(
        "data.train_file", data.train_file, "",
        "libsvm, csv: file of the training examples. npy: .npz with the arrays x and y, or .npy of x. "
        "images: "
        "folder of folders, one a class. text, tokens: file of the text to train on. cifar10: a file, or the "
        "folder of the files data_batch_*.bin."),
    TEXT("data.test_file", data.test_file, "",
         "The same of the test examples. Empty with csv, npy, images, text, tokens and cifar10: "
         "data.test_part of the "
         "training examples."),
    REAL("data.test_part", data.test_part, "0.2", 0.001, 0.9,
         "csv, npy, images, cifar10: without data.test_file, so much of the examples, drawn by data.seed, is "
         "there to "
         "test "
         "on and not trained on. text, tokens: so much of the end."),
    CHOICE("data.text", data.text, "bytes", "bytes|characters",
           "text: what a token is. bytes: 256 of them. characters: those of the file (UTF-8), by their code; "
           "all "
           "nodes need the same ones, through one file or data.scale_from."),
    INTEGER("data.vocabulary", data.vocabulary, "50257", 2, LIMIT_CLASSES,
            "tokens: number of different ids; 50257 is GPT-2's. A file with a larger id is refused."),
    CHOICE("data.header", data.header, "auto", "auto|yes|no",
           "csv: whether the first line names the columns. auto: yes if none of its fields is a number."),
    TEXT("data.delimiter", data.delimiter, ",", "csv: the one character between columns, or: tab, space."),
    {"data.target", NODE_KEY_TEXTS, offsetof(struct node_config, data.target), "[]", 0, 0, NULL,
     .meaning =
         "csv: the column that is to be told from the others, by name or counted from 1. Several for a "
         "regression. []: "
         "the last one."},
    {"data.categorical", NODE_KEY_TEXTS, offsetof(struct node_config, data.categorical), "[]", 0, 0, NULL,
     .meaning = "csv: columns of numbers that are categories, such as a code. Columns of words always are; "
                "each word "
                "becomes a "
                "feature that is 0 or 1."},
    {"data.ignore", NODE_KEY_TEXTS, offsetof(struct node_config, data.ignore), "[]", 0, 0, NULL,
     .meaning = "csv: columns to leave out, such as the number of the row."},
    TEXT(
        "data.image_size", data.image_size, "",
        "images: WIDTHxHEIGHT in pixels that all are brought to, as 28x28; each new pixel is the mean of the "
        "area that it covers. Empty: all files are of one size."),
    CHOICE("data.image_colour", data.image_colour, "auto", "auto|grey|rgb",
           "images: one or three numbers a pixel. auto: as the first file, and all must be alike."),
    INTEGER("data.crop", data.crop, "0", 0, LIMIT_IMAGE_SIDE,
            "Images to train on are shifted at random by up to so many pixels each way; what comes in is 0. "
            "0: off."),
    BOOL("data.flip", data.flip, "false",
         "Half of the images to train on, at random, have left and right changed. Not for digits and "
         "letters."),
    CHOICE("data.scale", data.scale, "none", "none|standard|minmax",
           "standard: each feature gets mean 0 and deviation 1 over the training examples; minmax: 0 to 1. "
           "Targets "
           "of a regression, too. Categories stay. The same on all nodes: nodes whose files differ need "
           "data.scale_from.",
           TOLD),
    TEXT(
        "data.scale_from", data.scale_from, "",
        "File that 'p2pml data info --stats' wrote: columns, categories, classes and statistics as there, "
        "for "
        "nodes that have files of their own; the same on all nodes. cluster: columns as here, and statistics "
        "over the examples of all nodes that are there when training begins; they come with the model. "
        "Empty: "
        "from the training examples."),
    INTEGER("data.features", data.features, "0", 0, 16777216,
            "libsvm: number of features, which is the highest index in the files; must be given. The other "
            "kinds bring "
            "their own."),
    INTEGER("data.classes", data.classes, "10", 2, LIMIT_CLASSES,
            "idx and libsvm: number of different labels. digits has 10, the others count themselves."),
    INTEGER("data.train_first", data.train_first, "0", 0, COUNT, "First training example, counted from 0.",
            TOLD_IF(is_digits)),
    INTEGER("data.train_count", data.train_count, "0", 0, COUNT,
            "Number of training examples, of all nodes together. 0: all up to the end of the file; 8000 with "
            "digits.",
            TOLD_IF(is_digits)),
    INTEGER("data.test_first", data.test_first, "0", 0, COUNT,
            "First test example, counted from 0. With digits 0 means right behind the training examples.",
            TOLD_IF(is_digits)),
    INTEGER("data.test_count", data.test_count, "0", 0, COUNT,
            "Number of test examples. 0: all up to the end of the file; 2000 with digits.",
            TOLD_IF(is_digits)),
    CHOICE(
        "data.partition", data.partition, "iid", "iid|dirichlet|contiguous",
        "How the training examples are dealt out to the shards. iid: evenly at random. dirichlet: each "
        "class in its own "
        "uneven proportions, so that the nodes see different data. contiguous: runs of neighbours, as a text "
        "wants it.",
        TOLD),
    REAL("data.alpha", data.alpha, "0.1", 0.001, 1000000,
         "dirichlet: how even the proportions are. 0.1 is very uneven, 100 is nearly iid.", TOLD),
    INTEGER("data.shard", data.shard, "0", 0, LIMIT_PEERS - 1,
            "The shard that this node trains on, counted from 0. Give every node another one."),
    INTEGER("data.shards", data.shards, "1", 1, LIMIT_PEERS,
            "Number of shards, usually the number of nodes. 1: every node trains on all examples.", TOLD),
    INTEGER("data.seed", data.seed, "1", 0, ANY, "Seed of the digits and of the partition.", SHARED),
    BOOL("data.takeover", data.takeover, "true",
         "Train on the shard of a dead node, each living one on a part of it, until it comes back. Needs "
         "data.shards.",
         TOLD),
    DURATION("data.takeover_after", data.takeover_after_ns, "10s", 0, DAY,
             "How long a node must be dead before its shard is taken over.", TOLD),

    INTEGER("train.steps", train.steps, "2000", 0, 1e12,
            "Local steps of this node, in all. 0: until it is stopped; train.schedule is then empty.",
            SHARED),
    INTEGER("train.batch", train.batch, "32", 1, LIMIT_BATCH, "Examples of one step.", TOLD),
    CHOICE("train.optimizer", train.optimizer, "sgd", TRAIN_OPTIMIZER_CHOICES,
           "Plain gradient descent with momentum, AdamW, or Lion (signs of a mean; a tenth of AdamW's rate).",
           SHARED),
    REAL("train.rate", train.rate, "0.1", 0, 1000,
         "Learning rate before the schedule. AdamW wants about 0.001.", TOLD),
    REAL("train.momentum", train.momentum, "0", 0, 0.9999, "sgd: heavy-ball momentum.", TOLD),
    REAL("train.weight_decay", train.weight_decay, "0", 0, 10,
         "Weight decay; decoupled from the gradient with adamw.", TOLD),
    REAL("train.beta1", train.beta1, "0.9", 0, 0.9999, "adamw, lion: decay of the mean of the gradients.",
         TOLD),
    REAL("train.beta2", train.beta2, "0.999", 0, 0.999999,
         "adamw: decay of the mean of their squares; lion: of the mean itself, which wants 0.99.", TOLD),
    REAL("train.epsilon", train.epsilon, "1e-8", 1e-30, 1, "adamw: what keeps its division away from zero.",
         TOLD),
    REAL("train.weight", train.weight, "0", 0, 1000,
         "How much this node's gradient counts beside the others'. 0: as its shard's part of the examples "
         "where "
         "data.shards tells it (so every example counts the same), else 1."),
    {"train.schedule", NODE_KEY_TEXTS, offsetof(struct node_config, train.schedule), "[0.6:0.3, 0.85:0.1]", 0,
     0, NULL,
     .meaning =
         "Steps of the learning rate, each as at:factor. 0.6:0.3 means: from 60% of the steps on, 0.3 x "
         "train.rate. []: always "
         "train.rate.",
     SHARED},
    CHOICE("train.decay", train.decay, "steps", "steps|cosine",
           "How the learning rate falls. steps: as train.schedule says. cosine: along half a cosine from the "
           "end of "
           "train.warmup to train.floor at the last step.",
           SHARED),
    INTEGER("train.warmup", train.warmup, "0", 0, 1e9,
            "Steps at the beginning in which the learning rate rises evenly to train.rate.",
            SHARED_IF(warms_up)),
    REAL("train.floor", train.floor, "0.1", 0, 1, "cosine: part of train.rate that is left at the last step.",
         SHARED_IF(is_cosine)),
    REAL("train.clip_norm", train.clip_norm, "0", 0, 1000000,
         "A gradient with a larger norm is shortened to this one; 1 is usual with decoders. 0: off.",
         SHARED_IF(clips)),
    INTEGER("train.micro_batch", train.micro_batch, "0", 0, LIMIT_BATCH,
            "Examples of a batch that go through the model at once, for models whose activations need much "
            "memory; "
            "the gradients of the parts are added up, so the result is the same but for rounding. 0: all."),
    INTEGER("train.seed", train.seed, "1", 0, ANY, "Seed of the order in which examples are seen."),
    REAL("train.l1", train.l1, "0", 0, 1000,
         "logistic: sum of the absolute weights times this beside the mean loss, by proximal steps behind "
         "each "
         "exchange; weights that do not help become exactly 0. The bias is free. Wants train.optimizer sgd.",
         SHARED_IF(is_logistic)),
    REAL("train.l2", train.l2, "0", 0, 1000,
         "logistic: half the sum of the squared weights times this beside the mean loss, likewise.",
         SHARED_IF(is_logistic)),
    INTEGER("train.blocks", train.blocks, "1", 1, 65536,
            "logistic: blocks of features, of which a step changes one. All are taken in a random order, "
            "then all "
            "again. 1: every step changes all weights.",
            SHARED_IF(is_logistic)),
    REAL("train.proximal", train.proximal, "0", 0, 1000,
         "Pulls local steps back to where their round began: mu of mu/2 |x - x_round|^2 beside the loss. "
         "Bounds the "
         "drift of many local steps. 0: off.",
         TOLD),
    BOOL("train.scale_rate", train.scale_rate, "false",
         "Multiplies the learning rate by this node's time per step over the median of its neighbours' (1/16 "
         "to 16), so "
         "that a slow node with data of its own counts as much as a fast one. For small rates, and without "
         "average.drift_correction, which sees to that by itself.",
         TOLD),
    CHOICE("train.alone", train.alone, "stop", "stop|go-on",
           "When all others have finished: stop there, since training on alone would pull the model to this "
           "node's own data; or go on to train.steps. In sync a node that is at most eight rounds behind "
           "goes on, too. With stop, a node that has peers listed and never meets one ends with status 1.",
           TOLD),
    INTEGER("train.eval_rounds", train.eval_rounds, "50", 0, ANY,
            "Rounds between two measurements on the test examples. 0: only at the end."),

    CHOICE("average.method", average.method, "edge-ref",
           "edge-ref|model-average|local|choco|dpsgd|allreduce|diloco|noloco|sparseloco",
           "How models are averaged. edge-ref: compressed exchanges over a reference of each edge. "
           "model-average: "
           "whole models, pairwise. local: not at all. The others are baselines of p2pml sim: choco "
           "(CHOCO-SGD), "
           "dpsgd (whole models, all neighbours), allreduce (the exact mean), diloco (outer Nesterov steps "
           "on it), "
           "noloco (the same, in random pairs), sparseloco (compressed changes of all to all).",
           SHARED),
    CHOICE("average.mode", average.mode, "async", "sync|async|bounded",
           "async: start the exchange at the end of a round and train on. sync: wait for it, up to its "
           "deadline; the same "
           "result on every run. bounded: as async, but wait, up to a deadline, for live neighbours that are "
           "more "
           "than average.max_delay rounds behind.",
           TOLD),
    INTEGER("average.max_delay", average.max_delay, "4", 0, 1000000,
            "bounded: rounds that a live neighbour may be behind (stale synchronous parallel).", TOLD),
    INTEGER("average.local_steps", average.local_steps, "4", 1, 1e9,
            "Local steps of one round, between two exchanges.", SHARED),
    REAL("average.ratio", average.ratio, "1/32", 0.00001, 1,
         "Part of the model's values that one exchange sends; 1 sends all. Below 1/100 quality suffers.",
         TOLD),
    CHOICE("average.values", average.values, "int8", "fp32|fp16|int8|bf16|int4|int2|sign",
           "Format of the values that are sent. int4, int2 and sign want a larger ratio for the same result.",
           TOLD),
    CHOICE("average.select", average.select, "exact", "exact|threshold|bisection|random",
           "Which values are sent. exact: the largest changes. threshold, bisection: nearly these, for "
           "comparison. "
           "random: any.",
           TOLD),
    INTEGER(
        "average.select_block", average.select_block, "0", 0, LIMIT_PARAMETERS,
        "Each run of so many values gives its share of those that are sent. 0: the largest changes of the "
        "whole model.",
        TOLD),
    {"average.filters", NODE_KEY_TEXTS, offsetof(struct node_config, average.filters), "[]", 0, 0, NULL,
     .meaning = "What is left out besides, each as name:number. significantly-modified:0.001 sends no change "
                "below so "
                "much of a "
                "value, random-skip:0.1 leaves out one in ten, same-keys:4 sends the same positions four "
                "more times, "
                "which saves "
                "the bytes that name them.",
     TOLD},
    BOOL("average.drift_correction", average.drift_correction, "true",
         "Corrects each local step by the pull of the neighbours. Needed where nodes see different data; "
         "costs no bytes.",
         SHARED),
    REAL("average.drift_gain", average.drift_gain, "2", 0, 100,
         "Strength of the drift correction: min(drift_gain x share of values sent, drift_limit). sync bears "
         "3 and more, async 2; 6 diverges.",
         SHARED_IF(corrects)),
    REAL("average.drift_limit", average.drift_limit, "0.25", 0, 2, "Upper bound of that strength.",
         SHARED_IF(corrects)),
    INTEGER("average.share_second_moment", average.share_second_moment, "20", 0, 1000000,
            "adamw: rounds in which every second moment is shared once. 0: never.", SHARED_IF(has_moments)),
    REAL("average.outer_momentum", average.outer_momentum, "0", 0, 0.79,
         "Momentum over rounds, without bytes. 0: off, as it should be with drift correction; 0.8 diverges.",
         SHARED),
    REAL("average.clip", average.clip, "0", 0, 1000,
         "Cuts the pull of one exchange to so many times the running median of such pulls; 1.5 bounds what a "
         "hostile "
         "or broken neighbour can do. 0: off.",
         SHARED),
    CHOICE("average.on_death", average.on_death, "fade", "drop|keep|fade",
           "The drift correction of a neighbour that died. drop: goes with it. keep: its last pull stays, so "
           "that what only it knew fades more slowly. fade: it stays at first and is gone after fade_rounds; "
           "after twice as many that of a neighbour that lives and is no longer met.",
           TOLD),
    INTEGER("average.fade_rounds", average.fade_rounds, "150", 1, 1000000,
            "on_death fade: rounds in which the pull of a neighbour that died goes to nothing, evenly.",
            TOLD),
    REAL("average.step_size", average.step_size, "0", 0, 1,
         "choco: step size of the averaging. 0: tuned while it runs."),
    REAL("average.outer_rate", average.outer_rate, "0.7", 0, 10,
         "diloco, noloco, sparseloco: outer learning rate."),
    REAL("average.outer_nesterov", average.outer_nesterov, "0", 0, 0.999,
         "diloco, noloco: outer momentum. 0: the method's own, 0.9 for diloco and 0.5 for noloco, which "
         "diverged at "
         "0.7. sparseloco: what the error feedback keeps; its own is 0.95."),
    DURATION("average.deadline_floor", average.deadline_floor_ns, "1s", 0.001, HOUR,
             "The shortest time that a neighbour is given to answer; what is learned about it may make it "
             "longer.",
             TOLD),
    DURATION("average.deadline_ceiling", average.deadline_ceiling_ns, "10s", 0.001, HOUR,
             "The longest time that a neighbour is given to answer.", TOLD),
    DURATION("average.forget_after", average.forget_after_ns, "60s", 1, 365 * DAY,
             "How long the edge of a dead neighbour is kept, so that it can resume where it stopped and its "
             "pull still "
             "counts. The graph closes around the dead at once.",
             TOLD),

    CHOICE(
        "topology.kind", topology.kind, "ring",
        "ring|butterfly|random|torus|exponential|one-peer|complete|star|matchings|base|hierarchical|file",
        "Which nodes a node meets. ring: two neighbours in turn. butterfly: all reach all in log2(nodes) "
        "rounds; "
        "best with "
        "a power of two. random: topology.rings rings in random orders, in turn. torus: four neighbours. "
        "exponential, one-peer: those 1, 2, 4, ... places away. complete, star, matchings: everybody, a hub, "
        "anybody; up to 65 nodes. base: exact after some rounds, for any number of nodes. hierarchical: the "
        "same inside each node.group, then among one node of each. file: as topology.file says. The same on "
        "all nodes.",
        SHARED),
    INTEGER("topology.seed", topology.seed, "1", 0, ANY, "Seed of the order of the nodes.", SHARED),
    INTEGER("topology.rings", topology.rings, "2", 1, TOPOLOGY_RINGS_MAX,
            "random: number of rings; a node has up to two neighbours on each.", SHARED_IF(is_random)),
    INTEGER("topology.base_k", topology.base_k, "1", 1, TOPOLOGY_BASE_MAX,
            "base: k of the base-(k+1) graph, whose rounds of degree k are met by two at a time.",
            SHARED_IF(is_base)),

    TEXT("topology.file", topology.file, "",
         "file: the graph, one edge a line as two names of nodes; the same on all nodes."),

    DURATION("checkpoint.every", checkpoint.every_ns, "60s", 0, 365 * DAY,
             "Time between checkpoints; a new node writes its first one after its first round. 0: only at "
             "the end."),
    INTEGER("checkpoint.keep", checkpoint.keep, "3", 1, 1000, "Checkpoints that are kept."),

    INTEGER(
        "metrics.file_bytes", metrics.file_bytes, "67108864", 0, 1e15,
        "metrics.jsonl and events.jsonl in node.dir: a file of so many bytes is renamed, to .1, then .2 and "
        "so on, and a new one begins. 0: never."),
    INTEGER("metrics.files", metrics.files, "8", 1, LIMIT_LINE_FILES,
            "How many of each are kept, with the one that is being written. The oldest is deleted."),
    TEXT("metrics.tensorboard", metrics.tensorboard, "",
         "Directory for TensorBoard ('tensorboard --logdir DIR'): loss, accuracy, rates and bytes of each "
         "node in "
         "a folder of its name; not with p2pml sim. Empty: none."),

    CHOICE("device.kind", device.kind, "cpu", "cpu|cuda|auto",
           "Where the model is trained. auto: on the GPU where there is one."),
    INTEGER("device.threads", device.threads, "1", 1, 1024,
            "CPU threads of the matrix operations of this node."),

    CHOICE("log.level", log.level, "info", "debug|info|warn|error",
           "The lowest level of lines that are logged."),
    CHOICE("log.format", log.format, "text", "text|json", "Lines for people, or a JSON object a line."),
    DURATION("log.progress", log.progress_ns, "10s", 0, DAY,
             "Time between two lines that say how training goes: step, loss, test accuracy, steps a second, "
             "time left, members, the slowest of them. 0: none."),
};

const struct node_schema node_config_schema = {keys, sizeof keys / sizeof *keys};
