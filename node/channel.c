#include "node/clock.h"
#include "node/greet.h"
#include "node/peers_private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALL_NS        (5 * NODE_SECOND_NS) // connection and handshake, when we call
#define TWINS_LEAST    3                    // one alone may be two calls that crossed
#define TWIN_NS        NODE_SECOND_NS       // in no less time
#define UNDECIDED_MOST 4                    // links of one id that wait to be taken

static void changed(struct node_peers *peers)
{
    peers->options.handler->changed(peers->options.owner);
}

static bool lower(const struct node_peers *peers, const struct gossip_id *peer)
{
    return gossip_id_compare(&peers->options.identity->id, peer) < 0;
}

struct channel *node_channel_adopted(const struct node_peers *peers, const struct gossip_id *id)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->adopted && gossip_id_compare(&c->id, id) == 0)
        return c;
    return NULL;
}

static void send_message(struct channel *c, const struct gossip_message *message)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    BASE_ASSERT(gossip_message_encode_header(message, header, sizeof header, &bytes) == BASE_OK);
    if (node_link_send(c->link, header, bytes) != BASE_OK)
        return; // the link has ended; its owner hears of it
}

static void send_greeting(struct channel *c)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING, .as.greeting = *c->peers->options.greeting};
    send_message(c, &message);
}

void node_channel_bye(struct channel *c, const char *reason)
{
    struct gossip_message message = {.kind = GOSSIP_BYE};
    snprintf(message.as.bye.reason, sizeof message.as.bye.reason, "%.63s", reason);
    c->parted = true;
    send_message(c, &message);
}

void node_channel_settle(struct channel *c)
{
    if (c->half_open)
        node_gate_settled(c->peers->gate, c->host);
    c->half_open = false;
}

// No link to this peer is in use any more. What it carried last may be lost: the worker is told.
static void unadopt(struct channel *c)
{
    struct node_peers *peers = c->peers;
    c->adopted = false;
    peers->options.handler->down(peers->options.owner, &c->id);
}

static void tell_own_address(struct channel *c)
{
    struct node_peers *peers = c->peers;
    struct node_address own;
    if (node_link_address(c->link, &own))
        peers->options.handler->here(peers->options.owner, &own);
}

static void warn_of_twin_name(struct channel *c)
{
    if (strcmp(c->name, c->peers->options.greeting->name) == 0)
        node_peers_say(c->peers, BASE_LOG_WARN, "same_name",
                       "%s has the name of this node, '%s'; that works, but is hard to read in logs: give "
                       "every node a node.name of its own",
                       c->address, c->name);
}

void node_channel_adopt(struct channel *c, struct channel *old)
{
    struct node_peers *peers = c->peers;
    struct channel *other;
    if (old) {
        node_channel_bye(old, NODE_BYE_REPLACED);
        node_link_close(old->link, BASE_OK, "a newer link took over");
        unadopt(old);
    }
    node_channel_settle(c);
    peers->twins = 0;
    c->adopted = true;
    c->used_ns = node_clock_ns();
    if (lower(peers, &c->id))
        send_greeting(c);
    LIST_FOREACH(other, &peers->channels, others)
    if (other != c && other->proven && !other->adopted && gossip_id_compare(&other->id, &c->id) == 0)
        node_link_close(other->link, BASE_OK, "another link to the same node is in use");
    node_peers_entries_of(peers, &c->id, node_dial_hold);
    node_calls_reached(peers->calls, &c->id);
    node_link_pause(c->link, peers->paused);
    node_peers_say(peers, BASE_LOG_INFO, "link_up", "%s at %s", c->name, c->address);
    warn_of_twin_name(c);
    tell_own_address(c);
    peers->options.handler->up(peers->options.owner, &c->id, c->name);
    node_packets_flush(peers, c);
    changed(peers);
}

static void refuse(struct channel *c, const char *here, const char *there)
{
    struct node_peers *peers = c->peers;
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(&c->id, hex);
    c->refused = true;
    peers->counters.refused++;
    if (c->entry == NO_ENTRY ||
        node_entries_at(peers->entries, c->entry)->state != NODE_ENTRY_REFUSED) // else it was told before
        node_peers_say(peers, BASE_LOG_ERROR, "peer_refused", "%s%s%.16s at %s: %s", c->name,
                       c->name[0] ? " " : "", hex, c->address, here);
    if (c->entry != NO_ENTRY)
        node_entries_refused(peers->entries, c->entry, node_clock_ns());
    if (there)
        node_channel_bye(c, there);
    node_link_finish(c->link);
    changed(peers);
}

static size_t undecided(const struct node_peers *peers, const struct gossip_id *id)
{
    size_t count = 0;
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    count += c->proven && !c->adopted && !c->parted && gossip_id_compare(&c->id, id) == 0;
    return count;
}

// Who answers is known. False: the link has no use (any more).
static bool is_useful(struct channel *c)
{
    struct node_peers *peers = c->peers;
    if (c->by_id && gossip_id_compare(&c->id, &c->called) != 0)
        return false;
    return undecided(peers, &c->id) <= UNDECIDED_MOST &&
           !(c->initiator && node_channel_adopted(peers, &c->id));
}

static void on_established(void *owner, const struct gossip_id *peer)
{
    struct channel *c = owner;
    struct node_peers *peers = c->peers;
    c->proven = true;
    c->id = *peer;
    c->proven_ns = node_clock_ns();
    c->self = gossip_id_compare(peer, &peers->options.identity->id) == 0;
    bool useful = c->self || is_useful(c);
    if (node_faults_has(peers->options.faults, peer)) {
        c->cut = true;
        node_link_stall(c->link, true);
        node_link_close(c->link, BASE_EIO, "cut off by node.fault_file");
        return;
    }
    bool allowed = c->self || !peers->options.allow || gossip_allow_list_has(peers->options.allow, peer);
    if (allowed && !c->self && c->entry != NO_ENTRY &&
        node_entries_answered(peers->entries, c->entry, peer, node_clock_ns()))
        changed(peers);
    if (!useful)
        node_link_finish(c->link); // in order, so that the other end sees a whole handshake and no stranger
    else if (!allowed)
        refuse(c, "it is not on the allow-list (cluster.allow_file)", "not on the allow-list of this node");
    else if (c->self ? !c->initiator : !lower(peers, peer))
        send_greeting(c);
}

// Our own id has answered: this very process, or another one with our identity.
static void on_own_greeting(struct channel *c, const struct gossip_greeting *theirs)
{
    struct node_peers *peers = c->peers;
    if (!c->initiator) {
        node_link_close(c->link, BASE_EFORMAT, "a greeting out of turn");
        return;
    }
    if (theirs->life != peers->options.greeting->life)
        peers->options.handler->twin(peers->options.owner, c->address);
    else if (c->entry != NO_ENTRY)
        node_entries_self(peers->entries, c->entry);
    node_link_finish(c->link);
    changed(peers);
}

static void on_greeting(struct channel *c, const struct gossip_greeting *theirs)
{
    struct node_peers *peers = c->peers;
    struct base_reason why = {0};
    if (c->heard) {
        node_link_close(c->link, BASE_EFORMAT, "greeted twice");
        return;
    }
    c->heard = true;
    c->heard_ns = node_clock_ns();
    if (c->self) {
        on_own_greeting(c, theirs);
        return;
    }
    c->life = theirs->life;
    snprintf(c->name, sizeof c->name, "%s", theirs->name);
    bool decides = lower(peers, &c->id);
    if (node_greeting_compare(peers->options.greeting, theirs, &why) != BASE_OK) {
        if (decides)
            send_greeting(c); // so that the people there can read it, too
        refuse(c, why.text, NULL);
        return;
    }
    struct channel *current = node_channel_adopted(peers, &c->id);
    if (!current || !decides) // the lower id has taken this one
        node_channel_adopt(c, current);
}

// The other end has a working link to this id, and this node has none to it.
static void suspect_twin(struct channel *c, const char *address)
{
    struct node_peers *peers = c->peers;
    uint64_t now_ns = node_clock_ns();
    if (node_channel_adopted(peers, &c->id))
        return;
    if (peers->twins++ == 0)
        peers->twin_ns = now_ns;
    if (peers->twins >= TWINS_LEAST && now_ns - peers->twin_ns >= TWIN_NS)
        peers->options.handler->twin(peers->options.owner, address);
}

static void on_bye(struct channel *c, const struct gossip_bye *bye)
{
    static const char *const known[][2] = {{NODE_BYE_IDLE, "idle"},
                                           {NODE_BYE_LEAVING, "it left"},
                                           {NODE_BYE_SILENT, "it takes this node for dead"},
                                           {NODE_BYE_REPLACED, "a newer link took over"}};
    bool first = !c->parted;
    c->parted = true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(bye->reason, known[i][0]) == 0) {
            c->idle |= i == 0;
            c->parting = known[i][1];
            return;
        }
    if (!first || c->refused)
        return;
    if (strncmp(bye->reason, NODE_BYE_TWIN, strlen(NODE_BYE_TWIN)) == 0) {
        suspect_twin(c, bye->reason + strlen(NODE_BYE_TWIN));
        return;
    }
    c->refused = true;
    if (c->entry != NO_ENTRY)
        node_entries_refused(c->peers->entries, c->entry, node_clock_ns());
    node_peers_say(c->peers, BASE_LOG_ERROR, "refused_by_peer", "%s: %s", c->address, bye->reason);
    changed(c->peers);
}

// A message on the link in use shows that it works: whoever waits to take over is not needed. (The same
// process calls anew when it has given up a link whose last bytes were still under way; another process is
// told about the first.)
static void drop_candidates(const struct channel *works)
{
    struct channel *c;
    char reason[sizeof NODE_BYE_TWIN + NODE_ADDRESS_TEXT];
    snprintf(reason, sizeof reason, "%s%s", NODE_BYE_TWIN, works->address);
    LIST_FOREACH(c, &works->peers->channels, others)
    {
        if (!c->heard || c->adopted || c->refused || c->parted || gossip_id_compare(&c->id, &works->id) != 0)
            continue;
        node_channel_bye(c, c->life == works->life ? NODE_BYE_REPLACED : reason);
        node_link_finish(c->link);
    }
}

// Of a link in use; true when bytes[count] are passed on.
static bool on_use(struct channel *c, const struct gossip_message *message, uint8_t *bytes, size_t count)
{
    struct node_peers *peers = c->peers;
    const struct node_peers_handler *handler = peers->options.handler;
    c->used_ns = node_clock_ns();
    drop_candidates(c);
    if (message->kind != GOSSIP_MEMBERS) {
        handler->message(peers->options.owner, &c->id, bytes, count);
        return true;
    }
    handler->members(peers->options.owner, &c->id, message->as.members.packet,
                     message->as.members.packet_bytes);
    return false;
}

static void on_message(void *owner, uint8_t *bytes, size_t count)
{
    struct channel *c = owner;
    struct gossip_message message;
    bool passed = false;
    if (gossip_message_decode(bytes, count, &message) != BASE_OK)
        node_link_close(c->link, BASE_EFORMAT, "a message that breaks the protocol");
    else if (message.kind == GOSSIP_GREETING)
        on_greeting(c, &message.as.greeting);
    else if (message.kind == GOSSIP_BYE)
        on_bye(c, &message.as.bye);
    else if (!c->adopted)
        node_link_close(c->link, BASE_EFORMAT, "a message before the greeting");
    else
        passed = on_use(c, &message, bytes, count);
    if (!passed)
        free(bytes);
}

static void on_closed(void *owner, enum base_error code, const char *why)
{
    struct channel *c = owner;
    struct node_peers *peers = c->peers;
    LIST_REMOVE(c, others);
    peers->n_channels--;
    node_channel_settle(c);
    c->was_adopted = c->adopted;
    if (c->adopted)
        unadopt(c);
    node_channel_ended(c, code, why);
    changed(peers);
}

static const struct node_link_handler link_handler = {
    .established = on_established, .message = on_message, .closed = on_closed};

static enum base_error open_link(struct channel *c, int socket)
{
    const struct node_peers_options *p = &c->peers->options;
    struct node_link_options o = {.base = p->base,
                                  .streams = p->streams,
                                  .socket = socket,
                                  .initiator = c->initiator,
                                  .identity = p->identity,
                                  .cluster = p->config->cluster.name,
                                  .message_limit = p->message_limit,
                                  .handshake_ns = c->initiator ? CALL_NS : LIMIT_HANDSHAKE_NS,
                                  .counters = p->counters,
                                  .handler = &link_handler,
                                  .owner = c};
    memcpy(o.psk, p->psk, sizeof o.psk);
    enum base_error code = node_link_create(&o, &c->link);
    explicit_bzero(o.psk, sizeof o.psk);
    return code;
}

bool node_channel_add(struct node_peers *peers, int socket, struct node_origin origin, const char *address,
                      const char *host)
{
    bool called = origin.entry != NO_ENTRY || origin.called;
    size_t kept = called ? 0 : node_entries_count(peers->entries); // for calls of our own
    struct channel *c = peers->n_channels + kept < NODE_CHANNELS_MOST ? calloc(1, sizeof *c) : NULL;
    if (!c)
        goto fail;
    c->peers = peers;
    c->entry = origin.entry;
    c->by_id = origin.called != NULL;
    if (origin.called)
        c->called = *origin.called;
    c->initiator = called;
    c->half_open = !called;
    snprintf(c->address, sizeof c->address, "%s", address);
    snprintf(c->host, sizeof c->host, "%s", host);
    if (open_link(c, socket) != BASE_OK)
        goto fail;
    LIST_INSERT_HEAD(&peers->channels, c, others);
    peers->n_channels++;
    return true;
fail:
    free(c);
    close(socket);
    return false;
}
