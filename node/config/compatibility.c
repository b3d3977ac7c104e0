#include "node/config/compatibility.h"
#include "base/hash.h"
#include "gossip/links/links.h"
#include "topology/topology.h"
#include "train/meaning.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 128u // longer values are told as a hash
#define HASHED    "... (hash "
#define SEPARATOR "; "
#define OWN_BITS  (64u * GOSSIP_OWN_WORDS)

static bool comes_from(const struct node_config *config, const char *key, const char *origin)
{
    return strcmp(node_schema_origin(&node_config_schema, config, key), origin) == 0;
}

bool node_config_is_told(const struct node_config *config, const char *key)
{
    return comes_from(config, key, NODE_ORIGIN_CLUSTER) || comes_from(config, key, NODE_ORIGIN_EARLIER);
}

bool node_config_has_earlier(const struct node_config *config)
{
    for (size_t i = 0; i < node_config_schema.count; i++)
        if (comes_from(config, node_config_schema.keys[i].name, NODE_ORIGIN_EARLIER))
            return true;
    return false;
}

// A value that the user has set, or that this start has taken from the cluster, is not replaced.
static bool is_fixed(const struct node_config *config, const char *key)
{
    return node_schema_is_set(&node_config_schema, config, key) &&
           !comes_from(config, key, NODE_ORIGIN_EARLIER);
}

// -- texts of settings: "key: value; key: value"

// False: no room.
static bool put(char *text, size_t capacity, const char *key, const char *value)
{
    const size_t used = strlen(text), length = strlen(value);
    const size_t left = capacity - used;
    int put;

    if (length <= VALUE_MAX)
        put = snprintf(text + used, left, "%s%s: %s", used ? SEPARATOR : "", key, value);
    else
        put = snprintf(text + used, left, "%s%s: %.16s" HASHED "%016" PRIx64 ")", used ? SEPARATOR : "", key,
                       value, base_hash_bytes(0, value, length));
    BASE_ASSERT(put > 0);
    if ((size_t)put >= left)
        text[used] = '\0';
    return (size_t)put < left;
}

static size_t length_of(const char *rule)
{
    const char *end = strstr(rule, SEPARATOR);
    return end ? (size_t)(end - rule) : strlen(rule);
}

static const char *next_of(const char *rule)
{
    rule += length_of(rule);
    return *rule ? rule + strlen(SEPARATOR) : rule;
}

// The value of the key in `text`; *bytes is its length. NULL: there is none.
static const char *value_in(const char *text, const char *key, size_t *bytes)
{
    const size_t name = strlen(key);

    for (const char *rule = text; *rule; rule = next_of(rule)) {
        if (length_of(rule) < name + 2 || strncmp(rule, key, name) != 0 || strncmp(rule + name, ": ", 2) != 0)
            continue;
        *bytes = length_of(rule) - name - 2;
        return rule + name + 2;
    }
    return NULL;
}

// Both have the same value for the key, or neither has one.
static bool agree(const char *a, const char *b, const char *key)
{
    size_t n = 0, m = 0;
    const char *one = value_in(a, key, &n), *other = value_in(b, key, &m);

    return one && other ? n == m && memcmp(one, other, n) == 0 : one == other;
}

static bool is_hashed(const char *value, size_t bytes)
{
    return bytes > VALUE_MAX || memmem(value, bytes, HASHED, strlen(HASHED));
}

// -- this node's settings in its greeting

static bool counts(const struct node_key *key, const struct node_config *config, enum node_key_share share)
{
    return key->share == share && (!key->counts || key->counts(config));
}

// Adds every key of `share` that counts in this configuration; `initial`: also those at their defaults.
// BASE_ELIMIT: no room.
static enum base_error put_all(const struct node_config *config, enum node_key_share share, bool initial,
                               char *text, size_t capacity)
{
    const struct node_schema *schema = &node_config_schema;

    for (size_t i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].name;
        if (!counts(&schema->keys[i], config, share) ||
            (!initial && node_schema_is_initial(schema, config, key)))
            continue;
        char *value = node_schema_value(schema, config, key);
        if (!value)
            return BASE_ENOMEM;
        const bool fits = put(text, capacity, key, value);
        free(value);
        if (!fits)
            return BASE_ELIMIT;
    }
    return BASE_OK;
}

enum base_error node_greeting_rules(const struct node_config *config, uint64_t graph, uint64_t start,
                                    char rules[LIMIT_RULES_BYTES])
{
    const char *digest = config->model.init_digest;
    char hash[17];
    bool fits = true;

    rules[0] = '\0';
    const enum base_error error = put_all(config, NODE_KEY_SHARED, true, rules, LIMIT_RULES_BYTES);
    if (error == BASE_ENOMEM)
        return error;
    snprintf(hash, sizeof hash, "%016" PRIx64, start);
    fits &= put(rules, LIMIT_RULES_BYTES, "model.init",
                config->model.init[0] ? hash
                : digest[0]           ? digest
                                      : "none");
    fits &= put(rules, LIMIT_RULES_BYTES, "average.mode",
                config->average.mode == NODE_MODE_BOUNDED ? "bounded" : "sync or async");
    snprintf(hash, sizeof hash, "%016" PRIx64, graph);
    if (config->topology.kind == TOPOLOGY_FILE)
        fits &= put(rules, LIMIT_RULES_BYTES, "topology.file", hash);
    BASE_ASSERT(!error && fits); // test: the longest rules fit
    return BASE_OK;
}

enum base_error node_greeting_settings(const struct node_config *config, struct gossip_greeting *greeting)
{
    const struct node_schema *schema = &node_config_schema;
    unsigned bit = 0;

    greeting->told[0] = '\0';
    memset(greeting->own, 0, sizeof greeting->own);
    for (size_t i = 0; i < schema->count; i++) {
        if (schema->keys[i].share == NODE_KEY_OWN)
            continue;
        BASE_ASSERT(bit < OWN_BITS);
        if (is_fixed(config, schema->keys[i].name))
            greeting->own[bit / 64] |= 1ull << bit % 64;
        bit++;
    }
    const enum base_error error =
        put_all(config, NODE_KEY_TOLD, false, greeting->told, sizeof greeting->told);
    return error == BASE_ENOMEM ? error : BASE_OK; // keys that do not fit must be set on late nodes
}

// -- nodes that join late

struct taken { // "key=value", one a line
    FILE *out;
    size_t count;
};

// Without the quotes of YAML: an assignment has none.
static void take(struct taken *taken, const char *key, const char *value, size_t bytes)
{
    fprintf(taken->out, "%s=", key);
    for (size_t i = 0; i < bytes; i++)
        if (value[i] != '"')
            fputc(value[i], taken->out);
    fputc('\n', taken->out);
    taken->count++;
}

// False: this node has set a shared key to another value; or the value was told only as a hash.
static bool take_key(const struct node_config *config, const struct node_key *key,
                     const struct gossip_greeting *ours, const struct gossip_greeting *theirs,
                     struct taken *taken)
{
    const bool shared = key->share == NODE_KEY_SHARED;
    const char *here = shared ? ours->rules : ours->told, *there = shared ? theirs->rules : theirs->told;
    size_t bytes = 0;
    const char *value = value_in(there, key->name, &bytes);

    if (!value || agree(here, there, key->name))
        return true;
    if (is_fixed(config, key->name) || is_hashed(value, bytes))
        return !shared;
    take(taken, key->name, value, bytes);
    return true;
}

// A node that joins late fetches the model: it needs no file of initial weights.
static void take_start(const struct node_config *config, const struct gossip_greeting *theirs,
                       struct taken *taken)
{
    size_t bytes = 0;
    const char *value = value_in(theirs->rules, "model.init", &bytes);

    if (value && bytes == 16 && !config->model.init[0] && !config->model.init_digest[0])
        take(taken, "model.init_digest", value, bytes);
}

static void take_shard(const struct node_config *config, const struct gossip_greeting *theirs,
                       struct taken *taken)
{
    size_t bytes = 0;
    const char *shards = value_in(theirs->told, "data.shards", &bytes);
    char number[16];

    if (!shards || node_schema_is_set(&node_config_schema, config, "data.shard"))
        return;
    take(taken, "data.shard", number, (size_t)snprintf(number, sizeof number, "%" PRIu32, theirs->shard));
}

enum base_error node_greeting_take(const struct node_config *config, const struct gossip_greeting *ours,
                                   const struct gossip_greeting *theirs, char **text)
{
    const struct node_schema *schema = &node_config_schema;
    struct taken taken = {0};
    size_t bytes = 0;
    bool possible = theirs->begun && !ours->begun;

    *text = NULL;
    if (!possible)
        return BASE_OK;
    taken.out = open_memstream(text, &bytes);
    if (!taken.out)
        return BASE_ENOMEM;
    for (size_t i = 0; i < schema->count && possible; i++)
        possible =
            schema->keys[i].share == NODE_KEY_OWN || take_key(config, &schema->keys[i], ours, theirs, &taken);
    take_start(config, theirs, &taken);
    take_shard(config, theirs, &taken);
    const bool failed = ferror(taken.out);
    if (fclose(taken.out) != 0 || failed || !possible || taken.count == 0) {
        free(*text);
        *text = NULL;
    }
    return failed ? BASE_ENOMEM : BASE_OK;
}

bool node_greeting_comes_back(const struct gossip_greeting *ours, const struct gossip_greeting *theirs)
{
    const struct node_schema *schema = &node_config_schema;
    unsigned bit = 0;
    bool takes = false;

    if (theirs->begun || !ours->begun)
        return false;
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        const bool shared = key->share == NODE_KEY_SHARED;
        if (key->share == NODE_KEY_OWN)
            continue;
        const bool set = theirs->own[bit / 64] >> bit % 64 & 1;
        bit++;
        if (agree(shared ? ours->rules : ours->told, shared ? theirs->rules : theirs->told, key->name))
            continue;
        if (set && shared)
            return false;
        takes |= !set;
    }
    return takes || !agree(ours->rules, theirs->rules, "model.init");
}

// -- messages about a difference

bool node_greeting_deals_otherwise(const struct node_config *config, const struct gossip_greeting *ours,
                                   const struct gossip_greeting *theirs, struct base_reason *text)
{
    static const char *const keys[] = {"data.shards", "data.partition", "data.alpha", "data.train_first",
                                       "data.train_count"};
    size_t bytes = 0, own = 0;

    if (config->data.shards < 2 || !value_in(theirs->told, "data.shards", &bytes))
        return false; // a node with examples of its own
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (agree(ours->told, theirs->told, keys[i]))
            continue;
        const char *there = value_in(theirs->told, keys[i], &bytes),
                   *here = value_in(ours->told, keys[i], &own);
        (void)base_fail(text, BASE_EMISMATCH,
                        "its %s: %.*s, here it is %.*s; some examples are on two nodes, or on none", keys[i],
                        there ? (int)bytes : 7, there ? there : "default", here ? (int)own : 7,
                        here ? here : "default");
        return true;
    }
    return false;
}

// The first differing key that was set explicitly on the node that has not begun to train; it takes other
// keys from the cluster. NULL: none.
static const char *given_otherwise(const struct gossip_greeting *ours, const struct gossip_greeting *theirs)
{
    const struct node_schema *schema = &node_config_schema;
    const struct gossip_greeting *late = theirs->begun ? ours : theirs;
    unsigned bit = 0;

    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        if (key->share == NODE_KEY_OWN)
            continue;
        const bool given = late->own[bit / 64] >> bit % 64 & 1;
        bit++;
        if (given && key->share == NODE_KEY_SHARED && !agree(ours->rules, theirs->rules, key->name))
            return key->name;
    }
    return NULL;
}

static enum base_error tell_given(const struct gossip_greeting *ours, const struct gossip_greeting *theirs,
                                  struct base_reason *why)
{
    const char *key = given_otherwise(ours, theirs);
    size_t here_bytes = 0, there_bytes = 0;
    const char *here = key ? value_in(ours->rules, key, &here_bytes) : NULL;
    const char *there = key ? value_in(theirs->rules, key, &there_bytes) : NULL;

    if (!here || !there)
        return BASE_OK;
    return base_fail(why, BASE_EMISMATCH, "its %s: %.*s, here it is %.*s; make it the same on all nodes", key,
                     (int)there_bytes, there, (int)here_bytes, here);
}

// The first rule that differs, with both values.
static enum base_error tell_rule(const char *ours, const char *theirs, struct base_reason *why)
{
    while (*ours && *theirs && length_of(ours) == length_of(theirs) &&
           memcmp(ours, theirs, length_of(ours)) == 0) {
        ours = next_of(ours);
        theirs = next_of(theirs);
    }
    const size_t key = strcspn(ours, ":");
    if (key == strcspn(theirs, ":") && memcmp(ours, theirs, key) == 0 && ours[key])
        return base_fail(why, BASE_EMISMATCH, "its %.*s, here it is%.*s; make it the same on all nodes",
                         (int)length_of(theirs), theirs, (int)(length_of(ours) - key - 1), ours + key + 1);
    return base_fail(why, BASE_EMISMATCH,
                     "a setting that all nodes must share differs: \"%.*s\" there, \"%.*s\" here",
                     (int)length_of(theirs), theirs, (int)length_of(ours), ours);
}

void node_greeting_data(const struct train_meaning *meaning, char *model, size_t capacity)
{
    const size_t used = strlen(model);
    if (meaning && used < capacity)
        snprintf(model + used, capacity - used, ", data %08" PRIx32,
                 (uint32_t)(train_meaning_digest(meaning) >> 32));
}

// Both describe the same model, apart from its data.
static bool differ_in_data(const struct gossip_greeting *ours, const struct gossip_greeting *theirs)
{
    const char *a = strstr(ours->model, ", data "), *b = strstr(theirs->model, ", data ");
    const size_t bytes = a ? (size_t)(a - ours->model) : strlen(ours->model);
    return ours->parameters == theirs->parameters && (a || b) &&
           bytes == (b ? (size_t)(b - theirs->model) : strlen(theirs->model)) &&
           memcmp(ours->model, theirs->model, bytes) == 0;
}

enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs, struct base_reason *why)
{
    switch (gossip_links_compare(ours, theirs)) {
    case GOSSIP_CLOSE_OTHER_MODEL:
        if (differ_in_data(ours, theirs))
            return base_fail(
                why, BASE_EMISMATCH,
                "its data mean something else: %s there, %s here; columns, categories, classes and the "
                "statistics of data.scale must be the same on all nodes: with data.scale_from: cluster the "
                "nodes agree on the statistics; or write everything once with 'p2pml data info FILE --stats "
                "STATS', copy STATS to every node and name it in data.scale_from",
                theirs->model, ours->model);
        return base_fail(why, BASE_EMISMATCH,
                         "it trains another model: %s (%" PRIu64 " parameters) there, %s (%" PRIu64
                         " parameters) here; make model.* and the shape of the data the same",
                         theirs->model, theirs->parameters, ours->model, ours->parameters);
    case GOSSIP_CLOSE_OTHER_RULES:
        return tell_given(ours, theirs, why) ? BASE_EMISMATCH : tell_rule(ours->rules, theirs->rules, why);
    default:
        return BASE_OK;
    }
}
