#include "gossip/statistics/statistics.h"
#include "base/array.h"
#include "base/cursor.h"
#include "base/limits.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS (LIMIT_STATISTICS_COLUMNS / GOSSIP_STATISTICS_BLOCK + 1)
#define SLACK  1e-9 // relative tolerance for a deviation, which the sender has rounded

_Static_assert(sizeof(struct gossip_spread) == GOSSIP_SPREAD_BYTES, "a spread is its doubles");

struct entry { // for one node; the id is the first member (gossip_id_place)
    struct gossip_id id;
    uint64_t generation, rows;
    bool heard[BLOCKS];
    size_t missing;                // blocks
    struct gossip_spread *spreads; // [columns]
};

struct gossip_statistics {
    struct gossip_id self;
    uint32_t columns;
    uint8_t *told;         // this node's spreads as they are sent
    struct entry *entries; // [count], by id; this node's among them
    size_t count;
};

static size_t blocks_of(uint32_t columns)
{
    return (columns + GOSSIP_STATISTICS_BLOCK - 1) / GOSSIP_STATISTICS_BLOCK;
}

static struct gossip_spread read_spread(struct base_reader *reader)
{
    struct gossip_spread s;
    s.least = base_read_f64(reader);
    s.most = base_read_f64(reader);
    s.mean = base_read_f64(reader);
    s.deviation = base_read_f64(reader);
    return s;
}

// Can rows of finite floats have these statistics? No deviation is more than half of the range (Popoviciu).
static bool is_possible(const struct gossip_spread *s)
{
    return s->least >= -FLT_MAX && s->most <= FLT_MAX && s->least <= s->mean && s->mean <= s->most &&
           s->deviation >= 0 && s->deviation <= (s->most - s->least) / 2 * (1 + SLACK);
}

// -- entries

static struct entry *find(const struct gossip_statistics *s, const struct gossip_id *id)
{
    bool there;
    const size_t at = gossip_id_place(id, s->entries, s->count, sizeof *s->entries, &there);
    return there ? &s->entries[at] : NULL;
}

static enum base_error grow(struct gossip_statistics *s)
{
    BASE_ASSERT(s->count <= LIMIT_PEERS);
    if (s->count == LIMIT_PEERS)
        return BASE_ELIMIT;
    struct entry *entries = base_array_grow(s->entries, s->count, sizeof *entries);
    if (!entries)
        return BASE_ENOMEM;
    s->entries = entries;
    return BASE_OK;
}

static enum base_error add(struct gossip_statistics *s, const struct gossip_id *id, struct entry **out)
{
    bool there;
    const enum base_error error = grow(s);
    if (error)
        return error;
    struct gossip_spread *spreads = calloc(s->columns, sizeof *spreads);
    if (!spreads)
        return BASE_ENOMEM;
    const size_t at = gossip_id_place(id, s->entries, s->count, sizeof *s->entries, &there);
    BASE_ASSERT(!there);
    memmove(&s->entries[at + 1], &s->entries[at], (s->count - at) * sizeof *s->entries);
    s->count++;
    s->entries[at] = (struct entry){.id = *id, .spreads = spreads};
    *out = &s->entries[at];
    return BASE_OK;
}

static void begin(struct entry *entry, uint64_t generation, uint64_t rows, uint32_t columns)
{
    BASE_ASSERT(rows > 0 && columns > 0);
    entry->generation = generation;
    entry->rows = rows;
    entry->missing = blocks_of(columns);
    memset(entry->heard, 0, sizeof entry->heard);
}

// -- telling

size_t gossip_statistics_blocks(const struct gossip_statistics *statistics)
{
    return blocks_of(statistics->columns);
}

struct gossip_message gossip_statistics_tell(const struct gossip_statistics *s, size_t block)
{
    const struct entry *own = find(s, &s->self);
    const uint32_t first = (uint32_t)(block * GOSSIP_STATISTICS_BLOCK), left = s->columns - first;
    BASE_ASSERT(own && first < s->columns);
    return (struct gossip_message){
        .kind = GOSSIP_STATISTICS,
        .as.statistics = {.generation = own->generation,
                          .rows = own->rows,
                          .columns = s->columns,
                          .first = first,
                          .spreads = s->told + (size_t)first * GOSSIP_SPREAD_BYTES,
                          .spreads_bytes =
                              GOSSIP_SPREAD_BYTES *
                              (left < GOSSIP_STATISTICS_BLOCK ? left : GOSSIP_STATISTICS_BLOCK)}};
}

// -- hearing

static bool read_block(const struct gossip_statistics_message *m,
                       struct gossip_spread spreads[GOSSIP_STATISTICS_BLOCK])
{
    struct base_reader reader = base_reader_of(m->spreads, m->spreads_bytes);
    bool possible = true;
    for (size_t i = 0; i < m->spreads_bytes / GOSSIP_SPREAD_BYTES; i++) {
        spreads[i] = read_spread(&reader);
        possible &= is_possible(&spreads[i]);
    }
    return possible && !reader.failed;
}

enum base_error gossip_statistics_take(struct gossip_statistics *s, const struct gossip_id *from,
                                       const struct gossip_statistics_message *m)
{
    struct gossip_spread spreads[GOSSIP_STATISTICS_BLOCK];
    const size_t block = m->first / GOSSIP_STATISTICS_BLOCK;
    struct entry *entry = find(s, from);
    if (m->columns != s->columns || gossip_id_compare(from, &s->self) == 0 || !read_block(m, spreads))
        return BASE_EFORMAT;
    if (entry && (m->generation < entry->generation ||
                  (m->generation == entry->generation && (m->rows != entry->rows || entry->heard[block]))))
        return BASE_OK; // from an earlier process, or already known
    if (!entry) {
        const enum base_error error = add(s, from, &entry);
        if (error)
            return error;
        begin(entry, m->generation, m->rows, s->columns);
    } else if (m->generation > entry->generation) {
        begin(entry, m->generation, m->rows, s->columns);
    }
    BASE_ASSERT(entry->missing > 0 && !entry->heard[block]);
    memcpy(entry->spreads + m->first, spreads, m->spreads_bytes);
    entry->heard[block] = true;
    entry->missing--;
    return BASE_OK;
}

bool gossip_statistics_has(const struct gossip_statistics *statistics, const struct gossip_id *id)
{
    const struct entry *entry = find(statistics, id);
    return entry && entry->missing == 0;
}

// -- joining

// Joins `more`, of n rows, into `all`, of m rows.
static void join(struct gossip_spread *all, double m, const struct gossip_spread *more, double n)
{
    const double apart = more->mean - all->mean, total = m + n;
    BASE_ASSERT(m > 0 && n > 0);
    const double square = (m * (all->deviation * all->deviation) + n * (more->deviation * more->deviation) +
                           apart * apart * (m * n / total)) /
                          total;
    all->mean += apart * (n / total);
    all->deviation = sqrt(square);
    all->least = more->least < all->least ? more->least : all->least;
    all->most = more->most > all->most ? more->most : all->most;
}

size_t gossip_statistics_join(const struct gossip_statistics *s, struct gossip_spread *spreads)
{
    double rows = 0;
    size_t nodes = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct entry *entry = &s->entries[i];
        if (entry->missing > 0)
            continue;
        for (size_t k = 0; k < s->columns; k++) {
            if (nodes == 0)
                spreads[k] = entry->spreads[k];
            else
                join(&spreads[k], rows, &entry->spreads[k], (double)entry->rows);
        }
        rows += (double)entry->rows;
        nodes++;
    }
    return nodes;
}

// -- creation

static enum base_error add_own(struct gossip_statistics *s, const struct gossip_statistics_options *options)
{
    struct entry *own;
    struct base_writer writer = base_writer_of(s->told, (size_t)s->columns * GOSSIP_SPREAD_BYTES);
    const enum base_error error = add(s, &s->self, &own);
    if (error)
        return error;
    begin(own, options->generation, options->rows, s->columns);
    own->missing = 0;
    for (size_t k = 0; k < s->columns; k++) {
        const struct gossip_spread *spread = &options->spreads[k];
        if (!is_possible(spread))
            return BASE_EINVAL;
        own->spreads[k] = *spread;
        base_write_f64(&writer, spread->least);
        base_write_f64(&writer, spread->most);
        base_write_f64(&writer, spread->mean);
        base_write_f64(&writer, spread->deviation);
    }
    BASE_ASSERT(!writer.failed);
    return BASE_OK;
}

enum base_error gossip_statistics_create(const struct gossip_statistics_options *options,
                                         struct gossip_statistics **out)
{
    struct gossip_statistics *s = calloc(1, sizeof *s);
    BASE_ASSERT(options->columns > 0 && options->columns <= LIMIT_STATISTICS_COLUMNS && options->rows > 0);
    if (!s)
        return BASE_ENOMEM;
    s->self = options->self;
    s->columns = options->columns;
    s->told = malloc((size_t)s->columns * GOSSIP_SPREAD_BYTES);
    const enum base_error error = s->told ? add_own(s, options) : BASE_ENOMEM;
    if (error) {
        gossip_statistics_destroy(s);
        return error;
    }
    *out = s;
    return BASE_OK;
}

void gossip_statistics_destroy(struct gossip_statistics *statistics)
{
    if (!statistics)
        return;
    for (size_t i = 0; i < statistics->count; i++)
        free(statistics->entries[i].spreads);
    free(statistics->entries);
    free(statistics->told);
    free(statistics);
}
