// A hard member has direct links only with open ones, so on a ring it stands between two of them.
//
// The open members keep their order. A hard one goes into the gap before which it stands by its hash, if no
// other has; else it waits for the next free gap, and the latest to wait goes first; if there is none left,
// it goes where it stands. The others go to the first place, from where they stand on, that is not beside a
// hard one, if there is any. So a member that joins or leaves, or is reached in another way, moves few
// others.
#include "topology/parts.h"

#include <stdlib.h>

bool topology_has_hard(const struct topology_member *members, size_t n)
{
    bool hard = false, open = false;
    for (size_t i = 0; i < n; i++) {
        hard |= members[i].access == TOPOLOGY_HARD;
        open |= members[i].access == TOPOLOGY_OPEN;
    }
    return hard && open;
}

struct circle {
    const struct topology_member *members;
    const uint32_t *order;
    size_t n, first; // first: an open member. Members by their place in `order`
    uint32_t *next;  // [n] TOPOLOGY_VACANT: it has not joined yet
    uint32_t *wait;  // [n] hard members
};

static enum topology_access access_of(const struct circle *circle, size_t at)
{
    return circle->members[circle->order[at]].access;
}

static void put(struct circle *circle, size_t at, size_t behind)
{
    circle->next[at] = circle->next[behind];
    circle->next[behind] = (uint32_t)at;
}

static void join_open(struct circle *circle)
{
    size_t last = circle->first;
    circle->next[last] = (uint32_t)last;
    for (size_t i = 1; i < circle->n; i++) {
        const size_t at = (circle->first + i) % circle->n;
        if (access_of(circle, at) != TOPOLOGY_OPEN)
            continue;
        put(circle, at, last);
        last = at;
    }
}

static bool is_free(const struct circle *circle, size_t gap)
{
    return access_of(circle, circle->next[gap]) == TOPOLOGY_OPEN;
}

// Twice around: a gap may be before all that wait.
static void join_hard(struct circle *circle)
{
    size_t waiting = 0, gap = circle->first;
    for (size_t i = 1; i <= 2 * circle->n; i++) {
        const size_t at = (circle->first + i) % circle->n;
        if (access_of(circle, at) == TOPOLOGY_HARD && i < circle->n) {
            if (is_free(circle, gap))
                put(circle, at, gap);
            else
                circle->wait[waiting++] = (uint32_t)at;
        } else if (access_of(circle, at) == TOPOLOGY_OPEN) {
            if (waiting > 0 && is_free(circle, gap))
                put(circle, circle->wait[--waiting], gap);
            gap = at;
        }
    }
}

static size_t away_from_hard(const struct circle *circle, size_t own)
{
    size_t at = own;
    while (access_of(circle, at) == TOPOLOGY_HARD || access_of(circle, circle->next[at]) == TOPOLOGY_HARD) {
        at = circle->next[at];
        if (at == own)
            break;
    }
    return at;
}

// Where a member stands: behind the last one before it that is open or of its kind.
static void join_others(struct circle *circle, enum topology_access access)
{
    size_t own = circle->first;
    for (size_t i = 1; i < circle->n; i++) {
        const size_t at = (circle->first + i) % circle->n;
        if (access_of(circle, at) != TOPOLOGY_OPEN && access_of(circle, at) != access)
            continue;
        if (circle->next[at] == TOPOLOGY_VACANT)
            put(circle, at, access == TOPOLOGY_HARD ? own : away_from_hard(circle, own));
        own = at;
    }
}

enum base_error topology_ring_apart(const struct topology_member *members, size_t n, uint32_t *order)
{
    if (!topology_has_hard(members, n))
        return BASE_OK;
    uint32_t *next = malloc(2 * n * sizeof *next);
    struct circle circle = {members, order, n, 0, next, next + n};
    if (!next)
        return BASE_ENOMEM;
    for (size_t i = 0; i < n; i++)
        next[i] = TOPOLOGY_VACANT;
    while (access_of(&circle, circle.first) != TOPOLOGY_OPEN)
        circle.first++;
    join_open(&circle);
    join_hard(&circle);
    join_others(&circle, TOPOLOGY_HARD);
    join_others(&circle, TOPOLOGY_USUAL);
    uint32_t *moved = circle.wait;
    for (size_t i = 0, at = circle.first; i < n; i++, at = next[at])
        moved[i] = order[at];
    for (size_t i = 0; i < n; i++)
        order[i] = moved[i];
    free(next);
    return BASE_OK;
}
