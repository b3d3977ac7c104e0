// Reads the parts of lists in an experiment's file: entries, nodes, numbers, durations. Errors are
// BASE_EINVAL with found and expected; *where becomes the wrong part, whose line the caller adds. Pure
// functions.
#ifndef LAB_EXPERIMENT_PARTS_H
#define LAB_EXPERIMENT_PARTS_H

#include "base/error.h"
#include "node/schema/tree.h"

// Checks that a map has only the entries names[count].
enum base_error lab_part_entries(const struct node_tree *map, const char *what, const char *const *names,
                                 size_t count, const struct node_tree **where,
                                 struct base_reason *why) BASE_CHECK;
// Reads a node, or a list of different nodes, below `nodes`: in[node] becomes true.
enum base_error lab_part_nodes(const struct node_tree *tree, const char *what, size_t nodes, bool *in,
                               const struct node_tree **where, struct base_reason *why) BASE_CHECK;
// Reads one node.
enum base_error lab_part_node(const struct node_tree *tree, const char *what, size_t nodes, size_t *node,
                              const struct node_tree **where, struct base_reason *why) BASE_CHECK;
// In Mbit/s.
enum base_error lab_part_rate(const struct node_tree *tree, double most, double *megabits,
                              const struct node_tree **where, struct base_reason *why) BASE_CHECK;
enum base_error lab_part_real(const struct node_tree *tree, double least, double most, double *value,
                              const struct node_tree **where, struct base_reason *why) BASE_CHECK;
enum base_error lab_part_duration(const struct node_tree *tree, uint64_t most_ns, uint64_t *value_ns,
                                  const struct node_tree **where, struct base_reason *why) BASE_CHECK;

#endif
