// Whole files. A crash at any moment leaves the old file or the new one, never a part of one. Any thread;
// blocking.
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct base_span {
    const void *data;
    size_t bytes;
};

// Reads a whole file of at most `limit` bytes. *data is malloc'ed, with a zero byte after its end that *bytes
// does not count; the caller frees it. BASE_ENOTFOUND, BASE_ELIMIT, BASE_EIO, BASE_ENOMEM.
enum base_error base_file_read(const char *path, size_t limit, uint8_t **data, size_t *bytes,
                               struct base_reason *why) BASE_CHECK;
// The same, but never waits for a writer: BASE_EIO if the file is a pipe or a device. For files that a
// program has written itself, and for files that a running loop reads.
enum base_error base_file_read_regular(const char *path, size_t limit, uint8_t **data, size_t *bytes,
                                       struct base_reason *why) BASE_CHECK;

// Writes the spans, in order, as the new contents of `path`: temp file in the same directory (its mode is
// `mode`, less the bits of group and others that the umask clears), fsync, rename, fsync of the directory. On
// error (such as a full disk) the old file is untouched and the temp file is removed. BASE_EIO: `path` is a
// device or a pipe, which a rename would replace with a file.
enum base_error base_file_write(const char *path, unsigned mode, const struct base_span *spans,
                                size_t n_spans, struct base_reason *why) BASE_CHECK;

// Writes a new file of mode `mode` under any umask, and syncs it and its directory. It gets its name only
// when it is complete: a process that is killed before leaves no file of that name. BASE_ESTATE: the file
// exists.
enum base_error base_file_create(const char *path, unsigned mode, const void *data, size_t bytes,
                                 struct base_reason *why) BASE_CHECK;

// Removes temporary files that base_file_write has left in the directory because its process was killed, for
// files whose names start with `beginning` ("": all). A process that is writing such a file at the same time
// will fail. A file that cannot be removed is logged.
void base_file_sweep(const char *directory, const char *beginning);

// strerror of a failed open(), in words of its own if O_NOFOLLOW refused a symbolic link.
const char *base_open_error(int cause);

// Creates a directory, with this mode less the bits of the umask, and its parents if they are missing, and
// checks that the directory can be written to.
enum base_error base_directory_make(const char *path, unsigned mode, struct base_reason *why) BASE_CHECK;

// Closes the stream that open_memstream has opened for *text and returns the text, which the caller frees.
// NULL: something could not be written; the text is freed.
char *base_text_close(FILE *out, char **text);

#endif
