// Follows the events.jsonl of one node: its view of the others. Lines are untrusted: a line that is not an
// event with a time, or longer than a limit, is counted and skipped, as are lines beyond the memory limit.
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
    size_t member;              // unused in a VIEW
    struct lab_set *neighbours; // in a VIEW: malloc'ed
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
void lab_journal_again(struct lab_journal *journal); // before a restart of the node
void lab_journal_close(struct lab_journal *journal);

// The time by which every one of `members` had a sign of these kinds at or after `from` and before `until`;
// NAN: a member had none, or there are no members.
double lab_journal_all(const struct lab_journal *journal, unsigned kinds, const struct lab_set *members,
                       double from, double until);
// The time of the first view of the node with any of `members` among its neighbours (`present`), or with none
// of them; NAN: never.
double lab_journal_view(const struct lab_journal *journal, const struct lab_set *members, bool present,
                        double from, double until);

#endif
