// A temporary folder of a test program, with setup and teardown, and the files in it by name.
#ifndef TEST_SUPPORT_FOLDER_H
#define TEST_SUPPORT_FOLDER_H

#include "test/support/temporary.h"

static char folder[TEMPORARY_BYTES];

static inline int folder_make(void **state)
{
    (void)state;
    temporary_make(folder, "test");
    return 0;
}

static inline int folder_remove(void **state)
{
    (void)state;
    temporary_remove(folder);
    return 0;
}

// Valid until the next call.
static inline const char *folder_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void folder_write(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(folder_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

#endif
