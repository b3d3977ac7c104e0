// What the end of a link means: for the entry or member that was called, for the peer it led to, for people.
#include "node/clock.h"
#include "node/peers_private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS (3 * NODE_SECOND_NS) // nodes start one after the other: till then nobody's silence is news
#define REMIND_NS (300 * NODE_SECOND_NS)

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

// The same trouble is told once, and again after a while.
static void tell(struct node_peers *peers, size_t entry, const char *text)
{
    struct told *told = &peers->told[entry];
    uint64_t now = node_clock_ns();
    if (strncmp(told->text, text, sizeof told->text - 1) == 0 && now - told->at_ns < REMIND_NS)
        return;
    told->at_ns = now;
    snprintf(told->text, sizeof told->text, "%s", text);
    node_peers_say(peers, BASE_LOG_WARN, "peer_missing", "%s: %s; it is tried again",
                   node_entries_at(peers->entries, entry)->text, text);
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

static bool is_alive(const struct node_peers *peers, const struct gossip_id *id)
{
    return peers->options.handler->alive(peers->options.owner, id);
}

// A call that led to no link.
static void entry_call_ended(struct channel *c, enum base_error code, const char *why)
{
    struct node_peers *peers = c->peers;
    bool there = c->proven && !c->self && !c->refused && !c->cut;
    if (there && (node_channel_adopted(peers, &c->id) || is_alive(peers, &c->id))) {
        node_dial_hold(peers->dial, c->entry);
        return;
    }
    uint64_t since_ns = node_entries_at(peers->entries, c->entry)->since_ns;
    if (!c->proven && node_clock_ns() - since_ns > SETTLE_NS) {
        char text[200];
        snprintf(text, sizeof text, "%s%s", why,
                 code == BASE_EAUTH ? " (does it have the same cluster.name, secret and version?)" : "");
        tell(peers, c->entry, text);
    }
    node_dial_failed(peers->dial, c->entry, c->refused);
}

static void member_call_ended(struct channel *c)
{
    struct node_peers *peers = c->peers;
    if (node_channel_adopted(peers, &c->called))
        node_calls_reached(peers->calls, &c->called);
    else
        node_calls_failed(peers->calls, &c->called, node_link_end(c->link) == NODE_LINK_REFUSED, c->refused);
}

// Of the other links to the same node, one that was greeted takes its place; NULL: there is none.
static struct channel *successor(const struct node_peers *peers, const struct gossip_id *id)
{
    struct channel *next;
    LIST_FOREACH(next, &peers->channels, others)
    if (next->heard && !next->refused && node_link_usable(next->link) &&
        gossip_id_compare(&next->id, id) == 0)
        return next;
    return NULL;
}

static void link_ended(struct channel *c, enum base_error code, const char *why)
{
    struct node_peers *peers = c->peers;
    node_peers_say(peers, c->idle ? BASE_LOG_DEBUG : BASE_LOG_INFO, "link_down", "%s at %s: %s", c->name,
                   c->address,
                   c->parting ? c->parting
                   : c->idle  ? "idle"
                              : why);
    struct channel *next = successor(peers, &c->id);
    if (next) {
        node_channel_adopt(next, NULL);
        return;
    }
    bool hopeless = c->refused || code == BASE_EFORMAT;
    node_calls_ended(peers->calls, &c->id);
    if (node_link_end(c->link) == NODE_LINK_GONE && !c->parted)
        peers->options.handler->unreachable(peers->options.owner, &c->id);
    if (hopeless || !is_alive(peers, &c->id))
        node_peers_entries_of(peers, &c->id, hopeless ? node_dial_release_later : node_dial_release);
}

void node_channel_ended(struct channel *c, enum base_error code, const char *why)
{
    struct node_peers *peers = c->peers;
    int left = node_link_take_socket(c->link);
    if (left >= 0) // it ends without a word to the other end
        node_faults_bury(peers->options.faults, &c->id, left);
    if (c->proven)
        account(peers, c);
    if (!c->proven && !c->initiator)
        stranger(peers, c, why);
    if (c->was_adopted && code == BASE_EFORMAT)
        node_peers_say(peers, BASE_LOG_ERROR, "peer_protocol", "%s at %s: %s", c->name, c->address, why);
    if (c->was_adopted)
        link_ended(c, code, why);
    else if (c->entry != NO_ENTRY)
        entry_call_ended(c, code, why);
    else if (c->by_id)
        member_call_ended(c);
    node_link_destroy(c->link);
    free(c);
}
