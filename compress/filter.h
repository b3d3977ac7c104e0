// Filters between selection and codec: in addition to magnitude, they decide which entries of a = x - r are
// sent. A filter drops entries of the selected list, or provides a list of indices instead of the selection.
// It never changes a value: a dropped entry stays in x - r and is sent later (DESIGN: averaging, identity 2),
// so the two ends may use different filters.
//
// Pure functions of their arguments, which include the seed and the history; any thread, one owner per list
// and per history. How to add a filter: compress/README.md, "Filters".
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
    uint64_t age;  // exchanges that reused the list since it was selected
    uint64_t hash; // compress_keys_hash of the list: computed once, although several packets use it
};

// Call this after a list was sent and the exchange is committed. again: the list is from
// compress_filters_choose. `index` is from malloc, and the history owns it from now on.
void compress_history_take(struct compress_history *history, uint32_t *index, size_t count, bool again);
// Back to the initial state, in which nothing has been sent (RESYNC, a new neighbour). Frees the list; also
// the destructor.
void compress_history_forget(struct compress_history *history);

// One exchange over one edge. x and r are in the backend's memory.
struct compress_turn {
    const struct kernels *kernels;
    const struct kernels_difference *a;
    uint64_t seed;                       // a different one for every exchange
    const struct compress_history *last; // the list that was last sent over this edge; NULL: not known
};

// A piece of the list, in ordinary memory: the input of a dropping filter.
struct compress_filter_run {
    const uint32_t *index; // ascending
    const float *value;    // a at these elements, finite
    const float *model;    // x at these elements; NULL unless the filter reads it
    size_t count;
    uint64_t seed;
};

// One filter. It has one number, and one of `choose` and `keep`.
struct compress_filter {
    const char *name;   // as written in a configuration
    const char *number; // what the number means, for messages: "part of the entries dropped"
    double least, most; // its range, both ends included
    bool whole;         // only whole numbers are valid
    bool reads_model;
    // Writes up to `room` indices, ascending and below turn->a->count, and returns their number; 0: entries
    // are selected as usual. index[] is ordinary memory.
    size_t (*choose)(double number, const struct compress_turn *turn, uint32_t *index, size_t room);
    // Sets keep[i] to 1 (send) or 0 (drop) for every entry of the run, independently of the others: a run may
    // begin anywhere in a list.
    void (*keep)(double number, const struct compress_filter_run *run, uint8_t *keep);
    // The part of a selection that an exchange sends anew, on average over exchanges; NULL: it depends on the
    // values.
    double (*fresh)(double number);
};

// The filter at this place in the table (compress/filter_table.h), NULL after the last one.
const struct compress_filter *compress_filter_at(size_t place);

// A chain of filters, applied in this order. {0} is empty: all entries pass.
struct compress_filters {
    size_t count;
    struct {
        const struct compress_filter *filter;
        double number;
    } chain[LIMIT_FILTERS];
};

// Appends a filter. BASE_ENOTFOUND: unknown name (the reason lists the known ones). BASE_EINVAL: the number
// is out of range, or the chain already has this filter. BASE_ELIMIT: more than LIMIT_FILTERS.
enum base_error compress_filters_add(struct compress_filters *filters, const char *name, double number,
                                     struct base_reason *why) BASE_CHECK;
// "name:number, name:number"; an empty text is an empty chain. Numbers are decimal, without exponent,
// independent of the locale. Errors as above, BASE_EINVAL for anything else.
enum base_error compress_filters_parse(const char *text, struct compress_filters *filters,
                                       struct base_reason *why) BASE_CHECK;

// Asks the chain for a list of indices; the first filter that provides one decides. *chosen: entries
// (backend's memory) hold that list with the values of a, not checked for NaN, at most entries->capacity.
// Such a list is sent completely, without compress_filters_drop: encoding a gap would cost more than the
// value that it saves. If not *chosen, select entries. BASE_ENOMEM.
enum base_error compress_filters_choose(const struct compress_filters *filters,
                                        const struct compress_turn *turn, struct compress_sparse *entries,
                                        bool *chosen) BASE_CHECK;

// Whether the chain can provide a list. If so, both ends must remember the list that was sent (struct
// compress_history).
bool compress_filters_remember(const struct compress_filters *filters);

// The part of the elements that an exchange selects anew, on average, if selection takes the part `ratio` of
// them: the rest is dropped, or its place in the packet is used for positions that were sent just before.
double compress_filters_fresh(const struct compress_filters *filters, double ratio);

// Drops selected entries (backend's memory), in place. Allocates nothing on the CPU; on another backend,
// temporarily up to 12 bytes per entry on the host and 4 on the backend. BASE_ENOMEM: nothing has changed.
enum base_error compress_filters_drop(const struct compress_filters *filters,
                                      const struct compress_turn *turn,
                                      struct compress_sparse *entries) BASE_CHECK;

#endif
