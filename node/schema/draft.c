// The values of one source, by key, until all of them are known to be valid; and the errors found so far.
#include "node/schema/private.h"

#include <stdlib.h>
#include <string.h>

#define MORE_BYTES 32u // "and 12 more errors"

enum base_error node_schema_draft_create(const struct node_schema *schema, struct schema_draft *draft,
                                         struct base_reason *why)
{
    draft->schema = schema;
    draft->slots = calloc(schema->count ? schema->count : 1, sizeof *draft->slots);
    return draft->slots ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a configuration");
}

void node_schema_draft_destroy(struct schema_draft *draft)
{
    if (!draft->slots)
        return;
    for (size_t i = 0; i < draft->schema->count; i++)
        if (draft->slots[i].origin) {
            node_schema_value_free(&draft->schema->keys[i], &draft->slots[i].value);
            free(draft->slots[i].origin);
        }
    free(draft->slots);
    draft->slots = NULL;
}

enum base_error node_schema_draft_put(struct schema_draft *draft, size_t key, const char *origin,
                                      union schema_value *value, struct base_reason *why)
{
    struct schema_slot *slot = &draft->slots[key];
    const struct node_key *which = &draft->schema->keys[key];
    enum base_error error;
    char *copy = NULL;
    if (slot->origin)
        error =
            base_fail(why, BASE_EINVAL, "%s: %s: given a second time (the first is at %s), expected it once",
                      origin, which->name, slot->origin);
    else if (!(copy = strdup(origin)))
        error = base_fail(why, BASE_ENOMEM, "%s: %s: no memory", origin, which->name);
    else {
        slot->origin = copy;
        slot->value = *value;
        return BASE_OK;
    }
    node_schema_value_free(which, value);
    return error;
}

enum base_error node_schema_draft_parse(struct schema_draft *draft, size_t key, const char *origin,
                                        const char *text, struct base_reason *why)
{
    const struct node_key *which = &draft->schema->keys[key];
    union schema_value value = {0};
    enum base_error error = node_schema_value_parse(which, text, strlen(text), &value, why);
    if (error)
        return base_fail_context(why, error, "%s: %s", origin, which->name);
    return node_schema_draft_put(draft, key, origin, &value, why);
}

void node_schema_note(struct schema_problems *problems, const struct base_reason *one)
{
    char *text = problems->all.text;
    size_t room = sizeof problems->all.text - problems->used, bytes = strlen(one->text);
    BASE_ASSERT(problems->told <= problems->count && problems->used < sizeof problems->all.text);
    problems->count++;
    if (problems->told == NODE_SCHEMA_PROBLEMS_MAX || (problems->told && bytes + MORE_BYTES >= room))
        return;
    int used = snprintf(text + problems->used, room, "%s%s", problems->told ? "\n" : "", one->text);
    problems->used += (size_t)used < room ? (size_t)used : room - 1;
    problems->told++;
}

enum base_error node_schema_problems(const struct schema_problems *problems, struct base_reason *why)
{
    size_t more = problems->count - problems->told;
    if (!problems->count)
        return BASE_OK;
    if (!why)
        return BASE_EINVAL;
    *why = problems->all;
    if (more)
        snprintf(why->text + problems->used, sizeof why->text - problems->used, "\nand %zu more errors",
                 more);
    return BASE_EINVAL;
}

static struct node_origins *origins_of(const struct node_schema *schema, void *config)
{
    struct node_origins *origins = config; // the first field, by contract
    BASE_ASSERT(origins->count == schema->count && origins->of_key);
    return origins;
}

// Moves the values of the draft into the configuration and frees those that they replace.
void node_schema_draft_commit(struct schema_draft *draft, void *config)
{
    struct node_origins *origins = origins_of(draft->schema, config);
    for (size_t i = 0; i < draft->schema->count; i++) {
        const struct node_key *key = &draft->schema->keys[i];
        struct schema_slot *slot = &draft->slots[i];
        if (!slot->origin)
            continue;
        union schema_value old = {0};
        node_schema_value_load(key, config, &old);
        node_schema_value_store(key, &slot->value, config);
        node_schema_value_free(key, &old);
        free(origins->of_key[i]);
        origins->of_key[i] = slot->origin;
        slot->origin = NULL;
    }
}

size_t node_schema_find(const struct node_schema *schema, const char *name)
{
    size_t i = 0;
    while (i < schema->count && strcmp(schema->keys[i].name, name) != 0)
        i++;
    return i;
}

size_t node_schema_find_section(const struct node_schema *schema, const char *name)
{
    size_t length = strlen(name), i = 0;
    while (length && i < schema->count &&
           (strncmp(schema->keys[i].name, name, length) != 0 || schema->keys[i].name[length] != '.'))
        i++;
    return i;
}
