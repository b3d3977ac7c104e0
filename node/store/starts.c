#include "node/store/starts.h"
#include "base/file.h"
#include "base/log.h"
#include "gossip/member/member.h"
#include "node/queue/clock.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARTS_MAX 32u
#define FILE_BYTES 1024u // 33 numbers of at most 20 digits

struct starts {
    uint64_t number, times[STARTS_MAX];
    size_t count;
};

// Reads one unsigned decimal number and moves *at behind it; false: there is none.
static bool take_number(const char **at, uint64_t *value)
{
    uint64_t sum = 0;
    const char *c = *at;
    while (*c == ' ')
        c++;
    const char *first = c;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (sum > (UINT64_MAX - 9) / 10)
            return false;
        sum = 10 * sum + (uint64_t)(*c - '0');
    }
    *at = c;
    *value = sum;
    return c > first;
}

static bool parse(const char *text, struct starts *starts)
{
    struct starts found = {0};
    if (!take_number(&text, &found.number) || found.number == 0 || found.number > UINT64_MAX / 2)
        return false;
    while (found.count < STARTS_MAX && take_number(&text, &found.times[found.count]))
        found.count++;
    if (strcmp(text, "\n") != 0 && text[0] != 0)
        return false;
    *starts = found;
    return true;
}

static enum base_error load(const char *path, struct starts *starts, struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    *starts = (struct starts){0};
    enum base_error error = base_file_read_regular(path, FILE_BYTES, &text, &bytes, why);
    if (error == BASE_ENOTFOUND)
        return BASE_OK;
    if (error == BASE_ELIMIT || (!error && !parse((const char *)text, starts))) {
        base_log(BASE_LOG_WARN, "boot", "%s is damaged; this node's starts are counted from 1 again", path);
        error = BASE_OK;
    }
    free(text);
    return error;
}

static enum base_error store(const char *path, const struct starts *starts, struct base_reason *why)
{
    char text[FILE_BYTES];
    int used = snprintf(text, sizeof text, "%" PRIu64, starts->number);
    for (size_t i = 0; i < starts->count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %" PRIu64, starts->times[i]);
    used += snprintf(text + used, sizeof text - (size_t)used, "\n");
    struct base_span span = {.data = text, .bytes = (size_t)used};
    return base_file_write(path, 0600, &span, 1, why);
}

static bool is_recent(uint64_t start_s, uint64_t now_s)
{
    uint64_t apart = now_s > start_s ? now_s - start_s : start_s - now_s; // the clock may have been set
    return apart < GOSSIP_RECENT_START_NS / NODE_SECOND_NS;
}

enum base_error node_starts_take(const char *path, uint64_t now_s, struct node_starts *starts,
                                 struct base_reason *why)
{
    struct starts before, after = {0};
    enum base_error error = load(path, &before, why);
    if (error)
        return error;
    after.number = before.number + 1;
    size_t skip = before.count == STARTS_MAX ? 1 : 0; // the oldest
    for (size_t i = skip; i < before.count; i++)
        if (is_recent(before.times[i], now_s))
            after.times[after.count++] = before.times[i];
    after.times[after.count++] = now_s;
    error = store(path, &after, why);
    if (!error)
        *starts = (struct node_starts){.number = after.number, .recent = (unsigned)after.count - 1};
    return error;
}

enum base_error node_starts_end(const char *path, struct base_reason *why)
{
    struct starts starts;
    enum base_error error = load(path, &starts, why);
    if (error || starts.count == 0)
        return error;
    starts.count--; // the latest is this process's
    return store(path, &starts, why);
}

enum base_error node_starts_raise(const char *path, uint64_t number, struct base_reason *why)
{
    struct starts starts;
    enum base_error error = load(path, &starts, why);
    if (error || number <= starts.number)
        return error;
    if (number > UINT64_MAX / 2)
        return base_fail(why, BASE_ELIMIT, "a generation of %" PRIu64 " is not possible", number);
    starts.number = number;
    return store(path, &starts, why);
}
