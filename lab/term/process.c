#include "lab/term/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// In the child, between fork and exec: only async-signal-safe calls. Returns on failure, with errno.
static void become(const char *program, char *const *arguments, char *const *environment, const int files[2],
                   pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    int nothing = open("/dev/null", O_RDONLY);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || nothing < 0 || setpgid(0, 0))
        return;
    if (getppid() != parent) // the parent ended before prctl took effect
        _exit(1);
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(files[0], STDOUT_FILENO) < 0 ||
        dup2(files[1], STDERR_FILENO) < 0)
        return;
    close(nothing);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program, arguments, environment);
}

// The child writes errno to `told` if exec fails; a successful exec closes it without data.
static enum base_error wait_for_exec(pid_t pid, int told, const char *program, struct base_reason *why)
{
    int cause = 0;
    ssize_t got;
    do
        got = read(told, &cause, sizeof cause);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof cause)
        return BASE_OK;
    waitpid(pid, NULL, 0);
    return base_fail(why, BASE_EIO, "cannot execute '%s': %s", program, strerror(cause));
}

static enum base_error open_log(const char *path, int *file, struct base_reason *why)
{
    *file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return *file < 0 ? base_fail(why, BASE_EIO, "cannot open the log '%s': %s", path, strerror(errno))
                     : BASE_OK;
}

static enum base_error start(const char *program, char *const *arguments, char *const *environment,
                             const int files[2], pid_t *child, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    int pipes[2] = {-1, -1};
    if (pipe2(pipes, O_CLOEXEC))
        return base_fail(why, BASE_EIO, "cannot open a pipe to start '%s': %s", program, strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(program, arguments, environment, files, parent);
        int cause = errno;
        _exit(write(pipes[1], &cause, sizeof cause) == (ssize_t)sizeof cause ? 126 : 127);
    }
    close(pipes[1]);
    if (pid < 0)
        error = base_fail(why, BASE_EIO, "cannot start '%s': %s", program, strerror(errno));
    else
        error = wait_for_exec(pid, pipes[0], program, why);
    close(pipes[0]);
    *child = pid;
    return error;
}

enum base_error lab_process_start(const char *program, char *const *arguments, char *const *environment,
                                  const char *output, const char *log, struct lab_process *process,
                                  struct base_reason *why)
{
    int files[2] = {-1, -1};
    pid_t pid = 0;
    enum base_error error = open_log(output, &files[0], why);
    if (!error)
        error = open_log(log, &files[1], why);
    if (!error)
        error = start(program, arguments, environment, files, &pid, why);
    if (!error)
        *process = (struct lab_process){.pid = pid, .running = true};
    for (size_t i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    return error;
}

void lab_process_signal(const struct lab_process *process, int signal)
{
    if (process->running)
        kill(process->pid, signal);
}

bool lab_process_reap(struct lab_process *process)
{
    if (!process->running || waitpid(process->pid, &process->status, WNOHANG) != process->pid)
        return false;
    process->running = false;
    return true;
}

bool lab_process_succeeded(const struct lab_process *process)
{
    return process->pid && !process->running && WIFEXITED(process->status) &&
           WEXITSTATUS(process->status) == 0;
}

void lab_process_describe(const struct lab_process *process, char text[LAB_STATUS_BYTES])
{
    if (!process->pid)
        snprintf(text, LAB_STATUS_BYTES, "not started");
    else if (process->running)
        snprintf(text, LAB_STATUS_BYTES, "running");
    else if (lab_process_succeeded(process))
        snprintf(text, LAB_STATUS_BYTES, "done");
    else if (WIFEXITED(process->status))
        snprintf(text, LAB_STATUS_BYTES, "exit status %d", WEXITSTATUS(process->status));
    else
        snprintf(text, LAB_STATUS_BYTES, "killed by signal %d (%s)", WTERMSIG(process->status),
                 strsignal(WTERMSIG(process->status)));
}
