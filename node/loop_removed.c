// The operator's list of removed members: taken from a request or from a member, kept, and passed on.
#include "base/cursor.h"
#include "base/log.h"
#include "base/plural.h"
#include "node/loop_private.h"
#include "node/store/removed.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The message for a stream; its length.
static size_t encode(const struct gossip_removed *list,
                     uint8_t out[LIMIT_MESSAGE_HEADER_BYTES + GOSSIP_REMOVED_BYTES])
{
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    size_t header = 0;
    const size_t count = gossip_removed_write(list, bytes);
    const struct gossip_message message = {.kind = GOSSIP_REMOVED,
                                           .as.removed = {.list = bytes, .list_bytes = (uint32_t)count}};
    const enum base_error error =
        gossip_message_encode_header(&message, out, LIMIT_MESSAGE_HEADER_BYTES, &header);
    BASE_ASSERT(!error);
    memcpy(out + header, bytes, count);
    return header + count;
}

static const struct gossip_removed *current(const struct node_loop *loop)
{
    BASE_ASSERT(loop->options.remover && loop->options.allow);
    return &loop->options.allow->removed;
}

static bool names_self(const struct node_loop *loop)
{
    return !gossip_allow_list_has(loop->options.allow, &loop->options.identity->id);
}

// All hear of it before the links of the removed end.
static void adopt(struct node_loop *loop, const struct gossip_removed *list)
{
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES + GOSSIP_REMOVED_BYTES];
    struct base_reason why = {""};
    struct node_peers *peers = node_cluster_peers(loop->cluster);
    BASE_ASSERT(list->number > current(loop)->number);
    loop->options.allow->removed = *list;
    if (node_removed_write(loop->options.config->node.dir, list, &why))
        base_log(BASE_LOG_ERROR, "removed", "a restarted node will have to hear of it again: %s", why.text);
    base_log(BASE_LOG_WARN, "removed", "the operator has removed %zu member%s, list %" PRIu64 "%s",
             list->count, base_plural(list->count), list->number,
             names_self(loop)
                 ? ": this node is among them (or not on its own allow-list), and trains on alone"
                 : "");
    node_peers_send_all(peers, bytes, encode(list, bytes));
    node_peers_allow_changed(peers);
}

void node_loop_tell_removed(struct node_loop *loop, const struct gossip_id *peer)
{
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES + GOSSIP_REMOVED_BYTES];
    if (!loop->options.remover || current(loop)->number == 0)
        return;
    const size_t count = encode(current(loop), bytes);
    uint8_t *copy = malloc(count);
    if (!copy)
        return; // it hears of it from another one
    memcpy(copy, bytes, count);
    (void)node_peers_send(node_cluster_peers(loop->cluster), peer, copy, count);
}

// A list that does not verify is no evidence: the operator of that node may be another one.
void node_loop_removed_heard(struct node_loop *loop, const struct gossip_id *peer,
                             const struct gossip_removed_message *message)
{
    struct gossip_removed list;
    struct base_reader reader = base_reader_of(message->list, message->list_bytes);
    char hex[GOSSIP_ID_HEX];
    if (!loop->options.remover || base_read_u64(&reader) <= current(loop)->number)
        return;
    gossip_id_hex(peer, hex);
    if (!gossip_removed_read(message->list, message->list_bytes, loop->options.config->cluster.name,
                             loop->options.remover, &list))
        adopt(loop, &list);
    else
        base_log(BASE_LOG_DEBUG, "removed", "a list from %.16s is not signed by cluster.operator", hex);
}

enum node_removed_answer node_loop_remove(struct node_loop *loop, const char *hex)
{
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    struct gossip_removed list;
    size_t count = 0;
    if (!loop->options.remover)
        return NODE_REMOVED_NO_OPERATOR;
    if (gossip_removed_bytes(hex, bytes, &count) ||
        gossip_removed_read(bytes, count, loop->options.config->cluster.name, loop->options.remover, &list))
        return NODE_REMOVED_NOT_SIGNED;
    if (list.number <= current(loop)->number)
        return NODE_REMOVED_OLD;
    adopt(loop, &list);
    return NODE_REMOVED_TAKEN;
}
