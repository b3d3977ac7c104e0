#include "node/store/checkpoint_beside.h"

#include "base/file.h"
#include "base/log.h"
#include "node/queue/clock.h"
#include "node/store/checkpoint_files.h"
#include "node/store/checkpoint_pages.h"
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

#define NICE       10 // less urgent than the learner: nothing waits for it
#define ANSWER_FD  3  // of the child
#define FIRST_FREE (ANSWER_FD + 1)
#define DEATH_NS   (100 * NODE_MILLISECOND_NS) // to wait for the end of a killed process, while training waits

struct answer {
    int32_t error;
    struct base_reason why;
};

// The child must not keep the parent's descriptors open: peers must see the end of their streams when the
// parent closes them, and another process must be able to take the lock.
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
    node_checkpoint_pages_take(parts);
    step_back();
    answer.error = node_checkpoint_write(directory, keep, parts, &answer.why);
    if (!answer.error)
        base_log(BASE_LOG_INFO, "checkpoint", "step %" PRIu64 " is written",
                 train_trainer_steps_done(parts->trainer));
    _exit(write(ANSWER_FD, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
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

// 0: it still runs. Negative: it is not a child of this process.
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

static void forget(struct node_checkpoint_beside *beside)
{
    BASE_ASSERT(beside->pid > 0);
    close(beside->answer);
    *beside = (struct node_checkpoint_beside){0};
}

// A process that does not die, because a disk hangs, writes nothing more when it continues. It stays in
// `beside`: no other is started before it has ended.
static enum base_error give_up(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                               struct base_reason *why)
{
    const uint64_t now_ns = node_clock_ns();
    int status;
    BASE_ASSERT(beside->pid > 0 && !beside->killed);
    (void)kill(beside->pid, SIGKILL);
    beside->killed = true;
    const bool hangs = ended_by(beside->pid, &status, now_ns + wait_ns) == 0;
    const double lasted = (double)(now_ns - beside->begun_ns) / (double)NODE_SECOND_NS;
    if (!hangs)
        forget(beside);
    return base_fail(why, BASE_EIO, "a checkpoint that was still being written after %.1f s was given up%s",
                     lasted, hangs ? ", and its process does not die: does the disk answer?" : "");
}

enum base_error node_checkpoint_end(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                                    struct base_reason *why)
{
    int status = 0;
    if (!beside->pid)
        return BASE_OK;
    const bool runs = ended_by(beside->pid, &status, wait_ns ? node_clock_ns() + wait_ns : 0) == 0;
    if (runs && (wait_ns == 0 || beside->killed))
        return BASE_OK;
    if (runs)
        return give_up(beside, wait_ns, why);
    const enum base_error error = beside->killed ? BASE_OK : told(beside->answer, status, why);
    forget(beside);
    return error;
}

// Checks that a checkpoint may be begun.
static enum base_error make_room(struct node_checkpoint_beside *beside, struct base_reason *why)
{
    if (!beside->pid)
        return BASE_OK;
    if (!beside->killed && node_clock_ns() - beside->begun_ns < NODE_CHECKPOINT_LONGEST_NS)
        return base_fail(why, BASE_ESTATE, "the previous checkpoint is still being written");
    enum base_error error =
        beside->killed ? node_checkpoint_end(beside, 0, why) : give_up(beside, DEATH_NS, why);
    if (beside->pid)
        return base_fail(why, BASE_ESTATE,
                         "the process that wrote the previous checkpoint was killed and does not die: does "
                         "the disk answer?");
    if (error)
        base_log(BASE_LOG_WARN, "checkpoint_failed", "%s", why->text);
    return BASE_OK;
}

enum base_error node_checkpoint_begin(struct node_checkpoint_beside *beside, const char *directory,
                                      size_t keep, const struct node_checkpoint_parts *parts,
                                      struct base_reason *why)
{
    int ends[2];
    sigset_t all, before;
    enum base_error error = make_room(beside, why);
    if (error)
        return error;
    if (pipe2(ends, O_CLOEXEC))
        return base_fail(why, BASE_EIO, "no pipe for a checkpoint: %s", strerror(errno));
    const pid_t parent = getpid();
    BASE_ASSERT(!beside->pid); // never two
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    node_checkpoint_pages_advise(parts, MADV_DONTFORK);
    const pid_t child = fork();
    const int failure = errno;
    if (child == 0)
        write_and_end(ends[1], parent, &before, directory, keep, parts);
    node_checkpoint_pages_advise(parts, MADV_DOFORK);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return base_fail(why, BASE_EIO, "no process for a checkpoint: %s", strerror(failure));
    }
    *beside = (struct node_checkpoint_beside){.pid = child, .answer = ends[0], .begun_ns = node_clock_ns()};
    return BASE_OK;
}

// Collects the result of the previous checkpoint; a failure is only logged.
static void end_before(struct node_checkpoint_beside *beside, uint64_t wait_ns)
{
    struct base_reason why;
    if (node_checkpoint_end(beside, wait_ns, &why))
        base_log(BASE_LOG_WARN, "checkpoint_failed", "%s", why.text);
}

static bool runs_after(const struct node_checkpoint_beside *beside, uint64_t wait_ns)
{
    siginfo_t end = {.si_pid = 0};
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    const uint64_t deadline_ns = node_clock_ns() + wait_ns;
    while (waitid(P_PID, (id_t)beside->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0) {
        if (node_clock_ns() >= deadline_ns)
            return true;
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

enum base_error node_checkpoint_replace(struct node_checkpoint_beside *beside, const char *directory,
                                        size_t keep, const struct node_checkpoint_parts *parts,
                                        uint64_t wait_ns, uint64_t rescue_ns, struct base_reason *why)
{
    const bool runs = beside->pid && !beside->killed && runs_after(beside, wait_ns);
    struct base_reason before;
    if (runs) {
        (void)kill(beside->pid, SIGSTOP);
        if (!node_checkpoint_add(directory, keep, parts, why)) {
            (void)give_up(beside, wait_ns, &before);
            base_file_sweep(directory, NODE_CHECKPOINT_PREFIX); // its unfinished file
            return BASE_OK;
        }
        base_log(BASE_LOG_WARN, "checkpoint_failed", "%s; the previous checkpoint is completed first",
                 why->text);
        (void)kill(beside->pid, SIGCONT);
    }
    if (beside->pid)
        end_before(beside, runs ? rescue_ns : 0);
    return node_checkpoint_write(directory, keep, parts, why);
}
