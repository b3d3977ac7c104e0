// The directory of the data sets that some tests read if they are there.
#ifndef TEST_SUPPORT_DATA_SETS_H
#define TEST_SUPPORT_DATA_SETS_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

// P2PML_DATA, or shared/data beside the sources. NULL if there are no data sets.
static inline const char *data_sets_directory(void)
{
    const char *given = getenv("P2PML_DATA");
    if (given)
        return given;
    static const char *const near[] = {"../shared/data", "../../shared/data", "../../../shared/data",
                                       "../../../../shared/data"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        if (access(near[i], R_OK) == 0)
            return near[i];
    return NULL;
}

#endif
