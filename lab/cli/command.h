// The subcommands of p2pml. Each gets its own name as argv[0], reports errors on stderr and returns the
// exit status: 0 done, 1 failed while running, 2 bad usage or configuration, 130 interrupted.
#ifndef LAB_CLI_COMMAND_H
#define LAB_CLI_COMMAND_H

#include "base/error.h"
#include "lab/cli/arguments.h"

int lab_command_run(int argc, char **argv);
int lab_command_sim(int argc, char **argv);

int lab_command_keygen(int argc, char **argv);
int lab_command_inspect(int argc, char **argv);
int lab_command_top(int argc, char **argv);
int lab_command_collect(int argc, char **argv);
int lab_command_set(int argc, char **argv);
int lab_command_why(int argc, char **argv);
int lab_command_doctor(int argc, char **argv);
int lab_command_topology(int argc, char **argv);
int lab_command_data(int argc, char **argv);
int lab_command_fetch(int argc, char **argv); // of data: argv[0] is "fetch"
int lab_command_eval(int argc, char **argv);
int lab_command_predict(int argc, char **argv);
int lab_command_generate(int argc, char **argv);
int lab_command_export(int argc, char **argv);
int lab_command_report(int argc, char **argv);
int lab_command_plot(int argc, char **argv);
int lab_command_help(int argc, char **argv);

// Reads the arguments. False: the command ends with *status, because help was printed or a mistake reported.
bool lab_command_begin(const struct lab_arguments *arguments, int argc, char **argv, void *into, int *status);
// The ways to end a command; each returns its exit status. `name`: of the command.
int lab_command_about(const char *name); // prints what `p2pml help NAME` prints
int lab_command_usage(const char *name); // after a mistake was reported: says where to read more
int lab_command_ended(const char *name, enum base_error error, const struct base_reason *why);

#endif
