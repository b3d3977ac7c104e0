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

#define KEYS_OF struct node_config
#include "node/schema/rows.h"

// A choice is stored as its place in the list, which must be the enum's value.
_Static_assert(KERNELS_FP32 == 0 && KERNELS_FP16 == 1 && KERNELS_INT8 == 2 && KERNELS_BF16 == 3 &&
                   KERNELS_INT4 == 4 && KERNELS_INT2 == 5 && KERNELS_SIGN == 6 && KERNELS_FORMATS == 7,
               "average.values");
_Static_assert(COMPRESS_EXACT == 0 && COMPRESS_THRESHOLD == 1 && COMPRESS_BISECTION == 2 &&
                   COMPRESS_RANDOM == 3 && COMPRESS_METHODS == 4,
               "average.select");
_Static_assert(TRAIN_DECAY_STEPS == 0 && TRAIN_DECAY_COSINE == 1, "train.decay");
_Static_assert(GOSSIP_PROFILE_LAN == 0 && GOSSIP_PROFILE_WAN == 1 && GOSSIP_PROFILE_LOCAL == 2,
               "cluster.profile");

#define ANY    0x1p64  // no bound but the type's
#define WIDEST 65536.0 // units of one hidden layer
#define HOUR   3600.0
#define DAY    86400.0
#define COUNT  4294967295.0 // examples

// Written after the meaning of a key: whether all nodes must share it, or a late node is told it. A key that
// counts only with another one comes after that one in the table, so that a difference in the other one is
// reported first.
#define SHARED               NODE_KEY_SHARED, NULL
#define TOLD                 NODE_KEY_TOLD, NULL
#define SHARED_IF(condition) NODE_KEY_SHARED, condition
#define TOLD_IF(condition)   NODE_KEY_TOLD, condition

#define CONDITION(name, holds)                                                                               \
    static bool name(const void *config)                                                                     \
    {                                                                                                        \
        const struct node_config *c = config;                                                                \
        return holds;                                                                                        \
    }
CONDITION(is_random, c->topology.kind == TOPOLOGY_RANDOM)
CONDITION(is_base, c->topology.kind == TOPOLOGY_BASE)
CONDITION(corrects, c->average.drift_correction)
CONDITION(has_moments, train_optimizer((enum train_optimizer_kind)c->train.optimizer)->shared >= 0)
CONDITION(is_cosine, c->train.decay == TRAIN_DECAY_COSINE)
CONDITION(warms_up, c->train.warmup > 0)
CONDITION(clips, c->train.clip_norm > 0)
CONDITION(is_logistic, c->model.kind == TRAIN_LOGISTIC)
CONDITION(is_digits, c->data.kind == NODE_DATA_DIGITS)

static const struct node_key keys[] = {
    TEXT("node.name", node.name, "",
         "Name of this node in logs, metrics and status: letters, digits, '.', '_' and '-'. Empty: the first "
         "8 digits of its id."),
    TEXT("node.dir", node.dir, "p2pml-data",
         "Directory for the state of this node: identity, checkpoints, metrics.jsonl. Created if missing. "
         "Every node on a host needs its own."),
    TEXT("node.listen", node.listen, "127.0.0.1:7400",
         "Address and port for connections from other nodes, as host:port or [IPv6 address]:port. "
         "0.0.0.0:7400 listens on every IPv4 interface, port 0 on any free port. Beyond loopback, "
         "cluster.secret_file or cluster.allow_file is required."),
    TEXT(
        "node.http", node.http, "127.0.0.1:7480",
        "Address and port of /status, /metrics, /healthz, /livez and the web page. There is no password, so keep it "
        "on loopback. Empty: none."),
    TEXT(
        "node.advertise", node.advertise, "",
        "Address and port under which other nodes reach this node, as host:port. Empty: node.listen; if "
        "that is every interface, the addresses from which this node connects to its peers. A name is resolved "
        "again every minute."),
    CHOICE(
        "node.port_mapping", node.port_mapping, "auto", "auto|off",
        "auto: if members cannot call this node, it asks its router to forward the port of node.listen (UPnP "
        "or NAT-PMP), tells the address outside, and ends that when it stops; never with node.advertise. "
        "off: the router is not asked."),
    REAL_OR("node.relay", node.relay, "off", "1e9", 1000, 1e12,
            "Bytes per second that this node forwards between members that cannot call each other, if others "
            "can call it. The relay cannot read what it forwards. off: it forwards nothing."),
    TEXT("node.fault_file", node.fault_file, "",
         "For experiments: a file with node ids, one per line. All traffic from and to these nodes is "
         "dropped, as if the network were broken. Read again on SIGHUP. Empty: none."),
    TEXT("node.identity", node.identity, "",
         "File with the secret key of this node, created by the node itself or by 'p2pml keygen'. Empty: "
         "identity in node.dir."),
    TEXT("node.group", node.group, "",
         "Host or rack of this node, any short name: topology.kind hierarchical averages inside a group "
         "first. Empty: a group of its own."),
    DURATION(
        "node.start_timeout", node.start_timeout_ns, "30s", 0, DAY,
        "How long to wait for the peers at the start. Then training begins with the nodes that are there."),
    INTEGER("node.start_members", node.start_members, "0", 0, LIMIT_MEMBERS,
            "Training begins when this many nodes are there, this one included. 0: when all listed peers are "
            "there."),
    DURATION("node.linger", node.linger_ns, "10s", 0, DAY,
             "How long this node continues to answer after its last step, since another member that is not "
             "done was last seen to advance or asked for its model.",
             TOLD),
    DURATION("node.trainer_timeout", node.trainer_timeout_ns, "10m", 0, DAY,
             "--trainer: how long a trainer may be silent when it is its turn to send. Then it is dropped "
             "and its steps are undone; it may connect again. 0: no limit."),

    TEXT("cluster.name", cluster.name, "p2pml",
         "Name of the cluster. Nodes of a cluster with another name are refused, even if they have the same "
         "secret."),
    TEXT("cluster.secret_file", cluster.secret_file, "",
         "File with the secret that all nodes of the cluster share ('p2pml keygen --secret FILE' creates "
         "one). Of several lines the first is used, and all are accepted. Read again on SIGHUP. Only its "
         "owner may have permission to read it. Empty: no secret."),
    TEXT("cluster.allow_file", cluster.allow_file, "",
         "File with the ids of the nodes that may take part, one per line. Read again on SIGHUP. Empty: "
         "every node that has the secret."),
    TEXT("cluster.operator", cluster.operator_id, "",
         "Id of the identity that may remove members on all nodes at once ('p2pml set cluster.removed'). The "
         "same on every node; keep its file off the nodes. Empty: nobody can."),
    INTEGER(
        "cluster.join_rate", cluster.join_rate, "2048", 0, 1000000,
        "How many new identities this node lets in a minute: nodes that call it for the first time. As many at "
        "once; the next ones wait. The default lets 1,024 nodes start at once, and again. 0: any number."),
    CHOICE("cluster.profile", cluster.profile, "lan", "lan|wan|local",
           "How fast failures are detected. lan: a silent host is dead after about 7 s. wan: for slow and "
           "lossy links, about 20 s. local: many nodes on one host, about 5 s. A killed process is detected "
           "in under a second, except with wan.",
           SHARED),
    CHOICE("cluster.partition", cluster.partition, "merge", "merge|majority|pause-minority",
           "What happens when the network splits. merge: both sides continue to train, and average when the "
           "network heals. majority: when it heals, the smaller side takes the model of the larger. "
           "pause-minority: the smaller side waits.",
           TOLD),
    TEXTS("peers", peers, "[]",
          "Other nodes to connect to at the start, as host:port. One that is alive is enough; the others "
          "are found through it. A name may have many addresses and is resolved repeatedly. A node may "
          "occur in its own list, so all nodes can share one list."),

    CHOICE("model.kind", model.kind, "mlp", TRAIN_MODEL_CHOICES,
           "softmax: softmax regression. mlp: a multi-layer perceptron with ReLU. gpt2: a decoder like GPT-2 "
           "(requires data.kind text or tokens). lenet (LeNet-5), cnn (convolutions with 32 and 64 "
           "channels), resnet20 (with group norm): for images, data.kind digits, idx, images or cifar10. "
           "logistic: logistic regression (softmax for more than two classes) that keeps libsvm data sparse; "
           "train.l1, train.l2 and train.blocks apply to it; requires device.kind cpu.",
           TOLD),
    CHOICE("model.loss", model.loss, "cross-entropy", "cross-entropy|mse|mae",
           "cross-entropy: the target is a class. mse, mae: the target is one or more numbers; the loss is "
           "the mean squared or absolute error (regression, reported as R2 and RMSE; data.kind csv or npy; "
           "with model.kind softmax the model is linear).",
           TOLD),
    ROW(INTEGERS, "model.hidden", model.hidden, "[256]", 1, WIDEST, NULL,
        "mlp: units of each hidden layer, from the input to the output.", TOLD),
    INTEGER("model.layers", model.layers, "12", 1, LIMIT_BLOCKS, "gpt2: number of blocks.", TOLD),
    INTEGER("model.width", model.width, "768", 1, WIDEST, "gpt2: size of the vector of a token.", TOLD),
    INTEGER("model.heads", model.heads, "12", 1, WIDEST,
            "gpt2: attention heads; model.width must be a multiple of it.", TOLD),
    INTEGER("model.context", model.context, "1024", 1, 1048576,
            "gpt2: context length, which is also the length of an example, in tokens.", TOLD),
    REAL("model.dropout", model.dropout, "0", 0, 0.99,
         "gpt2: dropout probability of the embedding and of each branch.", TOLD),
    TEXT("model.init", model.init, "",
         "File of the initial model: model.safetensors or averaged.safetensors of an earlier run, a "
         "checkpoint, or a safetensors file from another program with torch's names and these shapes. Must "
         "be the same on all nodes. Empty: random weights, from model.seed."),
    TEXT("model.init_digest", model.init_digest, "",
         "Digest of the weights in model.init, for a late node that fetches the model instead. The cluster "
         "provides it."),
    INTEGER("model.seed", model.seed, "1", 0, ANY,
            "Seed of the initial weights: all nodes start from the same model.", SHARED),

    CHOICE("data.kind", data.kind, "digits", "digits|idx|libsvm|csv|npy|images|text|tokens|cifar10",
           "digits: images like handwritten digits, generated by the program; no file is needed. idx: the "
           "file format of MNIST, plain or gzip. libsvm: text, a label and index:value pairs per line. csv: "
           "a table of numbers and words, plain or gzip. npy: NumPy arrays, .npy or .npz. images: PNG and "
           "JPEG files, one folder per class. text: a text file, plain or gzip; see data.text. tokens: "
           "ids, like the train.bin of nanoGPT and llm.c. cifar10: CIFAR-10 in its binary version. "
           "'p2pml data info FILE' reports the kind of a file.",
           TOLD),
    TEXT("data.train_images", data.train_images, "", "idx: file of the training images."),
    TEXT("data.train_labels", data.train_labels, "",
         "idx: file of the training labels. npy: file of the array y, if data.train_file is the file of x."),
    TEXT("data.test_images", data.test_images, "",
         "idx: file of the test images; may be the file of the training images, with another "
         "data.test_first."),
    TEXT("data.test_labels", data.test_labels, "", "idx: file of the test labels. npy: file of the array y."),
    TEXT("data.train_file", data.train_file, "",
         "libsvm, csv: file of the training examples. npy: .npz with the arrays x and y, or .npy of x. "
         "images: a folder with one folder per class. text, tokens: file of the training text. cifar10: a "
         "file, or the folder with the files data_batch_*.bin."),
    TEXT("data.test_file", data.test_file, "",
         "The same for the test examples. Empty: data.test_part of the training examples."),
    REAL("data.test_part", data.test_part, "0.2", 0.001, 0.9,
         "Without data.test_file, the part of the examples that is used for tests and not for training. Each "
         "example is drawn for itself, by its content and data.seed, so it stays on its side when others are "
         "added. text, tokens: the end of the text."),
    CHOICE("data.text", data.text, "bytes", "bytes|characters",
           "text: what a token is. bytes: 256 tokens. characters: the characters of the file (UTF-8), in "
           "code-point order; all nodes need the same characters, from one common file or from "
           "data.scale_from."),
    INTEGER("data.vocabulary", data.vocabulary, "50257", 2, LIMIT_CLASSES,
            "tokens: number of different ids; GPT-2 has 50257. A file with a larger id is refused."),
    INTEGER("data.token_bytes", data.token_bytes, "2", 2, 4, "tokens: bytes of an id in the file, 2 or 4."),
    CHOICE("data.header", data.header, "auto", "auto|yes|no",
           "csv: whether the first line holds the names of the columns. auto: found by comparing it with the "
           "other lines; refused if it may be both."),
    CHOICE("data.decimal", data.decimal, "auto", "auto|point|comma",
           "csv: the mark between whole and fraction of a number. auto: a point, but numbers that may also "
           "have thousands marks, such as 1.234 in a file with semicolons, are refused."),
    TEXT("data.delimiter", data.delimiter, ",",
         "csv: the character between columns, or one of the words tab, space."),
    TEXTS("data.target", data.target, "[]",
          "csv: the column that the model predicts, by name or by number, counted from 1. Several are "
          "allowed for a regression. []: the last column."),
    TEXTS("data.categorical", data.categorical, "[]",
          "csv: columns that are categories although they look like something else, such as codes, dates or "
          "ids. Other columns of words are categories in any case. Each category becomes a feature that is 0 "
          "or 1."),
    TEXTS("data.ignore", data.ignore, "[]", "csv: columns to leave out, such as a row number."),
    TEXT("data.image_size", data.image_size, "",
         "images: WIDTHxHEIGHT in pixels, such as 28x28. All images are resized to it; each new pixel is the "
         "mean of the area that it covers. Empty: all files have the same size."),
    CHOICE("data.image_colour", data.image_colour, "auto", "auto|grey|rgb",
           "images: one or three numbers per pixel. auto: as in the first file; all files must agree."),
    INTEGER("data.crop", data.crop, "0", 0, LIMIT_IMAGE_SIDE,
            "Shifts each training image at random by up to this many pixels in each direction and fills the "
            "border with 0. 0: off."),
    BOOL("data.flip", data.flip, "false",
         "Mirrors half of the training images left to right, chosen at random. Not useful for digits and "
         "letters."),
    CHOICE("data.scale", data.scale, "none", "none|standard|minmax",
           "standard: scales each feature to mean 0 and standard deviation 1 over the training examples. "
           "minmax: scales it to the range 0 to 1. Also applies to the targets of a regression, but not to "
           "categories. Nodes with different files need data.scale_from.",
           TOLD),
    TEXT("data.scale_from", data.scale_from, "",
         "FILE: a file written by 'p2pml data info --stats'; columns, categories, classes and statistics are "
         "taken from it, for nodes that have files of their own. Must be the same on all nodes. cluster: "
         "columns as in this node's file, statistics over the examples of all nodes that are there when "
         "training begins; late nodes get them with the model. Empty: from the training examples."),
    INTEGER("data.features", data.features, "0", 0, 16777216,
            "libsvm: number of features, which is the highest index in the files. Required there; the other "
            "kinds determine it themselves."),
    INTEGER("data.classes", data.classes, "10", 2, LIMIT_CLASSES,
            "idx, libsvm: number of different labels. digits has 10; the other kinds count them."),
    TEXTS("data.labels", data.labels, "[]",
          "libsvm: the labels of all classes, in order, such as [-1, 1] or [1, 2, 3], in place of "
          "data.classes. []: as the training file shows them; needed if it does not have them all."),
    INTEGER("data.train_first", data.train_first, "0", 0, COUNT, "First training example, counted from 0.",
            TOLD_IF(is_digits)),
    INTEGER("data.train_count", data.train_count, "0", 0, COUNT,
            "Number of training examples of all nodes together. 0: all up to the end of the file; 8000 with "
            "digits.",
            TOLD_IF(is_digits)),
    INTEGER(
        "data.test_first", data.test_first, "0", 0, COUNT,
        "First test example, counted from 0. With digits, 0 means the first one after the training examples.",
        TOLD_IF(is_digits)),
    INTEGER("data.test_count", data.test_count, "0", 0, COUNT,
            "Number of test examples. 0: all up to the end of the file; 2000 with digits.",
            TOLD_IF(is_digits)),
    CHOICE("data.partition", data.partition, "iid", "iid|dirichlet|contiguous",
           "How the training examples are divided into shards. iid: evenly at random. dirichlet: each class "
           "in uneven proportions, so nodes see different data. contiguous: consecutive examples, as needed "
           "for text.",
           TOLD),
    REAL("data.alpha", data.alpha, "0.1", 0.001, 1000000,
         "dirichlet: how even the proportions are. 0.1 is very uneven, 100 is nearly iid.", TOLD),
    INTEGER("data.shard", data.shard, "0", 0, LIMIT_PEERS - 1,
            "The shard that this node trains on, counted from 0. Different on every node."),
    INTEGER("data.shards", data.shards, "1", 1, LIMIT_PEERS,
            "Number of shards, usually the number of nodes. 1: every node trains on all examples.", TOLD),
    INTEGER("data.seed", data.seed, "1", 0, ANY, "Seed of the digits and of the partition.", SHARED),
    BOOL("data.takeover", data.takeover, "true",
         "The living nodes train on the shard of a dead node, each on a part of it, until the node trains "
         "again. Requires data.shards.",
         TOLD),
    DURATION("data.takeover_after", data.takeover_after_ns, "1s", 0, DAY,
             "How long a node must be dead before its shard is taken over.", TOLD),

    INTEGER(
        "train.steps", train.steps, "2000", 0, 1e12,
        "Local steps of this node in total. 0: until the node is stopped; a train.schedule that is set must then be [].",
        SHARED),
    INTEGER("train.batch", train.batch, "32", 1, LIMIT_BATCH, "Number of examples per step.", TOLD),
    CHOICE("train.optimizer", train.optimizer, "sgd", TRAIN_OPTIMIZER_CHOICES,
           "sgd: gradient descent with momentum. adamw: AdamW. lion: Lion (uses the sign of a running mean; "
           "train.rate about a tenth of AdamW's). muon: orthogonal steps for the weights between the first "
           "and the last layer, AdamW for all others; train.rate as for AdamW.",
           SHARED),
    REAL("train.rate", train.rate, "0.1", 0, 1000,
         "Learning rate before the schedule. About 0.001 for AdamW and Muon.", TOLD),
    REAL("train.momentum", train.momentum, "0", 0, 0.9999, "sgd: heavy-ball momentum.", TOLD),
    REAL("train.weight_decay", train.weight_decay, "0", 0, 10,
         "Weight decay; with adamw, lion and muon decoupled from the gradient.", TOLD),
    REAL("train.beta1", train.beta1, "0.9", 0, 0.9999,
         "adamw, muon, lion: decay of the running mean of the gradients (muon: 0.95 in hidden weights).",
         TOLD),
    REAL(
        "train.beta2", train.beta2, "0.999", 0, 0.999999,
        "adamw, muon: decay of the running mean of the squared gradients. lion: decay of its momentum, usually "
        "0.99.",
        TOLD),
    REAL("train.epsilon", train.epsilon, "1e-8", 1e-30, 1,
         "adamw, muon: added to the denominator to avoid division by zero.", TOLD),
    REAL(
        "train.weight", train.weight, "0", 0, 1000,
        "Weight of this node's gradient relative to other nodes. 0: proportional to the number of its examples, "
        "in its shard or in a file of its own, so every example counts the same."),
    TEXTS("train.schedule", train.schedule, "[0.6:0.3, 0.85:0.1]",
          "Steps of the learning rate, each as at:factor. 0.6:0.3 means: from 60% of the steps on, 0.3 "
          "x train.rate. []: always train.rate.",
          SHARED),
    CHOICE("train.decay", train.decay, "steps", "steps|cosine",
           "How the learning rate decreases. steps: by train.schedule. cosine: half a cosine from the end of "
           "train.warmup to train.floor at the last step.",
           SHARED),
    INTEGER("train.warmup", train.warmup, "0", 0, 1e9,
            "Steps at the beginning during which the learning rate increases linearly to train.rate.",
            SHARED_IF(warms_up)),
    REAL("train.floor", train.floor, "0.1", 0, 1,
         "cosine: the part of train.rate that remains at the last step.", SHARED_IF(is_cosine)),
    REAL("train.clip_norm", train.clip_norm, "0", 0, 1000000,
         "Gradient clipping: a gradient with a larger norm is rescaled to this norm. 1 is usual for "
         "decoders. 0: off.",
         SHARED_IF(clips)),
    INTEGER("train.micro_batch", train.micro_batch, "0", 0, LIMIT_BATCH,
            "Maximum number of examples that go through the model at once, for models whose activations need "
            "much memory. The gradients of the parts are added up; the result is the same except for "
            "rounding. 0: the whole batch."),
    INTEGER("train.seed", train.seed, "1", 0, ANY, "Seed of the order of the examples."),
    REAL("train.l1", train.l1, "0", 0, 1000,
         "logistic: adds this times the sum of absolute weights to the mean loss, by a proximal step after "
         "each exchange. Weights that do not help become exactly 0. The bias is not penalised. Requires "
         "train.optimizer sgd.",
         SHARED_IF(is_logistic)),
    REAL("train.l2", train.l2, "0", 0, 1000,
         "logistic: adds this times half the sum of squared weights to the mean loss, in the same way.",
         SHARED_IF(is_logistic)),
    INTEGER("train.blocks", train.blocks, "1", 1, 65536,
            "logistic: number of blocks of features. A step changes one block; a pass visits all blocks "
            "once, in random order. 1: every step changes all weights.",
            SHARED_IF(is_logistic)),
    REAL("train.proximal", train.proximal, "0", 0, 1000,
         "mu of the proximal term mu/2 |x - x_round|^2 of FedProx, which keeps local steps near the model at "
         "the start of the round. Limits the drift of many local steps. 0: off.",
         TOLD),
    BOOL("train.scale_rate", train.scale_rate, "false",
         "Multiplies the learning rate by this node's time per step over the median of its neighbours (1/16 "
         "to 16), so that the data of a slow node count as much as those of a fast one. Use it with small "
         "rates, and without average.drift_correction, which has the same effect.",
         TOLD),
    CHOICE("train.alone", train.alone, "stop", "stop|go-on",
           "What a node does when all others have finished, or when most have and it is far behind. stop: it "
           "ends with their model, since training alone would pull its own towards its own data. go-on: it "
           "continues to train.steps. In sync mode a node that is "
           "at most eight rounds behind continues in both cases. With stop, a node that has listed peers and "
           "never meets one ends with status 1.",
           TOLD),
    INTEGER("train.eval_rounds", train.eval_rounds, "50", 0, ANY,
            "Rounds between two evaluations on the test examples. 0: only at the end."),

    CHOICE("average.method", average.method, "edge-ref",
           "edge-ref|model-average|local|choco|dpsgd|allreduce|diloco|noloco|sparseloco",
           "How models are averaged. edge-ref: compressed exchanges against a reference per edge. "
           "model-average: whole models, pairwise. local: no averaging. The others are baselines of p2pml "
           "sim: choco (CHOCO-SGD), dpsgd (whole models, all neighbours), allreduce (the exact mean), diloco "
           "(outer Nesterov steps on the exact mean), noloco (the same in random pairs), sparseloco "
           "(compressed changes, all to all).",
           SHARED),
    CHOICE(
        "average.mode", average.mode, "async", "sync|async|bounded",
        "async: starts the exchange at the end of a round and continues to train; the next round waits for "
        "it, but never for the steps of another node, and not for a slow link. sync: waits for the "
        "exchange; every run gives the same result. bounded: like async, but no node is more than about "
        "average.max_delay rounds ahead of the cluster, whose round is the lower median of all.",
        TOLD),
    INTEGER("average.max_delay", average.max_delay, "4", 0, 1000000,
            "async, bounded: maximum number of rounds in a row without any exchange, before the node meets "
            "any neighbour or waits for one; otherwise it would drift towards its own data. bounded: also "
            "how many rounds the node may be ahead of the cluster, besides those by which its news are old.",
            TOLD),
    INTEGER("average.local_steps", average.local_steps, "4", 1, 1e9,
            "Local steps per round, between two exchanges. With 1, in async mode, a node trains on while an "
            "exchange takes longer than a step and 20 ms: then an exchange is made in up to 16 steps.",
            SHARED),
    REAL_OR("average.ratio", average.ratio, "auto", "auto", 0.00001, 1,
            "Part of the model's values that one exchange sends; 1 sends all. Below 1/100 accuracy suffers. "
            "auto: max(1/32, min(1/8, 16384 values)), so that a small model sends 1/8, one of over 524288 "
            "values 1/32.",
            TOLD),
    CHOICE("average.values", average.values, "int8", "fp32|fp16|int8|bf16|int4|int2|sign",
           "Format of the values that are sent. int4, int2 and sign need a larger ratio for the same result.",
           TOLD),
    CHOICE("average.select", average.select, "exact", "exact|threshold|bisection|random",
           "Which values are sent. exact: the largest changes. threshold, bisection: approximately the "
           "largest, for comparison. random: random ones.",
           TOLD),
    INTEGER("average.select_block", average.select_block, "0", 0, LIMIT_PARAMETERS,
            "Selects in blocks of this many values, each with its share of the values sent. 0: the largest "
            "changes of the whole model.",
            TOLD),
    TEXTS("average.filters", average.filters, "[]",
          "Further filters, each as name:number. significantly-modified:0.001 does not send changes "
          "below this part of a value; random-skip:0.1 leaves out one value in ten; same-keys:4 sends "
          "the same positions four more times, which saves the bytes that encode them.",
          TOLD),
    CHOICE("average.reference", average.reference, "fp32", "fp32|bf16",
           "How a node stores the reference and the drift correction of each edge. bf16: 2 bytes per "
           "parameter instead of 4; models then agree to about five digits.",
           SHARED),
    BOOL("average.drift_correction", average.drift_correction, "true",
         "Corrects each local step by the pull of the neighbours. Needed if nodes see different data; sends "
         "no extra bytes.",
         SHARED),
    REAL("average.drift_gain", average.drift_gain, "2", 0, 100,
         "Strength of the drift correction: min(drift_gain x part of the values sent, drift_limit). Stable "
         "up to 4 in sync mode (3 with adamw) and up to 2 in async mode; diverges at 6.",
         SHARED_IF(corrects)),
    REAL("average.drift_limit", average.drift_limit, "0.25", 0, 2, "Upper bound of that strength.",
         SHARED_IF(corrects)),
    INTEGER("average.share_second_moment", average.share_second_moment, "20", 0, 1000000,
            "adamw, muon: number of rounds in which each second moment is shared once. 0: never.",
            SHARED_IF(has_moments)),
    REAL_OR(
        "average.hold", average.hold, "auto", "auto", 0, 1,
        "The local steps are taken at the model less this part of what the latest exchange has not sent; the "
        "part comes back after them, so nothing is lost. Sends no extra bytes. Nodes may have different "
        "values. auto: 0.5 with adamw and muon, 0 with the other optimizers. 0: off, the default of a program "
        "that takes the steps itself.",
        TOLD),
    REAL("average.outer_momentum", average.outer_momentum, "0", 0, 0.79,
         "Momentum over whole rounds; sends no extra bytes. 0: off, as recommended with drift correction. "
         "0.8 diverges.",
         SHARED),
    CHOICE(
        "average.robust", average.robust, "clip+probe", "off|clip|clip+probe",
        "clip: a neighbour moves this node's model in a round at most by a few times what its own steps "
        "and those of most neighbours do, which limits the damage of a hostile or broken one; models that a "
        "partition or restarts have moved far apart come together slowly. clip+probe: now and then the "
        "model of a neighbour is compared with this node's own, on its own examples. One that is as good "
        "each time moves it further and further while they are far apart; one that is clearly worse again and "
        "again moves it no more until that ends. A program without `judge` only clips. off: no limit.",
        TOLD),
    CHOICE("average.on_death", average.on_death, "fade", "drop|keep|fade",
           "What happens to the drift correction of a neighbour that died. drop: removed at once. keep: its "
           "last value stays, so the model keeps longer what only the dead node knew. fade: decreases "
           "linearly, to zero fade_rounds rounds after the last exchange; the correction of a living "
           "neighbour that is no longer met reaches zero after twice as many rounds.",
           TOLD),
    INTEGER("average.fade_rounds", average.fade_rounds, "150", 1, 1000000,
            "on_death fade: rounds in which the correction of a dead neighbour decreases linearly to zero.",
            TOLD),
    CHOICE(
        "average.finish", average.finish, "merge", "merge|none",
        "What the nodes do after their last step. merge: all that have finished average their final models, "
        "so that all end with the same bits; a node waits for the others up to three times node.linger at a "
        "time. At most 64 nodes; not with sim.engine rounds. none: each ends with its own model, and these "
        "differ a little.",
        SHARED),
    REAL("average.step_size", average.step_size, "0", 0, 1,
         "choco: step size of the averaging; 0: tuned during the run."),
    REAL("average.outer_rate", average.outer_rate, "0.7", 0, 10,
         "diloco, noloco, sparseloco: outer learning rate."),
    REAL("average.outer_nesterov", average.outer_nesterov, "0", 0, 0.999,
         "diloco, noloco: outer momentum. 0: the default of the method, which is 0.9 for diloco and 0.5 for "
         "noloco (diverged at 0.7). sparseloco: decay of the error feedback, by default 0.95."),
    DURATION("average.deadline_floor", average.deadline_floor_ns, "1s", 0.001, HOUR,
             "Minimum time before an unanswered question about the state of an edge is repeated. The node "
             "waits longer for neighbours whose earlier answers took longer.",
             TOLD),
    DURATION(
        "average.deadline_ceiling", average.deadline_ceiling_ns, "10s", 0.001, HOUR,
        "How long the node waits for a sign of life of a neighbour that has its request. A neighbour that "
        "dies is known much sooner.",
        TOLD),
    DURATION("average.forget_after", average.forget_after_ns, "60s", 1, 365 * DAY,
             "How long the edge of a dead neighbour is kept, so that it can resume where it stopped and its "
             "correction still counts. The graph closes around a dead node without waiting for this.",
             TOLD),

    CHOICE("topology.kind", topology.kind, "ring", TOPOLOGY_CHOICES,
           "Which nodes a node exchanges with. ring: two neighbours in turn. butterfly: every node reaches "
           "every other in log2(nodes) rounds; best with a power of two. random: topology.rings rings in "
           "random orders, in turn. torus: four neighbours. exponential, one-peer: the nodes 1, 2, 4, ... "
           "places away. complete, star, matchings: all nodes, a hub, random pairs; at most 65 nodes. base: "
           "the exact mean after a few rounds, for any number of nodes. hierarchical: base inside each "
           "node.group, then among one node of each group. file: the graph in topology.file.",
           SHARED),
    INTEGER("topology.seed", topology.seed, "1", 0, ANY, "Seed of the order of the nodes.", SHARED),
    INTEGER("topology.rings", topology.rings, "2", 1, TOPOLOGY_RINGS_MAX,
            "random: number of rings; a node has up to two neighbours on each.", SHARED_IF(is_random)),
    INTEGER("topology.base_k", topology.base_k, "1", 1, TOPOLOGY_BASE_MAX,
            "base: k of the base-(k+1) graph. A round in which a node has k neighbours becomes several "
            "rounds with one neighbour each.",
            SHARED_IF(is_base)),

    TEXT("topology.file", topology.file, "",
         "file: the graph, one edge per line as two names of nodes. Must be the same on all nodes."),

    DURATION("checkpoint.every", checkpoint.every_ns, "60s", 0, 365 * DAY,
             "Time between checkpoints; a new node writes its first one after its first round. 0: only at "
             "the end."),
    INTEGER("checkpoint.keep", checkpoint.keep, "3", 1, 1000, "Number of checkpoints that are kept."),

    INTEGER("metrics.file_bytes", metrics.file_bytes, "67108864", 0, 1e15,
            "Maximum size of metrics.jsonl and events.jsonl in node.dir. A full file is renamed to .1, then "
            ".2 and so on, and a new one begins. 0: no limit."),
    INTEGER("metrics.files", metrics.files, "8", 1, LIMIT_LINE_FILES,
            "Maximum number of files of each, including the current one. The oldest is deleted."),
    TEXT("metrics.tensorboard", metrics.tensorboard, "",
         "Directory for TensorBoard ('tensorboard --logdir DIR'): loss, accuracy, rates and bytes of each "
         "node, in a folder with its name. Not with p2pml sim. Empty: none."),

    CHOICE("device.kind", device.kind, "cpu", "cpu|cuda|auto",
           "Where the model is trained. auto: on a GPU if there is one."),
    CHOICE("device.precision", device.precision, "fp32", "fp32|bf16",
           "bf16: matrix products on a GPU round their factors to bf16 and add in fp32; the activations and "
           "logits of decoders are bf16, too. Parameters and optimiser stay fp32. Requires a GPU."),
    CHOICE(
        "device.exchange", device.exchange, "auto", "auto|device|host",
        "The memory that holds the published model, and the reference and correction of each neighbour. "
        "device: on the GPU, so that only packets cross the bus. host: in the host's memory, for a GPU with "
        "too little of its own; then whole vectors cross the bus in every round. auto: device, except with "
        "average.outer_momentum or average.reference bf16, which need host. --check says how many bytes."),
    INTEGER("device.threads", device.threads, "1", 1, 1024,
            "Number of CPU threads for the matrix operations of this node."),

    CHOICE("log.level", log.level, "info", "debug|info|warn|error",
           "Minimum level of the lines that are logged."),
    CHOICE("log.format", log.format, "text", "text|json",
           "text: lines for people. json: one JSON object per line."),
    DURATION("log.progress", log.progress_ns, "10s", 0, DAY,
             "Time between two log lines about progress: step, loss, test accuracy, steps per second, time "
             "left, members, the slowest member. 0: none."),
};

// One line for each key of an earlier version, so that an old file says what to write.
static const struct node_former former[] = {{"average.clip", "average.robust", "0.1.0"}};

const struct node_schema node_config_schema = {keys, sizeof keys / sizeof *keys, former,
                                               sizeof former / sizeof *former};
