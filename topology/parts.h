// The parts of a plan. Private to this folder and its tests.
#ifndef TOPOLOGY_PARTS_H
#define TOPOLOGY_PARTS_H

#include "topology/topology.h"
#include <stdbool.h>

#define TOPOLOGY_VACANT    UINT32_MAX           // no member holds this slot
#define TOPOLOGY_SLOTS_MAX TOPOLOGY_MEMBERS_MAX // claims from here on count as none

// What a kind of topology implements. `make` is called for any n, with the members already on their hash
// rings; the other functions only for n >= 2. `drop` frees plan->data, also after `make` has failed.
struct topology_family {
    enum base_error (*make)(struct topology_plan *plan, const struct topology_options *options,
                            const struct topology_member *members); // NULL: nothing to make
    void (*drop)(void *data);
    size_t (*partner)(const struct topology_plan *plan, size_t member, uint64_t round);
    double (*weight)(const struct topology_plan *plan, size_t member, uint64_t round); // NULL: always 1/2
    uint64_t (*period)(const struct topology_plan *plan);
    size_t (*neighbours)(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity);
    bool along; // members meet along the rings: hard ones are set apart there
    bool alike; // the graph of all meetings looks the same from every member
};

struct topology_plan {
    const struct topology_family *family;
    size_t n, rings;
    uint64_t seed;
    uint32_t *order;    // [rings][n] member at a position
    uint32_t *position; // [rings][n] position of a member
    uint32_t *slot;     // butterfly: [n]
    void *data;         // of the family
};

#define TOPOLOGY_EXTERN(constant, family, name) extern const struct topology_family topology_##family;
TOPOLOGY_LIST(TOPOLOGY_EXTERN)

// Peers of one member, ascending, without repeats; for kinds with few of them.
#define TOPOLOGY_FOUND_MAX 32u // two per ring (of 8), or two per stage (of 14)
struct topology_found {
    size_t peers[TOPOLOGY_FOUND_MAX], count;
};
void topology_find(struct topology_found *found, size_t peer); // TOPOLOGY_NOBODY: nothing
// The result of topology_plan_neighbours.
size_t topology_give(const struct topology_found *found, size_t *peers, size_t capacity);

// A meeting of a schedule that is stored round by round.
struct topology_meeting {
    uint32_t a, b, round;
    double weight;
};

// A growing list. If memory runs out, the list stays unchanged and `failed` is set, which is checked once, at
// the end.
struct topology_meetings {
    struct topology_meeting *list;
    size_t count;
    bool failed;
};
void topology_meet(struct topology_meetings *meetings, struct topology_meeting meeting);

// Plans whose rounds are listed. Fills plan->data. The two members of a meeting are given as positions on
// ring 0. Frees the list in any case.
enum base_error topology_table_make(struct topology_plan *plan, struct topology_meetings *meetings,
                                    uint32_t rounds) BASE_CHECK;
void topology_table_drop(void *table);
size_t topology_table_partner(const struct topology_plan *plan, size_t member, uint64_t round);
double topology_table_weight(const struct topology_plan *plan, size_t member, uint64_t round);
uint64_t topology_table_period(const struct topology_plan *plan);
size_t topology_table_neighbours(const struct topology_plan *plan, size_t member, size_t *peers,
                                 size_t capacity);
// The functions of such a family, except for .make.
#define TOPOLOGY_TABLE                                                                                       \
    .drop = topology_table_drop, .partner = topology_table_partner, .weight = topology_table_weight,         \
    .period = topology_table_period, .neighbours = topology_table_neighbours

struct topology_edge {
    uint32_t a, b; // positions, a != b
    uint32_t serial;
};

struct topology_edges {
    struct topology_edge *list;
    size_t count;
    bool failed;
};
void topology_join(struct topology_edges *edges, size_t a, size_t b); // a == b: nothing

// A proper edge colouring: colour[edge], so that no two edges at a vertex have the same colour. It has at
// most one colour more than the largest degree; colours differ by at most one in their number of edges. The
// edges must be unique; the result depends on their order. Misra, Gries 1992.
enum base_error topology_colour(size_t n, const struct topology_edge *edges, size_t n_edges, uint32_t *colour,
                                uint32_t *colours) BASE_CHECK;

// The plan of a graph that does not change: each colour is a round. Repeated edges count once. Edges that are
// added along cycles get few colours. Frees the list in any case.
enum base_error topology_graph_make(struct topology_plan *plan, struct topology_edges *edges) BASE_CHECK;

// The number of rounds of the base-(k+1) graph of n members, and its meetings among the positions who[n],
// starting at `round`.
uint32_t topology_base_rounds(size_t n, unsigned k);
void topology_base(struct topology_meetings *meetings, const uint32_t *who, size_t n, unsigned k,
                   uint32_t round);

// The key of a member on hash ring `ring`: the same on every machine.
uint64_t topology_ring_key(uint64_t seed, unsigned ring, const char *name);

// order[position] = member, by topology_ring_key, equal keys by name, then id. BASE_ENOMEM changes nothing.
enum base_error topology_ring_order(uint64_t seed, unsigned ring, const struct topology_member *members,
                                    size_t n, uint32_t *order) BASE_CHECK;

// Hard members need open neighbours: both kinds are there.
bool topology_has_hard(const struct topology_member *members, size_t n);
// Moves members along the ring, so that a hard one stands between open ones if there are enough of them. Does
// nothing if there is no hard or no open one. BASE_ENOMEM changes nothing.
enum base_error topology_ring_apart(const struct topology_member *members, size_t n,
                                    uint32_t *order) BASE_CHECK;

// Positions on a ring of n: the position that meets `position` in `round`, or TOPOLOGY_NOBODY; and the number
// of rounds after which this repeats.
size_t topology_ring_partner(size_t n, size_t position, uint64_t round);
uint64_t topology_ring_period(size_t n);

// Turns claims into slots: slot[n], and holder[TOPOLOGY_SLOTS_MAX] (member, or TOPOLOGY_VACANT). `order`
// holds the members in the order in which they take vacancies. Returns the highest slot in use + 1.
size_t topology_slots_assign(const struct topology_member *members, size_t n, const uint32_t *order,
                             uint32_t *slot, uint32_t *holder);

// m = ceil(log2 slots).
unsigned topology_butterfly_stages(size_t slots);
// Every member's partner in one stage, partner[n] (member or TOPOLOGY_VACANT). Members without a partner in
// the butterfly pair up in slot order: the first with the second and so on, or, if `shifted`, the second with
// the third and so on, the last with the first. Returns the number of these members.
size_t topology_butterfly_pair(const uint32_t *holder, size_t slots, unsigned stage, bool shifted,
                               uint32_t *partner);

#endif
