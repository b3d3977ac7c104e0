#include "lab/cli/command.h"
#include "lab/run/run.h"

int lab_command_sim(int argc, char **argv)
{
    return lab_command_experiment(argc, argv, lab_simulate);
}
