#include "lab/term/environment.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"P2PML_CPU=", "P2PML_NODE=", "P2PML_LAB="};

static bool begins(const char *variable, const char *with)
{
    return strncmp(variable, with, strlen(with)) == 0;
}

static bool stays(const char *variable, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++)
        if (begins(variable, names[i]))
            return true;
    return !begins(variable, "P2PML_");
}

char **lab_environment(char *const *environment, bool programs)
{
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **own = calloc(count + 1, sizeof *own);
    for (size_t i = 0; own && i < count; i++)
        if (stays(environment[i], programs ? sizeof names / sizeof *names : 1))
            own[kept++] = environment[i];
    return own;
}
