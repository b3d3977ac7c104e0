#include "base/log.h"
#include "node/clock.h"
#include "node/greet.h"
#include "node/peers_private.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALL_NS        (10 * NODE_SECOND_NS) // connection and handshake, when we call
#define SETTLE_NS      (3 * NODE_SECOND_NS) // nodes start one after the other: till then nobody's silence is news
#define REMIND_NS      (300 * NODE_SECOND_NS)
#define UNDECIDED_MOST 4 // links of one id that wait to be taken

static void changed(struct node_peers *peers)
{
    peers->options.handler->changed(peers->options.owner);
}

static void say(struct node_peers *peers, enum base_log_level level, const char *event, const char *format,
                ...) BASE_PRINTF(4, 5);

// What peers do goes to the log through here: none of them can fill it.
static void say(struct node_peers *peers, enum base_log_level level, const char *event, const char *format,
                ...)
{
    struct base_reason text;
    uint64_t left_out = 0;
    va_list arguments;
    if (!node_allowance_take(&peers->lines, node_clock_ns(), &left_out))
        return;
    va_start(arguments, format);
    vsnprintf(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    if (left_out > 0)
        base_log(BASE_LOG_WARN, "left_out", "%llu lines about peers were too many and are not here",
                 (unsigned long long)left_out);
    base_log(level, event, "%s", text.text);
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
    snprintf(message.as.bye.reason, sizeof message.as.bye.reason, "%s", reason);
    send_message(c, &message);
}

static void settle(struct channel *c)
{
    if (c->half_open)
        node_gate_settled(c->peers->gate, c->host);
    c->half_open = false;
}

static void account(struct node_peers *peers, const struct channel *c)
{
    struct node_link_traffic t = node_link_traffic(c->link);
    for (size_t i = 0; i < peers->n_accounts; i++) {
        if (gossip_id_compare(&peers->accounts[i].id, &c->id) != 0)
            continue;
        peers->accounts[i].traffic.sent += t.sent;
        peers->accounts[i].traffic.received += t.received;
        return;
    }
    struct account *more = NULL;
    if (peers->n_accounts < NODE_CHANNELS_MOST)
        more = realloc(peers->accounts, (peers->n_accounts + 1) * sizeof *more);
    if (!more)
        return; // only a figure for people is lost
    peers->accounts = more;
    more[peers->n_accounts++] = (struct account){.id = c->id, .traffic = t};
}

// Every entry that stands for this node: hold its calls while there is a link, release them when it is gone.
static void entries_of(struct node_peers *peers, const struct gossip_id *id,
                       void (*act)(struct node_dial *, size_t))
{
    for (size_t i = 0; i < peers->options.config->peers.count; i++) {
        const struct node_member *row = node_roster_entry(peers->options.roster, i);
        if (row->known && !row->left_out && gossip_id_compare(&row->id, id) == 0)
            act(peers->dial, i);
    }
}

// No link to this peer is in use any more. What it carried last may be lost: the worker is told.
static void unadopt(struct channel *c)
{
    struct node_peers *peers = c->peers;
    c->adopted = false;
    node_roster_down(peers->options.roster, &c->id, node_clock_ns());
    peers->options.handler->down(peers->options.owner, &c->id);
}

static void adopt(struct channel *c)
{
    struct node_peers *peers = c->peers;
    if (node_roster_up(peers->options.roster, &c->id, c->name, c->address, node_clock_ns()) != BASE_OK) {
        node_link_close(c->link, BASE_ELIMIT, "the table of members is full");
        return;
    }
    settle(c);
    c->adopted = true;
    if (lower(peers, &c->id))
        send_greeting(c);
    struct channel *other;
    LIST_FOREACH(other, &peers->channels, others)
    if (other != c && other->proven && !other->adopted && gossip_id_compare(&other->id, &c->id) == 0)
        node_link_close(other->link, BASE_OK, "another link to the same node is in use");
    entries_of(peers, &c->id, node_dial_hold);
    node_link_pause(c->link, peers->paused);
    say(peers, BASE_LOG_INFO, "link_up", "%s at %s", c->name, c->address);
    peers->options.handler->up(peers->options.owner, &c->id);
    if (peers->greet_with)
        node_channel_bye(c, peers->greet_with);
    changed(peers);
}

void node_channel_replace(struct channel *old, struct channel *fresh)
{
    node_link_close(old->link, BASE_OK, "a newer link took over");
    unadopt(old);
    adopt(fresh);
}

// The same trouble is told once, and again after a while.
static void tell(struct node_peers *peers, size_t entry, const char *text)
{
    struct told *told = &peers->told[entry];
    uint64_t now = node_clock_ns();
    if (strncmp(told->text, text, sizeof told->text - 1) == 0 && now - told->at_ns < REMIND_NS)
        return;
    told->at_ns = now;
    snprintf(told->text, sizeof told->text, "%s", text);
    say(peers, BASE_LOG_WARN, "peer_missing", "%s: %s; it is tried again",
        peers->options.config->peers.items[entry], text);
}

static void refuse(struct channel *c, const char *here, const char *there)
{
    struct node_peers *peers = c->peers;
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(&c->id, hex);
    c->refused = true;
    peers->counters.refused++;
    const struct node_member *row = node_roster_find(peers->options.roster, &c->id);
    if (!row || row->state != NODE_MEMBER_REFUSED)
        say(peers, BASE_LOG_ERROR, "peer_refused", "%s%s%.16s at %s: %s", c->name, c->name[0] ? " " : "", hex,
            c->address, here);
    node_roster_refused(peers->options.roster, &c->id, node_clock_ns());
    if (there)
        node_channel_bye(c, there);
    node_link_finish(c->link);
    changed(peers);
}

// Who answers at an entry's address; false when the link has no use.
static bool learn(struct channel *c)
{
    struct node_peers *peers = c->peers;
    const char *text = peers->options.config->peers.items[c->entry];
    enum node_learned learned = node_roster_learn(peers->options.roster, c->entry, &c->id, node_clock_ns());
    changed(peers);
    if (learned == NODE_LEARNED_PEER)
        return true;
    node_dial_stop(peers->dial, c->entry);
    c->entry = NO_ENTRY;
    if (learned == NODE_LEARNED_SELF) {
        base_log(BASE_LOG_INFO, "peer_self", "peers: %s is this node itself; left out", text);
        return false;
    }
    base_log(BASE_LOG_INFO, "peer_duplicate", "peers: %s reaches the same node as another entry; left out",
             text);
    return true;
}

static size_t undecided(const struct node_peers *peers, const struct gossip_id *id)
{
    size_t count = 0;
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    count += c->proven && !c->adopted && gossip_id_compare(&c->id, id) == 0;
    return count;
}

static void on_established(void *owner, const struct gossip_id *peer)
{
    struct channel *c = owner;
    struct node_peers *peers = c->peers;
    c->proven = true;
    c->id = *peer;
    c->proven_ns = node_clock_ns();
    bool self = gossip_id_compare(peer, &peers->options.identity->id) == 0;
    bool useful = c->entry == NO_ENTRY || learn(c);
    if (self || !useful || undecided(peers, peer) > UNDECIDED_MOST)
        node_link_finish(c->link); // in order, so that the other end sees a whole handshake and no stranger
    else if (peers->options.allow && !gossip_allow_list_has(peers->options.allow, peer))
        refuse(c, "it is not on the allow-list (cluster.allow_file)", "not on the allow-list of this node");
    else if (c->initiator && node_channel_adopted(peers, peer))
        node_link_finish(c->link);
    else if (!lower(peers, peer))
        send_greeting(c);
}

// A name belongs to one node at a time; a bearer that is away has lost it.
static bool name_is_free(struct channel *c)
{
    struct node_peers *peers = c->peers;
    for (;;) {
        const struct node_member *bearer = node_roster_bearer(peers->options.roster, c->name, &c->id);
        if (!bearer)
            return true;
        struct gossip_id id = bearer->id;
        if (!node_roster_forget_id(peers->options.roster, &id, node_clock_ns()))
            return false;
        peers->options.handler->forget(peers->options.owner, &id);
    }
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
    snprintf(c->name, sizeof c->name, "%s", theirs->name);
    bool decides = lower(peers, &c->id);
    if (node_greeting_compare(peers->options.greeting, theirs, &why) != BASE_OK) {
        if (decides)
            send_greeting(c); // so that the people there can read it, too
        refuse(c, why.text, NULL);
        return;
    }
    const struct node_member *row = node_roster_find(peers->options.roster, &c->id);
    if (row && row->in_view && strcmp(row->name, c->name) != 0) {
        char here[2 * LIMIT_NODE_NAME_BYTES + 160];
        snprintf(here, sizeof here,
                 "it was called '%s' before; are two nodes of one identity running? If it was renamed, it is "
                 "taken again after average.forget_after",
                 row->name);
        refuse(c, here, "this id had another name a moment ago; is it used twice?");
        return;
    }
    if (!name_is_free(c)) {
        refuse(c, "another node of the cluster has the same name; give every node a node.name of its own",
               "another node has the same name; give it another node.name");
        return;
    }
    struct channel *current = node_channel_adopted(peers, &c->id);
    if (!current)
        adopt(c);
    else if (!decides)
        node_channel_replace(current, c); // the lower id has taken this one
}

static void on_bye(struct channel *c, const struct gossip_bye *bye)
{
    struct node_peers *peers = c->peers;
    if (strcmp(bye->reason, NODE_BYE_DONE) == 0) {
        if (c->adopted)
            node_roster_done(peers->options.roster, &c->id, node_clock_ns());
    } else if (strcmp(bye->reason, NODE_BYE_LEAVING) == 0) {
        c->leaving = true;
    } else if (!c->refused) { // heard once
        c->refused = true;
        node_roster_refused(peers->options.roster, &c->id, node_clock_ns());
        say(peers, BASE_LOG_ERROR, "refused_by_peer", "%s: %s", c->address, bye->reason);
    }
    changed(peers);
}

// A message on the link in use shows that it works: whoever waits to take over is not needed.
static void drop_candidates(struct node_peers *peers, const struct gossip_id *id)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->heard && !c->adopted && !c->refused && gossip_id_compare(&c->id, id) == 0)
        node_link_close(c->link, BASE_OK, "another link to the same node is in use");
}

static void on_message(void *owner, const uint8_t *bytes, size_t count)
{
    struct channel *c = owner;
    struct node_peers *peers = c->peers;
    struct gossip_message message;
    if (gossip_message_decode(bytes, count, &message) != BASE_OK) {
        node_link_close(c->link, BASE_EFORMAT, "a message that breaks the protocol");
        return;
    }
    if (message.kind == GOSSIP_GREETING) {
        on_greeting(c, &message.as.greeting);
    } else if (message.kind == GOSSIP_BYE) {
        on_bye(c, &message.as.bye);
    } else if (c->adopted) {
        drop_candidates(peers, &c->id);
        peers->options.handler->message(peers->options.owner, &c->id, bytes, count);
    } else {
        node_link_close(c->link, BASE_EFORMAT, "a message before the greeting");
    }
}

static void stranger(struct node_peers *peers, const struct channel *c, const char *why)
{
    uint64_t now = node_clock_ns();
    peers->counters.strangers++;
    if (peers->stranger_told_ns != 0 && now - peers->stranger_told_ns < 10 * NODE_SECOND_NS)
        return;
    peers->stranger_told_ns = now;
    base_log(BASE_LOG_WARN, "stranger", "%s was closed without an answer: %s (%llu so far)", c->address, why,
             (unsigned long long)peers->counters.strangers);
}

// What a call that led to no link means for its entry of the peer list.
static void call_ended(struct channel *c, enum base_error code, const char *why)
{
    struct node_peers *peers = c->peers;
    if (c->proven && node_channel_adopted(peers, &c->id)) {
        node_dial_hold(peers->dial, c->entry);
        return;
    }
    uint64_t since_ns = node_roster_entry(peers->options.roster, c->entry)->since_ns;
    if (!c->proven && node_clock_ns() - since_ns > SETTLE_NS) {
        bool closed = code == BASE_EAUTH;
        char text[200];
        snprintf(text, sizeof text, "%s%s", why,
                 closed ? " (does it have the same cluster.name, secret and version?)" : "");
        tell(peers, c->entry, text);
    }
    if (!c->refused)
        node_roster_call_failed(peers->options.roster, c->entry, node_clock_ns());
    node_dial_failed(peers->dial, c->entry, c->refused);
}

static void link_ended(struct channel *c, enum base_error code, const char *why)
{
    struct node_peers *peers = c->peers;
    say(peers, BASE_LOG_INFO, "link_down", "%s at %s: %s", c->name, c->address, c->leaving ? "it left" : why);
    unadopt(c);
    struct channel *next;
    LIST_FOREACH(next, &peers->channels, others)
    if (next->heard && !next->refused && node_link_usable(next->link) &&
        gossip_id_compare(&next->id, &c->id) == 0) {
        adopt(next);
        return;
    }
    bool hopeless = c->refused || code == BASE_EFORMAT;
    entries_of(peers, &c->id, hopeless ? node_dial_release_later : node_dial_release);
}

static void on_closed(void *owner, enum base_error code, const char *why)
{
    struct channel *c = owner;
    struct node_peers *peers = c->peers;
    LIST_REMOVE(c, others);
    peers->n_channels--;
    settle(c);
    if (c->proven)
        account(peers, c);
    if (!c->proven && !c->initiator)
        stranger(peers, c, why);
    if (c->adopted && code == BASE_EFORMAT)
        say(peers, BASE_LOG_ERROR, "peer_protocol", "%s at %s: %s", c->name, c->address, why);
    if (c->adopted)
        link_ended(c, code, why);
    else if (c->entry != NO_ENTRY)
        call_ended(c, code, why);
    node_link_destroy(c->link);
    free(c);
    changed(peers);
}

static const struct node_link_handler link_handler = {
    .established = on_established, .message = on_message, .closed = on_closed};

bool node_channel_add(struct node_peers *peers, int socket, size_t entry, const char *address,
                      const char *host)
{
    size_t kept = entry == NO_ENTRY ? peers->options.config->peers.count : 0; // for calls of our own
    struct channel *c = peers->n_channels + kept < NODE_CHANNELS_MOST ? calloc(1, sizeof *c) : NULL;
    if (!c)
        goto fail;
    c->peers = peers;
    c->entry = entry;
    c->initiator = entry != NO_ENTRY;
    c->half_open = !c->initiator;
    snprintf(c->address, sizeof c->address, "%s", address);
    snprintf(c->host, sizeof c->host, "%s", host);
    struct node_link_options o = {.base = peers->options.base,
                                  .socket = socket,
                                  .initiator = c->initiator,
                                  .identity = peers->options.identity,
                                  .cluster = peers->options.config->cluster.name,
                                  .message_limit = peers->options.message_limit,
                                  .handshake_ns = c->initiator ? CALL_NS : LIMIT_HANDSHAKE_NS,
                                  .counters = peers->options.counters,
                                  .handler = &link_handler,
                                  .owner = c};
    memcpy(o.psk, peers->options.psk, sizeof o.psk);
    enum base_error code = node_link_create(&o, &c->link);
    explicit_bzero(o.psk, sizeof o.psk);
    if (code != BASE_OK)
        goto fail;
    LIST_INSERT_HEAD(&peers->channels, c, others);
    peers->n_channels++;
    return true;
fail:
    free(c);
    close(socket);
    return false;
}
