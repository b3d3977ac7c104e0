#include "test/support/exchange_net.h"

#include "gossip/wire/message.h"
#include "test/support/cpu_kernels.h"
#include "topology/parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t net_seed(uint64_t initial)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : initial;

    printf("seed %llu (set P2PML_SEED to replay another)\n", (unsigned long long)seed);
    return seed;
}

static void *must(void *memory)
{
    BASE_ASSERT(memory);
    return memory;
}

struct gossip_id net_id(size_t node)
{
    struct gossip_id id = {{0}};

    id.bytes[0] = (uint8_t)(node >> 8);
    id.bytes[1] = (uint8_t)node;
    id.bytes[2] = 0x5a;
    return id;
}

size_t net_index(const struct gossip_id *id)
{
    return (size_t)id->bytes[0] << 8 | id->bytes[1];
}

// Hashed names put members anywhere on a ring; the tests need node i at position i.
static struct topology_plan *plan_in_order(enum topology_kind kind, size_t nodes)
{
    struct topology_options options = {.kind = kind, .rings = 3};
    struct topology_member *members = must(calloc(nodes, sizeof *members));
    struct topology_member *named = must(calloc(nodes, sizeof *named));
    uint32_t *order = must(calloc(nodes, sizeof *order));
    struct topology_plan *plan;

    for (size_t i = 0; i < nodes; i++)
        snprintf(named[i].name, sizeof named[i].name, "node-%zu", i);
    BASE_ASSERT(!topology_ring_order(options.seed, 0, named, nodes, order));
    for (size_t i = 0; i < nodes; i++) {
        struct gossip_id id = net_id(i);
        members[i] = named[order[i]];
        members[i].slot = (uint32_t)i;
        members[i].group = (uint32_t)(i / NET_GROUP);
        memcpy(members[i].id, id.bytes, sizeof id.bytes);
    }
    BASE_ASSERT(!topology_plan_create(&options, members, nodes, &plan));
    free(members);
    free(named);
    free(order);
    return plan;
}

struct net *net_create(size_t nodes, size_t parameters, enum topology_kind topology, uint64_t seed,
                       const struct gossip_exchange_options *options)
{
    struct net *net = must(calloc(1, sizeof *net));
    struct base_reason why;

    net->nodes = nodes;
    net->parameters = parameters;
    net->topology = topology;
    net->plan = plan_in_order(topology, nodes);
    net->node = must(calloc(nodes, sizeof *net->node));
    net->up = must(calloc(nodes * nodes, sizeof *net->up));
    net->start = must(calloc(parameters, sizeof *net->start));
    net->now_ns = 1000000000;
    net->delay_ns = 100000;
    net->step_scale = 0.1f;
    net->last = &net->first;
    base_rng_seed(&net->rng, seed);
    for (size_t i = 0; i < nodes; i++) {
        struct net_node *node = &net->node[i];
        node->options = *options;
        node->options.self = net_id(i);
        node->options.kernels = cpu_kernels();
        node->options.parameters = parameters;
        node->options.start = net->start;
        node->x = must(calloc(parameters, sizeof *node->x));
        node->correction = must(calloc(parameters, sizeof *node->correction));
        if (options->hold > 0)
            node->held = must(calloc(parameters, sizeof *node->held));
        if (options->share_second_moment)
            node->v = must(calloc(parameters, sizeof *node->v));
        BASE_ASSERT(!gossip_exchange_create(&node->options, &node->exchange, &why));
    }
    return net;
}

void net_destroy(struct net *net)
{
    while (net->first) {
        struct net_message *next = net->first->next;
        free(net->first->bytes);
        free(net->first);
        net->first = next;
    }
    for (size_t i = 0; i < net->nodes; i++) {
        gossip_exchange_destroy(net->node[i].exchange);
        free(net->node[i].x);
        free(net->node[i].v);
        free(net->node[i].correction);
        free(net->node[i].held);
    }
    topology_plan_destroy(net->plan);
    free(net->node);
    free(net->up);
    free(net->start);
    free(net);
}

// The time at which the message has left the node: one message leaves after the other.
static uint64_t leaves(struct net *net, size_t from, size_t bytes)
{
    struct net_node *node = &net->node[from];

    if (net->bandwidth == 0)
        return net->now_ns;
    uint64_t begins = node->free_ns > net->now_ns ? node->free_ns : net->now_ns;
    node->free_ns = begins + bytes * 1000000000ull / net->bandwidth;
    return node->free_ns;
}

static size_t payload_bytes(const struct gossip_message *message)
{
    struct gossip_payload payload[GOSSIP_MESSAGE_PAYLOADS];
    size_t bytes = 0;
    for (size_t n = gossip_message_payloads(message, payload); n > 0; n--)
        bytes += payload[n - 1].count;
    return bytes;
}

static void post(struct net *net, size_t from, const struct gossip_exchange_action *action)
{
    const struct gossip_message *message = &action->message;
    struct gossip_payload payload[GOSSIP_MESSAGE_PAYLOADS];
    const size_t payloads = gossip_message_payloads(message, payload);
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t header_bytes, to = net_index(&action->peer);

    BASE_ASSERT(!gossip_message_encode_header(message, header, sizeof header, &header_bytes));
    if (!net->up[from * net->nodes + to] || base_rng_uniform(&net->rng) < net->loss_chance)
        return;
    struct net_message *item = must(calloc(1, sizeof *item));
    item->from = from;
    item->to = to;
    item->bytes = must(malloc(sizeof header + payload_bytes(message)));
    item->count = header_bytes;
    memcpy(item->bytes, header, header_bytes);
    for (size_t i = 0; i < payloads; i++) {
        memcpy(item->bytes + item->count, payload[i].bytes, payload[i].count);
        item->count += payload[i].count;
    }
    item->due_ns = leaves(net, from, item->count) + net->delay_ns +
                   (net->jitter_ns ? base_rng_below(&net->rng, net->jitter_ns) : 0);
    net->node[from].bytes_out += item->count;
    net->node[from].payload_out += item->count - header_bytes;
    for (struct net_message *other = net->first; other; other = other->next) // a link keeps its order
        if (other->from == from && other->to == to && other->due_ns > item->due_ns)
            item->due_ns = other->due_ns;
    *net->last = item;
    net->last = &item->next;
}

enum base_error net_step(struct net *net, size_t node, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;

    event->now_ns = net->now_ns;
    struct gossip_exchange *exchange = net->node[node].exchange;
    enum base_error error = net->teller ? gossip_tell_step(exchange, event, &actions, net->teller)
                                        : gossip_exchange_step(exchange, event, &actions);
    if (net->watch)
        net->watch(net, node, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        switch (actions.list[i].kind) {
        case GOSSIP_EXCHANGE_SEND:
            post(net, node, &actions.list[i]);
            break;
        case GOSSIP_EXCHANGE_ROUND_DONE:
            net->node[node].in_round = false;
            net->node[node].rounds_done++;
            net->node[node].goes_on = actions.list[i].round;
            break;
        case GOSSIP_EXCHANGE_JUDGED:
            break;
        case GOSSIP_EXCHANGE_REFUSE:
            BASE_ASSERT(net->n_refusals < NET_REFUSALS);
            net->refusal[net->n_refusals++] =
                (struct net_refusal){node, net_index(&actions.list[i].peer), actions.list[i].why};
            break;
        }
    }
    return error;
}

void net_tell(struct net *net, size_t node, enum gossip_exchange_event_kind kind, size_t peer)
{
    struct gossip_exchange_event event = {.kind = kind, .peer = net_id(peer)};

    BASE_ASSERT(!net_step(net, node, &event));
}

void net_link(struct net *net, size_t a, size_t b)
{
    net->up[a * net->nodes + b] = net->up[b * net->nodes + a] = true;
    net_tell(net, a, GOSSIP_EXCHANGE_LINK_UP, b);
    net_tell(net, b, GOSSIP_EXCHANGE_LINK_UP, a);
}

static void drop_between(struct net *net, size_t a, size_t b)
{
    struct net_message **at = &net->first;

    net->last = &net->first;
    while (*at) {
        struct net_message *item = *at;
        if ((item->from == a && item->to == b) || (item->from == b && item->to == a)) {
            *at = item->next;
            free(item->bytes);
            free(item);
        } else {
            at = &item->next;
        }
    }
    net->last = at;
}

void net_unlink(struct net *net, size_t a, size_t b)
{
    net->up[a * net->nodes + b] = net->up[b * net->nodes + a] = false;
    drop_between(net, a, b);
    net_tell(net, a, GOSSIP_EXCHANGE_LINK_DOWN, b);
    net_tell(net, b, GOSSIP_EXCHANGE_LINK_DOWN, a);
}

void net_link_all(struct net *net)
{
    for (size_t a = 0; a < net->nodes; a++) {
        size_t peers[64];
        size_t count = topology_plan_neighbours(net->plan, a, peers, 64);
        for (size_t i = 0; i < count; i++)
            if (peers[i] > a)
                net_link(net, a, peers[i]);
    }
    net_settle(net, 1000000000);
}

void net_round(struct net *net, size_t node, uint64_t round)
{
    struct net_node *at = &net->node[node];
    size_t partner = topology_plan_partner(net->plan, node, round);
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    event.round.round = round;
    event.round.meets = partner != TOPOLOGY_NOBODY;
    if (event.round.meets)
        event.round.partner = net_id(partner);
    event.round.weight = (float)topology_plan_weight(net->plan, node, round);
    event.round.pace_ns = at->pace_ns;
    event.round.idle = at->idle;
    event.round.others = at->others;
    event.round.unusable = at->unusable;
    event.round.standing = (uint8_t)at->standing;
    event.round.step_scale = net->step_scale;
    event.round.model = at->x;
    event.round.second_moment = at->v;
    event.round.correction = at->correction;
    event.round.held = at->held;
    event.round.correction_stays = net->correction_stays;
    at->in_round = true;
    at->round = round;
    BASE_ASSERT(!net_step(net, node, &event));
}

// Messages that were sent before a link ends in order still arrive, and may be refused there.
static void flush(struct net *net, size_t from, size_t to)
{
    struct gossip_message message;
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(from), .message = &message};

    for (const struct net_message *item = net->first; item; item = item->next) {
        if (item->from != from || item->to != to)
            continue;
        BASE_ASSERT(!gossip_message_decode(item->bytes, item->count, &message));
        (void)net_step(net, to, &event);
    }
}

static void cut(struct net *net, size_t a, size_t b)
{
    net->cuts++;
    net_unlink(net, a, b);
    net_link(net, a, b);
}

static void carry_out_refusals(struct net *net)
{
    while (net->n_refusals > 0) {
        const struct net_refusal refusal = net->refusal[0];
        BASE_ASSERT(net->forgets);
        memmove(net->refusal, net->refusal + 1, --net->n_refusals * sizeof *net->refusal);
        net->implausible += refusal.why == GOSSIP_REFUSAL_IMPLAUSIBLE;
        if (refusal.why == GOSSIP_REFUSAL_SCALING)
            flush(net, refusal.by, refusal.peer);
        cut(net, refusal.peer, refusal.by);
    }
}

static void deliver(struct net *net, struct net_message *item)
{
    struct gossip_message message;
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(item->from), .message = &message};

    if (base_rng_uniform(&net->rng) < net->cut_chance) {
        cut(net, item->from, item->to);
    } else {
        BASE_ASSERT(!gossip_message_decode(item->bytes, item->count, &message));
        BASE_ASSERT(!net_step(net, item->to, &event));
    }
    carry_out_refusals(net);
    free(item->bytes);
    free(item);
}

static struct net_message *take_due(struct net *net, uint64_t now_ns)
{
    for (struct net_message **at = &net->first; *at; at = &(*at)->next) {
        struct net_message *item = *at;
        if (item->due_ns > now_ns || net->node[item->to].paused)
            continue;
        *at = item->next;
        if (!item->next)
            net->last = at;
        return item;
    }
    return NULL;
}

static uint64_t next_time(const struct net *net)
{
    uint64_t next = UINT64_MAX;

    for (const struct net_message *item = net->first; item; item = item->next)
        if (item->due_ns < next && !net->node[item->to].paused)
            next = item->due_ns;
    for (size_t i = 0; i < net->nodes; i++) {
        uint64_t timer = net->node[i].paused ? UINT64_MAX : gossip_exchange_deadline(net->node[i].exchange);
        if (timer < next)
            next = timer;
    }
    return next;
}

void net_settle(struct net *net, uint64_t limit_ns)
{
    uint64_t end = net->now_ns + limit_ns;

    for (;;) {
        uint64_t next = next_time(net);
        if (next == UINT64_MAX)
            break;
        if (next > end) {
            net->now_ns = end;
            break;
        }
        if (next > net->now_ns)
            net->now_ns = next;
        for (struct net_message *item; (item = take_due(net, net->now_ns));)
            deliver(net, item);
        for (size_t i = 0; i < net->nodes; i++) {
            struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER};
            if (!net->node[i].paused && gossip_exchange_deadline(net->node[i].exchange) <= net->now_ns)
                BASE_ASSERT(!net_step(net, i, &event));
            carry_out_refusals(net);
        }
    }
}

void net_round_all(struct net *net, uint64_t round)
{
    for (size_t i = 0; i < net->nodes; i++)
        if (!net->node[i].paused)
            net_round(net, i, round);
    net_settle(net, 60000000000ull);
}

void net_node_restart(struct net *net, size_t node, struct gossip_exchange *fresh)
{
    gossip_exchange_destroy(net->node[node].exchange);
    net->node[node].exchange = fresh;
    net->node[node].in_round = false;
}

void net_node_chooses_sending(struct net *net, size_t node, struct base_rng *rng)
{
    struct gossip_exchange_options *options = &net->node[node].options;
    struct gossip_exchange *fresh;
    struct base_reason why;
    char filters[64] = "";

    options->values = (enum kernels_format)base_rng_below(rng, KERNELS_FORMATS);
    options->selection.method = (enum compress_method)base_rng_below(rng, COMPRESS_METHODS);
    options->selection.block = base_rng_below(rng, 3) ? 0 : 1 + base_rng_below(rng, 16);
    if (base_rng_below(rng, 2))
        snprintf(filters, sizeof filters, "same-keys:%u", 1 + (unsigned)base_rng_below(rng, 4));
    else if (base_rng_below(rng, 2))
        snprintf(filters, sizeof filters, "random-skip:0.3");
    BASE_ASSERT(compress_filters_parse(filters, &options->filters, &why) == BASE_OK);
    BASE_ASSERT(gossip_exchange_create(options, &fresh, &why) == BASE_OK);
    net_node_restart(net, node, fresh);
}

void net_mean(const struct net *net, double *mean)
{
    memset(mean, 0, net->parameters * sizeof *mean);
    for (size_t i = 0; i < net->nodes; i++) {
        const float *x = gossip_exchange_model(net->node[i].exchange);
        for (size_t j = 0; j < net->parameters; j++)
            mean[j] += (double)x[j] / (double)net->nodes;
    }
}

double net_energy(const struct net *net)
{
    double *mean = must(malloc(net->parameters * sizeof *mean)), energy = 0;
    net_mean(net, mean);
    for (size_t i = 0; i < net->nodes; i++) {
        const float *x = gossip_exchange_model(net->node[i].exchange);
        for (size_t j = 0; j < net->parameters; j++)
            energy += ((double)x[j] - mean[j]) * ((double)x[j] - mean[j]);
    }
    free(mean);
    return energy;
}

const struct gossip_edge_info *net_edge(const struct net *net, size_t a, size_t b,
                                        struct gossip_edge_info *info)
{
    const struct gossip_exchange *exchange = net->node[a].exchange;
    struct gossip_id peer = net_id(b);

    for (size_t e = 0; e < gossip_exchange_edges(exchange); e++) {
        gossip_exchange_edge_info(exchange, e, info);
        if (gossip_id_compare(&info->peer, &peer) == 0)
            return info;
    }
    return NULL;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool opposite(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bits_of(a[i]) != bits_of(-b[i]) && !(a[i] == 0 && b[i] == 0))
            return false;
    return true;
}

static bool opposite_bf16(const uint16_t *a, const uint16_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((a[i] ^ b[i]) != 0x8000u && (uint16_t)(a[i] << 1 | b[i] << 1) != 0) // or both are zero
            return false;
    return true;
}

bool net_edge_matches(const struct net *net, size_t a, size_t b)
{
    struct gossip_edge_info ab, ba;

    if (!net_edge(net, a, b, &ab) || !net_edge(net, b, a, &ba) || ab.state != GOSSIP_EDGE_LIVE ||
        ba.state != GOSSIP_EDGE_LIVE || ab.epoch != ba.epoch || ab.sequence != ba.sequence)
        return true;
    if (!ab.reference && !ab.reference_bf16) // before the first exchange
        return !ba.reference && !ba.reference_bf16 && !ab.correction && !ba.correction;
    if (!ab.correction != !ba.correction || !ab.correction_bf16 != !ba.correction_bf16)
        return false;
    if (ab.reference_bf16)
        return memcmp(ab.reference_bf16, ba.reference_bf16, net->parameters * sizeof(uint16_t)) == 0 &&
               (!ab.correction_bf16 ||
                opposite_bf16(ab.correction_bf16, ba.correction_bf16, net->parameters));
    return memcmp(ab.reference, ba.reference, net->parameters * sizeof(float)) == 0 &&
           (!ab.correction || opposite(ab.correction, ba.correction, net->parameters));
}

bool net_references_match(const struct net *net)
{
    for (size_t a = 0; a < net->nodes; a++)
        for (size_t b = a + 1; b < net->nodes; b++)
            if (!net_edge_matches(net, a, b))
                return false;
    return true;
}

uint64_t net_count(const struct net *net, size_t offset)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < net->nodes; i++)
        for (size_t e = 0; e < gossip_exchange_edges(net->node[i].exchange); e++) {
            struct gossip_edge_info info;
            uint64_t value;
            gossip_exchange_edge_info(net->node[i].exchange, e, &info);
            memcpy(&value, (const char *)&info + offset, sizeof value);
            sum += value;
        }
    return sum;
}
