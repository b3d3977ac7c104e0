#include "lab/experiment/attackers.h"

#include "lab/experiment/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR_MIN 1e-9
#define FACTOR_MAX 1e9
#define LIST_BYTES 256u

static const char *const entries[] = {"node", "kind", "factor"};

static enum base_error refuse_kind(const struct node_tree *tree, struct base_reason *why)
{
    char found[NODE_TREE_FOUND_BYTES], list[LIST_BYTES] = "";
    node_tree_found(tree, found);
    for (size_t k = 0, used = 0; k < LAB_ATTACKS && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "",
                                 lab_attack_name((enum lab_attack_kind)k));
    return base_fail(why, BASE_EINVAL, "kind: found %s, expected one of %s", found, list);
}

static enum base_error read_kind(const struct node_tree *tree, enum lab_attack_kind *kind,
                                 const struct node_tree **where, struct base_reason *why)
{
    *where = tree;
    for (size_t k = 0; k < LAB_ATTACKS && tree->kind == NODE_TREE_TEXT; k++)
        if (strcmp(tree->text, lab_attack_name((enum lab_attack_kind)k)) == 0) {
            *kind = (enum lab_attack_kind)k;
            return BASE_OK;
        }
    return refuse_kind(tree, why);
}

static enum base_error read_factor(const struct node_tree *tree, struct lab_attacker *attacker,
                                   const struct node_tree **where, struct base_reason *why)
{
    attacker->factor = 1;
    if (!tree)
        return BASE_OK;
    *where = tree;
    if (!(lab_attack_unit(attacker->kind) > 0))
        return base_fail(why, BASE_EINVAL, "factor: the kind %s has none; leave it out",
                         lab_attack_name(attacker->kind));
    return lab_part_real(tree, FACTOR_MIN, FACTOR_MAX, &attacker->factor, where, why);
}

static enum base_error add(const struct lab_attacker *attacker, const bool *in, size_t nodes,
                           struct lab_attackers *attackers, struct base_reason *why)
{
    for (size_t i = 0; i < nodes; i++) {
        if (!in[i])
            continue;
        if (lab_attackers_find(attackers, i))
            return base_fail(why, BASE_EINVAL,
                             "node: found node %zu a second time, expected every attacker once", i);
        attackers->items[attackers->count] = *attacker;
        attackers->items[attackers->count++].node = i;
    }
    return BASE_OK;
}

static enum base_error read_attacker(const struct node_tree *map, size_t nodes, bool *in,
                                     struct lab_attackers *attackers, const struct node_tree **where,
                                     struct base_reason *why)
{
    struct lab_attacker attacker = {0};
    enum base_error error =
        lab_part_entries(map, "an attacker", entries, sizeof entries / sizeof *entries, where, why);
    if (error)
        return error;
    const struct node_tree *node = node_tree_entry(map, "node"), *kind = node_tree_entry(map, "kind");
    *where = map;
    if (!node || !kind)
        return base_fail(why, BASE_EINVAL, "expected node and kind, such as {node: 3, kind: sign}");
    error = read_kind(kind, &attacker.kind, where, why);
    if (!error)
        error = read_factor(node_tree_entry(map, "factor"), &attacker, where, why);
    if (!error)
        error = lab_part_nodes(node, "node", nodes, in, where, why);
    return error ? error : add(&attacker, in, nodes, attackers, why);
}

enum base_error lab_attackers_read(const struct node_tree *tree, size_t nodes,
                                   struct lab_attackers *attackers, const struct node_tree **where,
                                   struct base_reason *why)
{
    struct lab_attackers read = {.items = calloc(nodes, sizeof *read.items)};
    bool *in = calloc(nodes, sizeof *in);
    enum base_error error =
        read.items && in ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for the attackers");
    *where = tree;
    for (size_t i = 0; i < tree->count && !error; i++) {
        memset(in, 0, nodes * sizeof *in);
        error = read_attacker(&tree->items[i], nodes, in, &read, where, why);
    }
    if (!error && read.count == nodes) {
        *where = tree;
        error = base_fail(why, BASE_EINVAL, "found all %zu nodes, expected at least one honest node", nodes);
    }
    free(in);
    if (error)
        lab_attackers_free(&read);
    *attackers = read;
    return error;
}

void lab_attackers_free(struct lab_attackers *attackers)
{
    free(attackers->items);
    *attackers = (struct lab_attackers){0};
}

const struct lab_attacker *lab_attackers_find(const struct lab_attackers *attackers, size_t node)
{
    for (size_t i = 0; i < attackers->count; i++)
        if (attackers->items[i].node == node)
            return &attackers->items[i];
    return NULL;
}

size_t lab_attacker_ghosts(const struct lab_attacker *attacker)
{
    return attacker->kind == LAB_ATTACK_GHOSTS
               ? (size_t)(attacker->factor * lab_attack_unit(LAB_ATTACK_GHOSTS))
               : 0;
}

size_t lab_attackers_ghosts(const struct lab_attackers *attackers)
{
    size_t count = 0;
    for (size_t i = 0; i < attackers->count; i++)
        count += lab_attacker_ghosts(&attackers->items[i]);
    return count;
}

bool lab_attackers_have(const struct lab_attackers *attackers, enum lab_attack_kind kind)
{
    for (size_t i = 0; i < attackers->count; i++)
        if (attackers->items[i].kind == kind)
            return true;
    return false;
}
