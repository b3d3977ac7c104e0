// The directory of a run. A directory with the file LAB_MARK belongs to p2pml; a runner locks that file while
// it uses the directory. Only files that a run makes are ever removed, by name. Main thread.
#ifndef LAB_RECORD_DIRECTORY_H
#define LAB_RECORD_DIRECTORY_H

#include "base/error.h"
#include <stdbool.h>

#define LAB_MARK "p2pml-run" // the file

struct lab_directory {
    char *path;
    int lock; // of the mark
};

#define LAB_SWEEP "sweep.json" // the list of the runs
#define LAB_RUNS  "runs"       // the directory of the runs

// Creates the directory, or accepts one that is empty or belongs to p2pml, and removes the files of an
// earlier run. `fresh`: accepts any other directory, too; foreign files in it stay. BASE_ESTATE: not empty
// and foreign, or another runner uses it, or, unless `fresh`, it holds the runs of a sweep. `sweep`: for a
// sweep, which keeps existing runs unless `fresh`.
enum base_error lab_directory_open(const char *path, bool fresh, bool sweep, struct lab_directory *directory,
                                   struct base_reason *why) BASE_CHECK;
void lab_directory_close(struct lab_directory *directory); // releases the lock; leaves {NULL, -1}

// A path by printf, malloc'ed; never NULL: out of memory ends the program with a message.
char *lab_path(const char *format, ...) BASE_PRINTF(1, 2);

#endif
