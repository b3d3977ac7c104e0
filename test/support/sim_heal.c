// Invariants that hold once everything has healed.
#include "test/support/sim_check.h"
#include "test/support/sim_toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sim_node *sim_check_process(const struct sim_world *world, size_t identity)
{
    if (world->node[identity]->running)
        return world->node[identity];
    for (size_t host = world->options.nodes; host < world->hosts; host++)
        if (world->node[host]->self == identity && world->node[host]->running)
            return world->node[host];
    return NULL;
}

static uint8_t flags_of(const struct sim_world *world, size_t identity)
{
    const struct sim_node *node = sim_check_process(world, identity);
    struct gossip_member_info info;

    return node && sim_member_info(node, identity, &info) ? info.record->flags : 0;
}

// Flapping nodes keep themselves out for a while, unless half or more of all nodes do.
bool sim_check_counts(const struct sim_world *world, size_t identity)
{
    uint8_t flags = flags_of(world, identity);
    size_t eligible = 0, held = 0;

    for (size_t i = 0; i < world->options.nodes && (flags & GOSSIP_RECORD_HELD); i++) {
        eligible += (flags_of(world, i) & GOSSIP_RECORD_ELIGIBLE) != 0;
        held += (flags_of(world, i) & GOSSIP_RECORD_HELD) != 0;
    }
    return (flags & GOSSIP_RECORD_ELIGIBLE) || ((flags & GOSSIP_RECORD_HELD) && eligible <= held);
}

static bool agrees(struct sim_world *world, struct sim_node *node, uint64_t hash, const char **what)
{
    struct gossip_membership_totals totals;
    size_t count, counting = 0;
    const struct gossip_record *view = gossip_membership_view(node->member.membership, &count);

    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *other = sim_check_process(world, i);
        struct gossip_member_info info;
        bool known = sim_member_info(node, i, &info);
        bool here = known && (info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT);
        counting += sim_check_counts(world, i);
        if (other && other->faults.liar)
            continue;
        *what = other ? "a living node is not known, or considered dead"
                      : "a node that is gone is considered alive";
        if (here != (other != NULL))
            return false;
        *what = "a member is not eligible";
        if (other && !(info.record->flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD)))
            return false;
    }
    gossip_membership_totals(node->member.membership, &totals);
    *what = "hashes of the view differ";
    if (totals.view_hash != hash)
        return false;
    *what = "the view differs from the living nodes";
    for (size_t i = 0; i < count; i++)
        if (!sim_check_counts(world, sim_world_find(world, &view[i].id)))
            return false;
    return count == counting;
}

bool sim_check_agree(struct sim_world *world, const char **what)
{
    struct gossip_membership_totals totals;
    bool first = true;
    uint64_t hash = 0;

    for (size_t i = 0; i < world->options.nodes; i++) {
        struct sim_node *node = sim_check_process(world, i);
        if (!node || node->faults.liar)
            continue;
        gossip_membership_totals(node->member.membership, &totals);
        hash = first ? totals.view_hash : hash;
        first = false;
        if (!agrees(world, node, hash, what))
            return false;
    }
    return true;
}

static bool edge_of(const struct sim_node *node, size_t peer, struct gossip_edge_info *info)
{
    for (size_t i = 0; node->train.exchange && i < gossip_exchange_edges(node->train.exchange); i++) {
        gossip_exchange_edge_info(node->train.exchange, i, info);
        if (gossip_id_compare(&info->peer, sim_member_id(node, peer)) == 0)
            return true;
    }
    return false;
}

static bool meets(const struct sim_node *node, size_t peer)
{
    return gossip_graph_meets(sim_graph(node), sim_member_id(node, peer));
}

static bool is_edge(const struct sim_world *world, const struct sim_node *node, size_t peer)
{
    const struct sim_node *other = sim_check_process(world, peer);
    struct gossip_edge_info info;

    if (!other || !meets(node, peer) || !meets(other, node->self) || !node->peer[peer].link)
        return false;
    return !world->options.learner || (edge_of(node, peer, &info) && info.state == GOSSIP_EDGE_LIVE);
}

bool sim_check_connected(const struct sim_world *world)
{
    size_t nodes = world->options.nodes, head = 0, tail = 0, live = 0;
    size_t *queue = sim_must(calloc(nodes, sizeof *queue));
    bool *reached = sim_must(calloc(nodes, sizeof *reached));

    for (size_t i = 0; i < nodes; i++) {
        bool here = sim_check_counts(world, i);
        live += here;
        if (here && !tail) {
            queue[tail++] = i;
            reached[i] = true;
        }
    }
    for (; head < tail; head++) {
        const struct sim_node *node = sim_check_process(world, queue[head]);
        for (size_t i = 0; i < nodes; i++)
            if (!reached[i] && is_edge(world, node, i)) {
                reached[i] = true;
                queue[tail++] = i;
            }
    }
    free(queue);
    free(reached);
    return tail == live;
}

void sim_check_describe(const struct sim_world *world, FILE *file)
{
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *node = sim_check_process(world, i);
        struct gossip_membership_totals totals;
        if (!node) {
            fprintf(file, "  node %zu is gone\n", i);
            continue;
        }
        gossip_membership_totals(node->member.membership, &totals);
        fprintf(file, "  node %zu%s%s%s%s boot %llu phase %d round %llu health %u view %zu hash %04x:", i,
                node->host == i ? "" : " (twin)", node->paused ? " paused" : "", node->slow ? " slow" : "",
                node->faults.liar ? " liar" : "", (unsigned long long)node->member.generation,
                (int)gossip_life_state(node->life.rules), (unsigned long long)node->train.rounds.round,
                totals.health, gossip_graph_members(sim_graph(node)), (unsigned)(totals.view_hash & 0xffff));
        for (size_t k = 0; k < world->options.nodes; k++) {
            struct gossip_member_info info;
            struct gossip_edge_info edge;
            if (k == i)
                continue;
            if (!sim_member_info(node, k, &info)) {
                fprintf(file, " %zu unknown", k);
                continue;
            }
            fprintf(file, " %zu %s%s", k, gossip_member_state_name(info.state),
                    info.record->flags & GOSSIP_RECORD_ELIGIBLE ? "" : " (not eligible)");
            if (node->peer[k].link)
                fprintf(file, " linked by %llu", (unsigned long long)node->peer[k].link->stream);
            if (edge_of(node, k, &edge))
                fprintf(file, " [%s %llu:%llu%s]", gossip_edge_state_name(edge.state),
                        (unsigned long long)edge.epoch, (unsigned long long)edge.sequence,
                        meets(node, k) ? "" : " stranger");
        }
        fprintf(file, "\n");
    }
}

double sim_check_pull(const struct sim_world *world)
{
    double sum[SIM_PARAMETERS] = {0}, most = 0;

    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *node = sim_check_counts(world, i) ? sim_check_process(world, i) : NULL;
        const float *correction =
            node && node->train.exchange ? gossip_exchange_correction(node->train.exchange) : NULL;
        for (size_t j = 0; correction && j < SIM_PARAMETERS; j++)
            sum[j] += (double)correction[j];
    }
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        most = fmax(most, fabs(sum[j]));
    return most;
}

static bool opposite(const float *a, const float *b)
{
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        if (a[j] != -b[j])
            return false;
    return true;
}

// r bit-identical and c opposite, where both ends are live and at the same sequence number.
static bool ends_match(const struct sim_world *world, size_t a, size_t b)
{
    const struct sim_node *at = sim_check_process(world, a), *to = sim_check_process(world, b);
    struct gossip_edge_info ab, ba;

    if (!at || !to || !edge_of(at, b, &ab) || !edge_of(to, a, &ba) || ab.state != GOSSIP_EDGE_LIVE ||
        ba.state != GOSSIP_EDGE_LIVE || ab.epoch != ba.epoch || ab.sequence != ba.sequence)
        return true;
    if (!ab.reference || !ab.correction) // before the first exchange
        return !ab.reference == !ba.reference && !ab.correction == !ba.correction;
    return memcmp(ab.reference, ba.reference, SIM_PARAMETERS * sizeof(float)) == 0 &&
           opposite(ab.correction, ba.correction);
}

bool sim_check_edges_match(struct sim_world *world)
{
    bool match = true;

    for (size_t a = 0; a < world->options.nodes; a++)
        for (size_t b = a + 1; b < world->options.nodes; b++) {
            if (ends_match(world, a, b))
                continue;
            sim_world_trace(world, a, "EDGE DIFFERS", NULL, b, 0);
            match = false;
        }
    return match;
}

// The mean of all models, or of those of the nodes that count in the graph.
static size_t mean_of(const struct sim_world *world, bool counting, double *mean)
{
    size_t count = 0;

    memset(mean, 0, SIM_PARAMETERS * sizeof *mean);
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *node = sim_check_process(world, i);
        if (!node || !node->train.exchange || (counting && !sim_check_counts(world, i)))
            continue;
        count++;
        for (size_t j = 0; j < SIM_PARAMETERS; j++)
            mean[j] += (double)gossip_exchange_model(node->train.exchange)[j];
    }
    for (size_t j = 0; j < SIM_PARAMETERS && count; j++)
        mean[j] /= (double)count;
    return count;
}

double sim_check_distance(const struct sim_world *world)
{
    double mean[SIM_PARAMETERS], most = 0;

    mean_of(world, true, mean);
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *node = sim_check_counts(world, i) ? sim_check_process(world, i) : NULL;
        for (size_t j = 0; node && node->train.exchange && j < SIM_PARAMETERS; j++)
            most = fmax(most, fabs((double)gossip_exchange_model(node->train.exchange)[j] - mean[j]));
    }
    return most;
}

double sim_check_sum_error(const struct sim_world *world)
{
    double mean[SIM_PARAMETERS], most = 0;
    size_t count = mean_of(world, false, mean);

    for (size_t j = 0; j < SIM_PARAMETERS && count; j++)
        most = fmax(most, fabs(mean[j] - (double)sim_toy_of(world)->start[j] -
                               sim_toy_of(world)->given[j] / (double)count));
    return most;
}

double sim_check_excess_loss(const struct sim_world *world)
{
    double mean[SIM_PARAMETERS];
    const struct sim_model *model = &sim_toy_of(world)->model;
    float x[SIM_PARAMETERS], best[SIM_PARAMETERS];
    bool *in = sim_must(calloc(world->options.nodes, sizeof *in));

    mean_of(world, true, mean);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        x[j] = (float)mean[j];
    for (size_t i = 0; i < world->options.nodes; i++)
        in[i] = sim_check_counts(world, i);
    double excess = sim_model_loss(model, in, x) - sim_model_best(model, in, best);
    free(in);
    return excess;
}
