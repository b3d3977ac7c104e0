#include "node/roster.h"
#include "topology/topology.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MOST (2u * LIMIT_PEERS)

struct node_roster {
    struct node_member *rows;
    size_t count, entries;
    uint64_t topology_seed, revision;
};

const char *node_member_state_name(enum node_member_state state)
{
    static const char *const names[] = {"unknown",  "connecting", "alive", "unreachable",
                                        "finished", "refused",    "self"};
    return names[state];
}

static void set_state(struct node_member *row, enum node_member_state state, uint64_t now_ns)
{
    if (row->state == state)
        return;
    row->state = state;
    row->since_ns = now_ns;
}

enum base_error node_roster_create(const struct node_roster_options *options, struct node_roster **out)
{
    struct node_roster *roster = calloc(1, sizeof *roster);
    if (!roster)
        return BASE_ENOMEM;
    roster->entries = options->peers->count;
    roster->count = 1 + roster->entries;
    roster->topology_seed = options->topology_seed;
    roster->revision = 1;
    roster->rows = calloc(roster->count, sizeof *roster->rows);
    if (!roster->rows) {
        free(roster);
        return BASE_ENOMEM;
    }
    struct node_member *self = &roster->rows[0];
    self->known = self->in_view = true;
    self->id = options->self;
    self->state = NODE_MEMBER_SELF;
    self->since_ns = options->now_ns;
    snprintf(self->name, sizeof self->name, "%s", options->name);
    snprintf(self->address, sizeof self->address, "%s", options->address);
    for (size_t i = 0; i < roster->entries; i++) {
        struct node_member *row = &roster->rows[1 + i];
        row->listed = true;
        row->since_ns = options->now_ns;
        snprintf(row->address, sizeof row->address, "%s", options->peers->items[i]);
    }
    *out = roster;
    return BASE_OK;
}

void node_roster_destroy(struct node_roster *roster)
{
    if (!roster)
        return;
    free(roster->rows);
    free(roster);
}

size_t node_roster_count(const struct node_roster *roster)
{
    return roster->count;
}

const struct node_member *node_roster_at(const struct node_roster *roster, size_t row)
{
    BASE_ASSERT(row < roster->count);
    return &roster->rows[row];
}

const struct node_member *node_roster_entry(const struct node_roster *roster, size_t entry)
{
    BASE_ASSERT(entry < roster->entries);
    return &roster->rows[1 + entry];
}

static struct node_member *find(const struct node_roster *roster, const struct gossip_id *id)
{
    for (size_t i = 0; i < roster->count; i++) {
        struct node_member *row = &roster->rows[i];
        if (row->known && !row->left_out && gossip_id_compare(&row->id, id) == 0)
            return row;
    }
    return NULL;
}

const struct node_member *node_roster_find(const struct node_roster *roster, const struct gossip_id *id)
{
    return find(roster, id);
}

void node_roster_calling(struct node_roster *roster, size_t entry, uint64_t now_ns)
{
    struct node_member *row = &roster->rows[1 + entry];
    if (row->state == NODE_MEMBER_UNKNOWN)
        set_state(row, NODE_MEMBER_CONNECTING, now_ns);
}

void node_roster_call_failed(struct node_roster *roster, size_t entry, uint64_t now_ns)
{
    struct node_member *row = &roster->rows[1 + entry];
    if (row->state == NODE_MEMBER_REFUSED && !row->linked)
        set_state(row, NODE_MEMBER_CONNECTING, now_ns);
}

static void remove_row(struct node_roster *roster, struct node_member *row)
{
    size_t at = (size_t)(row - roster->rows);
    memmove(row, row + 1, (roster->count - at - 1) * sizeof *row);
    roster->count--;
}

static void leave_out(struct node_member *row, const struct gossip_id *id, enum node_member_state state,
                      uint64_t now_ns)
{
    row->known = true;
    row->left_out = true;
    row->id = *id;
    set_state(row, state, now_ns);
}

static struct node_member *add_row(struct node_roster *roster)
{
    if (roster->count >= ROWS_MOST)
        return NULL;
    struct node_member *rows = realloc(roster->rows, (roster->count + 1) * sizeof *rows);
    if (!rows)
        return NULL;
    roster->rows = rows;
    struct node_member *row = &rows[roster->count++];
    *row = (struct node_member){.state = NODE_MEMBER_UNKNOWN};
    return row;
}

// The node that an entry stood for gets a row of its own. False: the table is full; it keeps the entry then.
static bool keep_apart(struct node_roster *roster, const struct node_member *row)
{
    size_t at = (size_t)(row - roster->rows);
    struct node_member *apart = add_row(roster);
    if (!apart)
        return false;
    *apart = roster->rows[at];
    apart->listed = false;
    roster->rows[at].known = roster->rows[at].in_view = false;
    return true;
}

enum node_learned node_roster_learn(struct node_roster *roster, size_t entry, const struct gossip_id *id,
                                    uint64_t now_ns)
{
    struct node_member *row = &roster->rows[1 + entry], *other = find(roster, id);
    if (other == &roster->rows[0]) {
        leave_out(row, id, NODE_MEMBER_SELF, now_ns);
        return NODE_LEARNED_SELF;
    }
    if (other == row)
        return NODE_LEARNED_PEER;
    if (other && other->listed) {
        leave_out(row, id, other->state, now_ns);
        return NODE_LEARNED_DUPLICATE;
    }
    if (row->known &&
        row->in_view) { // another node answers here now; the one before stays until it is forgotten
        if (!keep_apart(roster, row))
            return NODE_LEARNED_PEER;
        row = &roster->rows[1 + entry];
        other = find(roster, id);
    }
    struct node_member fresh = {.state = NODE_MEMBER_CONNECTING, .since_ns = now_ns};
    if (other) { // it had called us before we learned where it lives
        fresh = *other;
        remove_row(roster, other);
    }
    fresh.known = fresh.listed = true;
    fresh.id = *id;
    snprintf(fresh.address, sizeof fresh.address, "%s", row->address);
    *row = fresh;
    return NODE_LEARNED_PEER;
}

enum base_error node_roster_up(struct node_roster *roster, const struct gossip_id *id, const char *name,
                               const char *address, uint64_t now_ns)
{
    struct node_member *row = find(roster, id);
    if (!row) {
        row = add_row(roster);
        if (!row)
            return BASE_ELIMIT;
        row->known = true;
        row->id = *id;
    }
    if (!row->in_view || strcmp(row->name, name) != 0)
        roster->revision++;
    row->in_view = row->linked = true;
    row->done = false;
    snprintf(row->name, sizeof row->name, "%s", name);
    if (!row->listed)
        snprintf(row->address, sizeof row->address, "%s", address);
    set_state(row, NODE_MEMBER_ALIVE, now_ns);
    return BASE_OK;
}

void node_roster_down(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns)
{
    struct node_member *row = find(roster, id);
    if (!row || !row->linked)
        return;
    row->linked = false;
    row->since_ns = now_ns; // of being away, for the finished too
    if (row->state != NODE_MEMBER_FINISHED)
        set_state(row, NODE_MEMBER_UNREACHABLE, now_ns);
}

void node_roster_done(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns)
{
    struct node_member *row = find(roster, id);
    if (!row || !row->linked)
        return;
    row->done = true;
    set_state(row, NODE_MEMBER_FINISHED, now_ns);
}

void node_roster_refused(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns)
{
    struct node_member *row = find(roster, id);
    if (row && !row->linked && row->state != NODE_MEMBER_SELF)
        set_state(row, NODE_MEMBER_REFUSED, now_ns);
}

const struct node_member *node_roster_bearer(const struct node_roster *roster, const char *name,
                                             const struct gossip_id *except)
{
    for (size_t i = 0; i < roster->count; i++) {
        const struct node_member *row = &roster->rows[i];
        if (row->in_view && gossip_id_compare(&row->id, except) != 0 && strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static void drop(struct node_roster *roster, struct node_member *row, uint64_t now_ns)
{
    row->in_view = false;
    roster->revision++;
    if (row->listed)
        set_state(row, NODE_MEMBER_CONNECTING, now_ns);
    else
        remove_row(roster, row);
}

bool node_roster_forget(struct node_roster *roster, uint64_t now_ns, uint64_t after_ns, struct gossip_id *id)
{
    for (size_t i = 1; i < roster->count; i++) {
        struct node_member *row = &roster->rows[i];
        if (!row->in_view || row->linked || now_ns - row->since_ns < after_ns)
            continue;
        *id = row->id;
        drop(roster, row, now_ns);
        return true;
    }
    return false;
}

bool node_roster_forget_id(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns)
{
    struct node_member *row = find(roster, id);
    if (!row || !row->in_view || row->linked || row->state == NODE_MEMBER_SELF)
        return false;
    drop(roster, row, now_ns);
    return true;
}

struct place { // a member's place in the order of the view
    uint64_t key;
    const struct node_member *row;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return strcmp(x->row->name, y->row->name);
}

size_t node_roster_view(const struct node_roster *roster, struct gossip_id *ids, size_t capacity)
{
    struct place places[ROWS_MOST];
    size_t count = 0;
    for (size_t i = 0; i < roster->count; i++) {
        const struct node_member *row = &roster->rows[i];
        if (row->in_view)
            places[count++] =
                (struct place){.key = topology_member_key(roster->topology_seed, row->name), .row = row};
    }
    qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; i < count && i < capacity; i++)
        ids[i] = places[i].row->id;
    return count;
}

uint64_t node_roster_revision(const struct node_roster *roster)
{
    return roster->revision;
}
