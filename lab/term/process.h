// A child process that never outlives the runner: the kernel kills it when the runner ends, for whatever
// reason. Main thread only: the kernel watches the thread that started the child.
#ifndef LAB_TERM_PROCESS_H
#define LAB_TERM_PROCESS_H

#include "base/error.h"
#include <stdbool.h>
#include <sys/types.h>

struct lab_process {
    pid_t pid; // 0: never started
    bool running;
    int status; // of waitpid, after its end
};

// Starts program with arguments (NULL-terminated, [0] the name) and environment: in a process group of its
// own, so that Ctrl-C reaches only the runner; no input; stderr is appended to the file `log`, stdout to
// `output`, which may be the same. BASE_EIO when it cannot be executed.
enum base_error lab_process_start(const char *program, char *const *arguments, char *const *environment,
                                  const char *output, const char *log, struct lab_process *process,
                                  struct base_reason *why) BASE_CHECK;
void lab_process_signal(const struct lab_process *process, int signal); // does nothing after its end
// True once, when it has ended since the last call; it is then reaped.
bool lab_process_reap(struct lab_process *process);
bool lab_process_succeeded(const struct lab_process *process); // ended with exit status 0

// "running", "done", "exit status 1", "killed by signal 9 (Killed)"
#define LAB_STATUS_BYTES 64u
void lab_process_describe(const struct lab_process *process, char text[LAB_STATUS_BYTES]);

#endif
