// The environment of the nodes: that of this program without the variables of the experiment, whose values
// are already in each node's file.
#ifndef LAB_TERM_ENVIRONMENT_H
#define LAB_TERM_ENVIRONMENT_H

#include <stdbool.h>

// NULL-terminated; the list is malloc'ed, its texts are borrowed. NULL: out of memory. `programs`: for the
// runs of a sweep, which start nodes themselves; the variables that name programs stay, too.
char **lab_environment(char *const *environment, bool programs);

#endif
