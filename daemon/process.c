#include "daemon/process.h"

#include "base/limits.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define DESCRIPTORS     (2u * LIMIT_PEERS + LIMIT_HALF_OPEN + 128u) // links, strangers, HTTP and files
#define DESCRIPTORS_MIN 40u                                         // a node with a few peers

enum { STARTING, RUNNING, OVER }; // RUNNING: the loop handles signals, or is about to
static volatile sig_atomic_t phase = STARTING;

static void end_before_training(int number)
{
    static const char words[] = "p2pml-node: stopped by a signal before training began\n";
    if (phase == OVER)
        return;
    if (phase == RUNNING) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(0);
}

void daemon_process_end_on_signal(void)
{
    signal(SIGTERM, end_before_training);
    signal(SIGINT, end_before_training);
}

void daemon_process_begun(void)
{
    phase = RUNNING;
}

void daemon_process_over(void)
{
    phase = OVER;
}

// The usual soft limit of 1,024 is too low for the links of a large cluster.
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    (void)setrlimit(RLIMIT_NOFILE, &limit); // if it fails, the limit stays as it is
}

void daemon_process_prepare(void)
{
    // Other programs take SIGUSR1 and the like for "report". SIGXFSZ: a write over the file size limit fails
    // instead.
    static const int ignored[] = {SIGPIPE, SIGHUP,    SIGXFSZ, SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGVTALRM, SIGPROF, SIGIO};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    raise_descriptor_limit();
}

enum base_error daemon_process_check(struct base_reason *why)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS_MIN)
        return BASE_OK;
    return base_fail(why, BASE_ELIMIT,
                     "this process may open %llu files and sockets, expected at least %u; raise the limit "
                     "(ulimit -n 1024)",
                     (unsigned long long)limit.rlim_cur, DESCRIPTORS_MIN);
}
