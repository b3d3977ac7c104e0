// Log lines about links: connections that were turned away, refused or lost, and why. Repeated lines are held
// back.
#include "node/config/compatibility.h"
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STARTUP_NS (3 * NODE_SECOND_NS) // nodes start one after the other: until then silence is not reported
#define REMIND_NS  (300 * NODE_SECOND_NS)
#define AGAIN_NS   (10 * NODE_SECOND_NS)

// Lines about what peers do are logged through this function, so that no peer can fill the log.
static void log_bounded(struct node_peers *peers, enum base_log_level level, const char *event,
                        const char *format, ...) BASE_PRINTF(4, 5);
static void log_bounded(struct node_peers *peers, enum base_log_level level, const char *event,
                        const char *format, ...)
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
        base_log(BASE_LOG_WARN, "left_out", "%llu lines about peers were left out: there were too many",
                 (unsigned long long)left_out);
    base_log(level, event, "%s", text.text);
}

void peer_tell_unresolved(struct node_peers *peers, size_t at, const char *problem)
{
    struct peer_entry *entry = &peers->entry[at];
    uint64_t now_ns = node_clock_ns();
    if (entry->unresolved_ns != 0 && now_ns - entry->unresolved_ns <= REMIND_NS)
        return;
    base_log(BASE_LOG_WARN, "peer_unresolved",
             "peers: %s cannot be resolved (%s); training continues without it, and it is tried again",
             node_peers_entry_text(peers, at), problem);
    entry->unresolved_ns = now_ns;
}

// The same problem is reported once, and again after a while.
static void tell_entry(struct node_peers *peers, size_t at, const char *why, bool stranger)
{
    struct peer_entry *entry = &peers->entry[at];
    uint64_t now_ns = node_clock_ns();
    char text[sizeof entry->told];
    if (now_ns - gossip_links_entry(peers->rules, at)->since_ns <= STARTUP_NS)
        return;
    snprintf(text, sizeof text, "%s%s", why,
             stranger ? " (does it have the same cluster.name and secret?)" : "");
    if (strcmp(entry->told, text) == 0 && now_ns - entry->told_ns < REMIND_NS)
        return;
    entry->told_ns = now_ns;
    snprintf(entry->told, sizeof entry->told, "%s", text);
    log_bounded(peers, BASE_LOG_WARN, "peer_missing", "%s: %s; it is tried again",
                node_peers_entry_text(peers, at), text);
}

void peer_tell_up(struct peer_link *link)
{
    log_bounded(link->peers, BASE_LOG_INFO, "link_up", "%s at %s, protocol %u", link->name, link->address,
                link->protocol);
    if (strcmp(link->name, link->peers->options.greeting->name) == 0)
        log_bounded(
            link->peers, BASE_LOG_WARN, "same_name",
            "%s has the name of this node, '%s'; they train in orders of their own, but are hard to tell "
            "apart in logs: give every node a node.name of its own",
            link->address, link->name);
}

void peer_tell_stuck(struct peer_link *link)
{
    if (link->relayed) {
        log_bounded(link->peers, BASE_LOG_INFO, "link_late",
                    "%s at %s: what this node sends arrives late or not at all; another way is tried",
                    link->name, link->address);
        return;
    }
    log_bounded(
        link->peers, BASE_LOG_WARN, "link_stuck",
        "%s at %s: what this node sends does not arrive any more; it is called again. Has a router been "
        "started anew, or an address changed?",
        link->name, link->address);
}

// Both ends call repeatedly, and each call is refused, by this end or by the other: each cause is
// reported once, and again after a while.
static bool is_told(struct node_peers *peers, const struct gossip_id *id, const char *why)
{
    const uint64_t now_ns = node_clock_ns();
    struct peer_refusal *at = &peers->refusals[0];
    for (size_t i = 0; i < PEER_REFUSALS; i++) {
        struct peer_refusal *other = &peers->refusals[i];
        if (other->told_ns != 0 && gossip_id_compare(&other->id, id) == 0 &&
            strncmp(other->why, why, sizeof other->why - 1) == 0) {
            if (now_ns - other->told_ns < REMIND_NS)
                return true;
            at = other;
            break;
        }
        if (other->told_ns < at->told_ns)
            at = other;
    }
    *at = (struct peer_refusal){.id = *id, .told_ns = now_ns};
    snprintf(at->why, sizeof at->why, "%s", why);
    return false;
}

static const char *range_text(const struct gossip_protocols *protocols, char text[32])
{
    if (protocols->least == protocols->most)
        snprintf(text, 32, " %u", protocols->most);
    else
        snprintf(text, 32, "s %u to %u", protocols->least, protocols->most);
    return text;
}

// Both ends have told each other what they speak, and no number is common to both.
static void say_protocols(const struct peer_link *link, struct base_reason *text)
{
    char there[32], here[32];
    const struct gossip_protocols *ours = &link->peers->options.protocols;
    BASE_ASSERT(ours->most < link->protocols.least || link->protocols.most < ours->least);
    snprintf(text->text, sizeof text->text, "it speaks protocol%s, this node protocol%s: update p2pml %s",
             range_text(&link->protocols, there), range_text(ours, here),
             ours->most < link->protocols.least ? "here" : "there");
}

// What differs, as far as the other end has said it. False: it has not.
static bool say_difference(const struct peer_link *link, enum gossip_close why, struct base_reason *text)
{
    const struct node_peers *peers = link->peers;
    if (why == GOSSIP_CLOSE_OTHER_PROTOCOL)
        say_protocols(link, text);
    return why == GOSSIP_CLOSE_OTHER_PROTOCOL ||
           (peers->heard && peers->heard->kind == GOSSIP_GREETING &&
            node_greeting_compare(peers->options.greeting, &peers->heard->as.greeting, text));
}

static void tell_refusal(struct peer_link *link, enum gossip_close why)
{
    struct node_peers *peers = link->peers;
    struct base_reason text = {0};
    char hex[GOSSIP_ID_HEX];
    const struct gossip_greeting *ours = peers->options.greeting;
    BASE_ASSERT(gossip_close_is_refusal(why));
    const bool compared = say_difference(link, why, &text);
    gossip_id_hex(&link->id, hex);
    if (compared && peers->heard && node_greeting_comes_back(ours, &peers->heard->as.greeting)) {
        log_bounded(peers, BASE_LOG_INFO, "peer_joins",
                    "%s%s%.16s at %s does not have the settings of this cluster yet; it takes them and "
                    "calls again",
                    link->name, link->name[0] ? " " : "", hex, link->address);
        return;
    }
    const char *cause = compared ? text.text : gossip_close_text(why);
    snprintf(peers->refusal, sizeof peers->refusal, "%s%s%.16s at %s: %s%.900s", link->name,
             link->name[0] ? " " : "", hex, link->address, compared ? "" : "it is ", cause);
    if (!is_told(peers, &link->id, cause))
        log_bounded(peers, BASE_LOG_ERROR, "peer_refused", "%s", peers->refusal);
}

static void tell_refused(struct peer_link *link, const char *reason)
{
    struct node_peers *peers = link->peers;
    BASE_ASSERT(peers->heard && peers->heard->kind == GOSSIP_BYE);
    snprintf(peers->refusal, sizeof peers->refusal, "%s: %.900s", link->address, reason);
    if (!is_told(peers, &link->id, reason))
        log_bounded(peers, BASE_LOG_ERROR, "refused_by_peer", "%s", peers->refusal);
}

// One of the two ends refuses the other for a while; both report it.
static void tell_pause(struct peer_link *link, enum gossip_close why, const char *text)
{
    const char *event = why == GOSSIP_CLOSE_IMPLAUSIBLE ? "implausible"
                        : why == GOSSIP_CLOSE_BANNED    ? "banned"
                                                        : "crowd";
    BASE_ASSERT(link->authenticated);
    if (!is_told(link->peers, &link->id, text))
        log_bounded(link->peers, BASE_LOG_WARN, event, "%s at %s: %s", link->name, link->address, text);
}

const char *node_peers_refusal(const struct node_peers *peers)
{
    return peers->refusal;
}

void peer_tell_close(struct peer_link *link, const struct gossip_links_action *action)
{
    struct node_peers *peers = link->peers;
    bool bye = peers->heard && peers->heard->kind == GOSSIP_BYE;
    if (gossip_close_is_refusal(action->why) && action->changed)
        tell_refusal(link, action->why);
    else if (action->why == GOSSIP_CLOSE_REFUSED_THERE && action->changed && bye)
        tell_refused(link, peers->heard->as.bye.reason);
    link->closing = gossip_close_text(action->why);
    enum gossip_close why = action->why;
    if (why == GOSSIP_CLOSE_HEARD && bye) {
        why = gossip_close_of(peers->heard->as.bye.reason);
        link->closing = gossip_close_heard(why);
    }
    if (why == GOSSIP_CLOSE_IMPLAUSIBLE || why == GOSSIP_CLOSE_BANNED || why == GOSSIP_CLOSE_CROWD)
        tell_pause(link, why, link->closing);
    if (action->why == GOSSIP_CLOSE_BROKEN && peers->broken[0] && !peers->heard)
        link->closing = peers->broken;
    BASE_ASSERT(link->closing && link->closing[0]);
}

static void tell_stranger(struct node_peers *peers, const struct peer_link *link, const char *why)
{
    uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(!link->authenticated && !link->caller);
    peers->strangers++;
    if (peers->stranger_told_ns != 0 && now_ns - peers->stranger_told_ns < AGAIN_NS)
        return;
    peers->stranger_told_ns = now_ns;
    base_log(BASE_LOG_WARN, "stranger", "%s was closed without an answer: %s (%llu so far)", link->address,
             why, (unsigned long long)peers->strangers);
}

void peer_tell_end(struct peer_link *link, enum base_error error, const char *why)
{
    struct node_peers *peers = link->peers;
    bool called = link->caller && link->target.entry != GOSSIP_NO_ENTRY;
    const char *text = link->closing ? link->closing : why;
    if (!link->authenticated && !link->caller)
        tell_stranger(peers, link, why);
    if (!link->authenticated && called)
        tell_entry(peers, link->target.entry, why, error == BASE_EAUTH);
    if (link->was_active && error == BASE_EFORMAT)
        log_bounded(peers, BASE_LOG_ERROR, "peer_protocol", "%s at %s: %s", link->name, link->address, text);
    if (link->was_active)
        log_bounded(peers,
                    strcmp(text, gossip_close_text(GOSSIP_CLOSE_IDLE)) == 0 ? BASE_LOG_DEBUG : BASE_LOG_INFO,
                    "link_down", "%s at %s: %s", link->name, link->address, text);
}

// If two nodes divide the examples differently, some are seen twice and others not at all.
void peer_tell_shards(const struct peer_link *link, const struct gossip_greeting *theirs)
{
    const struct node_peers_options *o = &link->peers->options;
    struct base_reason text;
    if (node_greeting_deals_otherwise(o->config, o->greeting, theirs, &text))
        base_log(BASE_LOG_WARN, "other_shards", "%s at %s: %s", theirs->name, link->address, text.text);
}

void peer_tell_turned_away(struct node_peers *peers, const char *from)
{
    struct gossip_links_totals totals;
    uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(now_ns >= peers->turned_away_told_ns);
    if (peers->turned_away_told_ns != 0 && now_ns - peers->turned_away_told_ns < AGAIN_NS)
        return;
    peers->turned_away_told_ns = now_ns;
    gossip_links_totals(peers->rules, &totals);
    const unsigned long long so_far = totals.turned_away;
    if (totals.links + peers->n_entries >= GOSSIP_LINKS_MAX)
        base_log(
            BASE_LOG_WARN, "link_limit",
            "%zu links are open, and the other %zu of at most %u are kept for this node's own calls; the "
            "connection from %s was closed (%llu so far)",
            totals.links, GOSSIP_LINKS_MAX - totals.links, GOSSIP_LINKS_MAX, from, so_far);
    else
        base_log(
            BASE_LOG_WARN, "half_open_limit",
            "%zu connections wait for their handshake, which is the limit (%u, and %u from one address); "
            "the one from %s was closed (%llu so far)",
            totals.half_open, LIMIT_HALF_OPEN, LIMIT_HALF_OPEN_ADDRESS, from, so_far);
}

const char *node_peers_entry_text(const struct node_peers *peers, size_t entry)
{
    return peers->options.config->peers.items[entry];
}
