// The latest lines of metrics.jsonl in memory, so that `p2pml why` can ask a running node for its rounds. The
// learner puts lines, the loop reads them: any thread, one lock.
#ifndef NODE_STORE_ROUNDS_H
#define NODE_STORE_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

#define NODE_ROUNDS_KEPT  1024u      // rounds that can be told
#define NODE_ROUNDS_BYTES (1u << 20) // of all lines together

struct node_rounds;

struct node_rounds_part {
    uint64_t first, last; // rounds that can be told; 0: none
    char *rows;           // JSON array: the line before the round, its own, the one after; malloc'ed
    double set_back_s;    // the clock was set back by so much between two lines; 0: never
    double after, until;  // unix seconds of the line before and of the one after; infinite: there is none
};

struct node_rounds *node_rounds_create(void); // NULL: no memory
void node_rounds_destroy(struct node_rounds *rounds);
// A line without room for it is not kept.
void node_rounds_put(struct node_rounds *rounds, uint64_t round, double unix_s, const char *line);
// `round` 0: the latest one. Without such a round `rows` is "[]"; NULL: no memory.
struct node_rounds_part node_rounds_about(struct node_rounds *rounds, uint64_t round);

#endif
