#include "base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#define STACK_BYTES (2u << 20) // of a thread, at least; a product takes 0.6 MB of it

static void open_standard_files(void)
{
    int file = open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO) // open takes the lowest free number
        file = open("/dev/null", O_RDWR);
    if (file >= 0)
        close(file);
}

// If one of these fails, the stacks stay as they are.
static void enlarge_stacks(void)
{
    struct rlimit limit;
    pthread_attr_t attributes;
    size_t bytes = STACK_BYTES;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES) {
        limit.rlim_cur = limit.rlim_max < STACK_BYTES ? limit.rlim_max : STACK_BYTES;
        (void)setrlimit(RLIMIT_STACK, &limit);
    }
    if (pthread_attr_init(&attributes) != 0)
        return;
    if (pthread_getattr_default_np(&attributes) == 0 && pthread_attr_getstacksize(&attributes, &bytes) == 0 &&
        bytes < STACK_BYTES && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        (void)pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

void base_process_begin(void)
{
    open_standard_files();
    enlarge_stacks();
}
