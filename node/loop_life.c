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

static void post_ids(struct node_loop *loop, const struct gossip_life_action *action)
{
    struct node_message *message =
        bytes_mail(NODE_MESSAGE_DONORS, action->ids, action->count * sizeof *action->ids);
    message->progress.round = action->round;
    message->progress.step = action->step;
    node_mailbox_put(loop->options.worker, message);
}

static void post_news(struct node_loop *loop, const struct gossip_life_action *action)
{
    struct node_message *message =
        bytes_mail(NODE_MESSAGE_NEWS, action->reports, action->count * sizeof *action->reports);
    message->as.news.members = action->members;
    message->as.news.alone = !action->on;
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
        post_ids(loop, action);
        break;
    case GOSSIP_LIFE_AMONG:
        node_mailbox_put(loop->options.worker, bytes_mail(NODE_MESSAGE_AMONG, action->merging,
                                                          action->count * sizeof *action->merging));
        break;
    case GOSSIP_LIFE_NEWS:
        post_news(loop, action);
        break;
    case GOSSIP_LIFE_GATHER:
        node_loop_gather(loop, &action->peer);
        break;
    case GOSSIP_LIFE_END_FETCH:
        if (!node_loop_join_statistics(loop)) {
            end(loop, GOSSIP_LIFE_ABANDONED);
            break;
        }
        node_mailbox_put(loop->options.worker, node_message_new(NODE_MESSAGE_END_FETCH));
        break;
    case GOSSIP_LIFE_FORGET:
        node_loop_post_peer(loop, NODE_MESSAGE_FORGET, &action->peer);
        break;
    case GOSSIP_LIFE_START:
        if (!action->fetch && !node_loop_join_statistics(loop)) {
            end(loop, GOSSIP_LIFE_ABANDONED);
            break;
        }
        loop->options.greeting.begun = 1;
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

enum base_error node_loop_make_life(struct node_loop *loop)
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
    struct gossip_control *control = node_cluster_control(loop->cluster);
    enum base_error error = gossip_control_begin(control, &options);
    loop->life = gossip_control_life(control);
    return error;
}
