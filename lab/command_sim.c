#include "lab/command.h"
#include "lab/simulate/simulate.h"

int lab_command_sim(int argc, char **argv)
{
    return lab_command_experiment(argc, argv, lab_simulate);
}
