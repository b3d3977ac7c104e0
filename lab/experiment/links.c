#include "lab/experiment/links.h"

#include "lab/experiment/parts.h"

#include <stdlib.h>

#define HOUR_NS     3600000000000ull
#define LOSS_MAX    0.5
#define MEGABIT_MAX 1e6

enum { LATENCY = 1, JITTER = 2, LOSS = 4, BANDWIDTH = 8 }; // which fields a rule has

struct lab_link_rule {
    bool *left, *right; // [nodes] each, one allocation: `left` is its beginning
    unsigned has;
    struct lab_link link;
};

static const char *const entries[] = {"between", "latency", "jitter", "loss", "bandwidth"};

static enum base_error read_ends(const struct node_tree *between, size_t nodes, struct lab_link_rule *rule,
                                 const struct node_tree **where, struct base_reason *why)
{
    *where = between;
    if (between->kind != NODE_TREE_LIST || between->count != 2)
        return base_fail(why, BASE_EINVAL,
                         "between: expected two lists of nodes, such as [[0, 1], [2, 3]]: all links from one "
                         "to the other");
    enum base_error error = lab_part_nodes(&between->items[0], "between", nodes, rule->left, where, why);
    return error ? error : lab_part_nodes(&between->items[1], "between", nodes, rule->right, where, why);
}

static enum base_error read_field(const struct node_tree *entry, struct lab_link_rule *rule,
                                  const struct node_tree **where, struct base_reason *why)
{
    switch (entry->name[0]) { // lab_part_entries has checked the whole name
    case 'l':
        if (entry->name[1] == 'o') {
            rule->has |= LOSS;
            return lab_part_real(entry, 0, LOSS_MAX, &rule->link.loss, where, why);
        }
        rule->has |= LATENCY;
        return lab_part_duration(entry, HOUR_NS, &rule->link.latency_ns, where, why);
    case 'j':
        rule->has |= JITTER;
        return lab_part_duration(entry, HOUR_NS, &rule->link.jitter_ns, where, why);
    default:
        rule->has |= BANDWIDTH;
        return lab_part_rate(entry, MEGABIT_MAX, &rule->link.bandwidth, where, why);
    }
}

static enum base_error read_rule(const struct node_tree *map, size_t nodes, struct lab_link_rule *rule,
                                 const struct node_tree **where, struct base_reason *why)
{
    enum base_error error =
        lab_part_entries(map, "a link", entries, sizeof entries / sizeof *entries, where, why);
    if (error)
        return error;
    const struct node_tree *between = node_tree_entry(map, "between");
    if (!between || map->count < 2) {
        *where = map;
        return base_fail(why, BASE_EINVAL,
                         "expected between, and at least one of latency, jitter, loss and bandwidth");
    }
    error = read_ends(between, nodes, rule, where, why);
    for (size_t i = 0; i < map->count && !error; i++)
        if (&map->items[i] != between)
            error = read_field(&map->items[i], rule, where, why);
    return error;
}

enum base_error lab_links_read(const struct node_tree *tree, size_t nodes, const struct lab_link *common,
                               struct lab_links *links, const struct node_tree **where,
                               struct base_reason *why)
{
    struct lab_links read = {.nodes = nodes, .common = *common};
    enum base_error error = BASE_OK;
    *where = tree;
    read.rules = calloc(tree->count + 1, sizeof *read.rules);
    if (!read.rules)
        error = base_fail(why, BASE_ENOMEM, "no memory for the links");
    for (size_t i = 0; i < tree->count && !error; i++) {
        struct lab_link_rule *rule = &read.rules[read.count];
        rule->left = calloc(2 * nodes, sizeof *rule->left);
        rule->right = rule->left + nodes;
        if (!rule->left) {
            error = base_fail(why, BASE_ENOMEM, "no memory for the links");
            break;
        }
        read.count++;
        error = read_rule(&tree->items[i], nodes, rule, where, why);
    }
    if (error)
        lab_links_free(&read);
    *links = read;
    return error;
}

void lab_links_free(struct lab_links *links)
{
    for (size_t i = 0; i < links->count; i++)
        free(links->rules[i].left);
    free(links->rules);
    *links = (struct lab_links){0};
}

void lab_links_between(const struct lab_links *links, size_t a, size_t b, struct lab_link *link)
{
    *link = links->common;
    link->bandwidth = 0;
    for (size_t i = 0; i < links->count; i++) {
        const struct lab_link_rule *rule = &links->rules[i];
        if (!(rule->left[a] && rule->right[b]) && !(rule->left[b] && rule->right[a]))
            continue;
        if (rule->has & LATENCY)
            link->latency_ns = rule->link.latency_ns;
        if (rule->has & JITTER)
            link->jitter_ns = rule->link.jitter_ns;
        if (rule->has & LOSS)
            link->loss = rule->link.loss;
        if (rule->has & BANDWIDTH)
            link->bandwidth = rule->link.bandwidth;
    }
}

bool lab_links_bound(const struct lab_links *links)
{
    for (size_t i = 0; i < links->count; i++)
        if (links->rules[i].has & BANDWIDTH)
            return true;
    return false;
}
