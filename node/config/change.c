#include "node/config/change.h"

#include <stdio.h>
#include <string.h>

// Each step of the built-in trainer reads these, and no packet, buffer or rule of another node depends on
// them. The keys that nodes compare when they meet are not among them: a node that has not heard of the
// change would be refused.
static const char *const keys[] = {
    [GOSSIP_SETTING_RATE] = "train.rate", [GOSSIP_SETTING_DECAY] = "train.weight_decay"};
_Static_assert(sizeof keys / sizeof *keys == GOSSIP_SETTINGS, "a key for each setting");

const char *node_change_key(enum gossip_setting_kind kind)
{
    BASE_ASSERT(kind < GOSSIP_SETTINGS);
    return keys[kind];
}

void node_change_bounds(enum gossip_setting_kind kind, double *least, double *most)
{
    const struct node_schema *schema = &node_config_schema;
    size_t i = 0;
    while (i < schema->count && strcmp(schema->keys[i].name, node_change_key(kind)) != 0)
        i++;
    BASE_ASSERT(i < schema->count); // test: every one is a key
    *least = schema->keys[i].least;
    *most = schema->keys[i].most;
}

double node_change_initial(const struct node_config *config, enum gossip_setting_kind kind)
{
    BASE_ASSERT(kind < GOSSIP_SETTINGS);
    return kind == GOSSIP_SETTING_RATE ? config->train.rate : config->train.weight_decay;
}

static bool is_of(const char *assignment, const char *key)
{
    const size_t length = strlen(key);
    return strncmp(assignment, key, length) == 0 && assignment[length] == '=';
}

static enum base_error refuse(const char *assignment, struct base_reason *why)
{
    return base_fail(why, BASE_EINVAL,
                     "%.*s cannot be changed while the cluster trains, only %s and %s can: stop all nodes, "
                     "change it on each, and start them with --resume",
                     (int)strcspn(assignment, "="), assignment, keys[GOSSIP_SETTING_RATE],
                     keys[GOSSIP_SETTING_DECAY]);
}

enum base_error node_change_parse(const char *assignment, enum gossip_setting_kind *kind, double *value,
                                  struct base_reason *why)
{
    struct node_config config = {0};
    unsigned found = 0;

    enum base_error error = node_schema_defaults(&node_config_schema, &config, why);
    if (!error)
        error = node_schema_assign(&node_config_schema, "KEY VALUE", assignment, &config, why);
    while (found < GOSSIP_SETTINGS && !is_of(assignment, keys[found]))
        found++;
    if (!error && found == GOSSIP_SETTINGS)
        error = refuse(assignment, why);
    if (!error) {
        *kind = (enum gossip_setting_kind)found;
        *value = node_change_initial(&config, *kind);
    }
    node_schema_free(&node_config_schema, &config);
    return error;
}
