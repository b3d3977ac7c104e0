// What an attacker gives the other nodes in place of its model. An attacker is a simulated node that speaks
// the protocol honestly about a model that is false: references, sequence numbers and hashes fit what it
// sends. Only the vectors are its lie, so the product needs no code for it.
//
//     create -> { begin -> give -> take }* -> destroy
//
// Some kinds falsify their own model and go on from what they gave: SIGN, REPLAY, FREERIDE, LABELS, MOMENTS.
// The others know all honest models and give something made of these, whatever their own training has become.
// STALL, FINISHED, DONOR and GHOSTS lie in messages, which is lab/sim's part; their model is true. One owner;
// everything is a function of the arguments and the seed.
#ifndef LAB_ATTACK_ATTACK_H
#define LAB_ATTACK_ATTACK_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// name, the constant; what `factor` 1 means, 0: the kind has no factor
#define LAB_ATTACK_KINDS(ROW)                                                                                \
    ROW(SIGN, "sign", 1)             /* its own progress of the round, reversed: it climbs the loss */       \
    ROW(NOISE, "noise", 0.05)        /* the honest mean and this much Gaussian noise in every entry */       \
    ROW(BIG, "big", 5e4)             /* this in every entry */                                               \
    ROW(ONE_ENTRY, "one-entry", 5e4) /* the honest mean with this in its last entry */                       \
    ROW(ALIE, "alie", 1)             /* the honest mean less so many standard deviations, entry by entry */  \
    ROW(IPM, "ipm", 1)               /* the progress of the honest mean, reversed */                         \
    ROW(DRIFT, "drift", 1e-4)     /* the honest mean, further off by this in each entry with each round */   \
    ROW(SPIKE, "spike", 5e4)      /* the honest mean, and as BIG in every LAB_ATTACK_SPIKE_ROUNDSth round */ \
    ROW(REPLAY, "replay", 0)      /* its first model for ever */                                             \
    ROW(NEGATED, "negated", 1)    /* the honest mean, negated */                                             \
    ROW(FREERIDE, "freeride", 0)  /* its model before the local steps: no work of its own */                 \
    ROW(LABELS, "labels", 0)      /* its own model, trained on labels in reverse order */                    \
    ROW(MOMENTS, "moments", 5000) /* its own model; second moments multiplied by this */                     \
    ROW(STALL, "stall", 0) /* its own model, which it never exchanges; its rounds grow slowly (lab/sim) */   \
    ROW(FINISHED, "finished", 0) /* its own model; claims to have done its last step (lab/sim) */            \
    ROW(DONOR, "donor",                                                                                      \
        0.1) /* its own model; claims the last step, and gives noise to who joins (lab/sim) */               \
    ROW(GHOSTS, "ghosts", 10) /* its own model; announces so many members that do not exist (lab/sim) */

#define LAB_ATTACK_SPIKE_ROUNDS 60u

enum lab_attack_kind {
#define ROW(constant, name, unit) LAB_ATTACK_##constant,
    LAB_ATTACK_KINDS(ROW)
#undef ROW
        LAB_ATTACKS
};
const char *lab_attack_name(enum lab_attack_kind kind); // as in the file: "one-entry"
double lab_attack_unit(enum lab_attack_kind kind);      // of `factor`; 0: the kind has none

struct lab_attack;

struct lab_attack_options {
    enum lab_attack_kind kind;
    double factor; // times the unit
    uint64_t seed; // of noise and of the direction of drift
    size_t parameters;
};
struct lab_attack_view {        // of the honest nodes
    const float *const *models; // [count][parameters]
    size_t count;
};

enum base_error lab_attack_create(const struct lab_attack_options *options, struct lab_attack **attack,
                                  struct base_reason *why) BASE_CHECK;
void lab_attack_destroy(struct lab_attack *attack); // NULL is fine
// The process starts with this model.
void lab_attack_begin(struct lab_attack *attack, const float *model);
// The vectors are about to be given to others: they become the lie. `second`: second moments, or NULL. A
// model that is not finite becomes the honest mean first.
void lab_attack_give(struct lab_attack *attack, const struct lab_attack_view *honest, float *model,
                     float *second);
// The exchange is over, and the vectors are the node's own again.
void lab_attack_take(struct lab_attack *attack, const float *model, float *second);

#endif
