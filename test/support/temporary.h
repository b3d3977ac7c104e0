// A directory for one test, with files in it. An error here fails the test.
#ifndef TEST_SUPPORT_TEMPORARY_H
#define TEST_SUPPORT_TEMPORARY_H

#include "base/file.h"
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TEMPORARY_BYTES 64

// "/tmp/p2pml-NAME-..."
static inline void temporary_make(char directory[TEMPORARY_BYTES], const char *name)
{
    snprintf(directory, TEMPORARY_BYTES, "/tmp/p2pml-%s-XXXXXX", name);
    assert_non_null(mkdtemp(directory));
}

static inline int temporary_remove_one(const char *path, const struct stat *status, int type,
                                       struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

// Removes the directory and all that is in it.
static inline void temporary_remove(const char *directory)
{
    assert_int_equal(nftw(directory, temporary_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void temporary_write_mode(const char *path, const char *text, unsigned mode)
{
    struct base_reason why = {.text = ""};
    const struct base_span span = {text, strlen(text)};
    if (base_file_write(path, mode, &span, 1, &why))
        fail_msg("%s", why.text);
}

static inline void temporary_write(const char *path, const char *text)
{
    temporary_write_mode(path, text, 0600);
}

#endif
