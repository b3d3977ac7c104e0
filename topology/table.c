// Schedules that are stored: which members meet in each round of a period, sorted by member and round.
#include "base/array.h"
#include "topology/parts.h"

#include <stdlib.h>

struct entry {
    uint32_t round, partner;
    double weight;
};

struct table {
    uint32_t rounds;
    size_t *entries_at; // [n + 1]: where each member's entries begin, by round
    size_t *peers_at;   // [n + 1]: where each member's peers begin, ascending
    struct entry *entries;
    uint32_t *peers;
};

void topology_meet(struct topology_meetings *meetings, struct topology_meeting meeting)
{
    if (!base_array_add(&meetings->list, &meetings->count, &meeting, sizeof meeting))
        meetings->failed = true;
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return a->round < b->round ? -1 : a->round > b->round;
}

static int compare_peers(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

// A counting sort by member. peers_at counts the entries that are already placed.
static void fill_entries(struct table *table, const struct topology_plan *plan,
                         const struct topology_meetings *meetings)
{
    size_t *at = table->entries_at;
    for (size_t i = 0; i < meetings->count; i++) {
        at[plan->order[meetings->list[i].a] + 1]++;
        at[plan->order[meetings->list[i].b] + 1]++;
    }
    for (size_t i = 0; i < plan->n; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < meetings->count; i++) {
        const struct topology_meeting *m = &meetings->list[i];
        uint32_t a = plan->order[m->a], b = plan->order[m->b];
        table->entries[table->peers_at[a]++ + at[a]] = (struct entry){m->round, b, m->weight};
        table->entries[table->peers_at[b]++ + at[b]] = (struct entry){m->round, a, m->weight};
    }
}

static void fill_peers(struct table *table, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t begin = table->entries_at[i], count = table->entries_at[i + 1] - begin, first = used;
        qsort(table->entries + begin, count, sizeof *table->entries, compare_entries);
        for (size_t e = 0; e < count; e++)
            table->peers[first + e] = table->entries[begin + e].partner;
        qsort(table->peers + first, count, sizeof *table->peers, compare_peers);
        table->peers_at[i] = first;
        for (size_t e = 0; e < count; e++)
            if (e == 0 || table->peers[first + e] != table->peers[used - 1])
                table->peers[used++] = table->peers[first + e];
    }
    table->peers_at[n] = used;
}

enum base_error topology_table_make(struct topology_plan *plan, struct topology_meetings *meetings,
                                    uint32_t rounds)
{
    enum base_error error = BASE_ENOMEM;
    struct table *table = calloc(1, sizeof *table);
    plan->data = table;
    if (!table || meetings->failed)
        goto out;
    table->rounds = rounds ? rounds : 1;
    table->entries_at = calloc(plan->n + 2, sizeof *table->entries_at);
    table->peers_at = calloc(plan->n + 2, sizeof *table->peers_at);
    table->entries = calloc(2 * meetings->count + 1, sizeof *table->entries);
    table->peers = calloc(2 * meetings->count + 1, sizeof *table->peers);
    if (!table->entries_at || !table->peers_at || !table->entries || !table->peers)
        goto out;
    fill_entries(table, plan, meetings);
    fill_peers(table, plan->n);
    error = BASE_OK;
out:
    free(meetings->list);
    *meetings = (struct topology_meetings){0};
    return error;
}

void topology_table_drop(void *data)
{
    struct table *table = data;
    free(table->entries_at);
    free(table->peers_at);
    free(table->entries);
    free(table->peers);
    free(table);
}

static const struct entry *look_up(const struct topology_plan *plan, size_t member, uint64_t round)
{
    const struct table *table = plan->data;
    struct entry key = {.round = (uint32_t)(round % table->rounds)};
    size_t begin = table->entries_at[member], end = table->entries_at[member + 1];
    return bsearch(&key, table->entries + begin, end - begin, sizeof key, compare_entries);
}

size_t topology_table_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    const struct entry *entry = look_up(plan, member, round);
    return entry ? entry->partner : TOPOLOGY_NOBODY;
}

double topology_table_weight(const struct topology_plan *plan, size_t member, uint64_t round)
{
    const struct entry *entry = look_up(plan, member, round);
    return entry ? entry->weight : 0;
}

uint64_t topology_table_period(const struct topology_plan *plan)
{
    const struct table *table = plan->data;
    return table->rounds;
}

size_t topology_table_neighbours(const struct topology_plan *plan, size_t member, size_t *peers,
                                 size_t capacity)
{
    const struct table *table = plan->data;
    size_t begin = table->peers_at[member], count = table->peers_at[member + 1] - begin;
    for (size_t i = 0; i < count && i < capacity; i++)
        peers[i] = table->peers[begin + i];
    return count;
}
