// The averaging of a process (gossip/host/average) under virtual time: its events, and the effects of its
// actions. A process without a learner averages nothing.
#include "lab/sim/sim_process.h"

#include "base/hash.h"
#include "base/rng.h"
#include <stdio.h>

#define PATIENCE_NS (10 * SIM_SECOND) // of a merge where a world lingers for ever

// -- events

void sim_average_link(struct sim_node *node, size_t peer, bool up)
{
    const struct gossip_id *id = sim_member_id(node, peer);

    if (node->average && up)
        BASE_ASSERT(!gossip_average_linked(node->average, id, sim_node_now(node)));
    else if (node->average)
        gossip_average_unlinked(node->average, id, sim_node_now(node));
}

void sim_average_follow(struct sim_node *node)
{
    if (node->average)
        gossip_average_follow(node->average);
    sim_average_act(node);
}

static uint64_t sequence_of(const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_HELLO:
        return message->as.hello.sequence;
    case GOSSIP_BUSY:
        return message->as.busy.sequence;
    default:
        return message->as.exchange.sequence;
    }
}

// Only those of the exchange: snapshots and merges would fill it.
static void trace(struct sim_node *node, const char *what, size_t peer, const struct gossip_message *message)
{
    if (message->kind <= GOSSIP_BUSY || message->kind == GOSSIP_PARKED)
        sim_world_trace(node->world, node->host, what, gossip_message_kind_name(message->kind), peer,
                        sequence_of(message));
}

void sim_average_message(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    const bool asks = message->kind == GOSSIP_SNAPSHOT_ASK && !gossip_merge_is_of(message);

    if (!node->average || (asks && node->faults.miser))
        return;
    trace(node, "got", peer, message);
    gossip_average_message(node->average, sim_member_id(node, peer), message, sim_node_now(node));
    sim_average_act(node);
}

void sim_average_order(struct sim_node *node, const struct gossip_life_action *order)
{
    if (order->kind == GOSSIP_LIFE_ASK)
        sim_world_trace(node->world, node->host, "donors", NULL, order->count,
                        order->count ? sim_world_find(node->world, &order->ids[0]) : 0);
    if (node->average)
        gossip_average_order(node->average, order, sim_node_now(node));
    sim_average_act(node);
}

uint64_t sim_average_deadline(const struct sim_node *node)
{
    return node->average ? gossip_average_deadline(node->average) : UINT64_MAX;
}

void sim_average_tick(struct sim_node *node)
{
    gossip_average_tick(node->average, sim_node_now(node));
    sim_average_act(node);
    SIM_TELL(node, deadline, node, sim_average_deadline(node), "a timer of the averaging does not pass");
}

// -- effects of its actions

static void refuse(struct sim_node *node, size_t peer, enum gossip_average_why why)
{
    static const enum gossip_close close[] = {[GOSSIP_AVERAGE_IMPLAUSIBLE] = GOSSIP_CLOSE_IMPLAUSIBLE,
                                              [GOSSIP_AVERAGE_BROKEN] = GOSSIP_CLOSE_BROKEN,
                                              [GOSSIP_AVERAGE_SCALING] = GOSSIP_CLOSE_OTHER_SCALING,
                                              [GOSSIP_AVERAGE_ASK] = GOSSIP_CLOSE_BROKEN,
                                              [GOSSIP_AVERAGE_BLOCK] = GOSSIP_CLOSE_BROKEN,
                                              [GOSSIP_AVERAGE_MERGE] = GOSSIP_CLOSE_BROKEN};

    SIM_TELL(node, refused, node, peer);
    sim_link_close(node, peer, close[why]);
}

static bool moves_models(const struct gossip_message *message)
{
    return message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK;
}

// Noise in place of the model, with the hash that fits.
static void send_noise(struct sim_node *node, size_t peer, const struct gossip_message *block)
{
    struct gossip_message lie = *block;
    float noise[LIMIT_SNAPSHOT_BLOCK];
    const size_t count = lie.as.tell.values_bytes / sizeof *noise;

    BASE_ASSERT(count <= LIMIT_SNAPSHOT_BLOCK);
    for (size_t i = 0; i < count; i++)
        noise[i] = node->faults.noise * (float)base_rng_normal(&node->rng);
    lie.as.tell.values = (const uint8_t *)noise;
    lie.as.tell.hash = base_hash_vector(noise, count);
    (void)sim_link_send(node, peer, &lie); // false: no link
}

static bool donates_model(const struct gossip_message *message)
{
    return message->kind == GOSSIP_SNAPSHOT_TELL && message->as.tell.part == GOSSIP_PART_MODEL;
}

static void send(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (node->faults.stalls && moves_models(message))
        return;
    trace(node, "exchange", peer, message);
    if (node->faults.noise > 0 && donates_model(message))
        send_noise(node, peer, message);
    else
        sim_link_send(node, peer, message);
}

static void carry_out(struct sim_node *node, const struct gossip_average_action *action)
{
    switch (action->kind) {
    case GOSSIP_AVERAGE_SEND:
        send(node, sim_world_find(node->world, &action->peer), action->message);
        break;
    case GOSSIP_AVERAGE_REFUSE:
        refuse(node, sim_world_find(node->world, &action->peer), action->why);
        break;
    case GOSSIP_AVERAGE_JOURNAL:
        sim_disk_log(node, action->records, action->bytes);
        break;
    case GOSSIP_AVERAGE_JUDGED:
        node->world->counts.verdicts++;
        sim_world_trace(node->world, node->host, "judges",
                        action->verdict == GOSSIP_VERDICT_TRUST ? "trusts" : "distrusts",
                        sim_world_find(node->world, &action->peer), action->trust.verdicts);
        break;
    case GOSSIP_AVERAGE_DROPS:
        sim_world_trace(node->world, node->host, "forget", action->dead ? "dead" : "stranger",
                        sim_world_find(node->world, &action->peer), 0);
        SIM_TELL(node, lost, node);
        break;
    case GOSSIP_AVERAGE_STEPPED:
        gossip_control_changed(node->control);
        SIM_TELL(node, exchanged, node);
        break;
    case GOSSIP_AVERAGE_SHORT: // nothing runs out of memory here
    case GOSSIP_AVERAGE_UNGIVEN:
        sim_world_break(node->world, node->host, "an exchange or a snapshot failed");
        break;
    case GOSSIP_AVERAGE_DONE:
        sim_train_done(node, action);
        break;
    case GOSSIP_AVERAGE_FETCHED:
        sim_train_fetched(node, action);
        break;
    case GOSSIP_AVERAGE_MERGED:
        sim_train_merged(node, action);
        break;
    case GOSSIP_AVERAGE_JUDGE:
        gossip_average_verdict(node->average, sim_train_accepts(node, action->model), sim_node_now(node));
        break;
    case GOSSIP_AVERAGE_LIVE:
        if (action->live.kind == GOSSIP_LIFE_SERVED)
            sim_world_trace(node->world, node->host, "asked", NULL,
                            sim_world_find(node->world, &action->live.peer), action->answered);
        sim_life_tell(node, action->live);
        break;
    }
}

void sim_average_act(struct sim_node *node)
{
    struct gossip_average_action action;

    while (node->average && gossip_average_next(node->average, sim_node_now(node), &action))
        carry_out(node, &action);
}

// The vectors do not change: donors may copy them.
void sim_average_give(struct sim_node *node)
{
    struct gossip_average_action action;

    while (gossip_average_give(node->average, sim_node_now(node), &action))
        carry_out(node, &action);
}

// -- life

static void name(void *owner, const struct gossip_id *id, char text[GOSSIP_TELL_NAME])
{
    const struct sim_node *node = owner;

    snprintf(text, GOSSIP_TELL_NAME, "node %zu", sim_world_find(node->world, id));
}

static void write_line(void *owner, const char *line)
{
    const struct sim_node *node = owner;

    sim_trace_tell(&node->world->trace, node->world->queue.now_ns, (uint32_t)node->host, line);
}

// Between boundaries, too: its steps may last long.
static bool rests(const void *owner, struct gossip_snapshot_vectors *vectors)
{
    const struct sim_node *node = owner;
    const struct sim_node_train *train = &node->train;

    vectors->part[GOSSIP_PART_OUTER] = train->vectors.outer;
    vectors->part[GOSSIP_PART_SECOND] = train->vectors.second_moment;
    sim_train_claim(node, &vectors->round, &vectors->step);
    return train->rounds.doing != GOSSIP_ROUNDS_MEET;
}

static uint64_t patience(const struct sim_node *node)
{
    const uint64_t linger_ns = node->world->options.life.linger_ns;

    if (linger_ns == 0)
        return PATIENCE_NS;
    return gossip_merge_patience(linger_ns);
}

void sim_average_start(struct sim_node *node)
{
    node->teller = (struct gossip_teller){.owner = node, .name = name, .line = write_line};
    const struct gossip_average_options options = {.self = *sim_member_id(node, node->self),
                                                   .exchange = node->train.exchange,
                                                   .local = node->world->options.local,
                                                   .merge_patience_ns = patience(node),
                                                   .judges = sim_train_judges(node),
                                                   .teller =
                                                       node->world->trace.verbose ? &node->teller : NULL,
                                                   .rests = rests,
                                                   .owner = node};

    BASE_ASSERT(!gossip_average_create(&options, &node->average));
}

void sim_average_stop(struct sim_node *node)
{
    gossip_average_destroy(node->average);
    node->average = NULL;
}
