#include "lab/sim/sim_process.h"

#include "base/array.h"
#include <stdlib.h>

struct sim_node *sim_node_create(struct sim_world *world, size_t host)
{
    struct sim_node *node = sim_must(calloc(1, sizeof *node));

    node->world = world;
    node->host = host;
    node->self = sim_world_identity(world, host);
    node->input_last = &node->input;
    node->wake_ns = UINT64_MAX;
    base_rng_seed_stream(&node->rng, world->options.seed, 0x10000 + host);
    node->clock_ns = (int64_t)(100 * SIM_SECOND + base_rng_below(&node->rng, 1000000 * SIM_SECOND));
    return node;
}

void sim_node_destroy(struct sim_node *node)
{
    if (node->running)
        sim_node_kill(node, true);
    sim_disk_free(&node->disk);
    free(node);
}

static void wake(void *owner, struct sim_event *event);

static void wake_at(struct sim_node *node, uint64_t virtual_ns)
{
    uint64_t now_ns = node->world->queue.now_ns;

    if (virtual_ns < now_ns)
        virtual_ns = now_ns;
    if (node->slow && virtual_ns != UINT64_MAX)
        virtual_ns += base_rng_below(&node->rng, node->world->options.slow_ns + 1);
    if (virtual_ns >= node->wake_ns && node->wake_ns >= now_ns)
        return;
    node->wake_ns = virtual_ns;
    const struct sim_event event = {
        .time_ns = virtual_ns, .run = wake, .owner = node, .a = ++node->wake_number};
    sim_queue_push(&node->world->queue, &event);
}

static uint64_t local_deadline(const struct sim_node *node)
{
    const uint64_t deadline_ns = base_min(gossip_control_deadline(node->control), node->links.join_ns);

    return base_min(deadline_ns, base_min(sim_average_deadline(node), sim_train_deadline(node)));
}

static void schedule(struct sim_node *node)
{
    if (!node->running || node->paused)
        return;
    uint64_t local_ns = local_deadline(node), now_ns = sim_node_now(node);
    uint64_t after_ns = local_ns > now_ns ? local_ns - now_ns : 0;

    wake_at(node, node->world->queue.now_ns + after_ns);
    if (node->input && node->slow)
        wake_at(node, node->inbox_ns);
}

void sim_node_act(struct sim_node *node, enum gossip_control_depth depth)
{
    struct gossip_control_action action;

    while (node->running && gossip_control_next(node->control, depth, sim_node_now(node), &action)) {
        sim_life_notice(node);
        if (action.kind != GOSSIP_CONTROL_MEMBER)
            node->member.taken = 0;
        switch (action.kind) {
        case GOSSIP_CONTROL_LIFE:
            sim_life_act(node, &action.life);
            break;
        case GOSSIP_CONTROL_MEMBER:
            sim_member_act(node, &action.member);
            break;
        case GOSSIP_CONTROL_LINK:
            sim_link_act(node, &action.link);
            break;
        case GOSSIP_CONTROL_VIEW:
            sim_graph_take_view(node);
            break;
        case GOSSIP_CONTROL_EDGES:
            sim_average_follow(node);
            break;
        }
    }
    node->member.taken = 0;
    sim_life_notice(node);
}

void sim_node_reconcile(struct sim_node *node)
{
    sim_node_act(node, GOSSIP_CONTROL_LINKS_TOO);
    if (node->stop && node->running) {
        sim_node_kill(node, false);
        return;
    }
    sim_node_act(node, GOSSIP_CONTROL_WHOLE);
    schedule(node);
    if (node->running)
        SIM_TELL(node, step, node);
}

static void take(struct sim_node *node, const struct sim_input *input)
{
    switch (input->kind) {
    case SIM_IN_DATAGRAM:
        sim_member_datagram(node, input->from, input->bytes, input->count);
        break;
    case SIM_IN_PORT_CLOSED:
        for (size_t i = 0; i < node->world->options.nodes; i++) // members reached at that host
            if (node->peer[i].sent_host == input->from + 1)
                sim_member_unreachable(node, i);
        break;
    case SIM_IN_ACCEPTED:
        sim_link_accepted(node, input->stream, input->from);
        break;
    case SIM_IN_CONNECTED:
        sim_link_connected(node, input->stream);
        break;
    case SIM_IN_REFUSED:
        sim_link_ended(node, input->stream, true, SIM_END_RESET);
        break;
    case SIM_IN_RECEIVED:
        sim_link_received(node, input->stream, input->bytes, input->count);
        break;
    case SIM_IN_ENDED:
        sim_link_ended(node, input->stream, false, input->end);
        break;
    case SIM_IN_CHANGE:
        sim_known_take(node, (const struct sim_change *)(const void *)input->bytes);
        break;
    case SIM_IN_VIEW:
        gossip_control_viewed(node->control);
        break;
    }
}

static void drop_first(struct sim_node *node)
{
    struct sim_input *input = node->input;

    node->input = input->next;
    if (!node->input)
        node->input_last = &node->input;
    node->inputs--;
    free(input->bytes);
    free(input);
}

static void drain(struct sim_node *node)
{
    while (node->running && node->input) {
        take(node, node->input);
        drop_first(node);
    }
}

static void timers(struct sim_node *node)
{
    const uint64_t now_ns = sim_node_now(node);

    sim_member_tick(node, now_ns);
    sim_link_tick(node, now_ns);
    sim_link_free_closed(node);
    gossip_control_look(node->control, now_ns);
    sim_node_act(node, GOSSIP_CONTROL_LIFE_ONLY);
    if (now_ns >= sim_average_deadline(node))
        sim_average_tick(node);
    if (now_ns >= sim_train_deadline(node))
        sim_train_tick(node, now_ns);
}

static void wake(void *owner, struct sim_event *event)
{
    struct sim_node *node = owner;

    if (event->a != node->wake_number || !node->running || node->paused)
        return;
    node->wake_ns = UINT64_MAX;
    drain(node); // sockets before timers, as membership requires
    if (node->running)
        timers(node);
    sim_node_reconcile(node);
}

// An input is handled at once, or when the process runs again.
void sim_node_tell(void *owner, size_t host, const struct sim_input *input)
{
    struct sim_node *node = ((struct sim_world *)owner)->node[host];

    if (!node->running)
        return;
    if (!node->paused && !node->slow) {
        take(node, input);
        sim_node_reconcile(node);
        return;
    }
    if (input->kind == SIM_IN_DATAGRAM && node->inputs >= SIM_INPUTS_MAX)
        return; // the socket's buffer is full
    struct sim_input *item = sim_copy(input, sizeof *input);
    item->next = NULL;
    item->bytes = input->bytes ? sim_copy(input->bytes, input->count) : NULL;
    if (!node->input)
        node->inbox_ns = node->world->queue.now_ns;
    *node->input_last = item;
    node->input_last = &item->next;
    node->inputs++;
    if (!node->paused)
        schedule(node);
}

void sim_node_inform(struct sim_node *node, const struct sim_change *change)
{
    const struct sim_input input = {.kind = change ? SIM_IN_CHANGE : SIM_IN_VIEW,
                                    .bytes = (uint8_t *)(uintptr_t)change,
                                    .count = change ? sizeof *change : 0};
    sim_node_tell(node->world, node->host, &input);
}

void sim_node_wake(struct sim_node *node)
{
    wake_at(node, node->world->queue.now_ns);
}

// The addresses that a new process knows: some hosts, the same ones at each start.
static void list_peers(struct sim_node *node)
{
    const struct sim_options *options = &node->world->options;
    struct base_rng rng;

    node->entries = 0;
    if (options->known)
        return;
    base_rng_seed_stream(&rng, options->seed, 0x20000 + node->self);
    if (options->name_ns) {
        node->entries = 1;
        node->entry[0] = SIM_NAME;
        return;
    }
    node->entries = options->peer_entries + options->twins < 8 ? options->peer_entries + options->twins : 8;
    for (size_t i = 0; i < node->entries; i++) {
        // The first host never leaves permanently, and a single living address is enough. With twins, another
        // process may have the identity of that host, and one of the two stops: then a second host follows.
        size_t host = i > options->twins ? base_rng_below(&rng, options->nodes - options->ghosts)
                                         : (i + (node->self == 0)) % 2;
        node->entry[i] = host;
    }
}

void sim_node_start(struct sim_node *node)
{
    struct sim_world *world = node->world;

    BASE_ASSERT(!node->running);
    node->running = true;
    node->paused = node->stop = false;
    node->wake_ns = UINT64_MAX;
    node->wake_number++;
    node->disk.started_ns[node->disk.starts++ % SIM_STARTS] = world->queue.now_ns;
    node->member.generation = ++node->disk.generation;
    node->started_ns = sim_node_now(node);
    node->peer = sim_must(calloc(world->options.nodes, sizeof *node->peer));
    sim_world_trace(world, node->host, "start", NULL, node->member.generation, 0);
    list_peers(node);
    sim_net_host(&world->net, node->host, SIM_HOST_OPEN);
    sim_train_start(node);
    sim_link_start(node);
    sim_member_start(node);
    node->links.greeting.instance_id = node->member.instance;
    sim_life_start(node);
    SIM_TELL(node, started, node);
    sim_node_reconcile(node);
}

void sim_node_kill(struct sim_node *node, bool host_too)
{
    struct sim_world *world = node->world;

    sim_net_host(&world->net, node->host, host_too ? SIM_HOST_GONE : SIM_HOST_CLOSED);
    if (!node->running)
        return;
    sim_world_trace(world, node->host, host_too ? "power off" : "kill", NULL, 0, 0);
    node->running = false;
    node->wake_number++;
    if (host_too)
        sim_disk_power_fails(&node->disk);
    while (node->input)
        drop_first(node);
    sim_link_stop(node);
    sim_train_stop(node);
    sim_graph_stop(node);
    sim_member_stop(node);
    gossip_control_destroy(node->control);
    node->control = NULL;
    node->life = (struct sim_node_life){0};
    free(node->peer);
    node->peer = NULL;
    SIM_TELL(node, ended, node);
}

void sim_node_leave(struct sim_node *node)
{
    if (gossip_life_stopping(node->life.rules))
        return;
    sim_world_trace(node->world, node->host, "leave", NULL, 0, 0);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    sim_node_reconcile(node);
}

void sim_node_pause(struct sim_node *node)
{
    sim_world_trace(node->world, node->host, "pause", NULL, 0, 0);
    node->paused = true;
    node->paused_ns = node->world->queue.now_ns;
    node->wake_number++;
    node->wake_ns = UINT64_MAX;
}

void sim_node_resume(struct sim_node *node, bool clock_stood)
{
    sim_world_trace(node->world, node->host, "resume", clock_stood ? "clock stood" : NULL, node->inputs, 0);
    node->paused = false;
    if (clock_stood)
        node->clock_ns -= (int64_t)(node->world->queue.now_ns - node->paused_ns);
    wake_at(node, node->world->queue.now_ns);
}
