#include "base/write_spans.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK ((size_t)4096) // direct writes begin and end at multiples of it, in memory and in the file
#define STAGE ((size_t)8 << 20)

struct stage {
    char *memory;
    size_t used;
    int file;
    bool direct;
};

static bool set_direct(int file, bool on)
{
    const int flags = fcntl(file, F_GETFL);
    return flags >= 0 && fcntl(file, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Some file systems accept O_DIRECT and refuse the write, or the block size.
static bool go_indirect(struct stage *stage)
{
    stage->direct = false;
    return set_direct(stage->file, false);
}

static bool write_all(struct stage *stage, const char *at, size_t left)
{
    while (left) {
        const ssize_t put = write(stage->file, at, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && !(stage->direct && errno == EINVAL))
            return false;
        const size_t done = put < 0 ? 0 : (size_t)put;
        if (stage->direct && done < left && !go_indirect(stage))
            return false;
        at += done;
        left -= done;
    }
    return true;
}

static bool empty(struct stage *stage)
{
    const size_t whole = stage->used / BLOCK * BLOCK;
    BASE_ASSERT(stage->used <= STAGE);
    if (!write_all(stage, stage->memory, whole))
        return false;
    if (whole < stage->used && stage->direct && !go_indirect(stage)) // the end of the file
        return false;
    const bool written = write_all(stage, stage->memory + whole, stage->used - whole);
    stage->used = 0;
    return written;
}

static bool write_staged(struct stage *stage, const struct base_span *spans, size_t n_spans)
{
    for (size_t i = 0; i < n_spans; i++) {
        const char *at = spans[i].data;
        for (size_t left = spans[i].bytes; left;) {
            const size_t piece = left < STAGE - stage->used ? left : STAGE - stage->used;
            memcpy(stage->memory + stage->used, at, piece);
            stage->used += piece;
            at += piece;
            left -= piece;
            if (stage->used == STAGE && !empty(stage))
                return false;
        }
    }
    return empty(stage);
}

static bool write_plain(int file, const struct base_span *spans, size_t n_spans)
{
    struct stage stage = {.file = file};
    for (size_t i = 0; i < n_spans; i++)
        if (!write_all(&stage, spans[i].data, spans[i].bytes))
            return false;
    return true;
}

bool base_write_spans(int file, const struct base_span *spans, size_t n_spans)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n_spans; i++)
        bytes += spans[i].bytes;
    if (bytes < BASE_DIRECT_MIN || !set_direct(file, true))
        return write_plain(file, spans, n_spans);
    struct stage stage = {.memory = aligned_alloc(BLOCK, STAGE), .file = file, .direct = true};
    const bool written = stage.memory ? write_staged(&stage, spans, n_spans)
                                      : go_indirect(&stage) && write_plain(file, spans, n_spans);
    const int saved = errno;
    free(stage.memory);
    errno = saved;
    return written;
}
