#include "node/schema/schema.h"
#include "node/schema/private.h"

#include <stdlib.h>
#include <string.h>

enum base_error node_schema_defaults(const struct node_schema *schema, void *config, struct base_reason *why)
{
    struct node_origins *origins = config;
    struct schema_draft draft;
    enum base_error error = node_schema_draft_create(schema, &draft, why);
    for (size_t i = 0; i < schema->count && !error; i++)
        error = node_schema_draft_parse(&draft, i, NODE_SCHEMA_DEFAULT, schema->keys[i].initial, why);
    if (error)
        goto out;
    char **of_key = calloc(schema->count ? schema->count : 1, sizeof *of_key);
    if (!of_key) {
        error = base_fail(why, BASE_ENOMEM, "no memory for a configuration");
        goto out;
    }
    origins->of_key = of_key;
    origins->count = schema->count;
    node_schema_draft_commit(&draft, config);
out:
    node_schema_draft_destroy(&draft);
    return error;
}

void node_schema_free(const struct node_schema *schema, void *config)
{
    struct node_origins *origins = config;
    for (size_t i = 0; i < schema->count; i++) {
        union schema_value value = {0};
        node_schema_value_load(&schema->keys[i], config, &value);
        node_schema_value_free(&schema->keys[i], &value);
        node_schema_value_store(&schema->keys[i], &value, config);
    }
    for (size_t i = 0; i < origins->count; i++)
        free(origins->of_key[i]);
    free(origins->of_key);
    memset(origins, 0, sizeof *origins);
}

const char *node_schema_origin(const struct node_schema *schema, const void *config, const char *key)
{
    const struct node_origins *origins = config;
    size_t index = node_schema_find(schema, key);
    BASE_ASSERT(index < schema->count && origins->count == schema->count);
    return origins->of_key[index];
}

void node_schema_origin_of(const struct node_schema *schema, const void *config, const char *key,
                           const struct node_tree *part, char *out, size_t capacity)
{
    const char *origin = node_schema_origin(schema, config, key), *colon = strrchr(origin, ':');
    if (part->line && colon) // "file:line" of the key
        snprintf(out, capacity, "%.*s:%zu", (int)(colon - origin), origin, part->line);
    else
        snprintf(out, capacity, "%s", origin);
}

bool node_schema_is_set(const struct node_schema *schema, const void *config, const char *key)
{
    return strcmp(node_schema_origin(schema, config, key), NODE_SCHEMA_DEFAULT) != 0;
}

bool node_schema_is_initial(const struct node_schema *schema, const void *config, const char *key)
{
    const struct node_key *which = &schema->keys[node_schema_find(schema, key)];
    BASE_ASSERT(which < schema->keys + schema->count);
    union schema_value now = {0}, initial = {0};
    if (node_schema_value_parse(which, which->initial, strlen(which->initial), &initial, NULL))
        return false;
    node_schema_value_load(which, config, &now);
    bool equal = node_schema_value_equal(which, &now, &initial);
    node_schema_value_free(which, &initial);
    return equal;
}

enum base_error node_schema_assign(const struct node_schema *schema, const char *origin,
                                   const char *assignment, void *config, struct base_reason *why)
{
    char name[SCHEMA_NAME_BYTES], found[SCHEMA_FOUND_BYTES];
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    node_schema_found(assignment, strlen(assignment), found);
    if (!length)
        return base_fail(why, BASE_EINVAL, "%s: found %s, expected key=value", origin, found);
    if (length >= sizeof name)
        return base_fail(why, BASE_EINVAL, "%s: found %s, which is longer than any key; expected key=value",
                         origin, found);
    memcpy(name, assignment, length);
    name[length] = 0;
    size_t key = node_schema_find(schema, name), inner = node_schema_find_section(schema, name);
    if (key == schema->count && inner < schema->count)
        return base_fail(why, BASE_EINVAL, "%s: %s: is a section, expected one of its keys, such as %s=...",
                         origin, name, schema->keys[inner].name);
    if (key == schema->count)
        return node_schema_unknown(schema, origin, name, why);
    struct schema_draft draft;
    enum base_error error = node_schema_draft_create(schema, &draft, why);
    if (!error)
        error = node_schema_draft_parse(&draft, key, origin, equals + 1, why);
    if (!error)
        node_schema_draft_commit(&draft, config);
    node_schema_draft_destroy(&draft);
    return error;
}

enum base_error node_schema_read_all(const struct node_schema *schema,
                                     const struct node_schema_sources *sources, void *config,
                                     struct base_reason *why)
{
    struct schema_problems problems = {0};
    struct base_reason one;
    enum base_error error = BASE_OK;
    if (sources->path)
        error = node_schema_read_file(schema, sources->path, config, &one);
    if (error)
        node_schema_note(&problems, &one);
    error = BASE_OK;
    if (sources->environment)
        error = node_schema_read_environment(schema, "P2PML", sources->environment, sources->others, config,
                                             &one);
    if (error)
        node_schema_note(&problems, &one);
    for (size_t i = 0; i < sources->n_settings; i++)
        if (node_schema_assign(schema, sources->origins ? sources->origins[i] : "--set", sources->settings[i],
                               config, &one))
            node_schema_note(&problems, &one);
    return node_schema_problems(&problems, why);
}

enum base_error node_schema_set(const struct node_schema *schema, const char *assignment, void *config,
                                struct base_reason *why)
{
    return node_schema_assign(schema, "--set", assignment, config, why);
}
