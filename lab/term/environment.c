#include "lab/term/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const of_nodes[] = {"P2PML_CPU=", NULL};
static const char *const of_runs[] = {"P2PML_CPU=", "P2PML_NODE=", "P2PML_LAB=", NULL};

static bool begins(const char *variable, const char *with)
{
    return strncmp(variable, with, strlen(with)) == 0;
}

static bool stays(const char *variable, const char *const *names)
{
    for (; *names; names++)
        if (begins(variable, *names))
            return true;
    return !begins(variable, "P2PML_");
}

static char **filter(char *const *environment, const char *const *names)
{
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **own = calloc(count + 1, sizeof *own);
    for (size_t i = 0; own && i < count; i++)
        if (stays(environment[i], names))
            own[kept++] = environment[i];
    return own;
}

char **lab_environment_for_nodes(char *const *environment)
{
    return filter(environment, of_nodes);
}

char **lab_environment_for_runs(char *const *environment)
{
    return filter(environment, of_runs);
}
