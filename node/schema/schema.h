// Configuration from one table: every key has a name, a type, a default, bounds and a meaning, and from that
// table come the YAML reader, --set, the environment variables, --help and every error message. The engine
// knows no key by name; node/config/config.c and lab/experiment/experiment.c supply the tables. Used before
// threads start; no shared state.
//
// Precedence: default < file < environment (P2PML_A_B for key a.b) < --set a.b=c. A later source replaces a
// list as a whole.
#ifndef NODE_SCHEMA_SCHEMA_H
#define NODE_SCHEMA_SCHEMA_H

#include "base/error.h"
#include "node/schema/tree.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_key_type {
    NODE_KEY_TEXT,     // char *            malloc'ed, never NULL
    NODE_KEY_CHOICE,   // int               index into `choices` ("a|b|c")
    NODE_KEY_BOOL,     // bool              true/false, yes/no, on/off
    NODE_KEY_INTEGER,  // uint64_t          decimal, `least`..`most`
    NODE_KEY_REAL,     // double            finite, `least`..`most`; also a fraction such as 1/32, or a word
    NODE_KEY_RATE,     // double            Mbit/s, `least`..`most`; also "500kbit/s", "10Mbps", "1Gbit"
    NODE_KEY_DURATION, // uint64_t          ns; "250ms", "30s", "5m", "2h", "0"
    NODE_KEY_TEXTS,    // struct node_texts a list of texts ("[a, b]" in --set and environment: a,b)
    NODE_KEY_INTEGERS, // struct node_integers
    NODE_KEY_MAPS,     // struct node_tree: a LIST of MAPs ("[{a: b, c: [1, 2]}]"); its owner reads them
};
struct node_texts {
    char **items; // malloc'ed
    size_t count;
};
struct node_integers {
    uint64_t *items; // malloc'ed
    size_t count;
};

#define NODE_SCHEMA_PROBLEMS_MAX 10u
#define NODE_SCHEMA_DEFAULT      "default" // origin of a value that was not set

enum node_key_share {
    NODE_KEY_OWN,    // each node's own choice
    NODE_KEY_TOLD,   // nodes may differ; a late one that has not set it takes the cluster's value
    NODE_KEY_SHARED, // the same, and a node that has set it differently is refused
};
struct node_key {
    const char *name; // "average.ratio"
    enum node_key_type type;
    size_t offset;       // of the field in the configuration struct
    const char *initial; // default, written as a user would ("1/32", "[]")
    double least, most;  // numbers and durations (in seconds); list types: bounds of each element
    const char *choices; // CHOICE: "ring|butterfly"; REAL: "auto", a word, stored below `least`; else NULL
    const char *meaning; // one or two sentences for --help, which adds what `share` means
    enum node_key_share share;
    bool (*counts)(const void *config); // whether it is shared or told in this configuration; NULL: always
};
struct node_former {                // a key of earlier versions
    const char *name, *now, *since; // what has replaced it, and in which version
};
struct node_schema {
    const struct node_key *keys;
    size_t count;
    const struct node_former *former; // for the message of node_schema_unknown; NULL: none
    size_t n_former;
};

// Sets every field of *config (memory of the right struct, zeroed) to its default.
enum base_error node_schema_defaults(const struct node_schema *schema, void *config,
                                     struct base_reason *why) BASE_CHECK;
// Reads a YAML file over it. Errors read `node.yaml:12: average.ratio: found "2", expected a number from 0 to
// 1`. Unknown keys (with the nearest known name), repeated keys, anchors, tags and a second document are
// errors. Up to NODE_SCHEMA_PROBLEMS_MAX errors are reported at once, one per line. On an error *config is as
// it was.
enum base_error node_schema_read_file(const struct node_schema *schema, const char *path, void *config,
                                      struct base_reason *why) BASE_CHECK;
// The same on text in memory; `origin` stands for the file name in messages.
enum base_error node_schema_read_text(const struct node_schema *schema, const char *origin, const char *text,
                                      size_t bytes, void *config, struct base_reason *why) BASE_CHECK;
// Every variable PREFIX_A_B of `environment` (like environ). A variable with the prefix that names no key is
// a warning in the log, except for the names in `others` (NULL-terminated, may be NULL) and those that
// Kubernetes sets for services.
enum base_error node_schema_read_environment(const struct node_schema *schema, const char *prefix,
                                             char *const *environment, const char *const *others,
                                             void *config, struct base_reason *why) BASE_CHECK;
// One "a.b=c" of the command line.
enum base_error node_schema_set(const struct node_schema *schema, const char *assignment, void *config,
                                struct base_reason *why) BASE_CHECK;
// The same from another source: `origin` stands in the place of "--set", in messages and as the origin of the
// value.
enum base_error node_schema_assign(const struct node_schema *schema, const char *origin,
                                   const char *assignment, void *config, struct base_reason *why) BASE_CHECK;
// Reads all sources of a configuration over its defaults, one after another. All errors in them are reported
// at once, one per line.
struct node_schema_sources {
    const char *path;                             // of the file; NULL: none
    char *const *environment;                     // NULL: not asked; variables P2PML_A_B
    const char *const *others;                    // as above
    const char *const *settings, *const *origins; // [n_settings] "a.b=c"; origins NULL: --set
    size_t n_settings;
};
enum base_error node_schema_read_all(const struct node_schema *schema,
                                     const struct node_schema_sources *sources, void *config,
                                     struct base_reason *why) BASE_CHECK;
// The text of `--help`: every key with type, default and meaning, wrapped at 100 columns; malloc'ed, NULL:
// out of memory.
char *node_schema_help(const struct node_schema *schema);
// The whole configuration as YAML that reads back to the same, with comments left out; malloc'ed.
char *node_schema_write(const struct node_schema *schema, const void *config);
// This key was set: by a file, the environment or --set.
bool node_schema_is_set(const struct node_schema *schema, const void *config, const char *key);
// Its value is that of the table, however it was set.
bool node_schema_is_initial(const struct node_schema *schema, const void *config, const char *key);
// The value of one key, as it is written there; malloc'ed, NULL: out of memory.
char *node_schema_value(const struct node_schema *schema, const void *config, const char *key);
void node_schema_free(const struct node_schema *schema, void *config); // frees texts and lists, zeroes
// The origin of a key's value, for messages of later checks: "node.yaml:12", "--set", "P2PML_A_B" or
// "default". Kept beside the config: the struct's FIRST field must be `struct node_origins origins;`.
struct node_origins {
    char **of_key; // [schema.count], malloc'ed texts
    size_t count;
};
const char *node_schema_origin(const struct node_schema *schema, const void *config, const char *key);
// The same for a part of a list of maps, with its own line: "node.yaml:14".
void node_schema_origin_of(const struct node_schema *schema, const void *config, const char *key,
                           const struct node_tree *part, char *out, size_t capacity);

#endif
