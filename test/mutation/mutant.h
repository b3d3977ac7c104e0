// Included before every file that test/mutation/many has rewritten: the mutant that the environment chooses,
// and the list of those that a program reaches.
#ifndef TEST_MUTATION_MUTANT_H
#define TEST_MUTATION_MUTANT_H

_Bool mutant_is(unsigned number);

#ifdef MUTANT_HERE // the one file that holds it
#include <stdio.h>
#include <stdlib.h>

#define MUTANTS_MAX 1000000u

static unsigned char mutant_reached[MUTANTS_MAX];
static unsigned mutant_chosen;
static int mutant_ready;

static void mutant_tell(void)
{
    FILE *file = fopen(getenv("MUTANT_REACHED"), "a");

    for (unsigned i = 1; file && i < MUTANTS_MAX; i++)
        if (mutant_reached[i])
            fprintf(file, "%u\n", i);
    if (file)
        fclose(file);
}

_Bool mutant_is(unsigned number)
{
    if (!mutant_ready) {
        const char *chosen = getenv("MUTANT");
        mutant_ready = 1;
        mutant_chosen = chosen ? (unsigned)atoi(chosen) : 0;
        if (getenv("MUTANT_REACHED"))
            atexit(mutant_tell);
    }
    mutant_reached[number] = 1;
    return number == mutant_chosen;
}
#endif

#endif
