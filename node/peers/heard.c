// Turns what the session of a link reports (authentication, messages, the end) into events for gossip/links.
#include "base/hash.h"
#include "node/config/compatibility.h"
#include "node/peers/private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gossip_links_event about(const struct peer_link *link, enum gossip_links_event_kind kind)
{
    return (struct gossip_links_event){.kind = kind, .link = link->handle};
}

// As the listener counts them; 0: not known.
static uint64_t host_of(const struct peer_link *link)
{
    struct node_address theirs;
    char host[NODE_ADDRESS_TEXT];
    if (link->relayed || !node_link_peer_address(link->link, &theirs))
        return 0;
    node_listener_host(&theirs, host);
    return base_hash_bytes(link->peers->salt, host, strlen(host));
}

static void on_answered(void *owner)
{
    const struct peer_link *link = owner;
    node_peers_say_now(link->peers, about(link, GOSSIP_LINKS_ANSWERED));
}

static void on_established(void *owner, const struct gossip_session_event *event)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_links_event authenticated = about(link, GOSSIP_LINKS_AUTHENTICATED);
    BASE_ASSERT(!link->authenticated && !link->active);
    link->authenticated = true;
    link->id = event->peer;
    link->protocols = event->protocols;
    link->protocol = event->protocol;
    link->secret = event->secret;
    struct gossip_member_info known;
    if (!gossip_membership_find(peers->options.membership, &link->id, &known))
        snprintf(link->name, sizeof link->name, "%s", known.record->name);
    if (node_faults_has(peers->options.faults, &link->id)) {
        node_link_stall(link->link, true);
        node_link_close(link->link, BASE_EIO, "cut off by node.fault_file");
        return;
    }
    if (!gossip_secrets_marked(peers->options.secrets, link->secret)) {
        node_link_close(link->link, BASE_EAUTH, "its secret was removed while it called");
        return;
    }
    authenticated.peer = link->id;
    authenticated.protocol = event->protocol;
    authenticated.host = host_of(link);
    authenticated.alive = gossip_membership_is_here(peers->options.membership, &link->id);
    node_peers_say_now(peers, authenticated);
}

static struct gossip_links_event event_of(struct peer_link *link, const struct gossip_message *message)
{
    struct gossip_links_event event = about(link, GOSSIP_LINKS_MESSAGE);
    BASE_ASSERT(link->authenticated);
    if (message->kind == GOSSIP_GREETING) {
        event.kind = GOSSIP_LINKS_GREETING;
        event.greeting = &message->as.greeting;
        snprintf(link->name, sizeof link->name, "%s", message->as.greeting.name);
        snprintf(link->seen, sizeof link->seen, "%s", message->as.greeting.seen);
    } else if (message->kind == GOSSIP_BYE) {
        event.kind = GOSSIP_LINKS_BYE;
        event.reason = message->as.bye.reason;
    }
    return event;
}

// The settings of a cluster that trains already: this node ends and starts again with them, so the greeting
// is not handled further, nor is any other.
static bool takes_settings(struct peer_link *link, const struct gossip_greeting *theirs)
{
    struct node_peers *peers = link->peers;
    if (peers->taken)
        return true;
    BASE_ASSERT(!peers->settings);
    if (!peers->options.joins ||
        node_greeting_take(peers->options.config, peers->options.greeting, theirs, &peers->settings) ||
        !peers->settings) {
        peer_tell_shards(link, theirs);
        return false;
    }
    snprintf(link->name, sizeof link->name, "%s", theirs->name);
    peers->settles = link;
    peers->taken = true;
    return true;
}

static void on_message(void *owner, uint8_t *bytes, size_t count)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_message message;
    if (gossip_message_decode(bytes, count, &message)) {
        free(bytes);
        snprintf(peers->broken, sizeof peers->broken, "a message that breaks the protocol");
        node_peers_say_now(peers, about(link, GOSSIP_LINKS_BROKEN));
        return;
    }
    peers->options.ready(peers->options.owner);        // actions that still wait do not concern this message
    BASE_ASSERT(!peers->heard && !peers->heard_bytes); // one message at a time
    peers->heard = &message;
    peers->heard_bytes = bytes;
    peers->heard_count = count;
    if (message.kind == GOSSIP_GREETING && takes_settings(link, &message.as.greeting))
        peers->options.ready(peers->options.owner);
    else
        node_peers_say_now(peers, event_of(link, &message));
    free(peers->heard_bytes);
    peers->heard = NULL;
    peers->heard_bytes = NULL;
}

static void account(struct node_peers *peers, const struct peer_link *link)
{
    struct node_link_traffic t = node_link_traffic(link->link);
    BASE_ASSERT(link->authenticated); // before, the id is not known
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
        return; // only a counter is lost
    peers->accounts = more;
    more[peers->n_accounts++] = (struct peer_account){.id = link->id, .traffic = t};
}

static enum gossip_link_end end_of(const struct peer_link *link, enum base_error error)
{
    static const enum gossip_link_end ends[] = {[NODE_LINK_OTHER] = GOSSIP_END_OTHER,
                                                [NODE_LINK_GONE] = GOSSIP_END_GONE,
                                                [NODE_LINK_REFUSED] = GOSSIP_END_REFUSED};
    return error == BASE_EFORMAT ? GOSSIP_END_BROKEN : ends[node_link_end(link->link)];
}

static void on_closed(void *owner, enum base_error error, const char *why)
{
    struct peer_link *link = owner;
    struct node_peers *peers = link->peers;
    struct gossip_links_event ended = about(link, GOSSIP_LINKS_ENDED);
    int left = node_link_take_socket(link->link);
    ended.end = end_of(link, error);
    if (left >= 0) // it ends without telling the other end
        node_faults_bury(peers->options.faults, &link->id, left);
    if (link->authenticated)
        account(peers, link);
    peer_tell_end(link, error, why);
    node_peers_say_now(peers, ended);
    peer_relayed_left(link);
    peer_link_free(link);
    peers->changed = true; // it may have been the last
    peers->options.ready(peers->options.owner);
}

const struct node_link_handler peer_link_handler = {
    .established = on_established, .message = on_message, .closed = on_closed, .answered = on_answered};
