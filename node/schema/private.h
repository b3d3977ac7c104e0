// What the files of the schema engine share: values, drafts, and the texts of what was found and what was
// expected. Private to node/schema/. Pure functions; any thread.
//
// A source (file, environment, --set) is read into a draft; only a draft without errors is committed, and
// committing cannot fail. That is why a configuration never changes on error.
#ifndef NODE_SCHEMA_PRIVATE_H
#define NODE_SCHEMA_PRIVATE_H

#include "node/schema/schema.h"
#include <stdio.h>

#define SCHEMA_NAME_BYTES     128u // a key's full name, terminating zero included
#define SCHEMA_EXPECTED_BYTES 256u // what a key expects, in words
#define SCHEMA_FOUND_BYTES    96u  // what was found, cut to be read by people
#define SCHEMA_REAL_BYTES     32u

union schema_value {
    char *text;
    int choice;
    bool boolean;
    uint64_t integer; // INTEGER and DURATION
    double real;
    struct node_texts texts;
    struct node_integers integers;
    struct node_tree tree;
};
struct schema_slot {
    char *origin; // NULL: this source does not set the key
    union schema_value value;
};
struct schema_draft {
    const struct node_schema *schema;
    struct schema_slot *slots; // [schema->count]
};

// What is wrong with one source or with several, a line each. Zeroed: nothing.
struct schema_problems {
    struct base_reason all;
    size_t used, count, told;
};
void node_schema_note(struct schema_problems *problems, const struct base_reason *one);
// Nothing noted: BASE_OK. Else BASE_EINVAL, with all problems in *why (may be NULL).
enum base_error node_schema_problems(const struct schema_problems *problems,
                                     struct base_reason *why) BASE_CHECK;

// draft.c
enum base_error node_schema_draft_create(const struct node_schema *schema, struct schema_draft *draft,
                                         struct base_reason *why) BASE_CHECK;
void node_schema_draft_destroy(struct schema_draft *draft);
// Takes ownership of *value, also on an error. BASE_EINVAL when this source already gave the key. Reasons
// start with the origin.
enum base_error node_schema_draft_put(struct schema_draft *draft, size_t key, const char *origin,
                                      union schema_value *value, struct base_reason *why) BASE_CHECK;
// The same for a value that is still a text, lists in the form "a,b".
enum base_error node_schema_draft_parse(struct schema_draft *draft, size_t key, const char *origin,
                                        const char *text, struct base_reason *why) BASE_CHECK;
void node_schema_draft_commit(struct schema_draft *draft, void *config);
size_t node_schema_find(const struct node_schema *schema, const char *name); // schema->count: no such key
// The first key below the section `name` ("" is the top), schema->count: no such section.
size_t node_schema_find_section(const struct node_schema *schema, const char *name);

// name.c. BASE_EINVAL, with the nearest known name where one is near.
enum base_error node_schema_unknown(const struct node_schema *schema, const char *origin, const char *name,
                                    struct base_reason *why) BASE_CHECK;

// value.c. Reasons of parse and append read `found "2", expected a number from 0 to 1`, without origin
// and key.
bool node_schema_is_list(const struct node_key *key);
enum base_error node_schema_value_parse(const struct node_key *key, const char *text, size_t bytes,
                                        union schema_value *value, struct base_reason *why) BASE_CHECK;
enum base_error node_schema_list_append(const struct node_key *key, const char *text, size_t bytes,
                                        union schema_value *list, struct base_reason *why) BASE_CHECK;
void node_schema_value_free(const struct node_key *key, union schema_value *value); // leaves zeroes
void node_schema_value_load(const struct node_key *key, const void *config,
                            union schema_value *value); // borrows
void node_schema_value_store(const struct node_key *key, const union schema_value *value, void *config);
bool node_schema_value_equal(const struct node_key *key, const union schema_value *a,
                             const union schema_value *b);
void node_schema_expected(const struct node_key *key, char out[SCHEMA_EXPECTED_BYTES]);

// tree.c. Reasons are without origin and key.
enum base_error node_schema_tree_parse(const char *text, size_t bytes, struct node_tree *tree,
                                       struct base_reason *why) BASE_CHECK;
void node_schema_tree_free(struct node_tree *tree);                                // leaves an empty list
bool node_schema_tree_equal(const struct node_tree *a, const struct node_tree *b); // lines do not count

// number.c: numbers and durations as texts, the same in every locale. The whole text must be a number.
bool node_schema_parse_integer(const char *text, size_t bytes, uint64_t *value);
bool node_schema_parse_real(const char *text, size_t bytes, double *value);
bool node_schema_parse_rate(const char *text, size_t bytes, double *megabits);
bool node_schema_parse_duration(const char *text, size_t bytes, uint64_t *value_ns);
void node_schema_print_real(double value,
                            char out[SCHEMA_REAL_BYTES]); // the shortest that reads back to the same
void node_schema_print_duration(uint64_t value_ns, char out[SCHEMA_REAL_BYTES]);
uint64_t node_schema_bound(double value, uint64_t unit); // value * unit as an integer, at most UINT64_MAX

// utf8.c
void node_schema_found(const char *text, size_t bytes, char out[SCHEMA_FOUND_BYTES]); // with quotes
// Offset of the first byte that no text may hold (broken UTF-8, a control character other than those in
// `allowed`), `bytes` if there is none.
size_t node_schema_bad_byte(const char *text, size_t bytes, const char *allowed);
size_t node_schema_code_point(const char *text, size_t bytes, uint32_t *code); // its length; 0: broken

#endif
