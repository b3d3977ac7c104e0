// Reports on the life of this node: lines of the log and of events.jsonl.
#include "base/log.h"
#include "base/plural.h"
#include "node/loop_private.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Counts the entries of the peer list that lead to no member, and writes as many of their addresses into text
// as fit.
static size_t list_missing(const struct node_loop *loop, char *text, size_t capacity)
{
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    const struct gossip_membership *members = node_cluster_membership(loop->cluster);
    size_t count = 0, used = 0;
    for (size_t i = 0; i < node_peers_entries(peers); i++) {
        const struct gossip_entry e = node_cluster_entry(loop->cluster, i);
        const char *name = node_peers_entry_text(peers, i);
        if (!gossip_life_misses(node_cluster_graph(loop->cluster), &e) ||
            (e.known && gossip_membership_is_here(members, &e.id))) // a member, whether or not it counts yet
            continue;
        count++;
        if (used + strlen(name) + 3 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", name);
    }
    return count;
}

static void say_without(const struct node_loop *loop, const struct gossip_life_action *notice)
{
    uint64_t wanted = loop->options.config->node.start_members;
    char text[600] = "";
    const size_t missing = list_missing(loop, text, sizeof text);
    if (wanted > 0)
        base_log(BASE_LOG_WARN, "start_without",
                 "training begins with %" PRIu64 " of the %" PRIu64 " nodes of node.start_members", notice->a,
                 wanted);
    else if (missing > 0)
        base_log(BASE_LOG_WARN, "start_without", "training begins without %zu listed peer%s: %s", missing,
                 base_plural(missing), text);
    else
        base_log(BASE_LOG_INFO, "start_without",
                 "training begins; %" PRIu64 " listed peer%s joined just now and will take part in a moment",
                 notice->b, base_plural(notice->b));
}

static void say_unheard(const struct node_loop *loop)
{
    const struct gossip_membership *membership = node_cluster_membership(loop->cluster);
    BASE_ASSERT(loop->statistics);
    char names[600] = "";
    size_t used = 0, unheard = 0;
    for (size_t i = 1; i < gossip_membership_count(membership); i++) {
        struct gossip_member_info info;
        gossip_membership_info(membership, i, &info);
        if (info.state != GOSSIP_MEMBER_ALIVE || gossip_statistics_has(loop->statistics, &info.record->id))
            continue;
        unheard++;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     info.record->name);
    }
    base_log(
        BASE_LOG_WARN, "statistics",
        "%zu member%s sent the statistics of %s examples within node.start_timeout: %s; data.scale is "
        "computed without them and stays so (to include them, end all nodes and start them again in empty "
        "directories)",
        unheard, unheard == 1 ? " has not" : "s have not", unheard == 1 ? "its" : "their", names);
}

static void say_alone(struct node_loop *loop, const struct gossip_life_action *notice)
{
    char line[160];
    snprintf(line, sizeof line,
             "%s others have finished; training ends after step %" PRIu64 " of %" PRIu64 "%s",
             notice->b & 2 ? "most" : "all", notice->a, loop->options.config->train.steps,
             notice->b & 1 ? ", with their model" : "");
    node_cluster_tell(loop->cluster, "alone", line);
}

static void fail_without_model(struct node_loop *loop, const struct gossip_life_action *notice)
{
    if (notice->a)
        node_loop_fail(
            loop, "fetch",
            "the others have finished and are gone, and none of them has sent this node their model "
            "in %" PRIu64 " s: this node ends without one, as it has not trained",
            notice->b);
    else
        node_loop_fail(loop, "fetch",
                       "the others train, but for %" PRIu64
                       " s none of them has sent this node a model: this node ends",
                       notice->b);
}

static const char *why_paused(uint64_t bits)
{
    if (bits & GOSSIP_LIFE_MINORITY)
        return "this side of the partition is the smaller one: this node waits";
    if (bits & GOSSIP_LIFE_CUT_OFF)
        return "this node hears none of the other nodes: it waits";
    if (bits & GOSSIP_LIFE_HELD_OUT)
        return "this node was restarted often and stays out of the graph for a while: it waits";
    if (bits & GOSSIP_LIFE_NO_WORD)
        return "this node was away: it waits until it hears the round of the others";
    return "the others train already: this node waits until it can exchange with them";
}

static const char *why_resumed(uint64_t bits)
{
    if (bits & GOSSIP_LIFE_MINORITY)
        return "enough members are back: training continues";
    if (bits & GOSSIP_LIFE_CUT_OFF)
        return "this node hears other nodes again, or all of them are gone: training continues";
    if (bits & GOSSIP_LIFE_HELD_OUT)
        return "this node counts in the graph again: training continues";
    return "training continues";
}

// With values that the user can change, as they are in use.
void node_loop_say_apart(struct node_loop *loop)
{
    const double ratio = (double)loop->totals.entries / (double)loop->options.greeting.parameters;
    char line[320];
    snprintf(
        line, sizeof line,
        "the models of the nodes are %.2g apart (part of their norm) and do not come closer: exchange more, "
        "with a larger average.ratio (now 1/%.3g) or a smaller average.local_steps (now %" PRIu64
        "; every, in Python)",
        loop->progress.apart, ratio > 0 ? 1 / ratio : (double)NAN, loop->options.config->average.local_steps);
    node_cluster_warn(loop->cluster, "distance", line);
}

// Both ends say so: who joins with another rate may not read its own log.
void node_loop_say_rates(struct node_loop *loop, const struct gossip_edge_info *edge)
{
    struct gossip_member_info info;
    const bool known = !gossip_membership_find(node_cluster_membership(loop->cluster), &edge->peer, &info);
    const bool above = edge->rates > 1;
    char line[320];
    snprintf(
        line, sizeof line,
        "the learning rate of %s is %.3g times that of %s: its steps move the others' models far from where "
        "they are. Give it the schedule and the train.rate of the others (scheduler=, in Python)",
        above ? (known ? info.record->name : "a neighbour") : "this node",
        (double)(above ? edge->rates : 1 / edge->rates),
        above ? "this node" : (known ? info.record->name : "a neighbour"));
    node_cluster_warn(loop->cluster, "rates", line);
}

// Notices that need only one text, with at most the numbers a and b, in this order.
struct words {
    enum { LOGGED, TOLD } as;  // in the log; in events.jsonl as well
    enum base_log_level level; // of LOGGED
    const char *event, *format;
};

static const struct words words_of[] = {
    [GOSSIP_LIFE_BEGINS] = {TOLD, BASE_LOG_INFO, "start", "training begins with %" PRIu64 " peers"},
    [GOSSIP_LIFE_OTHER_WEIGHTS] =
        {TOLD, BASE_LOG_INFO, "start",
         "the nodes start with different weights or rows: this node takes the model of another one, as "
         "soon as that one trains"},
    [GOSSIP_LIFE_OTHERS_TRAIN] = {TOLD, BASE_LOG_INFO, "start",
                                  "others train already: fetching a model from one of them"},
    [GOSSIP_LIFE_OTHERS_FINISHED] = {TOLD, BASE_LOG_INFO, "start",
                                     "all others have finished: fetching the model from one of them"},
    [GOSSIP_LIFE_FAR_BEHIND] = {TOLD, BASE_LOG_INFO, "behind",
                                "this node is at round %" PRIu64 ", the cluster at %" PRIu64
                                ": fetching a model from one of the others"},
    [GOSSIP_LIFE_TAKES_ROUND] = {TOLD, BASE_LOG_INFO, "behind",
                                 "this node is at round %" PRIu64 ", the cluster at %" PRIu64
                                 ": it continues there with its own model; exchanges pull it to the others'"},
    [GOSSIP_LIFE_COMPLETE] = {TOLD, BASE_LOG_INFO, "fetched",
                              "the model is complete: this node counts in the graph"},
    [GOSSIP_LIFE_NO_DONOR] = {LOGGED, BASE_LOG_WARN, "fetch", "no node has a model to give yet; waiting"},
    [GOSSIP_LIFE_GAVE_UP] = {LOGGED, BASE_LOG_WARN, "fetch",
                             "no node with a model is left: this node continues with its own"},
    [GOSSIP_LIFE_STARVED_BY] = {LOGGED, BASE_LOG_WARN, "fetch",
                                "%" PRIu64 " members were asked for their model and sent nothing for %" PRIu64
                                " s; asking others, if there are any"},
    [GOSSIP_LIFE_PARTITION] = {TOLD, BASE_LOG_INFO, "partition", "half of the members or more do not answer"},
    [GOSSIP_LIFE_HEALED] = {TOLD, BASE_LOG_INFO, "partition",
                            "the partition is over; this node takes the larger side's model"},
    [GOSSIP_LIFE_LAST_STEP] = {LOGGED, BASE_LOG_INFO, "finished",
                               "the last step is done; answering %" PRIu64 " peers that still train"},
    [GOSSIP_LIFE_LINGERED] = {LOGGED, BASE_LOG_WARN, "linger_over",
                              "%" PRIu64 " peers still train; node.linger has passed"},
    [GOSSIP_LIFE_MERGES] = {LOGGED, BASE_LOG_INFO, "merge",
                            "%" PRIu64 " nodes have finished: merging their models into one"},
    [GOSSIP_LIFE_CANNOT_WAIT] =
        {LOGGED, BASE_LOG_WARN, "merge",
         "%" PRIu64
         " nodes have finished, and each ends with its own model: with node.linger 0 none waits for "
         "the others (average.finish)"},
    [GOSSIP_LIFE_UNMERGED] = {LOGGED, BASE_LOG_WARN, "merge",
                              "no other node that has finished is here: the final model of this node is "
                              "not merged with that of any other (average.finish)"},
    [GOSSIP_LIFE_ISOLATED] = {TOLD, BASE_LOG_INFO, "isolated",
                              "no edge to any of %" PRIu64
                              " neighbours works: this node averages with no other node; can they reach "
                              "each other's peer port?"},
    [GOSSIP_LIFE_APART] = {LOGGED, BASE_LOG_ERROR, "apart",
                           "all neighbours have trained with another scaling of the data "
                           "(data.scale_from: cluster; hash %016" PRIx64 " here, %016" PRIx64
                           " there), and models of two scalings are never averaged: this node ends; start "
                           "one of the two without --resume in an empty directory, and it takes the "
                           "other's model"},
    [GOSSIP_LIFE_MEETS_AGAIN] = {TOLD, BASE_LOG_INFO, "isolated", "an edge works again"},
    [GOSSIP_LIFE_STOPS_AT] = {TOLD, BASE_LOG_INFO, "stop", "this node stops after round %" PRIu64},
    [GOSSIP_LIFE_REFUSED] = {LOGGED, BASE_LOG_ERROR, "refused",
                             "this node cannot train with any of its %" PRIu64 " listed peers: see "
                             "peer_refused and refused_by_peer above; it ends"},
    [GOSSIP_LIFE_NO_SCALING] = {LOGGED, BASE_LOG_ERROR, "statistics",
                                "a resumed member has the scaling of the data (data.scale_from: cluster) and "
                                "has not begun to train for %" PRIu64 " s: this node ends; end that member, "
                                "or see in its log what it waits for, and start this node again"},
    [GOSSIP_LIFE_MET_NOBODY] =
        {LOGGED, BASE_LOG_ERROR, "met_nobody",
         "none of the %" PRIu64
         " listed peers has ever answered: this node has trained alone, and nothing was averaged; are the "
         "addresses right, and do the peers run? With train.alone: go-on this is not an error"},
};

// Other texts for a == 1, where the first ones do not fit.
static const char *const words_of_one[] = {
    [GOSSIP_LIFE_BEGINS] = "training begins with 1 peer",
    [GOSSIP_LIFE_STARVED_BY] = "%" PRIu64 " member was asked for its model and sent nothing for %" PRIu64
                               " s; asking others, if there are any",
    [GOSSIP_LIFE_LAST_STEP] = "the last step is done; answering 1 peer that still trains",
    [GOSSIP_LIFE_LINGERED] = "1 peer still trains; node.linger has passed",
    [GOSSIP_LIFE_ISOLATED] =
        "the edge to the only neighbour does not work: this node averages with no other node; can they reach "
        "each other's peer port?",
    [GOSSIP_LIFE_REFUSED] = "this node cannot train with its only listed peer: see peer_refused and "
                            "refused_by_peer above; it ends",
    [GOSSIP_LIFE_MET_NOBODY] =
        "the only listed peer has never answered: this node has trained alone, and nothing was averaged; "
        "is the address right, and does the peer run? With train.alone: go-on this is not an error",
};

static const char *one_of(size_t notice)
{
    return notice < sizeof words_of_one / sizeof *words_of_one ? words_of_one[notice] : NULL;
}

void node_loop_fail(struct node_loop *loop, const char *event, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(loop->cause.text, sizeof loop->cause.text, format, arguments);
    va_end(arguments);
    BASE_ASSERT(loop->cause.text[0]); // "" says that the cause is not known
    base_log(BASE_LOG_ERROR, event, "%s", loop->cause.text);
}

// In the log, earlier lines say what was refused. The cause of an end is read alone, so it includes the
// refusal.
static void fail_refused(struct node_loop *loop, const char *line)
{
    const char *refusal = node_peers_refusal(node_cluster_peers(loop->cluster));
    node_loop_fail(loop, "refused", "%s", line);
    if (refusal[0])
        snprintf(loop->cause.text, sizeof loop->cause.text, "%s; %s", refusal, line);
}

static void fail_conflict(struct node_loop *loop)
{
    const struct node_loop_options *o = &loop->options;
    const char *address = loop->duplicate_at;
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(&o->identity->id, hex);
    node_loop_fail(
        loop, "conflict",
        "another process runs with this identity (%s)%s%s and was here first; every node needs an identity "
        "of its own: remove 'identity' from this node's directory (%s), or stop the other process",
        hex, address[0] ? " at " : "", address, o->config->node.dir);
}

static void say_words(struct node_loop *loop, const struct words *words, const char *one, uint64_t a,
                      uint64_t b)
{
    char line[320];
    snprintf(line, sizeof line, a == 1 && one ? one : words->format, a, b);
    if (words->as == TOLD)
        node_cluster_tell(loop->cluster, words->event, line);
    else if (words == &words_of[GOSSIP_LIFE_REFUSED])
        fail_refused(loop, line);
    else if (words->level == BASE_LOG_ERROR)
        node_loop_fail(loop, words->event, "%s", line);
    else
        base_log(words->level, words->event, "%s", line);
}

void node_loop_say(struct node_loop *loop, const struct gossip_life_action *notice)
{
    switch (notice->notice) {
    case GOSSIP_LIFE_BEGINS_WITHOUT:
        say_without(loop, notice);
        break;
    case GOSSIP_LIFE_UNHEARD:
        say_unheard(loop);
        break;
    case GOSSIP_LIFE_NO_MODEL:
        fail_without_model(loop, notice);
        break;
    case GOSSIP_LIFE_PAUSES:
        node_cluster_tell(loop->cluster, "paused", why_paused(notice->a));
        break;
    case GOSSIP_LIFE_GOES_ON:
        node_cluster_tell(loop->cluster, "resumed", why_resumed(notice->a));
        break;
    case GOSSIP_LIFE_LEFT_ALONE:
        say_alone(loop, notice);
        break;
    case GOSSIP_LIFE_ORPHANS:
        node_cluster_tell_takeover(loop->cluster, notice->numbers, notice->count);
        break;
    case GOSSIP_LIFE_GIVES_WAY:
        fail_conflict(loop);
        break;
    default:
        BASE_ASSERT(notice->notice < sizeof words_of / sizeof *words_of && words_of[notice->notice].format);
        say_words(loop, &words_of[notice->notice], one_of(notice->notice), notice->a, notice->b);
    }
}
