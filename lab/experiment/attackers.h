// The key `attackers` of an experiment: nodes that speak the protocol honestly and give others false models.
// Pure functions.
#ifndef LAB_EXPERIMENT_ATTACKERS_H
#define LAB_EXPERIMENT_ATTACKERS_H

#include "base/error.h"
#include "lab/attack/attack.h"
#include "node/schema/tree.h"

struct lab_attacker {
    size_t node;
    enum lab_attack_kind kind;
    double factor; // 1 unless the file says otherwise
};
struct lab_attackers {
    struct lab_attacker *items; // malloc'ed, a node once
    size_t count;
};

// Reads and checks `attackers` for `nodes` nodes, of which at least one stays honest. BASE_EINVAL: the reason
// does not name the place in the file; *where does, and *attackers is empty.
enum base_error lab_attackers_read(const struct node_tree *tree, size_t nodes,
                                   struct lab_attackers *attackers, const struct node_tree **where,
                                   struct base_reason *why) BASE_CHECK;
void lab_attackers_free(struct lab_attackers *attackers);
// NULL: the node is honest.
const struct lab_attacker *lab_attackers_find(const struct lab_attackers *attackers, size_t node);
#define LAB_GHOSTS_MAX 2000u
size_t lab_attacker_ghosts(const struct lab_attacker *attacker);    // members that it makes up
size_t lab_attackers_ghosts(const struct lab_attackers *attackers); // all of them
bool lab_attackers_have(const struct lab_attackers *attackers, enum lab_attack_kind kind);

#endif
