#include "lab/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *variable, const char *with)
{
    return strncmp(variable, with, strlen(with)) == 0;
}

char **lab_environment_for_nodes(char *const *environment)
{
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **own = calloc(count + 1, sizeof *own);
    for (size_t i = 0; own && i < count; i++)
        if (!begins(environment[i], "P2PML_") || begins(environment[i], "P2PML_CPU="))
            own[kept++] = environment[i];
    return own;
}
