#include "node/joining.h"
#include "base/log.h"
#include "node/config/compatibility.h"
#include "node/store/joined.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum base_error read_line(struct node_config *config, const char *line, const char *origin,
                                 struct base_reason *why)
{
    const size_t length = strcspn(line, "=");
    for (size_t i = 0; i < node_config_schema.count; i++) {
        const char *key = node_config_schema.keys[i].name;
        if (strlen(key) == length && strncmp(key, line, length) == 0 &&
            node_schema_is_set(&node_config_schema, config, key))
            return BASE_OK;
    }
    return node_schema_assign(&node_config_schema, origin, line, config, why);
}

enum base_error node_joining_read(struct node_config *config, bool again, struct base_reason *why)
{
    const char *origin = again ? NODE_ORIGIN_CLUSTER : NODE_ORIGIN_EARLIER;
    char *text, *rest = NULL;
    enum base_error error = node_joined_read(config->node.dir, &text, why);
    if (error || !text)
        return error;
    for (char *line = strtok_r(text, "\n", &rest); line && !error; line = strtok_r(NULL, "\n", &rest))
        if (line[0] != '#')
            error = read_line(config, line, origin, why);
    free(text);
    return error;
}

static void tell(const char *reason, const char *lines)
{
    char *text = strdup(lines);
    if (!text)
        return;
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = at[1] ? ' ' : '\0';
    base_log(BASE_LOG_INFO, "joins", "%s and starts again: %s", reason, text);
    free(text);
}

enum base_error node_joining_keep(const struct node_config *config, const struct node_loop *loop, bool again,
                                  struct base_reason *why)
{
    const char *reason, *lines = node_loop_taken(loop, &reason);
    char *before = NULL;
    enum base_error error = again ? node_joined_read(config->node.dir, &before, why) : BASE_OK;
    if (!error)
        error = node_joined_write(config->node.dir, reason, lines, before, why);
    free(before);
    if (!error)
        tell(reason, lines);
    return error;
}

void node_joining_restart(int argc, char **argv)
{
    static char flag[] = "--joined";
    char **more = calloc((size_t)argc + 2, sizeof *more);
    if (argc > 1 && strcmp(argv[1], flag) == 0)
        execv("/proc/self/exe", argv);
    if (!more)
        return;
    more[0] = argv[0];
    more[1] = flag;
    memcpy(more + 2, argv + 1, ((size_t)argc - 1) * sizeof *more);
    execv("/proc/self/exe", more);
    free(more);
}
