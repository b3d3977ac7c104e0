#include "lab/experiment/parts.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000.0

enum base_error lab_part_entries(const struct node_tree *map, const char *what, const char *const *names,
                                 size_t count, const struct node_tree **where, struct base_reason *why)
{
    *where = map;
    if (map->kind != NODE_TREE_MAP)
        return base_fail(why, BASE_EINVAL, "%s: expected a map with the entry %s", what, names[0]);
    for (size_t i = 0; i < map->count; i++) {
        char list[256] = "";
        size_t known = 0;
        while (known < count && strcmp(map->items[i].name, names[known]) != 0)
            known++;
        if (known < count)
            continue;
        *where = &map->items[i];
        for (size_t k = 0, used = 0; k < count && used < sizeof list; k++)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", names[k]);
        return base_fail(why, BASE_EINVAL, "%s: found the entry %.64s, expected entries among %s", what,
                         map->items[i].name, list);
    }
    return BASE_OK;
}

enum base_error lab_part_node(const struct node_tree *tree, const char *what, size_t nodes, size_t *node,
                              const struct node_tree **where, struct base_reason *why)
{
    char found[NODE_TREE_FOUND_BYTES];
    uint64_t value = 0;
    *where = tree;
    node_tree_found(tree, found);
    if (!node_tree_integer(tree, &value) || value >= nodes)
        return base_fail(why, BASE_EINVAL, "%s: found %s, expected a node from 0 to %zu", what, found,
                         nodes - 1);
    *node = (size_t)value;
    return BASE_OK;
}

enum base_error lab_part_nodes(const struct node_tree *tree, const char *what, size_t nodes, bool *in,
                               const struct node_tree **where, struct base_reason *why)
{
    bool is_list = tree->kind == NODE_TREE_LIST;
    const struct node_tree *items = is_list ? tree->items : tree;
    size_t count = is_list ? tree->count : 1;
    *where = tree;
    if (!count)
        return base_fail(why, BASE_EINVAL, "%s: found an empty list, expected nodes", what);
    for (size_t i = 0; i < count; i++) {
        size_t node;
        enum base_error error = lab_part_node(&items[i], what, nodes, &node, where, why);
        if (error)
            return error;
        if (in[node])
            return base_fail(why, BASE_EINVAL, "%s: found node %zu twice, expected it once", what, node);
        in[node] = true;
    }
    return BASE_OK;
}

enum base_error lab_part_real(const struct node_tree *tree, double least, double most, double *value,
                              const struct node_tree **where, struct base_reason *why)
{
    char found[NODE_TREE_FOUND_BYTES];
    double read = 0;
    *where = tree;
    node_tree_found(tree, found);
    if (!node_tree_real(tree, &read) || read < least || read > most)
        return base_fail(why, BASE_EINVAL, "%s: found %s, expected a number from %g to %g", tree->name, found,
                         least, most);
    *value = read;
    return BASE_OK;
}

enum base_error lab_part_rate(const struct node_tree *tree, double most, double *megabits,
                              const struct node_tree **where, struct base_reason *why)
{
    char found[NODE_TREE_FOUND_BYTES];
    double read = 0;
    *where = tree;
    node_tree_found(tree, found);
    if (!node_tree_rate(tree, &read) || read < 0 || read > most)
        return base_fail(
            why, BASE_EINVAL,
            "%s: found %s, expected a number of Mbit/s from 0 to %g, or one with kbit/s, Mbit/s or "
            "Gbit/s",
            tree->name, found, most);
    *megabits = read;
    return BASE_OK;
}

enum base_error lab_part_duration(const struct node_tree *tree, uint64_t most_ns, uint64_t *value_ns,
                                  const struct node_tree **where, struct base_reason *why)
{
    char found[NODE_TREE_FOUND_BYTES];
    uint64_t read = 0;
    *where = tree;
    node_tree_found(tree, found);
    if (!node_tree_duration(tree, &read) || read > most_ns)
        return base_fail(why, BASE_EINVAL,
                         "%s: found %s, expected a duration of at most %g s: a whole number and us, ms, s, m "
                         "or h",
                         tree->name, found, (double)most_ns / SECOND_NS);
    *value_ns = read;
    return BASE_OK;
}
