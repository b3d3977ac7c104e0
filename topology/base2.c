// The base-(k+1) graph: Y. Takezawa, R. Sato, H. Bao, K. Niwa, M. Yamada, "Beyond Exponential Graph:
// Communication-Efficient Topologies for Decentralized Learning via Finite-time Convergence", NeurIPS 2023,
// algorithms 1 to 3. In the paper a node has up to k neighbours in a round. Here it meets them one after
// another, with weights that have the same effect: k = 1 is the published base-2 graph round by round; a
// larger k takes more rounds than in the paper.
//
// n = p q, where no prime up to k+1 divides q. First each of p teams of q members averages; then, for each
// position in a team, the p members at that position average as a grid. Inside a team, q = a1 (k+1)^e1 + a2
// (k+1)^e2 + ... with e1 > e2 > ...: each term is the size of a part. First each part averages internally;
// smaller parts begin later, so that all end in the same round. Then part 1 meets all later parts, part 2
// meets all after it, and so on. After that the mean of every piece of (k+1)^e members is the mean of all,
// and each piece averages internally again as soon as its part has met the later ones. If that takes fewer
// rounds, all n members form one team.
#include "topology/parts.h"

// The largest power of k+1 that is at most n, and how many times it fits into n.
static size_t leading(size_t n, unsigned k, size_t *copies)
{
    size_t power = 1;
    while (power <= n / (k + 1))
        power *= k + 1;
    *copies = n / power;
    return power;
}

// The largest divisor of n without primes above k+1.
static size_t smooth_part(size_t n, unsigned k)
{
    size_t rest = n;
    for (size_t f = 2; f <= k + 1; f++)
        while (rest % f == 0)
            rest /= f;
    return n / rest;
}

// The rounds that a clique of f <= k+1 members takes to average, and its meetings.
static uint32_t clique_rounds(size_t f)
{
    return f == 2 ? 1 : topology_base_rounds(f, 1);
}

static void clique(struct topology_meetings *meetings, const uint32_t *who, size_t f, uint32_t round)
{
    if (f == 2)
        topology_meet(meetings, (struct topology_meeting){who[0], who[1], round, 0.5});
    else
        topology_base(meetings, who, f, 1, round);
}

// The rounds that a grid takes to average; its sides are the prime factors of n (a hyper-hypercube).
static uint32_t grid_rounds(size_t n)
{
    uint32_t rounds = 0;
    for (size_t f = 2; n > 1; f++)
        for (; n % f == 0; n /= f)
            rounds += clique_rounds(f);
    return rounds;
}

// Averages the n positions who[0], who[stride], ...
static void grid(struct topology_meetings *meetings, const uint32_t *who, size_t n, size_t stride,
                 uint32_t round)
{
    uint32_t side[TOPOLOGY_BASE_MAX + 1];
    for (size_t f = 2, step = 1; step < n; f++)
        for (; n / step % f == 0; step *= f, round += clique_rounds(f))
            for (size_t i = 0; i < n; i++) {
                if (i / step % f)
                    continue;
                for (size_t at = 0; at < f; at++)
                    side[at] = who[(i + at * step) * stride];
                clique(meetings, side, f, round);
            }
}

// Rounds until all parts of a team have averaged internally.
static uint32_t parts_rounds(size_t q, unsigned k)
{
    uint32_t most = 0;
    for (size_t copies, power; q; q -= copies * power) {
        power = leading(q, k, &copies);
        uint32_t rounds = grid_rounds(copies * power);
        most = rounds > most ? rounds : most;
    }
    return most;
}

static uint32_t team_rounds(size_t q, unsigned k)
{
    uint32_t turn = parts_rounds(q, k), most = turn;
    for (size_t copies, power; q; q -= copies * power) {
        power = leading(q, k, &copies);
        turn += q > copies * power ? (uint32_t)copies : 0;
        uint32_t end = turn + grid_rounds(power);
        most = end > most ? end : most;
    }
    return most;
}

// Each member of the later parts meets one member of each piece of this part; until then all members of this
// part hold the same value. Meeting them at once with weight w is the same as meeting them one after another
// with w, w / (1 - w), w / (1 - 2w), ...
static void meet_later(struct topology_meetings *meetings, const uint32_t *who, size_t power, size_t copies,
                       size_t rest, uint32_t round)
{
    double w = (double)power / (double)(copies * power + rest);
    for (size_t piece = 0; piece < copies; piece++)
        for (size_t i = 0; i < rest; i++)
            topology_meet(meetings,
                          (struct topology_meeting){who[piece * power + i], who[copies * power + i],
                                                    round + (uint32_t)piece, w / (1 - (double)piece * w)});
}

static void average_team(struct topology_meetings *meetings, const uint32_t *who, size_t q, unsigned k,
                         uint32_t round)
{
    const uint32_t inside = round + parts_rounds(q, k);
    uint32_t turn = inside; // the round in which the current part begins to meet the later ones
    for (size_t copies, power; q; q -= copies * power, who += copies * power) {
        power = leading(q, k, &copies);
        size_t part = copies * power, rest = q - part;
        grid(meetings, who, part, 1, inside - grid_rounds(part));
        if (rest) {
            meet_later(meetings, who, power, copies, rest, turn);
            turn += (uint32_t)copies;
        }
        for (size_t piece = 0; piece < copies; piece++)
            grid(meetings, who + piece * power, power, 1, turn);
    }
}

static uint32_t teams_rounds(size_t n, unsigned k)
{
    size_t p = smooth_part(n, k);
    return (n > p ? team_rounds(n / p, k) : 0) + grid_rounds(p);
}

static bool one_team_is_shorter(size_t n, unsigned k)
{
    return n > smooth_part(n, k) && team_rounds(n, k) < teams_rounds(n, k);
}

uint32_t topology_base_rounds(size_t n, unsigned k)
{
    if (n < 2)
        return 0;
    return one_team_is_shorter(n, k) ? team_rounds(n, k) : teams_rounds(n, k);
}

void topology_base(struct topology_meetings *meetings, const uint32_t *who, size_t n, unsigned k,
                   uint32_t round)
{
    if (n < 2)
        return;
    if (one_team_is_shorter(n, k)) {
        average_team(meetings, who, n, k, round);
        return;
    }
    size_t p = smooth_part(n, k), q = n / p;
    for (size_t team = 0; q > 1 && team < p; team++)
        average_team(meetings, who + team * q, q, k, round);
    for (size_t i = 0; i < q; i++)
        grid(meetings, who + i, p, q, round + (q > 1 ? team_rounds(q, k) : 0));
}
