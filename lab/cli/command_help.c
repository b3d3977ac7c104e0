#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char overview[] =
    "p2pml: tools for clusters of nodes. The program of a single node is p2pml-node.\n"
    "\n"
    "  p2pml run EXPERIMENT.yaml   starts real nodes on this host, shows their progress, compares the result\n"
    "                              with lone and central training, and writes summary.json\n"
    "  p2pml sim EXPERIMENT.yaml   the same in virtual time in one process: any network, up to 10,000 nodes\n"
    "  p2pml data info FILE        shows the content of a data file or folder and a matching configuration\n"
    "  p2pml data fetch NAME       downloads MNIST, Fashion-MNIST, CIFAR-10, tiny Shakespeare or a9a\n"
    "  p2pml eval MODEL            loss and accuracy of a trained model on test examples\n"
    "  p2pml predict MODEL         classes and probabilities, or values, for rows or images\n"
    "  p2pml generate MODEL        text from a trained GPT\n"
    "  p2pml export MODEL          the model for other programs, as safetensors (torch) or ONNX\n"
    "  p2pml report DIR            writes DIR/report.html again: the results of a run or a sweep as a page\n"
    "  p2pml plot DIR              the same results as pictures, with gnuplot\n"
    "  p2pml top [HOST:PORT]       a running cluster in the terminal, found from any one of its nodes\n"
    "  p2pml collect HOST:PORT     the report of a running cluster, as p2pml run writes it\n"
    "  p2pml set KEY VALUE NODE    changes a setting on all nodes of a running cluster, at one round\n"
    "  p2pml why NODE [ROUND]      what happened in a round of a node: whom it met, what it waited for, what changed\n"
    "  p2pml doctor [CONFIG]       what stands between this host and its peers, and what to change\n"
    "  p2pml topology show KIND    the properties of a graph, what a death changes in it, and a picture\n"
    "  p2pml keygen                creates the identity of a node or the secret of a cluster\n"
    "  p2pml inspect FILE          shows the content of a checkpoint, or of another safetensors file\n"
    "  p2pml help [COMMAND]        this text, or more about a command\n"
    "  p2pml version\n"
    "\n"
    "Try: p2pml run configs/demo.yaml\n";

#define ABOUT_OPTIONS                                                                                         \
    "  --set KEY=VALUE  overrides the file and the environment; may be repeated\n"                            \
    "  --out DIR        directory of the run, instead of experiment.out\n"                                    \
    "  --fresh          accepts a directory that is not empty, and replaces the files of an earlier run in\n" \
    "                   it, even a finished result\n"

static const char about_run[] =
    "p2pml run EXPERIMENT.yaml [--set KEY=VALUE]... [--out DIR] [--fresh] [--check]\n"
    "\n" ABOUT_OPTIONS "  --check          reads and checks the experiment, every run of a sweep, and ends\n"
    "\n"
    "Starts experiment.nodes processes of p2pml-node (the one beside this program, or $P2PML_NODE), each\n"
    "with its shard of the data. Progress goes to stderr, the final table to stdout, all numbers to\n"
    "DIR/summary.json. DIR/node-NN holds the configuration, log, metrics and checkpoints of a node. Ctrl-C\n"
    "stops the nodes and still writes the summary; Ctrl-C a second later kills them.\n"
    "The key events kills, stops, starts and partitions nodes during the run (configs/README.md). The table\n"
    "and the summary then report which nodes detected each event, when, and what it cost. A node that an event ended\n"
    "does not count as failed.\n"
    "With the key sweep, or with experiment.repeats, there are several runs, each in DIR/runs.\n"
    "DIR/results.csv and DIR/results.jsonl have one line per run. Complete runs are kept: after an\n"
    "interruption, the same command continues the sweep.\n"
    "Exit status: 0 done, 1 a node or a baseline failed or the run is incomplete (a node took fewer steps than\n"
    "train.steps and no event explains it, has diverged, or keeps its own model though all were to hold one),\n"
    "2 bad usage or experiment, 130 interrupted.\n";

static const char about_sim[] =
    "p2pml sim EXPERIMENT.yaml [--set KEY=VALUE]... [--out DIR] [--fresh] [--check]\n"
    "\n" ABOUT_OPTIONS "  --check          reads and checks the experiment, and ends\n"
    "\n"
    "Runs the experiment of p2pml run in one process in virtual time: the protocols of p2pml-node and real\n"
    "gradients, with the network and the speeds that the keys sim.* describe. Times in the key events are\n"
    "virtual. If sim.step_time is given, the same file and seed give the same numbers, with any number of\n"
    "threads (sim.threads). Otherwise the time of a step is measured first; --set sim.step_time=TIME repeats\n"
    "the run. Writes the same files as p2pml run, except checkpoints, which simulated nodes keep in\n"
    "memory. Ctrl-C lets the nodes leave and writes the summary; Ctrl-C a second later ends it at once.\n"
    "A node that took fewer steps or keeps its own model is named.\n"
    "Exit status: 0 done, 1 failed or a node has diverged, 2 bad usage or experiment, 130 interrupted.\n";

#define ABOUT_MODEL                                                                                          \
    "  MODEL            averaged.safetensors of a run, model.safetensors or a checkpoint of a node,\n"       \
    "                   safetensors of another program with torch's names; or a directory: of a run (its\n"  \
    "                   averaged model) or of a node (its newest checkpoint, or its final model)\n"

static const char about_data[] =
    "p2pml data info FILE|FOLDER [--set KEY=VALUE]... [--stats STATS]\n"
    "p2pml data fetch NAME [--dir DIR] [--from URL] [--ca FILE] [--timeout SECONDS]\n"
    "p2pml data fetch URL --sha256 DIGEST [--dir DIR] [--ca FILE] [--timeout SECONDS]\n"
    "\n"
    "  FILE             a CSV table or IDX images (labels and test files are found beside them), plain or\n"
    "                   .gz; LIBSVM rows; a text; NumPy's .npz or .npy; a file or folder of CIFAR-10;\n"
    "                   or a folder that contains one folder of PNG and JPEG files per class\n"
    "  --set KEY=VALUE  settings that cannot be guessed: data.target=price, data.delimiter=tab,\n"
    "                   model.loss=mse, ...\n"
    "  --stats STATS    writes columns, categories, classes and the statistics of data.scale, for nodes\n"
    "                   with their own files: copy it to all nodes and name it in data.scale_from\n"
    "\n"
    "info shows ranges, classes and the first rows, warns of data that are hard to learn, and prints the\n"
    "lines of a configuration that read the file.\n"
    "\n"
    "  NAME             mnist, fashion-mnist, cifar10, tiny-shakespeare or a9a\n"
    "  URL              https://... of any file whose SHA-256 you know\n"
    "  --dir DIR        target directory; default: data/NAME, or data for a URL\n"
    "  --from URL       a mirror: https://mirror.example/mnist must have the four files of mnist\n"
    "  --ca FILE        certificates (PEM) to trust instead of the system's\n"
    "  --timeout SECONDS\n"
    "                   gives up after this time without a connection, or below 1,000 bytes per second;\n"
    "                   default: 30\n"
    "\n"
    "fetch keeps a file only if its SHA-256 is correct, and does not replace existing files. Without a network\n"
    "it prints the address of the file and where to put it. It uses the environment variable https_proxy.\n"
    "Exit status: 0 done, 1 not fetched, 2 bad usage.\n";

static const char about_eval[] =
    "p2pml eval MODEL [--set data.KEY=VALUE]... [--json]\n"
    "\n" ABOUT_MODEL
    "  --set KEY=VALUE  a key data.* of an experiment, to choose the test examples; may be repeated. Not\n"
    "                   needed for the properties in the model: data.kind, data.features, data.classes, scaling,\n"
    "                   the size of images, data.test_part and data.seed\n"
    "  --json           the same as one JSON object\n"
    "\n"
    "Prints accuracy, mean loss (cross entropy, natural logarithm) and the number of test examples. Without\n"
    "data.test_file these are the examples of data.train_file that the model was not trained on; if the file is\n"
    "another one than that of the training, a warning says so.\n"
    "Exit status: 0 done, 1 the model or the data cannot be used, 2 bad usage or configuration.\n"
    "\n"
    "Try: p2pml eval run/demo; p2pml eval run/a9a --set data.test_file=a9a.t\n";

static const char about_predict[] =
    "p2pml predict MODEL < rows.csv > answers.csv\n"
    "p2pml predict MODEL ROWS > answers.csv\n"
    "p2pml predict MODEL IMAGE... > answers.csv\n"
    "\n" ABOUT_MODEL "\n"
    "A model of a table reads the table that it was trained on, or one like it, plain or gzip. Columns are\n"
    "found by their names, in any order; without a header line, by their positions. The target and the ignored\n"
    "columns may be missing. A model of images reads PNG and JPEG files and resizes them. Any other model reads\n"
    "rows of numbers separated by commas, without a header line, as in its data: bytes from 0 to 255 for idx\n"
    "images. Rows may also come as a .npy of x, or a .npz that has one. Categories and scaling are applied by\n"
    "the program; columns that the training examples did not have are left out, with a warning.\n"
    "Writes a header line, then for each row its class, as named in the data, and the probability of every\n"
    "class; for a regression the values, in the units of the targets. At an invalid row the program prints its\n"
    "line and column and ends; the rows before it have answers.\n"
    "Exit status: 0 done, 1 the model or a row cannot be used, 2 bad usage.\n";

static const char about_generate[] =
    "p2pml generate MODEL [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K] [--seed S]\n"
    "                     [--vocabulary FILE] [--scores]\n"
    "\n" ABOUT_MODEL "\n"
    "Writes the prompt and N tokens (default 200) with which a gpt2 model continues it. The logits are divided\n"
    "by T (default 0.8): below 1, likely tokens become more likely; at 0, the most likely token is always taken.\n"
    "With K, tokens are drawn from the K most likely ones. The same seed (default 1) gives the same text.\n"
    "A model of bytes or characters reads and writes text. A model of token ids, such as GPT-2 from another\n"
    "program, reads ids separated by spaces and writes ids, or text with --vocabulary (GPT-2's vocab.json).\n"
    "--scores: prints no text, but the logit of every token that could follow the prompt, as lines id,logit.\n"
    "Exit status: 0 done, 1 the model cannot be used, or has no such character or id, 2 bad usage.\n";

static const char about_export[] =
    "p2pml export MODEL --format torch|onnx -o FILE\n"
    "\n" ABOUT_MODEL "  --format torch   safetensors with the names and the layout of the state_dict of\n"
    "                   nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), ..., nn.Linear(hidden, classes))\n"
    "  --format onnx    ONNX, opset 13: input [N, inputs], outputs logits and probabilities [N, classes],\n"
    "                   or values [N, targets] of a regression; float, or double where the data are so far from\n"
    "                   0 that a float would lose them (seconds since 1970)\n"
    "  -o, --out FILE   written completely or not at all; replaces an existing file\n"
    "\n"
    "The ONNX model takes numbers as in the data, and a category as one input for each of its values; it answers\n"
    "in the units of the data: divisor and scaling are part of its graph. The torch model takes the input of its\n"
    "first layer. The metadata of both describe the numbers: input_divisor and, as JSON in 'data', columns,\n"
    "categories, classes, shift and factor.\n";

static const char about_keygen[] =
    "p2pml keygen [--identity FILE] [--secret FILE]\n"
    "\n"
    "  --identity FILE  creates the secret key of a node (node.identity) and prints its id, which is public\n"
    "  --secret FILE    creates the secret that all nodes of a cluster share (cluster.secret_file)\n"
    "\n"
    "Only the owner can read the files. Existing files are never overwritten. A secret is one line: to change that\n"
    "of a running cluster, make another one and append it to cluster.secret_file (docs/operations.md, Rotate the\n"
    "secret).\n";

static const char about_inspect[] =
    "p2pml inspect FILE\n"
    "\n"
    "Shows the tensors and the metadata of a file and, for a checkpoint, the state of the edges.\n";

static const char about_top[] =
    "p2pml top [--once] [HOST:PORT]\n"
    "\n"
    "  HOST:PORT  address of the page of any node (node.http); default: 127.0.0.1:7480\n"
    "  --once     prints one table and ends, for scripts\n"
    "\n"
    "Shows every node of the cluster once a second: state, step, steps per second, loss, accuracy, rounds, bytes\n"
    "per second, and how many of its neighbours are linked. The other nodes are found through the first one, if\n"
    "their pages can be reached from here. For nodes without a reachable page, it shows what the other nodes\n"
    "report. States: what the node does, or its problem (alone, disk_full, ...); no answer,\n"
    "no page, dead, left, unproven (nobody has an answer from it), banned (kept out for what it sent).\n"
    "Keys: q quits; < and > (or the arrows) choose the column to sort by, r reverses the order; up and down\n"
    "scroll.\n"
    "Exit status: 0 done, 1 no node answers or no terminal, 2 bad usage.\n";

static const char about_collect[] =
    "p2pml collect HOST:PORT -o DIR [--fresh]\n"
    "\n"
    "  HOST:PORT        address of the page of any node (node.http; a program with p2pml.join prints its own)\n"
    "  -o, --out DIR    directory of the report; new, empty, or of an earlier report\n"
    "  --fresh          also replaces a finished report, and accepts a directory that is not empty\n"
    "\n"
    "Reads /status and /history of every living node of the cluster, daemon or program, and writes the files of\n"
    "a run: report.html, summary.json, rounds.jsonl, results.jsonl; nodes.jsonl has what each node answered. The\n"
    "other nodes are found through the first one; the report names those that do not answer. Nodes that have\n"
    "ended have no page: collect before the end, or give them node.linger.\n"
    "Exit status: 0 done, 1 no node answers or DIR cannot be used, 2 bad usage.\n";

static const char about_set[] =
    "p2pml set KEY VALUE HOST:PORT [--dir DIR]\n"
    "p2pml set cluster.removed ID[,ID...] HOST:PORT --key FILE [--cluster NAME] [--dir DIR]\n"
    "\n"
    "  KEY VALUE        train.rate or train.weight_decay, and a value as in a configuration\n"
    "  ID               a node to be removed, as it prints its id at the start; none: nobody any more\n"
    "  --key FILE       the identity whose id is cluster.operator on every node\n"
    "  --cluster NAME   cluster.name; default: p2pml\n"
    "  HOST:PORT        address of the page of any node that trains (node.http)\n"
    "  --dir DIR        its node.dir, where its token is; not needed for a node on this host\n"
    "\n"
    "All nodes use the new value from one round on, which is about five seconds away: also those that are away\n"
    "then, that join later, or that are resumed. It stands above their configuration. Of two changes of a key\n"
    "the one for the later round counts. Only who may read node.dir can change a setting.\n"
    "The removed are refused by all nodes at once: those that are away hear of it when they come back. The list\n"
    "replaces the one before, so who is not in it any more may come again.\n"
    "Exit status: 0 done, 1 refused or no answer, 2 bad usage.\n";

static const char about_why[] =
    "p2pml why NODE [ROUND]\n"
    "\n"
    "  NODE   the directory of a node (node.dir, or DIR/node-03 of a run), or HOST:PORT of the page of a running\n"
    "         node (node.http), which has its latest 1,024 rounds\n"
    "  ROUND  default: the latest round that has ended\n"
    "\n"
    "Says in sentences what the node has recorded of the round: whom it met; with whom it was to meet but did\n"
    "not, and why; for what and for whom it waited, and how long; what changed in the cluster from the round\n"
    "before to this one; what its model did (its own steps, another node's model, a return to the last good\n"
    "one, the merge at the end). It reads metrics.jsonl and events.jsonl, or /rounds.\n"
    "Each message of an exchange is in the log of a node with log.level debug.\n"
    "Exit status: 0 done, 1 no such node or round, 2 bad usage.\n";

static const char about_doctor[] =
    "p2pml doctor [CONFIG] [--peers HOST:PORT,...] [--set KEY=VALUE]... [--node HOST:PORT] [--json]\n"
    "\n"
    "  CONFIG           the configuration of the node of this host, as for p2pml-node --config\n"
    "  --peers LIST     the other nodes, instead of its peers\n"
    "  --set KEY=VALUE  overrides the file and the environment; may be repeated\n"
    "  --node HOST:PORT address of the page of a running node (node.http)\n"
    "  --json           the findings for programs\n"
    "\n"
    "Without CONFIG, --peers and --set it asks a running node (--node, default: 127.0.0.1:7480): whether others can\n"
    "call it, and where they see it; how it is linked to each member, directly or over which other one, with round\n"
    "trip and rate; which links are missing, and why; whether UDP passes; what it forwards for others.\n"
    "With them it tries on this host what the node would do, best before the node starts: whether its port is\n"
    "free; node.advertise; the name, a connection and the handshake of each peer; whether full packets pass; and\n"
    "what kind of router is in between, as far as the peers can tell, and whether it offers ports. The peers\n"
    "see a call of a node that they do not know; it is no member. If the port belongs to the node that runs already,\n"
    "its page is asked, too.\n"
    "Each finding is ok, a note, or a problem with what to do. Exit status: 0 no problem, 1 a problem or no answer,\n"
    "2 bad usage or configuration.\n";

static const char about_topology[] =
    "p2pml topology show KIND --nodes N [--seed S] [--param KEY=VALUE] [--file PATH] [--group-size G]\n"
    "                              [--parameters D] [--ratio R] [--json [--rounds T] | --dot | --svg]\n"
    "\n"
    "  KIND             ring         two neighbours in turn\n"
    "                   butterfly    slot i meets i XOR 2^t: the exact mean after log2 N rounds if N is a\n"
    "                                power of two\n"
    "                   random       several rings in random orders, an expander (--param rings=K, default 2)\n"
    "                   torus        a grid whose opposite sides are joined; if N has no two factors of 3 or\n"
    "                                more, one row that wraps around\n"
    "                   exponential  i with i + 2^k for all k\n"
    "                   one-peer     the same, one k per round\n"
    "                   complete     every pair, as a tournament\n"
    "                   star         every node meets one hub, in turn\n"
    "                   matchings    a new random matching in each round\n"
    "                   base         base-2 graph: the exact mean after at most 2 log2 N + 1 rounds, any N\n"
    "                                (--param base_k=K: the base-(K+1) graph, one peer at a time)\n"
    "                   hierarchical the exact mean inside each group (--group-size G), then among leaders\n"
    "                   file         --file PATH: lines 'name name [weight]', # begins a comment; without\n"
    "                                --nodes, the nodes in the file, else node-00, node-01, ...\n"
    "  --nodes N        1 to 16384; every kind accepts every number\n"
    "  --seed S         topology.seed of the nodes, default 1; the graph of p2pml run with the same seed\n"
    "  --parameters D   parameters of the model, for the bytes; default 203530 (an MLP 784-256-10)\n"
    "  --ratio R        the part of them that is sent, for the bytes; default 1/32\n"
    "  --json           the same as one JSON object, with all edges\n"
    "  --rounds T       with --json: also the meetings of the rounds 1 to T, with their weights\n"
    "  --dot            the graph for graphviz; each colour is a round of the period\n"
    "  --svg            a picture: by graphviz if it is installed and there are at most 200 nodes, else a circle\n"
    "\n"
    "Try: p2pml topology show torus --nodes 16; p2pml topology show random --nodes 32 --svg > random.svg\n";

static const char about_report[] =
    "p2pml report DIR\n"
    "\n"
    "  DIR              the directory of a run or of a sweep, as written by p2pml run and p2pml sim\n"
    "\n"
    "Writes DIR/report.html, one file that opens in any browser without a network: accuracy, loss and consensus\n"
    "distance over rounds, bytes and time; the cost of reaching an accuracy; all numbers in a table that can be\n"
    "sorted; failures and which nodes detected them; the graph. Runs that differ only in their seed are shown\n"
    "as one: the mean and its 95% confidence interval; a target counts when all seeds reach it.\n"
    "Writes DIR/results.tex, too: the table for a paper (LaTeX, booktabs).\n";

static const char about_plot[] =
    "p2pml plot DIR [--format png|svg|pdf] [--out DIR]\n"
    "\n"
    "  DIR              the directory of a run or of a sweep, as written by p2pml run and p2pml sim\n"
    "  --format FORMAT  png, svg or pdf; default: png\n"
    "  --out DIR        directory for the pictures, instead of DIR/plots\n"
    "\n"
    "Draws accuracy over bytes, rounds and time, consensus distance, and bytes to each target with gnuplot\n"
    "(Debian: gnuplot-nox). Each picture has its script beside it, which you can edit and run in that directory:\n"
    "'gnuplot accuracy-over-bytes.gp'. curves.dat and targets.dat hold the data; their first lines describe the\n"
    "columns.\n";

static int print(const char *text)
{
    return fputs(text, stdout) >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
}

// Prints the help of a command, then the keys of an experiment.
static int print_experiment(const char *about)
{
    char *keys = lab_experiment_help();
    if (!keys)
        return LAB_EXIT_FAILED;
    int status = print(about);
    if (status == LAB_EXIT_DONE)
        status = print("\nKeys of an experiment (an environment variable such as P2PML_TRAIN_STEPS also sets "
                       "train.steps):\n\n");
    if (status == LAB_EXIT_DONE)
        status = print(keys);
    free(keys);
    return status;
}

static const struct {
    const char *name, *about;
    bool experiment; // its keys follow
} topics[] = {
    {"run", about_run, true},
    {"sim", about_sim, true},
    {"data", about_data, false},
    {"eval", about_eval, false},
    {"predict", about_predict, false},
    {"export", about_export, false},
    {"generate", about_generate, false},
    {"report", about_report, false},
    {"plot", about_plot, false},
    {"top", about_top, false},
    {"collect", about_collect, false},
    {"set", about_set, false},
    {"why", about_why, false},
    {"doctor", about_doctor, false},
    {"topology", about_topology, false},
    {"keygen", about_keygen, false},
    {"inspect", about_inspect, false},
};

int lab_command_about(const char *name)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(name, topics[i].name) == 0)
            return topics[i].experiment ? print_experiment(topics[i].about) : print(topics[i].about);
    fprintf(stderr,
            "p2pml: there is no help for '%s', expected run, sim, data, eval, predict, generate, export, "
            "report, plot, top, collect, set, why, doctor, topology, keygen or inspect\n",
            name);
    return LAB_EXIT_USAGE;
}

int lab_command_help(int argc, char **argv)
{
    return argc < 2 ? print(overview) : lab_command_about(argv[1]);
}
