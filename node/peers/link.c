// One link: its socket and session, the bytes of greetings and BYEs, and its reports to people.
#include "node/config/compatibility.h"
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gossip_links_event about(const struct peer_link *link, enum gossip_links_event_kind kind)
{
    return (struct gossip_links_event){.kind = kind, .link = link->handle};
}

static void send_message(struct peer_link *link, const struct gossip_message *message)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    BASE_ASSERT(gossip_message_encode_header(message, header, sizeof header, &bytes) == BASE_OK);
    (void)!node_link_send(link->link, header, bytes); // else it has ended, and says so from the loop
}

void peer_link_greet(struct peer_link *link)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING, .as.greeting = *link->peers->options.greeting};
    send_message(link, &message);
}

// A packet may be lost where there is no memory for it, as on the network.
void peer_link_send_members(struct peer_link *link, const uint8_t *packet, size_t count)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                     .as.members = {.packet = packet, .packet_bytes = (uint32_t)count}};
    BASE_ASSERT(gossip_message_encode_header(&message, header, sizeof header, &bytes) == BASE_OK);
    uint8_t *joined = malloc(bytes + count);
    if (!joined)
        return;
    memcpy(joined, header, bytes);
    memcpy(joined + bytes, packet, count);
    (void)!node_link_send(link->link, joined, bytes + count);
    free(joined);
}

// -- up

static void warn_of_same_name(struct peer_link *link)
{
    if (strcmp(link->name, link->peers->options.greeting->name) == 0)
        node_peers_log(link->peers, BASE_LOG_WARN, "same_name",
                       "%s has the name of this node, '%s'; that works, but is hard to read in logs: give "
                       "every node a node.name of its own",
                       link->address, link->name);
}

void peer_link_up(struct peer_link *link)
{
    struct node_peers *peers = link->peers;
    struct node_address own;
    link->active = link->was_active = true;
    node_link_pause(link->link, peers->paused);
    node_peers_log(peers, BASE_LOG_INFO, "link_up", "%s at %s", link->name, link->address);
    warn_of_same_name(link);
    if (node_link_address(link->link, &own))
        peers->options.handler->here(peers->options.owner, &own);
    peers->options.handler->up(peers->options.owner, &link->id, link->name);
}

void peer_link_deliver(struct peer_link *link)
{
    struct node_peers *peers = link->peers;
    const struct node_peers_handler *handler = peers->options.handler;
    const struct gossip_message *message = peers->heard;
    uint8_t *bytes = peers->heard_bytes;
    BASE_ASSERT(message && bytes);
    if (message->kind == GOSSIP_MEMBERS) {
        handler->members(peers->options.owner, &link->id, message->as.members.packet,
                         message->as.members.packet_bytes);
        return;
    }
    peers->heard_bytes = NULL;
    handler->message(peers->options.owner, &link->id, bytes, peers->heard_count);
}

// -- close

static void say_bye(struct peer_link *link, const struct gossip_links_action *action)
{
    const struct peer_link *other = action->other;
    const char *reason = gossip_close_bye(action->why);
    struct gossip_message message = {.kind = GOSSIP_BYE};
    char text[128];
    if (!reason || !link->proven)
        return;
    bool elsewhere = action->why == GOSSIP_CLOSE_DUPLICATE_IDENTITY && other;
    snprintf(text, sizeof text, "%s%s", reason, elsewhere ? other->address : "");
    snprintf(message.as.bye.reason, sizeof message.as.bye.reason, "%.63s", text);
    send_message(link, &message);
}

static void tell_refusal(struct peer_link *link, enum gossip_close why)
{
    struct node_peers *peers = link->peers;
    struct base_reason text = {0};
    char hex[GOSSIP_ID_HEX];
    const struct gossip_greeting *ours = peers->options.greeting;
    bool compared = peers->heard && peers->heard->kind == GOSSIP_GREETING &&
                    node_greeting_compare(ours, &peers->heard->as.greeting, &text) != BASE_OK;
    gossip_id_hex(&link->id, hex);
    if (compared && node_greeting_comes_back(ours, &peers->heard->as.greeting)) {
        node_peers_log(peers, BASE_LOG_INFO, "peer_joins",
                       "%s%s%.16s at %s has not set what this cluster has; it is told, and calls again",
                       link->name, link->name[0] ? " " : "", hex, link->address);
        return;
    }
    node_peers_log(peers, BASE_LOG_ERROR, "peer_refused", "%s%s%.16s at %s: %s%s", link->name,
                   link->name[0] ? " " : "", hex, link->address, compared ? "" : "it is ",
                   compared ? text.text : gossip_close_text(why));
}

static void tell_close(struct peer_link *link, const struct gossip_links_action *action)
{
    struct node_peers *peers = link->peers;
    bool bye = peers->heard && peers->heard->kind == GOSSIP_BYE;
    if (gossip_close_is_refusal(action->why) && action->news)
        tell_refusal(link, action->why);
    else if (action->why == GOSSIP_CLOSE_REFUSED_THERE && action->news && bye)
        node_peers_log(peers, BASE_LOG_ERROR, "refused_by_peer", "%s: %s", link->address,
                       peers->heard->as.bye.reason);
    link->closing = gossip_close_text(action->why);
    if (action->why == GOSSIP_CLOSE_HEARD && bye)
        link->closing = gossip_close_heard(gossip_close_of(peers->heard->as.bye.reason));
    if (action->why == GOSSIP_CLOSE_BROKEN && peers->broken[0] && !peers->heard)
        link->closing = peers->broken;
}

void peer_link_close(struct peer_link *link, const struct gossip_links_action *action)
{
    say_bye(link, action);
    tell_close(link, action);
    switch (action->why) {
    case GOSSIP_CLOSE_BROKEN:
    case GOSSIP_CLOSE_NO_GREETING:
        node_link_close(link->link, BASE_EFORMAT, link->closing);
        break;
    case GOSSIP_CLOSE_TIMEOUT:
        if (node_link_is_connecting(link->link))
            node_link_close(link->link, BASE_EIO, "no answer to the connection");
        else
            node_link_close(link->link, BASE_EAUTH, "no handshake in time");
        break;
    case GOSSIP_CLOSE_REPLACED: // it may not read any more
        node_link_close(link->link, BASE_OK, link->closing);
        break;
    default: // in order: the other end reads what was said, and sees a whole handshake and no stranger
        node_link_finish(link->link);
        break;
    }
}

// -- what the session says

static void on_established(void *owner, const struct gossip_id *peer)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_links_event proven = about(link, GOSSIP_LINKS_PROVEN);
    link->proven = true;
    link->id = *peer;
    if (node_faults_has(peers->options.faults, peer)) {
        node_link_stall(link->link, true);
        node_link_close(link->link, BASE_EIO, "cut off by node.fault_file");
        return;
    }
    proven.peer = *peer;
    proven.alive = peers->options.handler->alive(peers->options.owner, peer);
    node_peers_say_now(peers, proven);
}

static struct gossip_links_event event_of(struct peer_link *link, const struct gossip_message *message)
{
    struct gossip_links_event event = about(link, GOSSIP_LINKS_MESSAGE);
    if (message->kind == GOSSIP_GREETING) {
        event.kind = GOSSIP_LINKS_GREETING;
        event.greeting = &message->as.greeting;
        snprintf(link->name, sizeof link->name, "%s", message->as.greeting.name);
    } else if (message->kind == GOSSIP_BYE) {
        event.kind = GOSSIP_LINKS_BYE;
        event.reason = message->as.bye.reason;
    }
    return event;
}

static void on_message(void *owner, uint8_t *bytes, size_t count)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_message message;
    if (gossip_message_decode(bytes, count, &message) != BASE_OK) {
        node_link_close(link->link, BASE_EFORMAT, "a message that breaks the protocol");
        free(bytes);
        return;
    }
    node_peers_carry_out(peers); // what came before is not about this message
    if (message.kind == GOSSIP_GREETING &&
        peers->options.handler->greeted(peers->options.owner, link->address, &message.as.greeting)) {
        free(bytes);
        return;
    }
    peers->heard = &message;
    peers->heard_bytes = bytes;
    peers->heard_count = count;
    node_peers_say_now(peers, event_of(link, &message));
    free(peers->heard_bytes);
    peers->heard = NULL;
    peers->heard_bytes = NULL;
}

static void account(struct node_peers *peers, const struct peer_link *link)
{
    struct node_link_traffic t = node_link_traffic(link->link);
    for (size_t i = 0; i < peers->n_accounts; i++) {
        if (gossip_id_compare(&peers->accounts[i].id, &link->id) != 0)
            continue;
        peers->accounts[i].traffic.sent += t.sent;
        peers->accounts[i].traffic.received += t.received;
        return;
    }
    struct peer_account *more = NULL;
    if (peers->n_accounts < GOSSIP_LINKS_MAX)
        more = realloc(peers->accounts, (peers->n_accounts + 1) * sizeof *more);
    if (!more)
        return; // only a figure for people is lost
    peers->accounts = more;
    more[peers->n_accounts++] = (struct peer_account){.id = link->id, .traffic = t};
}

static void tell_stranger(struct node_peers *peers, const struct peer_link *link, const char *why)
{
    uint64_t now_ns = node_clock_ns();
    peers->strangers++;
    if (peers->stranger_told_ns != 0 && now_ns - peers->stranger_told_ns < 10 * NODE_SECOND_NS)
        return;
    peers->stranger_told_ns = now_ns;
    base_log(BASE_LOG_WARN, "stranger", "%s was closed without an answer: %s (%llu so far)", link->address,
             why, (unsigned long long)peers->strangers);
}

static void tell_end(struct peer_link *link, enum base_error code, const char *why)
{
    struct node_peers *peers = link->peers;
    bool called = link->caller && link->target.entry != GOSSIP_NO_ENTRY;
    const char *text = link->closing ? link->closing : why;
    if (!link->proven && !link->caller)
        tell_stranger(peers, link, why);
    if (!link->proven && called)
        peer_call_tell(peers, link->target.entry, why, code == BASE_EAUTH);
    if (link->was_active && code == BASE_EFORMAT)
        node_peers_log(peers, BASE_LOG_ERROR, "peer_protocol", "%s at %s: %s", link->name, link->address,
                       text);
    if (link->was_active)
        node_peers_log(
            peers, strcmp(text, gossip_close_text(GOSSIP_CLOSE_IDLE)) == 0 ? BASE_LOG_DEBUG : BASE_LOG_INFO,
            "link_down", "%s at %s: %s", link->name, link->address, text);
}

static enum gossip_link_end end_of(const struct peer_link *link, enum base_error code)
{
    static const enum gossip_link_end ends[] = {[NODE_LINK_OTHER] = GOSSIP_END_OTHER,
                                                [NODE_LINK_GONE] = GOSSIP_END_GONE,
                                                [NODE_LINK_REFUSED] = GOSSIP_END_REFUSED};
    return code == BASE_EFORMAT ? GOSSIP_END_BROKEN : ends[node_link_end(link->link)];
}

static void on_closed(void *owner, enum base_error code, const char *why)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_links_event ended = about(link, GOSSIP_LINKS_ENDED);
    int left = node_link_take_socket(link->link);
    ended.end = end_of(link, code);
    if (left >= 0) // it ends without telling the other end
        node_faults_bury(peers->options.faults, &link->id, left);
    if (link->proven)
        account(peers, link);
    tell_end(link, code, why);
    node_peers_say_now(peers, ended);
    peer_link_free(link);
    peers->options.handler->changed(peers->options.owner);
}

static const struct node_link_handler link_handler = {
    .established = on_established, .message = on_message, .closed = on_closed};

// -- life

struct peer_link *peer_link_make(struct node_peers *peers, const char *address)
{
    struct peer_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->peers = peers;
    snprintf(link->address, sizeof link->address, "%s", address);
    LIST_INSERT_HEAD(&peers->links, link, others);
    return link;
}

void peer_link_free(struct peer_link *link)
{
    LIST_REMOVE(link, others);
    node_link_destroy(link->link);
    free(link);
}

bool peer_link_open(struct node_peers *peers, struct peer_link *link, int socket)
{
    const struct node_peers_options *p = &peers->options;
    struct node_link_options o = {.base = p->base,
                                  .streams = p->streams,
                                  .socket = socket,
                                  .initiator = link->caller,
                                  .identity = p->identity,
                                  .cluster = p->config->cluster.name,
                                  .message_limit = p->message_limit,
                                  .counters = p->counters,
                                  .handler = &link_handler,
                                  .owner = link};
    memcpy(o.psk, p->psk, sizeof o.psk);
    enum base_error code = node_link_create(&o, &link->link);
    explicit_bzero(o.psk, sizeof o.psk);
    if (code == BASE_OK)
        return true;
    close(socket);
    struct gossip_links_event ended = about(link, GOSSIP_LINKS_ENDED);
    peer_link_free(link);
    node_peers_say_later(peers, ended);
    return false;
}
