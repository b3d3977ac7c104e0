#include "lab/top/table.h"

#include "base/array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void lab_top_table_free(struct lab_top_table *table)
{
    free(table->nodes);
    *table = (struct lab_top_table){0};
}

static struct lab_top_node *append(struct lab_top_table *table)
{
    if (table->count == LIMIT_MEMBERS)
        return NULL;
    const struct lab_top_node node = {
        .rate = NAN, .loss = NAN, .score = NAN, .sent = NAN, .received = NAN, .seen_rate = NAN};
    if (!base_array_add(&table->nodes, &table->count, &node, sizeof node))
        return NULL;
    return &table->nodes[table->count - 1];
}

// Texts of nodes are shown in a terminal: they must not contain control characters.
static void copy(char *to, size_t capacity, const char *from)
{
    size_t used = 0;
    for (; from && *from && used + 1 < capacity; from++)
        to[used++] = *from >= ' ' && *from < 127 ? *from : '?';
    to[used] = 0;
}

enum base_error lab_top_add(struct lab_top_table *table, const char *address)
{
    struct lab_top_node *node = append(table);
    if (!node)
        return BASE_ENOMEM;
    copy(node->address, sizeof node->address, address);
    copy(node->name, sizeof node->name, address);
    return BASE_OK;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static uint64_t count_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static void take_self(struct lab_top_node *node, const json_t *root, uint64_t now_ns)
{
    copy(node->id, sizeof node->id, text_of(root, "id"));
    copy(node->name, sizeof node->name, text_of(root, "name"));
    copy(node->condition, sizeof node->condition, text_of(root, "condition"));
    copy(node->state, sizeof node->state, text_of(root, "state"));
    copy(node->adopted, sizeof node->adopted, text_of(json_object_get(root, "adopted"), "text"));
    node->step = count_of(root, "step");
    node->steps = count_of(root, "steps");
    node->round = count_of(root, "round");
    node->rate = number_of(root, "steps_per_s");
    node->loss = number_of(root, "loss");
    node->regression = json_object_get(root, "r2") != NULL;
    node->score = number_of(root, node->regression ? "r2" : "accuracy");
    node->sent = number_of(root, "sent_per_s");
    node->received = number_of(root, "received_per_s");
    node->neighbours = count_of(root, "neighbours");
    node->linked = count_of(root, "neighbours_linked");
    node->answered_ns = now_ns;
    node->silent = false;
}

static struct lab_top_node *find(struct lab_top_table *table, const char *id, const char *address)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->nodes[i].id, id) == 0)
            return &table->nodes[i];
    for (size_t i = 0; i < table->count && address[0]; i++)
        if (!table->nodes[i].id[0] && strcmp(table->nodes[i].address, address) == 0)
            return &table->nodes[i];
    return append(table);
}

// Another node has answered there: the address means something else on the member's own host (loopback).
static bool is_of_another(const struct lab_top_table *table, const char *id, const char *address)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->nodes[i].answered_ns > 0 && strcmp(table->nodes[i].address, address) == 0 &&
            strcmp(table->nodes[i].id, id) != 0)
            return true;
    return false;
}

static void take_path(struct lab_top_node *node, const json_t *member)
{
    const char *path = text_of(member, "path"), *via = text_of(member, "via");
    if (strcmp(path, "relayed") != 0) {
        copy(node->path, sizeof node->path, path);
        return;
    }
    memcpy(node->path, "over ", 6);
    copy(node->path + 5, sizeof node->path - 5, via);
}

static enum base_error take_member(struct lab_top_table *table, const json_t *member, bool paths,
                                   uint64_t now_ns)
{
    const char *id = text_of(member, "id"), *address = text_of(member, "http");
    if (strlen(id) != 64)
        return BASE_EFORMAT;
    if (is_of_another(table, id, address))
        address = "";
    struct lab_top_node *node = find(table, id, address);
    if (!node)
        return BASE_ENOMEM;
    copy(node->id, sizeof node->id, id);
    copy(node->name, sizeof node->name, text_of(member, "name"));
    if (node->answered_ns == 0 || !node->address[0]) // an address that has answered is kept
        copy(node->address, sizeof node->address, address);
    copy(node->seen, sizeof node->seen,
         isnan(number_of(member, "banned_s")) ? text_of(member, "state") : "banned");
    node->seen_ns = now_ns;
    node->seen_step = count_of(member, "step");
    node->seen_rate = number_of(member, "steps_per_s");
    if (paths)
        take_path(node, member);
    return BASE_OK;
}

// Removes a second entry of a node, added under an address that its members do not list.
static void forget_twins(struct lab_top_table *table, size_t index)
{
    for (size_t i = 0; i < table->count; i++) {
        struct lab_top_node *node = &table->nodes[index], *other = &table->nodes[i];
        if (i == index || strcmp(other->id, node->id) != 0)
            continue;
        if (other->answered_ns > 0 && other->answered_ns >= node->answered_ns)
            *node = *other;
        memmove(other, other + 1, (table->count - i - 1) * sizeof *other);
        table->count--;
        if (i < index)
            index--;
        i--;
    }
}

static enum base_error take(struct lab_top_table *table, size_t index, const json_t *root, uint64_t now_ns)
{
    const json_t *members = json_object_get(root, "members");
    if (strlen(text_of(root, "id")) != 64 || !json_is_array(members))
        return BASE_EFORMAT;
    take_self(&table->nodes[index], root, now_ns);
    copy(table->cluster, sizeof table->cluster, text_of(root, "cluster"));
    if (!table->from[0])
        copy(table->from, sizeof table->from, text_of(root, "id"));
    const bool paths = strcmp(table->from, text_of(root, "id")) == 0;
    forget_twins(table, index);
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        enum base_error error = json_is_true(json_object_get(member, "self"))
                                    ? BASE_OK
                                    : take_member(table, member, paths, now_ns);
        if (error)
            return error;
    }
    return BASE_OK;
}

enum base_error lab_top_take(struct lab_top_table *table, size_t index, const char *text, uint64_t now_ns)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    enum base_error error = root ? take(table, index, root, now_ns) : BASE_EFORMAT;
    json_decref(root);
    return error;
}
