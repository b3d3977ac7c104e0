// The table of p2pml top: the nodes of a cluster, found from the /status of any of them, and their rows as
// text. Pure: no sockets, no clock, no terminal. One owner.
#ifndef LAB_TOP_TABLE_H
#define LAB_TOP_TABLE_H

#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_TOP_ADDRESS_BYTES 320 // "host:port"

enum lab_top_column {
    LAB_TOP_NODE,
    LAB_TOP_STATE,
    LAB_TOP_STEP,
    LAB_TOP_RATE,
    LAB_TOP_LOSS,
    LAB_TOP_SCORE,
    LAB_TOP_ROUND,
    LAB_TOP_SENT,
    LAB_TOP_RECEIVED,
    LAB_TOP_NEIGHBOURS,
    LAB_TOP_PATH,
    LAB_TOP_COLUMNS
};

struct lab_top_node {
    char id[65]; // hex; "": not known yet
    char name[LIMIT_NODE_NAME_BYTES];
    char address[LAB_TOP_ADDRESS_BYTES]; // of its pages; "": unknown
    // As the node reports itself.
    uint64_t answered_ns; // time of its latest answer; 0: never
    bool silent;          // it did not answer the latest request
    char condition[24], state[24];
    char adopted[200];           // of the latest model of others that it took: a sentence; "": none
    uint64_t step, steps, round; // steps: 0: no end
    double rate, loss, score, sent, received; // NAN: not known; score: accuracy, or R2
    bool regression;
    uint64_t neighbours, linked;
    // From the latest report of another node.
    char seen[16]; // "alive", "suspect", "dead", "left", "unproven", "banned"; "": not reported
    uint64_t seen_ns, seen_step;
    double seen_rate;
    char path[LIMIT_NODE_NAME_BYTES +
              8]; // of its link to the node of the table's `from`: "direct", "over n3"; "": none
};

struct lab_top_table {
    struct lab_top_node *nodes;
    size_t count;
    char cluster[LIMIT_NODE_NAME_BYTES];
    char from[65]; // id of the node that answered first
};

void lab_top_table_free(struct lab_top_table *table);
// Adds a node of which only the address of its pages is known. BASE_ENOMEM
enum base_error lab_top_add(struct lab_top_table *table, const char *address) BASE_CHECK;
// Takes `text`, the /status of node `index` at now_ns, and adds its members. Nodes may move: keep no pointer
// to one across this call. BASE_EFORMAT: not the status of a p2pml-node; BASE_ENOMEM.
enum base_error lab_top_take(struct lab_top_table *table, size_t index, const char *text,
                             uint64_t now_ns) BASE_CHECK;

struct lab_top_view {
    enum lab_top_column sort;
    bool reverse, colours;
    size_t width, height; // in characters; 0: unlimited
    size_t first;         // rows scrolled past
};
// The table as lines of text, malloc'ed; NULL: out of memory. With colours a line is followed by
// "\x1b[K\r\n".
char *lab_top_text(const struct lab_top_table *table, const struct lab_top_view *view);

#endif
