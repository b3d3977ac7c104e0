// The environment that nodes are started with: ours without the variables that were meant for the experiment,
// because each node's file already holds their values.
#ifndef LAB_TERM_ENVIRONMENT_H
#define LAB_TERM_ENVIRONMENT_H

#include <stdbool.h>

// NULL-terminated; the list is malloc'ed, its texts are borrowed. NULL: out of memory. `programs`: for the
// runs of a sweep, which start nodes themselves; the variables that name programs stay, too.
char **lab_environment(char *const *environment, bool programs);

#endif
