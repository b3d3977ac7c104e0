#include "lab/command.h"
#include "lab/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char overview[] =
    "p2pml: what people do around the nodes of a cluster. One node by itself is the program p2pml-node.\n"
    "\n"
    "  p2pml run EXPERIMENT.yaml   starts many real nodes on this host, shows their progress, compares the "
    "result with\n"
    "                              lone and central training, and writes summary.json\n"
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
    "  --fresh          takes a directory that is not empty, and replaces what has the names of a run in it\n"
    "  --check          reads and checks the experiment, and ends\n"
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
    "Exit status: 0 done, 1 a node or a baseline failed, 2 bad usage or experiment, 130 interrupted.\n"
    "\n"
    "Keys of an experiment; a variable such as P2PML_TRAIN_STEPS sets train.steps, too:\n"
    "\n";

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

static int print(const char *text)
{
    return fputs(text, stdout) >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
}

static int print_run(void)
{
    char *keys = lab_experiment_help();
    if (!keys)
        return LAB_EXIT_FAILED;
    int status = print(about_run);
    if (status == LAB_EXIT_DONE)
        status = print(keys);
    free(keys);
    return status;
}

int lab_command_help(int argc, char **argv)
{
    if (argc < 2)
        return print(overview);
    if (strcmp(argv[1], "run") == 0)
        return print_run();
    if (strcmp(argv[1], "keygen") == 0)
        return print(about_keygen);
    if (strcmp(argv[1], "inspect") == 0)
        return print(about_inspect);
    fprintf(stderr, "p2pml: there is no help for '%s', expected run, keygen or inspect\n", argv[1]);
    return LAB_EXIT_USAGE;
}
