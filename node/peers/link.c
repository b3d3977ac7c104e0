// One link: its socket and session, and the bytes of greetings and BYEs.
#include "node/peers/endpoints.h"
#include "node/peers/private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A relayed link is as slow as the slower of two: what is sealed ahead of a prompt message takes its time.
#define RELAYED_AHEAD (2u * (LIMIT_PROMPT_BYTES + 64u))

static void send_message(struct peer_link *link, const struct gossip_message *message)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    BASE_ASSERT(!gossip_message_encode_header(message, header, sizeof header, &bytes));
    (void)!node_link_send(link->link, header, bytes); // if it fails, the link has ended, and `closed` follows
}

// Sends after the worker's messages, which send_message would overtake.
static void send_in_order(struct peer_link *link, const struct gossip_message *message)
{
    uint8_t *header = malloc(LIMIT_MESSAGE_HEADER_BYTES);
    size_t bytes = 0;
    if (!header)
        return;
    BASE_ASSERT(!gossip_message_encode_header(message, header, LIMIT_MESSAGE_HEADER_BYTES, &bytes));
    (void)!node_link_give(link->link, header, bytes);
}

// A relayed link shows nothing of the other end's addresses.
static void tell_seen(const struct peer_link *link, char seen[GOSSIP_SEEN_TEXT])
{
    struct node_address theirs;
    struct gossip_address told;
    char text[NODE_ADDRESS_TEXT];
    if (link->relayed || !node_link_peer_address(link->link, &theirs) || !node_address_tell(&theirs, &told))
        return;
    node_address_of(&told, &theirs); // ::ffff:a.b.c.d is a.b.c.d
    node_address_text(&theirs, text);
    snprintf(seen, GOSSIP_SEEN_TEXT, "%.55s", text);
}

void peer_link_greet(struct peer_link *link)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING, .as.greeting = *link->peers->options.greeting};
    tell_seen(link, message.as.greeting.seen);
    send_message(link, &message);
}

// Without memory the packet is lost, as it may be on the network.
void peer_link_send_members(struct peer_link *link, const uint8_t *packet, size_t count)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                     .as.members = {.packet = packet, .packet_bytes = (uint32_t)count}};
    BASE_ASSERT(!gossip_message_encode_header(&message, header, sizeof header, &bytes));
    uint8_t *joined = malloc(bytes + count);
    if (!joined)
        return;
    memcpy(joined, header, bytes);
    memcpy(joined + bytes, packet, count);
    (void)!node_link_send(link->link, joined, bytes + count);
    free(joined);
}

// -- up

void peer_link_up(struct peer_link *link, struct node_peers_event *event)
{
    BASE_ASSERT(link->authenticated && !link->active);
    link->active = link->was_active = true;
    node_link_pause(link->link, link->peers->paused);
    peer_tell_up(link);
    event->seen = link->seen;
    if (link->relayed || !node_link_address(link->link, &event->own))
        event->own.bytes = 0;
    if (link->relayed || !node_link_peer_address(link->link, &event->theirs))
        event->theirs.bytes = 0;
}

// -- close

static void say_bye(struct peer_link *link, const struct gossip_links_action *action)
{
    const struct peer_link *other = action->other;
    const char *reason = gossip_close_bye(action->why);
    struct gossip_message message = {.kind = GOSSIP_BYE};
    char text[128];
    if (!reason || !link->authenticated)
        return;
    bool elsewhere = action->why == GOSSIP_CLOSE_DUPLICATE_IDENTITY && other;
    snprintf(text, sizeof text, "%s%s", reason, elsewhere ? other->address : "");
    snprintf(message.as.bye.reason, sizeof message.as.bye.reason, "%.63s", text);
    if (gossip_close_in_order(action->why))
        send_in_order(link, &message);
    else
        send_message(link, &message);
}

void peer_link_close(struct peer_link *link, const struct gossip_links_action *action)
{
    say_bye(link, action);
    peer_tell_close(link, action);
    switch (action->why) {
    case GOSSIP_CLOSE_BROKEN:
        node_link_close(link->link, BASE_EFORMAT, link->closing);
        break;
    case GOSSIP_CLOSE_TIMEOUT:
        if (node_link_is_connecting(link->link))
            node_link_close(link->link, BASE_EIO, "no answer to the connection");
        else
            node_link_close(link->link, BASE_EAUTH, "no handshake in time");
        break;
    case GOSSIP_CLOSE_CROWDED:
        peer_tell_turned_away(link->peers, link->address);
        node_link_close(link->link, BASE_EAUTH, link->closing);
        break;
    default: // in order: the other end reads the BYE, and sees neither a stranger nor a death
        node_link_finish(link->link);
        break;
    }
}

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
    BASE_ASSERT(!link->link && socket >= 0 &&
                link->handle != 0); // known to the rules before its session reports anything
    struct node_link_options o = {.base = p->base,
                                  .streams = p->streams,
                                  .socket = socket,
                                  .initiator = link->caller,
                                  .identity = p->identity,
                                  .secrets = p->secrets,
                                  .cluster = p->config->cluster.name,
                                  .protocols = p->protocols,
                                  .message_limit = p->message_limit,
                                  .ahead = link->relayed ? RELAYED_AHEAD : 0,
                                  .counters = p->counters,
                                  .handler = peers->sessions,
                                  .owner = link};
    enum base_error error = node_link_create(&o, &link->link);
    if (!error)
        return true;
    close(socket);
    const struct gossip_links_event ended = {.kind = GOSSIP_LINKS_ENDED, .link = link->handle};
    peer_link_free(link);
    node_peers_say_later(peers, ended);
    return false;
}
