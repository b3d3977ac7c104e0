#include "lab/top/set.h"

#include "base/file.h"
#include "lab/top/fetch.h"
#include "node/config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES 64u
#define PATH_BYTES  4096u

// What is sent to a node is nothing but a token of one.
static bool is_token(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr("0123456789abcdef", text[i]) || !text[i])
            return false;
    return bytes == TOKEN_BYTES;
}

static enum base_error read_token(const char *directory, char token[TOKEN_BYTES + 1], struct base_reason *why)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t bytes = 0;
    const int used = snprintf(path, sizeof path, "%s/token", directory);
    if (used < 0 || (size_t)used >= sizeof path)
        return base_fail(why, BASE_ELIMIT, "the path of the node's directory is too long");
    enum base_error error = base_file_read_regular(path, TOKEN_BYTES, &text, &bytes, why);
    if (error)
        return base_fail_context(why, error, "the token of the node (give its node.dir with --dir)");
    if (is_token(text, bytes))
        memcpy(token, text, bytes);
    else
        error = base_fail(why, BASE_EFORMAT, "%s is not the token of a node", path);
    token[TOKEN_BYTES] = '\0';
    free(text);
    return error;
}

// A page elsewhere does not choose a file of this host.
static bool is_here(const char *address)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason ignored;
    return !node_address_parse(address, host, &port, &ignored) && node_address_is_loopback(host);
}

// malloc'ed; NULL: not known.
static char *directory_of(const char *address)
{
    char *text = is_here(address) ? lab_top_get(address, "/status") : NULL;
    json_t *status = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *directory = json_string_value(json_object_get(status, "directory"));
    char *copy = directory ? strdup(directory) : NULL;
    json_decref(status);
    free(text);
    return copy;
}

static enum base_error ask(const char *address, const char *token, const char *assignment, char **answer,
                           struct base_reason *why)
{
    bool accepted;
    *answer = lab_top_post(address, "/set", token, assignment, &accepted);
    if (!*answer)
        return base_fail(why, BASE_EIO, "no answer from %s", address);
    (*answer)[strcspn(*answer, "\n")] = '\0';
    if (accepted)
        return BASE_OK;
    const enum base_error error = base_fail(why, BASE_EINVAL, "%s: %s", address, *answer);
    free(*answer);
    *answer = NULL;
    return error;
}

enum base_error lab_set(const char *address, const char *directory, const char *assignment, char **answer,
                        struct base_reason *why)
{
    char token[TOKEN_BYTES + 1];
    char *found = directory ? NULL : directory_of(address);
    enum base_error error = BASE_OK;
    if (!directory && !found)
        error = is_here(address)
                    ? base_fail(why, BASE_EIO, "no answer from %s", address)
                    : base_fail(why, BASE_EINVAL,
                                "%s is on another host: give a copy of the node's directory, or of "
                                "the file token in it, with --dir DIR",
                                address);
    if (!error)
        error = read_token(directory ? directory : found, token, why);
    if (!error)
        error = ask(address, token, assignment, answer, why);
    free(found);
    return error;
}

enum base_error lab_set_removed(const char *address, uint64_t *number, struct base_reason *why)
{
    char *text = lab_top_get(address, "/status");
    json_t *status = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *removed = json_object_get(status, "removed");
    const json_int_t found = json_integer_value(json_object_get(removed, "number"));
    const bool answers = status != NULL;
    json_decref(status);
    free(text);
    if (!answers)
        return base_fail(why, BASE_EIO, "no answer from %s", address);
    *number = found > 0 ? (uint64_t)found : 0;
    return BASE_OK;
}
