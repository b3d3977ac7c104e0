// A node's configuration with default values, and assignments to its keys, for tests of node/config.
#ifndef TEST_SUPPORT_NODE_KEYS_H
#define TEST_SUPPORT_NODE_KEYS_H

#include "node/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct node_schema *const schema = &node_config_schema;

static inline void start(struct node_config *config)
{
    struct base_reason why = {""};
    memset(config, 0, sizeof *config);
    if (node_schema_defaults(schema, config, &why))
        fail_msg("%s", why.text);
}

static inline void set(struct node_config *config, const char *assignment)
{
    struct base_reason why = {""};
    if (node_schema_set(schema, assignment, config, &why))
        fail_msg("%s", why.text);
}

#endif
