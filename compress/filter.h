// Filters in front of the codec: besides magnitude, they decide which entries of a = x - r travel. A filter
// drops entries of the selected list, or gives a list of indices in place of a selection. It never changes a
// value: what is dropped stays in x - r and comes later (DESIGN: averaging, identity 2), so filters of the
// two ends need not agree.
//
// Pure functions of what they are given, entropy and state included; any thread, one owner per list and per
// history. How to add a filter: compress/README.md, "Filters".
#ifndef COMPRESS_FILTER_H
#define COMPRESS_FILTER_H

#include "base/limits.h"
#include "compress/compress.h"
#include "kernels/kernels.h"
#include <stdbool.h>

// The list of indices that was last sent (or received) over one edge, in ordinary memory. {0} is empty.
struct compress_history {
    uint32_t *index; // ascending; owned
    size_t count;
    uint64_t age;  // exchanges that used the list again since it was selected
    uint64_t hash; // compress_keys_hash of it: taken once, however many packets name it
};

// A list was sent and the exchange is committed. again: compress_filters_choose gave it. `index` is memory of
// malloc, owned by the history from now on.
void compress_history_take(struct compress_history *history, uint32_t *index, size_t count, bool again);
// Nothing has been sent yet (RESYNC, a new neighbour). Frees the list; also the destructor.
void compress_history_forget(struct compress_history *history);

// One exchange over one edge. x and r are in the backend's memory.
struct compress_turn {
    const struct kernels *kernels;
    const struct kernels_difference *a;
    uint64_t seed;                       // another one for every exchange
    const struct compress_history *last; // what was sent over this edge before; NULL: nothing is known
};

// A piece of the list, in ordinary memory, as a dropping filter sees it.
struct compress_filter_run {
    const uint32_t *index; // ascending
    const float *value;    // a there, finite
    const float *model;    // x there; NULL unless the filter reads it
    size_t count;
    uint64_t seed;
};

// One filter. It has one number, and one of `choose` and `keep`.
struct compress_filter {
    const char *name;   // as people write it
    const char *number; // what the number means, for messages: "part of the entries dropped"
    double least, most; // its range, both ends included
    bool whole;         // it has no fraction
    bool reads_model;
    // Writes up to `room` indices, ascending and below turn->a->count, and returns how many; 0: select.
    // index[] is ordinary memory.
    size_t (*choose)(double number, const struct compress_turn *turn, uint32_t *index, size_t room);
    // Sets keep[i] to 1 (send) or 0 (drop) for every entry of the run, each on its own: lists are cut into
    // runs anywhere.
    void (*keep)(double number, const struct compress_filter_run *run, uint8_t *keep);
};

// The filter of that place in the table (compress/filter_table.h), NULL behind the last one.
const struct compress_filter *compress_filter_at(size_t place);

// A chain, applied in this order. {0} is empty and lets all through.
struct compress_filters {
    size_t count;
    struct {
        const struct compress_filter *filter;
        double number;
    } chain[LIMIT_FILTERS];
};

// Appends a filter. BASE_ENOTFOUND for an unknown name (the reason lists the known ones), BASE_EINVAL for a
// number out of range or a filter that is already there, BASE_ELIMIT for more than LIMIT_FILTERS.
enum base_error compress_filters_add(struct compress_filters *filters, const char *name, double number,
                                     struct base_reason *why) BASE_CHECK;
// "name:number, name:number"; an empty text is an empty chain. Numbers are decimal, without exponent,
// independent of the locale. Errors as above, BASE_EINVAL for anything else.
enum base_error compress_filters_parse(const char *text, struct compress_filters *filters,
                                       struct base_reason *why) BASE_CHECK;

// Asks the chain for a list: the first filter that gives one decides. True: entries (backend's memory) are
// that list with the values of a, not checked for NaN, at most entries->capacity. Such a list is sent whole,
// without compress_filters_drop: a gap would cost more than the value it saves. False: select. BASE_ENOMEM.
enum base_error compress_filters_choose(const struct compress_filters *filters,
                                        const struct compress_turn *turn, struct compress_sparse *entries,
                                        bool *chosen) BASE_CHECK;

// Whether the chain could give a list. Then both ends must remember what was sent (struct compress_history).
bool compress_filters_remember(const struct compress_filters *filters);

// Drops from selected entries (backend's memory), in place. No memory of its own on the CPU; on another
// backend 12 bytes an entry on the host and 4 there while it lasts. BASE_ENOMEM: nothing has changed.
enum base_error compress_filters_drop(const struct compress_filters *filters,
                                      const struct compress_turn *turn,
                                      struct compress_sparse *entries) BASE_CHECK;

#endif
