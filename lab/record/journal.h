// Follows the events.jsonl of one node: its view of the others. A line is untrusted: one that is not an event
// with a time, or longer than a limit, is counted and left out, as are lines beyond the memory limit.
// Main thread.
#ifndef LAB_RECORD_JOURNAL_H
#define LAB_RECORD_JOURNAL_H

#include "gossip/id.h"
#include "lab/experiment/events.h"
#include "lab/record/lines.h"

#define LAB_SIGNS_MAX 65536u

enum lab_sign_kind { LAB_JOIN, LAB_SUSPECT, LAB_ALIVE, LAB_DEAD, LAB_LEFT, LAB_VIEW, LAB_SIGN_KINDS };
#define LAB_SIGN(kind) (1u << (kind)) // in sets

struct lab_sign {
    double time; // unix seconds
    enum lab_sign_kind kind;
    size_t member;              // not of a VIEW
    struct lab_set *neighbours; // of a VIEW: malloc'ed
};
struct lab_ids { // of the nodes of a run
    char hex[LAB_NODES_MAX][GOSSIP_ID_HEX];
    size_t count;
};
struct lab_journal {
    struct lab_lines file;
    const struct lab_ids *ids; // borrowed
    struct lab_sign *signs;    // [count]
    size_t count;
};

void lab_journal_start(const char *path, const struct lab_ids *ids, struct lab_journal *journal);
void lab_journal_read(struct lab_journal *journal);
void lab_journal_again(struct lab_journal *journal); // the node is about to be started again
void lab_journal_close(struct lab_journal *journal);

// When the last of `members` had its first sign of these kinds at or after `from` and before `until`; NAN: a
// member had none, or there are no members.
double lab_journal_all(const struct lab_journal *journal, unsigned kinds, const struct lab_set *members,
                       double from, double until);
// When the node first had a view with any of `members` among its neighbours (`present`), or with none of
// them; NAN: never.
double lab_journal_view(const struct lab_journal *journal, const struct lab_set *members, bool present,
                        double from, double until);

#endif
