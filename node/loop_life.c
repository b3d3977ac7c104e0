// Carries out the actions of gossip/life: messages to learner and worker, flags of this node's record, wanted
// links, lines for people.
#include "node/config/life.h"
#include "node/loop_private.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

// -- actions

static struct node_message *bytes_mail(enum node_message_kind kind, const void *bytes, size_t count)
{
    struct node_message *message = node_message_new(kind);
    message->bytes = malloc(count ? count : 1);
    BASE_ASSERT(message->bytes); // at most 4 KiB
    if (count > 0)
        memcpy(message->bytes, bytes, count);
    message->n_bytes = count;
    return message;
}

void node_loop_post_peer(struct node_loop *loop, enum node_message_kind kind, const struct gossip_id *peer)
{
    struct node_message *message = node_message_new(kind);
    message->peer = *peer;
    node_mailbox_put(loop->options.worker, message);
}

// For the owner of the exchange. Only the array of its kind is read there.
static void post_life(struct node_loop *loop, const struct gossip_life_action *action)
{
    const bool asks = action->kind == GOSSIP_LIFE_ASK, among = action->kind == GOSSIP_LIFE_AMONG;
    const void *array = asks    ? (const void *)action->ids
                        : among ? (const void *)action->merging
                                : (const void *)action->reports;
    const size_t each = asks    ? sizeof *action->ids
                        : among ? sizeof *action->merging
                                : sizeof *action->reports;
    struct node_message *message = bytes_mail(NODE_MESSAGE_LIFE, array, array ? action->count * each : 0);
    message->as.life = *action;
    message->as.life.ids = (const void *)message->bytes; // malloc'ed, so it is aligned
    message->as.life.merging = (const void *)message->bytes;
    message->as.life.reports = (const void *)message->bytes;
    node_mailbox_put(loop->options.worker, message);
}

static void post_order(struct node_loop *loop, const struct gossip_life_action *action)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ORDER);
    message->as.order = gossip_life_order(action);
    node_mailbox_put(loop->options.learner, message);
}

static void end(struct node_loop *loop, int status)
{
    BASE_ASSERT(loop->acting);
    if (status == GOSSIP_LIFE_ABANDONED)
        node_peers_leave(node_cluster_peers(loop->cluster));
    loop->status = status == GOSSIP_LIFE_ABANDONED ? NODE_LOOP_ABANDONED : status;
    event_base_loopbreak(loop->base);
}

static void act(struct node_loop *loop, const struct gossip_life_action *action)
{
    BASE_ASSERT(loop->acting);
    switch (action->kind) {
    case GOSSIP_LIFE_FLAGS: // these three: gossip/host
    case GOSSIP_LIFE_ANNOUNCE:
    case GOSSIP_LIFE_LINKS:
        BASE_ASSERT(false);
        break;
    case GOSSIP_LIFE_DEPART:
        node_cluster_leave(loop->cluster);
        break;
    case GOSSIP_LIFE_ASK:
    case GOSSIP_LIFE_AMONG:
    case GOSSIP_LIFE_NEWS:
    case GOSSIP_LIFE_FORGET:
        post_life(loop, action);
        break;
    case GOSSIP_LIFE_GATHER:
        node_loop_gather(loop, &action->peer);
        break;
    case GOSSIP_LIFE_END_FETCH:
        if (!node_loop_join_statistics(loop)) {
            end(loop, GOSSIP_LIFE_ABANDONED);
            break;
        }
        post_life(loop, action);
        break;
    case GOSSIP_LIFE_START:
        if (!action->fetch && !node_loop_join_statistics(loop)) {
            end(loop, GOSSIP_LIFE_ABANDONED);
            break;
        }
        loop->options.greeting.begun = 1;
        post_order(loop, action);
        break;
    case GOSSIP_LIFE_SETTING:
        node_loop_take_setting(loop, action);
        post_order(loop, action);
        break;
    case GOSSIP_LIFE_FETCH_AGAIN:
    case GOSSIP_LIFE_PAUSE:
    case GOSSIP_LIFE_STOP_AT:
    case GOSSIP_LIFE_ALONE:
    case GOSSIP_LIFE_UNITE:
    case GOSSIP_LIFE_LEAVE:
        post_order(loop, action);
        break;
    case GOSSIP_LIFE_SHARDS:
        node_mailbox_put(loop->options.learner, bytes_mail(NODE_MESSAGE_SHARDS, action->numbers,
                                                           action->count * sizeof *action->numbers));
        break;
    case GOSSIP_LIFE_TELL:
        node_loop_say(loop, action);
        break;
    case GOSSIP_LIFE_END:
        end(loop, action->status);
        break;
    case GOSSIP_LIFE_MOVE:
        node_loop_move(loop, &action->peer, action->shard);
        break;
    }
}

void node_loop_act(struct node_loop *loop, const struct gossip_life_action *action)
{
    BASE_ASSERT(!loop->acting);
    loop->acting = true;
    act(loop, action);
    loop->acting = false;
}

// -- making

enum base_error node_loop_make_life(struct node_loop *loop, struct base_reason *why)
{
    struct gossip_life_options options = node_config_life(loop->options.config);
    options.self = loop->options.identity->id;
    options.resumed = loop->options.resumed;
    options.gathers = loop->statistics;
    options.round = loop->options.round;
    options.step = loop->options.step;
    options.reach = loop->options.reach;
    options.behind = loop->options.behind;
    options.told_shard = loop->options.told_shard;
    options.now_ns = node_clock_ns();
    enum base_error error = node_loop_read_settings(loop, &options, why);
    if (error)
        return error;
    struct gossip_control *control = node_cluster_control(loop->cluster);
    error = gossip_control_begin(control, &options);
    loop->life = gossip_control_life(control);
    return error ? base_fail(why, error, "no memory for the life of the node") : BASE_OK;
}
