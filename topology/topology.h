// Which members meet. A topology gives each member a schedule of meetings, as a pure function of members,
// seed and round; nothing is negotiated. It does not know addresses, liveness or time.
//
// A plan is made from one view of the members and never changes; another view needs another plan. Any thread
// may read it.
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include "base/error.h"
#include "base/limits.h"
#include <stddef.h>
#include <stdint.h>

// All kinds: constant TOPOLOGY_..., family (topology/parts.h), name in configurations.
#define TOPOLOGY_LIST(X)                                                                                     \
    /* members on a circle; alternating matchings along it */                                                \
    X(RING, ring, "ring")                                                                                    \
    /* round t: slot i meets i XOR 2^(t mod m), m = ceil(log2 slots) */                                      \
    X(BUTTERFLY, butterfly, "butterfly")                                                                     \
    X(RANDOM, random, "random") /* union of K hash rings, used in turn: an expander */                       \
    /* a grid whose opposite sides are joined: four neighbours */                                            \
    X(TORUS, torus, "torus")                                                                                 \
    X(EXPONENTIAL, exponential, "exponential") /* i with i + 2^k, all k, modulo n */                         \
    X(ONE_PEER, onepeer, "one-peer")           /* the same, one k per round */                               \
    X(COMPLETE, complete, "complete")          /* every pair meets, as in a round-robin tournament */        \
    X(STAR, star, "star")                      /* every member meets the hub, in turn */                     \
    X(MATCHINGS, matchings, "matchings")       /* a new random matching in each round */                     \
    /* base-(k+1) graph: exact mean after finitely many rounds; weights other than 1/2 */                    \
    X(BASE, base2, "base")                                                                                   \
    /* exact mean inside each group, then among the leaders; weights as in base */                           \
    X(HIERARCHICAL, hierarchical, "hierarchical")                                                            \
    X(FILE, file, "file") /* a graph read from a file */
#define TOPOLOGY_CONSTANT(constant, family, name) TOPOLOGY_##constant,
#define TOPOLOGY_CHOICE(constant, family, name)   "|" name
enum topology_kind { TOPOLOGY_LIST(TOPOLOGY_CONSTANT) TOPOLOGY_KINDS };
#define TOPOLOGY_CHOICES (&TOPOLOGY_LIST(TOPOLOGY_CHOICE)[1]) // "ring|butterfly|..."

#define TOPOLOGY_NOBODY      SIZE_MAX
#define TOPOLOGY_NO_SLOT     UINT32_MAX
#define TOPOLOGY_RINGS_MAX   8u
#define TOPOLOGY_BASE_MAX    7u
#define TOPOLOGY_MEMBERS_MAX (4u * LIMIT_MEMBERS) // of a plan; more than a node knows: for the simulator

// BASE_EINVAL: unknown name; *why lists the known ones.
enum base_error topology_kind_parse(const char *name, enum topology_kind *kind,
                                    struct base_reason *why) BASE_CHECK;
const char *topology_kind_name(enum topology_kind kind);

// With whom a member can have a direct link.
enum topology_access {
    TOPOLOGY_USUAL, // with all that are not hard
    TOPOLOGY_OPEN,  // with all: everybody can call it
    TOPOLOGY_HARD,  // only with open ones
};

struct topology_member {
    char name[LIMIT_NODE_NAME_BYTES]; // the positions on rings follow from it and the seed
    uint8_t id[32];                   // unique; breaks ties between names and between claims
    uint32_t slot;                    // butterfly: claimed slot, or TOPOLOGY_NO_SLOT
    uint32_t group;                   // hierarchical: the same number means the same host or rack
    enum topology_access access;      // where it stands on a ring, a star or a new butterfly
};

struct topology_graph; // topology/file.h

struct topology_options {
    enum topology_kind kind;
    uint64_t seed;
    unsigned rings;                     // random: K, 1..TOPOLOGY_RINGS_MAX
    unsigned base_k;                    // base: 1..TOPOLOGY_BASE_MAX; 0 is 1
    const struct topology_graph *graph; // file: read only while the plan is made
};

struct topology_plan;

// members[n] is copied; its order does not matter to the plan. BASE_EINVAL: rings or base_k out of range, or
// n > TOPOLOGY_MEMBERS_MAX. Every kind accepts every number of members. file: a member that the file does not
// name meets no other; of several members with one name, the one with the lowest id has its place.
enum base_error topology_plan_create(const struct topology_options *options,
                                     const struct topology_member *members, size_t n,
                                     struct topology_plan **plan) BASE_CHECK;
void topology_plan_destroy(struct topology_plan *plan);
size_t topology_plan_members(const struct topology_plan *plan);

// The member that `member` meets in `round`, or TOPOLOGY_NOBODY if it rests. Both are indices into the
// members that were given. Symmetric: if a meets b then b meets a.
size_t topology_plan_partner(const struct topology_plan *plan, size_t member, uint64_t round);
// The weight w of that meeting, the same for both: x_i' = (1-w) x_i + w x_j; 0 if it rests. 1/2 except in
// base and hierarchical.
double topology_plan_weight(const struct topology_plan *plan, size_t member, uint64_t round);
// Rounds after which the schedule repeats; 0: never (random matchings).
uint64_t topology_plan_period(const struct topology_plan *plan);
// Writes all members that `member` ever meets, ascending, without repeats, to peers[capacity]. Returns their
// number; if it exceeds `capacity`, only the first `capacity` are written.
size_t topology_plan_neighbours(const struct topology_plan *plan, size_t member, size_t *peers,
                                size_t capacity);
// Butterfly: the slot that this member has in the plan and should claim. Other kinds: TOPOLOGY_NO_SLOT.
uint32_t topology_plan_slot(const struct topology_plan *plan, size_t member);
// The position of this member on ring 0, the order that every kind is based on: 0 to n - 1.
size_t topology_plan_place(const struct topology_plan *plan, size_t member);

#endif
