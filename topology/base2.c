// The base-2 graph: Y. Takezawa, R. Sato, H. Bao, K. Niwa, M. Yamada, "Beyond Exponential Graph:
// Communication- Efficient Topologies for Decentralized Learning via Finite-time Convergence", NeurIPS 2023,
// for k = 1.
//
// n = p q with p = 2^a and q odd: p teams of q average inside, then position by position across, as a
// hypercube. Inside a team, q = 2^p1 + 2^p2 + ... with p1 > p2 > ...: parts of these sizes average each
// within itself (p1 rounds, smaller parts late); then part 1 meets all later ones, part 2 all later ones, and
// so on, with weight |part j| / (|part j| + |part j+1| + ...), after which the mean inside every part is the
// mean of all; and each part averages within itself again as soon as it has met.
#include "topology/parts.h"

static unsigned log2_floor(size_t n)
{
    unsigned log = 0;
    while (n >> log > 1)
        log++;
    return log;
}

uint32_t topology_base_rounds(size_t n)
{
    uint32_t rounds = 0;
    for (; n > 1 && n % 2 == 0; n /= 2)
        rounds++;
    return n > 1 ? rounds + 2 * log2_floor(n) + 1 : rounds;
}

// who[count], count = 2^stages, in `stages` rounds from `round` on.
static void hypercube(struct topology_meetings *meetings, const uint32_t *who, unsigned stages,
                      uint32_t round)
{
    for (unsigned stage = 0; stage < stages; stage++)
        for (size_t i = 0; i < (size_t)1 << stages; i++)
            if (!(i >> stage & 1))
                topology_meet(meetings, (struct topology_meeting){who[i], who[i | (size_t)1 << stage],
                                                                  round + stage, 0.5});
}

static void average_team(struct topology_meetings *meetings, const uint32_t *who, size_t q, uint32_t round)
{
    unsigned most = log2_floor(q);
    uint32_t turn = round + most; // in which the part at hand meets all later ones
    for (size_t begin = 0; begin < q;) {
        unsigned stages = log2_floor(q - begin);
        size_t part = (size_t)1 << stages, rest = q - begin - part;
        hypercube(meetings, who + begin, stages, round + most - stages);
        for (size_t i = 0; i < rest; i++)
            topology_meet(meetings, (struct topology_meeting){who[begin + i], who[begin + part + i], turn,
                                                              (double)part / (double)(part + rest)});
        turn += rest > 0;
        hypercube(meetings, who + begin, stages, turn);
        begin += part;
    }
}

void topology_base(struct topology_meetings *meetings, const uint32_t *who, size_t n, uint32_t round)
{
    size_t p = n & (0 - n), q = n < 2 ? 1 : n / p;
    if (n < 2)
        return;
    for (size_t team = 0; q > 1 && team < p; team++)
        average_team(meetings, who + team * q, q, round);
    round += topology_base_rounds(q);
    for (size_t stage = 1; stage < p; stage *= 2, round++)
        for (size_t i = 0; i < n; i++)
            if (!(i / q & stage))
                topology_meet(meetings, (struct topology_meeting){who[i], who[i + stage * q], round, 0.5});
}
