// Messages about a key: the origin of its value, the key, what was found and what was expected.
#include "node/config/private.h"
#include "node/schema/private.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum base_error node_config_at(const struct node_config *config, const char *key, struct base_reason *why,
                               enum base_error error)
{
    return base_fail_context(why, error, "%s: %s", node_schema_origin(&node_config_schema, config, key), key);
}

enum base_error node_config_fail(const struct node_config *config, const char *key, enum base_error error,
                                 struct base_reason *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    base_fail_list(why, error, format, arguments);
    va_end(arguments);
    return node_config_at(config, key, why, error);
}

void node_config_say(enum base_log_level level, const struct node_config *config, const char *key,
                     const char *format, ...)
{
    struct base_reason text;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    base_log(level, "config", "%s: %s: %s", node_schema_origin(&node_config_schema, config, key), key,
             text.text);
}

void node_config_warn_unused(const struct node_config *config, const char *key, const char *used_when)
{
    if (!node_schema_is_initial(&node_config_schema, config, key))
        node_config_say(BASE_LOG_WARN, config, key, "has no effect here; it is used only when %s", used_when);
}

// The ready experiments take their data from there.
static const char *hint(const char *path)
{
    return strncmp(path, "data/", 5) == 0 ? "; 'p2pml data fetch NAME' downloads well-known data to data/NAME"
                                          : "";
}

enum base_error node_config_check_file(const struct node_config *config, const char *key, const char *path,
                                       const char *what, struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    struct stat status;
    node_schema_found(path, strlen(path), found);
    if (!path[0])
        return node_config_refuse(config, key, why, "found \"\", expected a file with %s", what);
    if (stat(path, &status) || access(path, R_OK))
        return node_config_fail(config, key, BASE_ENOTFOUND, why,
                                "found %s, which cannot be read (%s), expected a file with %s%s", found,
                                strerror(errno), what, hint(path));
    if (S_ISDIR(status.st_mode))
        return node_config_refuse(config, key, why, "found %s, which is a directory, expected a file with %s",
                                  found, what);
    return BASE_OK;
}
