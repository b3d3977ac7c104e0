#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char overview[] =
    "p2pml: what people do around the nodes of a cluster. One node by itself is the program p2pml-node.\n"
    "\n"
    "  p2pml run EXPERIMENT.yaml   starts many real nodes on this host, shows their progress, compares the "
    "result with\n"
    "                              lone and central training, and writes summary.json\n"
    "  p2pml sim EXPERIMENT.yaml   the same in virtual time, in one process: no waiting, any network, up to "
    "1,024 nodes\n"
    "  p2pml data info FILE        what is in a file or folder of examples, and the configuration that fits\n"
    "  p2pml data fetch NAME       MNIST, Fashion-MNIST, CIFAR-10 or tiny Shakespeare from the network\n"
    "  p2pml eval MODEL            loss and accuracy of a trained model on test examples\n"
    "  p2pml predict MODEL         classes and probabilities for rows of numbers\n"
    "  p2pml generate MODEL        text from a trained GPT\n"
    "  p2pml export MODEL          the model for other programs, as torch's safetensors or as ONNX\n"
    "  p2pml report DIR            makes DIR/report.html again: what a run or a sweep showed, as a page\n"
    "  p2pml plot DIR              pictures of the same with gnuplot\n"
    "  p2pml top [HOST:PORT]       a running cluster in the terminal, found from any one of its nodes\n"
    "  p2pml topology show KIND    what a graph is worth, what a death costs it, and how it looks\n"
    "  p2pml keygen                makes the identity of a node or the secret of a cluster\n"
    "  p2pml inspect FILE          shows what is in a checkpoint, or in another safetensors file\n"
    "  p2pml help [COMMAND]        this, or more about a command\n"
    "  p2pml version\n"
    "\n"
    "Try: p2pml run configs/demo.yaml\n";

static const char about_run[] =
    "p2pml run EXPERIMENT.yaml [--set KEY=VALUE]... [--out DIR] [--fresh] [--check]\n"
    "\n"
    "  --set KEY=VALUE  overrides the file and the environment; may be repeated\n"
    "  --out DIR        directory of the run, in place of experiment.out\n"
    "  --fresh          takes a directory that is not empty, and replaces what has the names of a run in "
    "it,\n"
    "                   a finished result too\n"
    "  --check          reads and checks the experiment, every run of a sweep, and ends\n"
    "\n"
    "Starts experiment.nodes processes of p2pml-node (the one beside this program, or $P2PML_NODE), each "
    "with its shard of\n"
    "the data. Progress goes to stderr, the table at the end to stdout, all numbers to DIR/summary.json; "
    "DIR/node-NN\n"
    "holds the configuration, log, metrics and checkpoints of a node. Ctrl-C stops the nodes and still sums "
    "up; a second\n"
    "one kills them. The key events kills, stops, starts and parts nodes on the way (configs/README.md); the "
    "table and the\n"
    "summary then tell who noticed it and when, and what it cost. A node that an event ended is no "
    "failure.\n"
    "With the key sweep, or experiment.repeats, all its runs are made, each in DIR/runs; DIR/results.csv and "
    "DIR/results.jsonl\n"
    "have a line for each. What is complete is kept: after a stop, the same command goes on.\n"
    "Exit status: 0 done, 1 a node or a baseline failed, 2 bad usage or experiment, 130 interrupted.\n"
    "\n"
    "Keys of an experiment; a variable such as P2PML_TRAIN_STEPS sets train.steps, too:\n"
    "\n";

static const char about_sim[] =
    "p2pml sim EXPERIMENT.yaml [--set KEY=VALUE]... [--out DIR] [--fresh] [--check]\n"
    "\n"
    "  --set KEY=VALUE  overrides the file and the environment; may be repeated\n"
    "  --out DIR        directory of the run, in place of experiment.out\n"
    "  --fresh          takes a directory that is not empty, and replaces what has the names of a run in "
    "it,\n"
    "                   a finished result too\n"
    "  --check          reads and checks the experiment, and ends\n"
    "\n"
    "The experiment of p2pml run in one process under virtual time: the protocols of p2pml-node and real "
    "gradients, over\n"
    "a network and at paces that the keys sim.* describe. The key events counts in virtual time. The same "
    "file and seed\n"
    "give the same numbers, on any number of threads (sim.threads). Writes what p2pml run writes, but "
    "checkpoints: a\n"
    "simulated node keeps its own in memory. Ctrl-C lets the nodes leave and sums up; a second one ends it "
    "there.\n"
    "Exit status: 0 done, 1 failed, 2 bad usage or experiment, 130 interrupted.\n"
    "\n"
    "Keys of an experiment; a variable such as P2PML_TRAIN_STEPS sets train.steps, too:\n"
    "\n";

#define ABOUT_MODEL                                                                                          \
    "  MODEL            averaged.safetensors of a run, model.safetensors or a checkpoint of a node, "        \
    "safetensors "                                                                                           \
    "from\n"                                                                                                 \
    "                   elsewhere with torch's names; or a directory: of a run its averaged model, of a "    \
    "node its\n"                                                                                             \
    "                   newest checkpoint\n"

static const char about_data[] =
    "p2pml data info FILE|FOLDER [--set KEY=VALUE]... [--stats STATS]\n"
    "p2pml data fetch NAME [--dir DIR] [--from URL] [--ca FILE] [--timeout SECONDS]\n"
    "p2pml data fetch URL --sha256 DIGEST [--dir DIR] [--ca FILE] [--timeout SECONDS]\n"
    "\n"
    "  FILE             a table (CSV) or MNIST's IDX images (labels and test files are found beside them),\n"
    "                   plain or .gz; LIBSVM rows; a text; NumPy's .npz or .npy; CIFAR-10's file or folder;\n"
    "                   or a folder with a folder of PNG and JPEG files for each class\n"
    "  --set KEY=VALUE  what is not to be guessed: data.target=price, data.delimiter=tab, model.loss=mse, "
    "...\n"
    "  --stats STATS    writes columns, categories, classes and the statistics of data.scale, for nodes that "
    "have\n"
    "                   files of their own: copy it to all and name it in data.scale_from\n"
    "\n"
    "info shows ranges, classes and the first rows, warns of what will learn badly, and prints the lines of "
    "a\n"
    "configuration that read the file.\n"
    "\n"
    "  NAME             mnist, fashion-mnist, cifar10 or tiny-shakespeare\n"
    "  URL              an address https://... of any file whose SHA-256 you know\n"
    "  --dir DIR        where to; initially data/NAME, of a URL data\n"
    "  --from URL       a mirror: https://mirror.example/mnist has the four files of mnist\n"
    "  --ca FILE        certificates (PEM) to trust in place of the system's\n"
    "  --timeout SECONDS\n"
    "                   gives up after so long (30) without a connection or with fewer than 1,000 bytes a "
    "second\n"
    "\n"
    "fetch keeps a file only if its SHA-256 is the right one, and leaves alone what is there already. "
    "Without a\n"
    "network it says what to download, and where to put it. https_proxy is taken from the environment.\n"
    "Exit status: 0 done, 1 not fetched, 2 bad usage.\n";

static const char about_eval[] =
    "p2pml eval MODEL [--set data.KEY=VALUE]... [--json]\n"
    "\n" ABOUT_MODEL "  --set KEY=VALUE  a key data.* of an experiment: which test examples; may be "
    "repeated. What the model\n"
    "                   knows need not be said: data.kind, data.features, data.classes, scaling\n"
    "  --json           the same as one JSON object\n"
    "\n"
    "Prints accuracy, mean loss (cross entropy, natural logarithm) and the number of test examples. "
    "experiment.seed "
    "is added to\n"
    "data.seed in a run: with another seed than 0, say so here.\n"
    "Exit status: 0 done, 1 the model or the data can't be used, 2 bad usage or configuration.\n"
    "\n"
    "Try: p2pml eval run/demo; p2pml eval run/a9a --set data.test_file=a9a.t\n";

static const char about_predict[] =
    "p2pml predict MODEL < rows.csv > answers.csv\n"
    "p2pml predict MODEL IMAGE... > answers.csv\n"
    "\n" ABOUT_MODEL "\n"
    "A model of a table takes the table that it was trained on, or one like it, plain or gzip: columns are "
    "found by\n"
    "their names, in any order, or without a line of names by their places. The target and what training "
    "ignored may be\n"
    "there or not. A model of images takes PNG and JPEG files and brings them to its size. Any other takes "
    "rows of\n"
    "numbers, commas between them, without a line of names: as the data had them, bytes of images from 0 to "
    "255 where\n"
    "that was idx. Categories and scaling are applied here.\n"
    "Writes a line of names, then for each row its class, as the data calls it, and the probability of every "
    "class; of a\n"
    "regression the values, in the units of the targets. What does not fit ends it with line and column; the "
    "rows before\n"
    "it have been answered.\n"
    "Exit status: 0 done, 1 the model can't be used, or a row, 2 bad usage.\n";

static const char about_generate[] =
    "p2pml generate MODEL [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K] [--seed S] "
    "[--vocabulary FILE] [--scores]\n"
    "\n" ABOUT_MODEL "\n"
    "Writes the prompt and N tokens (200) that a model of kind gpt2 continues it with. T (0.8) divides the "
    "logits: "
    "below 1 it\n"
    "keeps to what is likely, at 0 it takes the likeliest token always; with K it chooses among the K "
    "likeliest. The "
    "same seed\n"
    "(1) gives the same text.\n"
    "A model of bytes or characters takes and writes text. One of ids, as GPT-2 from elsewhere, takes ids of "
    "tokens "
    "with blanks\n"
    "between them and writes such, or text with --vocabulary, which is GPT-2's vocab.json.\n"
    "--scores: no text, but the logit of every token behind the prompt, a line id,logit each.\n"
    "Exit status: 0 done, 1 the model can't be used, or a character or id that it does not know, 2 bad "
    "usage.\n";

static const char about_export[] =
    "p2pml export MODEL --format torch|onnx -o FILE\n"
    "\n" ABOUT_MODEL "  --format torch   safetensors with the names and the layout of the state_dict of\n"
    "                   nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), ..., nn.Linear(hidden, "
    "classes))\n"
    "  --format onnx    ONNX, opset 13: input [N, inputs], outputs logits and probabilities [N, classes],\n"
    "                   or values [N, targets] of a regression\n"
    "  -o, --out FILE   is written whole, or not at all; replaces what is there\n"
    "\n"
    "The ONNX model takes numbers as the data has them, a category as one input for each of its words, and "
    "answers in the\n"
    "units of the data: divisor and scaling are in its graph. torch's takes what its first layer does. The "
    "metadata of both\n"
    "say what the numbers mean: input_divisor, and as JSON in 'data' columns, categories, classes, shift and "
    "factor.\n";

static const char about_keygen[] =
    "p2pml keygen [--identity FILE] [--secret FILE]\n"
    "\n"
    "  --identity FILE  makes the secret key of a node (node.identity) and prints its id, which is public\n"
    "  --secret FILE    makes the secret that all nodes of a cluster share (cluster.secret_file)\n"
    "\n"
    "Files are made readable by their owner only, and never overwritten.\n";

static const char about_inspect[] =
    "p2pml inspect FILE\n"
    "\n"
    "Shows the tensors, the metadata and the state of the edges in a checkpoint.\n";

static const char about_top[] =
    "p2pml top [--once] [HOST:PORT]\n"
    "\n"
    "  HOST:PORT  of the page of any node (node.http), in place of 127.0.0.1:7480\n"
    "  --once     prints one table and ends, for scripts\n"
    "\n"
    "Shows every node of the cluster once a second: state, step, steps a second, loss, accuracy, rounds, "
    "bytes "
    "a second, and\n"
    "neighbours with a link of those in the graph. The others are found through the first one, where their "
    "pages can be\n"
    "reached from here; of the rest, and of nodes that stop answering, it shows what the others say. States: "
    "what a node does,\n"
    "or what is wrong with it (alone, disk_full, ...), no results, no page, dead, left.\n"
    "Keys: q quits; < and > (or the arrows) choose the column to sort by, r reverses the order; up and down "
    "scroll.\n"
    "Exit status: 0 done, 1 no node answers or no terminal, 2 bad usage.\n";

static const char about_topology[] =
    "p2pml topology show KIND --nodes N [--seed S] [--param KEY=VALUE] [--file PATH] [--group-size G]\n"
    "                              [--parameters D] [--ratio R] [--json | --dot | --svg]\n"
    "\n"
    "  KIND             ring         two neighbours, met in turn\n"
    "                   butterfly    slot i meets i XOR 2^t: the exact mean after log2 N rounds if N is a "
    "power of "
    "two\n"
    "                   random       several rings in random orders, an expander (--param rings=K, initially "
    "2)\n"
    "                   torus        a grid whose edges are joined; winding where N has no two factors from "
    "3 on\n"
    "                   exponential  i with i + 2^k for all k\n"
    "                   one-peer     the same, one k a round\n"
    "                   complete     everybody with everybody, as a tournament\n"
    "                   star         everybody with one hub, in turn\n"
    "                   matchings    a random matching, drawn anew each round\n"
    "                   base         base-2 graph: the exact mean after at most 2 log2 N + 1 rounds, any N\n"
    "                                (--param base_k=K: base-(K+1), met by two at a time)\n"
    "                   hierarchical the exact mean inside each group (--group-size G), then among their "
    "leaders\n"
    "                   file         --file PATH: lines 'name name [weight]', # comments; without --nodes, "
    "the "
    "nodes it names,\n"
    "                                else node-00, node-01, ...\n"
    "  --nodes N        1 to 16384; every kind takes every number\n"
    "  --seed S         topology.seed of the nodes, initially 1; the graph of p2pml run with the same seed\n"
    "  --parameters D   of the model, initially 203530 (an MLP 784-256-10), and\n"
    "  --ratio R        the share that is sent, initially 1/32: for the bytes\n"
    "  --json           the same as one JSON object, with all edges\n"
    "  --dot            the graph for graphviz; a colour is a round of the period\n"
    "  --svg            a picture: by graphviz where it is installed, for up to 200 nodes, else a circle\n"
    "\n"
    "Try: p2pml topology show torus --nodes 16; p2pml topology show random --nodes 32 --svg > random.svg\n";

static const char about_report[] =
    "p2pml report DIR\n"
    "\n"
    "  DIR              of a run or of a sweep, as p2pml run and p2pml sim left it\n"
    "\n"
    "Writes DIR/report.html, one file that opens in any browser without a network: accuracy, loss and "
    "consensus "
    "distance over\n"
    "rounds, bytes and time, what it takes to reach an accuracy, all figures in a table that sorts, failures "
    "and "
    "who noticed,\n"
    "the graph. Runs that differ in their seed only are shown as one: the mean, the lowest and the "
    "highest.\n";

static const char about_plot[] =
    "p2pml plot DIR [--format png|svg] [--out DIR]\n"
    "\n"
    "  DIR              of a run or of a sweep, as p2pml run and p2pml sim left it\n"
    "  --format png     or svg\n"
    "  --out DIR        for the pictures, in place of DIR/plots\n"
    "\n"
    "Draws accuracy over bytes, rounds and time, consensus distance, and bytes to each target with gnuplot "
    "(Debian: "
    "gnuplot-nox).\n"
    "Beside each picture lies the script that draws it, to be changed: 'gnuplot accuracy-over-bytes.gp' "
    "there. "
    "curves.dat and\n"
    "targets.dat hold the data, and say in their first lines what the columns are.\n";

static int print(const char *text)
{
    return fputs(text, stdout) >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
}

// What a command does, and the keys of an experiment.
static int print_experiment(const char *about)
{
    char *keys = lab_experiment_help();
    if (!keys)
        return LAB_EXIT_FAILED;
    int status = print(about);
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
            "report, plot, top, "
            "topology, keygen or "
            "inspect\n",
            name);
    return LAB_EXIT_USAGE;
}

int lab_command_help(int argc, char **argv)
{
    return argc < 2 ? print(overview) : lab_command_about(argv[1]);
}
