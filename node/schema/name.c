// Names of keys: the nearest known name for an unknown one, and environment variables.
#include "base/log.h"
#include "node/schema/private.h"

#include <stdlib.h>
#include <string.h>

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours (Damerau 1964).
// Texts shorter than SCHEMA_NAME_BYTES.
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][SCHEMA_NAME_BYTES];
    size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least_of(change, least_of(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least_of(now[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

struct nearest {
    char name[SCHEMA_NAME_BYTES]; // "" as long as nothing is near enough
    size_t distance;
};

static void consider(struct nearest *nearest, const char *wanted, const char *candidate, size_t length)
{
    char name[SCHEMA_NAME_BYTES];
    if (length >= sizeof name)
        return;
    memcpy(name, candidate, length);
    name[length] = 0;
    size_t d = distance(wanted, name);
    if (d > 1 && strcmp(last_part(wanted), last_part(name)) == 0)
        d = 1; // the right key in the wrong section
    if (d < nearest->distance) {
        nearest->distance = d;
        memcpy(nearest->name, name, length + 1);
    }
}

// A name at this distance or beyond is not near: a third of the letters may differ, two of a short name, but
// never all.
static size_t far_from(const char *wanted)
{
    size_t length = strlen(wanted), third = length / 3;
    return least_of(third > 2 ? third + 1 : 3, length);
}

static const struct node_former *former_of(const struct node_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->n_former; i++)
        if (strcmp(schema->former[i].name, name) == 0)
            return &schema->former[i];
    return NULL;
}

enum base_error node_schema_unknown(const struct node_schema *schema, const char *origin, const char *name,
                                    struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    const struct node_former *former = former_of(schema, name);
    struct nearest nearest = {.distance = far_from(name)};
    bool long_name = strlen(name) >= SCHEMA_NAME_BYTES;
    for (size_t i = 0; i < schema->count && !long_name; i++) {
        const char *key = schema->keys[i].name;
        for (const char *dot = strchr(key, '.'); dot; dot = strchr(dot + 1, '.'))
            consider(&nearest, name, key, (size_t)(dot - key));
        consider(&nearest, name, key, strlen(key));
    }
    node_schema_found(name, strlen(name), found);
    if (former)
        return base_fail(why, BASE_EINVAL, "%s: found the key %s, which %s has replaced since version %s",
                         origin, found, former->now, former->since);
    if (nearest.name[0])
        return base_fail(why, BASE_EINVAL, "%s: found the unknown key %s, did you mean %s?", origin, found,
                         nearest.name);
    return base_fail(why, BASE_EINVAL,
                     "%s: found the unknown key %s, expected one of the keys that --help lists", origin,
                     found);
}

// "average.ratio" -> "P2PML_AVERAGE_RATIO"; whatever the locale.
static void variable_of(const char *prefix, const char *key, char out[2 * SCHEMA_NAME_BYTES])
{
    size_t used = (size_t)snprintf(out, SCHEMA_NAME_BYTES, "%s_", prefix);
    used = least_of(used, SCHEMA_NAME_BYTES - 1);
    for (; *key && used + 1 < 2 * SCHEMA_NAME_BYTES; key++)
        out[used++] = *key == '.' ? '_' : *key >= 'a' && *key <= 'z' ? (char)(*key - 'a' + 'A') : *key;
    out[used] = 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

// Kubernetes sets such variables in every container for every service of the namespace, so a service that is
// called p2pml makes some with our prefix: P2PML_SERVICE_HOST, P2PML_PORT_7400_TCP_ADDR, ...
static bool is_service_link(const char *name, const char *value)
{
    const char *port = strstr(name, "_PORT_");
    if (ends_with(name, "_SERVICE_HOST") || ends_with(name, "_SERVICE_PORT") ||
        strstr(name, "_SERVICE_PORT_"))
        return true;
    if (ends_with(name, "_PORT"))
        return strstr(value, "://") != NULL;
    return port && port[6] >= '0' && port[6] <= '9' && (strstr(port, "_TCP") || strstr(port, "_UDP"));
}

// It may belong to another program, so it is no error.
static void warn_of_variable(const struct node_schema *schema, const char *prefix, const char *name)
{
    char variable[2 * SCHEMA_NAME_BYTES], found[SCHEMA_FOUND_BYTES];
    struct nearest nearest = {.distance = far_from(name)};
    for (size_t i = 0; i < schema->count && strlen(name) < SCHEMA_NAME_BYTES; i++) {
        variable_of(prefix, schema->keys[i].name, variable);
        consider(&nearest, name, variable, strlen(variable));
    }
    node_schema_found(name, strlen(name), found);
    if (nearest.name[0])
        base_log(BASE_LOG_WARN, "config", "environment: %s names no key and is not read, did you mean %s?",
                 found, nearest.name);
    else
        base_log(
            BASE_LOG_WARN, "config",
            "environment: %s names no key and is not read, expected %s_ and a key of --help in capitals, "
            "with _ for the dot",
            found, prefix);
}

static bool is_one_of(const char *name, const char *const *others)
{
    for (; others && *others; others++)
        if (strcmp(*others, name) == 0)
            return true;
    return false;
}

static enum base_error read_variable(struct schema_draft *draft, const char *prefix, const char *entry,
                                     const char *const *others, struct base_reason *why)
{
    char variable[2 * SCHEMA_NAME_BYTES];
    const char *equals = strchr(entry, '=');
    char *name = strndup(entry, equals ? (size_t)(equals - entry) : strlen(entry));
    if (!name)
        return base_fail(why, BASE_ENOMEM, "no memory to read the environment");
    enum base_error error = BASE_OK;
    if (!equals || is_one_of(name, others))
        goto out;
    size_t key = 0;
    for (; key < draft->schema->count; key++) {
        variable_of(prefix, draft->schema->keys[key].name, variable);
        if (strcmp(variable, name) == 0)
            break;
    }
    if (key == draft->schema->count && !is_service_link(name, equals + 1))
        warn_of_variable(draft->schema, prefix, name);
    else if (key < draft->schema->count)
        error = node_schema_draft_parse(draft, key, name, equals + 1, why);
out:
    free(name);
    return error;
}

enum base_error node_schema_read_environment(const struct node_schema *schema, const char *prefix,
                                             char *const *environment, const char *const *others,
                                             void *config, struct base_reason *why)
{
    struct schema_draft draft;
    struct schema_problems problems = {0};
    struct base_reason one;
    size_t length = strlen(prefix);
    enum base_error error = node_schema_draft_create(schema, &draft, why);
    for (; !error && *environment; environment++)
        if (strncmp(*environment, prefix, length) == 0 && (*environment)[length] == '_' &&
            read_variable(&draft, prefix, *environment, others, &one))
            node_schema_note(&problems, &one);
    if (!error)
        error = node_schema_problems(&problems, why);
    if (!error)
        node_schema_draft_commit(&draft, config);
    node_schema_draft_destroy(&draft);
    return error;
}
