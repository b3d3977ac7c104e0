#include "node/entries.h"
#include <stdlib.h>

struct node_entries {
    struct node_entry *rows;
    size_t count;
};

const char *node_entry_state_name(enum node_entry_state state)
{
    static const char *const names[] = {"unknown", "member", "self", "refused"};
    return names[state];
}

static void set_state(struct node_entry *row, enum node_entry_state state, uint64_t now_ns)
{
    if (row->state == state)
        return;
    row->state = state;
    row->since_ns = now_ns;
}

enum base_error node_entries_create(const struct node_texts *texts, uint64_t now_ns,
                                    struct node_entries **out)
{
    struct node_entries *entries = calloc(1, sizeof *entries);
    if (!entries)
        return BASE_ENOMEM;
    entries->rows = calloc(texts->count + 1, sizeof *entries->rows);
    if (!entries->rows) {
        free(entries);
        return BASE_ENOMEM;
    }
    entries->count = texts->count;
    for (size_t i = 0; i < texts->count; i++)
        entries->rows[i] = (struct node_entry){.text = texts->items[i], .since_ns = now_ns};
    *out = entries;
    return BASE_OK;
}

void node_entries_destroy(struct node_entries *entries)
{
    if (!entries)
        return;
    free(entries->rows);
    free(entries);
}

size_t node_entries_count(const struct node_entries *entries)
{
    return entries->count;
}

const struct node_entry *node_entries_at(const struct node_entries *entries, size_t entry)
{
    BASE_ASSERT(entry < entries->count);
    return &entries->rows[entry];
}

bool node_entries_answered(struct node_entries *entries, size_t entry, const struct gossip_id *id,
                           uint64_t now_ns)
{
    struct node_entry *row = &entries->rows[entry];
    bool news = row->state != NODE_ENTRY_MEMBER || gossip_id_compare(&row->id, id) != 0;
    row->known = true;
    row->id = *id;
    row->self_seen = false;
    set_state(row, NODE_ENTRY_MEMBER, now_ns);
    return news;
}

void node_entries_refused(struct node_entries *entries, size_t entry, uint64_t now_ns)
{
    set_state(&entries->rows[entry], NODE_ENTRY_REFUSED, now_ns);
}

void node_entries_self(struct node_entries *entries, size_t entry)
{
    entries->rows[entry].self_seen = true;
}

bool node_entries_turned(struct node_entries *entries, size_t entry, uint64_t now_ns)
{
    struct node_entry *row = &entries->rows[entry];
    bool news = row->self_seen && row->state != NODE_ENTRY_SELF;
    if (row->self_seen) {
        row->known = false;
        set_state(row, NODE_ENTRY_SELF, now_ns);
    }
    row->self_seen = false;
    return news;
}
