// The files of simulated nodes in their directories: metrics.jsonl and events.jsonl, in the formats of
// p2pml-node. Virtual time is written as unix time from a fixed day.
#include "lab/record/directory.h"
#include "lab/virtual/simulate_private.h"

#include <math.h>
#include <stdlib.h>

#define EPOCH_S 1000000000u // unix seconds at virtual time 0

double simulate_unix(uint64_t virtual_ns)
{
    return (double)EPOCH_S + (double)virtual_ns / (double)SIM_SECOND;
}

uint64_t simulate_unix_us(uint64_t virtual_ns)
{
    return EPOCH_S * UINT64_C(1000000) + virtual_ns / 1000;
}

enum base_error simulate_files_open(struct simulation *s, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < s->cluster->count && !error; i++) {
        const struct lab_node *node = &s->cluster->nodes[i];
        error =
            node_events_open(node->events, (struct node_lines_bounds){0}, &s->sim_trainers[i].events, why);
        if (!error)
            error = node_metrics_open(node->tail.file.path, node->name, (struct node_lines_bounds){0},
                                      &s->sim_trainers[i].metrics, why);
    }
    return error;
}

void simulate_files_close(struct simulation *s)
{
    for (size_t i = 0; s->sim_trainers && i < s->cluster->count; i++) {
        node_metrics_close(s->sim_trainers[i].metrics);
        node_events_close(s->sim_trainers[i].events);
        s->sim_trainers[i].metrics = NULL;
        s->sim_trainers[i].events = NULL;
    }
}

void simulate_row_make(struct sim_trainer *p, const char *state, bool meets)
{
    const struct simulation *s = p->simulation;
    const struct sim_node *node = s->world.node[p->node];
    struct gossip_exchange_totals totals = {.consensus = NAN};
    if (node->train.exchange)
        gossip_exchange_totals(node->train.exchange, &totals);
    p->account = node->train.account;
    p->row = (struct node_metrics_row){.time = simulate_unix(sim_world_now(&s->world)),
                                       .round = p->round,
                                       .step = p->step,
                                       .own_steps = p->trainee.own_steps,
                                       .own_examples = p->trainee.own_examples,
                                       .bytes_sent = node->traffic.bytes_sent - p->sent_before,
                                       .bytes_received = node->traffic.bytes_received - p->received_before,
                                       .exchanges = totals.exchanges,
                                       .returns = node->train.rounds.returns,
                                       .delta_bytes = totals.delta_bytes_out,
                                       .dense_bytes = totals.dense_bytes_out,
                                       .loss = p->trainee.loss,
                                       .accuracy = NAN,
                                       .test_loss = NAN,
                                       .regression = s->bench->test.outputs > 0,
                                       .rmse = NAN,
                                       .consensus = totals.consensus,
                                       .rate = p->trainee.rate,
                                       .diverged = train_watch_is_diverged(&p->trainee.watch),
                                       .merged = node->train.merged,
                                       .own_accuracy = NAN,
                                       .own_test_loss = NAN,
                                       .account = meets ? &p->account : NULL,
                                       .state = state};
}

void simulate_row_write(struct sim_trainer *p)
{
    if (p->row_waits) {
        p->row.accuracy = p->score.accuracy;
        p->row.rmse = p->score.rmse;
        p->row.test_loss = p->score.loss;
    }
    p->row_waits = false;
    if (node_metrics_write(p->metrics, &p->row))
        return; // the first error has been logged
}

// -- the members as a process sees them

static void write_event(struct sim_node *node, struct node_event *event)
{
    struct simulation *s = node->world->options.watch->owner;
    event->time_us = simulate_unix_us(sim_world_now(node->world));
    node_events_write(s->sim_trainers[node->self].events, event);
}

static enum node_event_flag flag(bool value)
{
    return value ? NODE_EVENT_TRUE : NODE_EVENT_FALSE;
}

// An attacker may have made it up.
static const char *name_of(const struct simulation *s, size_t member)
{
    return member < s->cluster->count ? s->cluster->nodes[member].name : "ghost";
}

static void changed(void *owner, struct sim_node *node, size_t peer,
                    const struct gossip_membership_action *action)
{
    const struct simulation *s = owner;
    struct node_event event = {.id = &action->peer, .name = name_of(s, peer)};
    switch (action->state) {
    case GOSSIP_MEMBER_ALIVE:
        event.event = action->known ? "alive" : "join";
        event.before = action->known ? gossip_member_state_name(action->before) : NULL;
        break;
    case GOSSIP_MEMBER_SUSPECT:
        event.event = "suspect";
        event.evidence = flag(action->evidence);
        break;
    case GOSSIP_MEMBER_DEAD:
        event.event = "dead";
        event.evidence = flag(action->evidence);
        break;
    case GOSSIP_MEMBER_LEFT:
        event.event = "left";
        break;
    case GOSSIP_MEMBER_UNPROVEN:
    case GOSSIP_MEMBER_STATES:
        return;
    }
    write_event(node, &event);
}

static void plan(void *owner, struct sim_node *node)
{
    const struct simulation *s = owner;
    const char *names[LAB_NODES_MAX];
    const struct gossip_graph *graph = sim_graph(node);
    struct node_event event = {
        .event = "view", .lists = true, .members = gossip_graph_members(graph), .neighbours = names};
    for (; event.n_neighbours < gossip_graph_neighbours(graph); event.n_neighbours++)
        names[event.n_neighbours] = name_of(s, sim_graph_neighbour(node, event.n_neighbours));
    write_event(node, &event);
}

void simulate_tell_alone(const struct sim_trainer *p)
{
    struct node_event event = {.event = "alone"};
    write_event(p->simulation->world.node[p->node], &event);
}

static void ended(void *owner, struct sim_node *node)
{
    struct simulation *s = owner;
    struct lab_node *ended = &s->cluster->nodes[node->self];
    ended->end_time = simulate_unix(sim_world_now(node->world));
    s->sim_trainers[node->self].sent_before = node->traffic.bytes_sent;
    s->sim_trainers[node->self].received_before = node->traffic.bytes_received;
}

void simulate_watch(struct simulation *s, struct sim_watch *watch)
{
    *watch = (struct sim_watch){.owner = s, .changed = changed, .plan = plan, .ended = ended};
}

uint64_t simulate_bytes_sent(const struct simulation *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->cluster->count; i++)
        bytes += s->world.node[i]->traffic.bytes_sent;
    return bytes;
}
