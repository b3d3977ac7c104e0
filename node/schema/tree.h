// A value of any shape inside a configuration: texts, lists and maps, each with its line. For keys of the
// type NODE_KEY_MAPS, whose meaning only the owner of the key knows. Used before threads start.
#ifndef NODE_SCHEMA_TREE_H
#define NODE_SCHEMA_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_tree_kind { NODE_TREE_TEXT, NODE_TREE_LIST, NODE_TREE_MAP };
struct node_tree {
    enum node_tree_kind kind;
    size_t line;             // from 1; 0: its source has no lines (--set, a variable)
    char *name;              // of an entry of a map; else NULL
    char *text;              // of a TEXT
    struct node_tree *items; // [count], of a LIST or a MAP
    size_t count;
};

#define NODE_TREE_FOUND_BYTES 96u

const struct node_tree *node_tree_entry(const struct node_tree *map, const char *name); // NULL: it has none
// False: it is not a text, or not such a number.
bool node_tree_integer(const struct node_tree *tree, uint64_t *value);
bool node_tree_real(const struct node_tree *tree, double *value);          // finite; also 1/32
bool node_tree_rate(const struct node_tree *tree, double *megabits);       // also "500kbit/s", "10Mbps"
bool node_tree_duration(const struct node_tree *tree, uint64_t *value_ns); // "250ms", "30s", ...
// What it is, for messages: the text in quotes, "a list", "a map".
void node_tree_found(const struct node_tree *tree, char out[NODE_TREE_FOUND_BYTES]);

#endif
