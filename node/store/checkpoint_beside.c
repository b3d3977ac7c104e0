#include "node/store/checkpoint_beside.h"

#include "base/log.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICE       10 // behind the learner: nothing waits for it
#define ANSWER_FD  3  // of the child
#define FIRST_FREE (ANSWER_FD + 1)

struct answer {
    int32_t error;
    struct base_reason why;
};

// What the parent closes must be closed: its peers must see the end of their streams, and another process
// the lock free.
static void close_others(int answer)
{
    if (answer != ANSWER_FD && dup2(answer, ANSWER_FD) < 0)
        _exit(1);
    if (syscall(__NR_close_range, FIRST_FREE, ~0u, 0) == 0)
        return;
    for (int fd = FIRST_FREE; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
        close(fd);
}

// The parent's handlers write to descriptors that are closed here. All signals are blocked.
static void drop_signals(const sigset_t *before)
{
    static const int terminal[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof terminal / sizeof terminal[0]; i++)
        (void)sigaction(terminal[i], &ignore, NULL);
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void step_back(void)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 0);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, 0, now + NICE);
}

static _Noreturn void write_and_end(int pipe, pid_t parent, const sigset_t *before, const char *directory,
                                    size_t keep, const struct node_checkpoint_parts *parts)
{
    struct answer answer = {0};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(1);
    (void)pthread_setname_np(pthread_self(), "checkpoint");
    close_others(pipe);
    drop_signals(before);
    step_back();
    answer.error = node_checkpoint_write(directory, keep, parts, &answer.why);
    if (!answer.error)
        base_log(BASE_LOG_INFO, "checkpoint", "step %" PRIu64 " is written",
                 train_trainer_steps_done(parts->trainer));
    _exit(write(ANSWER_FD, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
}

// The child has no use for what is scratch between two steps: without it the next step copies no page of
// that.
static void advise_scratch(const struct train_trainer *trainer, int advice)
{
    size_t bytes = 0;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)train_trainer_scratch(trainer, &bytes);
    const uintptr_t first = (from + page - 1) / page * page, end = (from + bytes) / page * page;
    if (first < end)
        (void)madvise((void *)first, end - first, advice); // only whole pages of it: others lie next to it
}

enum base_error node_checkpoint_begin(struct node_checkpoint_beside *beside, const char *directory,
                                      size_t keep, const struct node_checkpoint_parts *parts,
                                      struct base_reason *why)
{
    int ends[2];
    sigset_t all, before;
    if (beside->pid)
        return base_fail(why, BASE_ESTATE, "the checkpoint before it is still being written");
    if (pipe2(ends, O_CLOEXEC))
        return base_fail(why, BASE_EIO, "no pipe for a checkpoint: %s", strerror(errno));
    const pid_t parent = getpid();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    advise_scratch(parts->trainer, MADV_DONTFORK);
    const pid_t child = fork();
    const int failure = errno;
    if (child == 0)
        write_and_end(ends[1], parent, &before, directory, keep, parts);
    advise_scratch(parts->trainer, MADV_DOFORK);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return base_fail(why, BASE_EIO, "no process for a checkpoint: %s", strerror(failure));
    }
    *beside = (struct node_checkpoint_beside){.pid = child, .answer = ends[0]};
    return BASE_OK;
}

static enum base_error told(int pipe, int status, struct base_reason *why)
{
    struct answer answer;
    if (read(pipe, &answer, sizeof answer) != (ssize_t)sizeof answer)
        return base_fail(why, BASE_EIO,
                         "the process that wrote a checkpoint ended by %s %d before it was done",
                         WIFSIGNALED(status) ? "signal" : "itself with status",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    answer.why.text[sizeof answer.why.text - 1] = 0;
    return answer.error ? base_fail(why, (enum base_error)answer.error, "%s", answer.why.text) : BASE_OK;
}

// 0: it still runs. Less than that: it is no child of this process.
static pid_t ended_by(pid_t pid, int *status, uint64_t deadline_ns)
{
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    for (;;) {
        const pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended > 0 || (ended < 0 && errno != EINTR) || node_clock_ns() >= deadline_ns)
            return ended;
        (void)nanosleep(&moment, NULL);
    }
}

// One that does not even die, on a disk that hangs, writes nothing more once it goes on.
static enum base_error give_up(pid_t pid, uint64_t wait_ns, struct base_reason *why)
{
    int status;
    (void)kill(pid, SIGKILL);
    (void)ended_by(pid, &status, node_clock_ns() + wait_ns);
    return base_fail(
        why, BASE_EIO,
        "a checkpoint that was still being written after %.1f s is given up; the last one replaces it",
        (double)wait_ns / (double)NODE_SECOND_NS);
}

enum base_error node_checkpoint_end(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                                    struct base_reason *why)
{
    int status = 0;
    if (!beside->pid)
        return BASE_OK;
    const bool runs = ended_by(beside->pid, &status, wait_ns ? node_clock_ns() + wait_ns : 0) == 0;
    if (runs && wait_ns == 0)
        return BASE_OK;
    const enum base_error error =
        runs ? give_up(beside->pid, wait_ns, why) : told(beside->answer, status, why);
    close(beside->answer);
    *beside = (struct node_checkpoint_beside){0};
    return error;
}
