// What the tests of lab/ share: experiments from a text, and programs that are played by a shell script.
#ifndef TEST_SUPPORT_LAB_WORLD_H
#define TEST_SUPPORT_LAB_WORLD_H

#include "lab/experiment/experiment.h"
#include "test/support/temporary.h"
#include <errno.h>
#include <sys/wait.h>

// Reads `text` as the file of an experiment; the file is removed again.
static inline enum base_error lab_world_load(const char *text, struct lab_experiment *experiment,
                                             struct base_reason *why)
{
    char directory[TEMPORARY_BYTES], path[TEMPORARY_BYTES + 16];
    const struct lab_experiment_source source = {.path = path};
    temporary_make(directory, "experiment");
    snprintf(path, sizeof path, "%s/x.yaml", directory);
    temporary_write(path, text);
    *why = (struct base_reason){.text = ""};
    enum base_error error = lab_experiment_load(&source, experiment, why);
    temporary_remove(directory);
    return error;
}

static inline void lab_world_expect_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // not even a zombie
    assert_int_equal(errno, ECHILD);
}

static inline void lab_world_expect(const char *said, const char *part)
{
    if (!strstr(said, part))
        fail_msg("expected '%s' in:\n%s", part, said);
}

#endif
