// The environment that nodes are started with: ours without the variables that were meant for the experiment,
// because each node's file already holds their values.
#ifndef LAB_TERM_ENVIRONMENT_H
#define LAB_TERM_ENVIRONMENT_H

// NULL-terminated; the list is malloc'ed, its texts are borrowed. NULL: out of memory.
char **lab_environment_for_nodes(char *const *environment);
// The same for the runs of a sweep, which start nodes themselves: names of programs and data stay, too.
char **lab_environment_for_runs(char *const *environment);

#endif
