#include "node/http/status.h"
#include "node/http/fit.h"
#include "node/http/glance.h"
#include "node/peers/endpoints.h"
#include "node/queue/clock.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_SHOWN  64u // of /status
#define ROW_ID_DIGITS 16u // of an id in metrics.jsonl

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *id_text(const struct gossip_id *id)
{
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(id, hex);
    return json_string(hex);
}

static json_t *addresses_json(const struct gossip_record *record)
{
    json_t *list = json_array();
    for (size_t i = 0; i < record->n_addresses; i++) {
        struct node_address address;
        char text[NODE_ADDRESS_TEXT];
        node_address_of(&record->addresses[i], &address);
        node_address_text(&address, text);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static bool is_any(const struct gossip_address *address)
{
    static const uint8_t zeros[16];
    return memcmp(address->ip, zeros, sizeof zeros) == 0;
}

// The address of the node's page, for a browser: "host:port". For a node that listens on every interface, its
// first address.
static json_t *pages_json(const struct gossip_record *record)
{
    struct gossip_address at = record->pages;
    struct node_address address;
    char text[NODE_ADDRESS_TEXT];
    if (at.family != 0 && is_any(&at) && record->n_addresses > 0) {
        at = record->addresses[0];
        at.port = record->pages.port;
    }
    if (at.family == 0)
        return json_null();
    node_address_of(&at, &address);
    node_address_text(&address, text);
    return json_string(text);
}

static json_t *place(uint32_t number) // of a slot or a shard, which have the same "none"
{
    return number == GOSSIP_NO_SLOT ? json_null() : count(number);
}
_Static_assert(GOSSIP_NO_SLOT == GOSSIP_NO_SHARD, "place()");

static json_t *milliseconds(uint64_t ns) // 0: not known
{
    return ns > 0 ? json_real((double)ns / (double)NODE_MILLISECOND_NS) : json_null();
}

// Names of the members over which this one is reached; told of this node and its neighbours.
static json_t *relays_json(const struct node_status *s, const struct node_status_member *m)
{
    json_t *list = json_array();
    const struct gossip_record *record = m->record;
    for (size_t i = 0; i < record->n_relays && (m == s->members || m->neighbour); i++)
        for (size_t k = 0; k < s->n_members; k++)
            if (gossip_id_beginning(&s->members[k].record->id) == record->relays[i])
                json_array_append_new(list, json_string(s->members[k].record->name));
    return list;
}

// How it is linked; what TCP has measured is known of direct links only.
static void set_path(json_t *row, const struct node_status_member *m)
{
    const bool linked = m && m->linked;
    const char *path = linked && m->via ? "relayed" : linked && m->mapped ? "mapped" : "direct";
    json_object_set_new(row, "path", linked ? json_string(path) : json_null());
    json_object_set_new(row, "via", linked && m->via ? json_string(m->via) : json_null());
    json_object_set_new(row, "round_trip_ms", linked ? milliseconds(m->path.round_trip_ns) : json_null());
    json_object_set_new(row, "rate", linked && m->path.rate > 0 ? count(m->path.rate) : json_null());
    json_object_set_new(row, "mtu", linked && m->path.mtu > 0 ? count(m->path.mtu) : json_null());
}

// What the router of this node forwards to it.
static json_t *mapping_json(const struct node_status *s)
{
    const struct node_cluster_mapping *m = &s->mapping;
    json_t *row = json_object();
    json_object_set_new(row, "state", json_string(m->state ? m->state : "off"));
    json_object_set_new(row, "by", m->by ? json_string(m->by) : json_null());
    json_object_set_new(row, "address", m->address[0] ? json_string(m->address) : json_null());
    return row;
}

static json_t *seconds_of(uint64_t ns)
{
    return number(ns > 0 ? (double)ns / (double)NODE_SECOND_NS : (double)NAN);
}

static json_t *members_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_members; i++) {
        const struct node_status_member *m = &s->members[i];
        const struct gossip_record *r = m->record;
        json_t *row = json_object();
        json_object_set_new(row, "name", json_string(r->name));
        json_object_set_new(row, "id", id_text(&r->id));
        json_object_set_new(row, "state", json_string(gossip_member_state_name(m->state)));
        json_object_set_new(row, "self", json_boolean(i == 0));
        json_object_set_new(row, "eligible", json_boolean(r->flags & GOSSIP_RECORD_ELIGIBLE));
        json_object_set_new(row, "training", json_boolean(r->flags & GOSSIP_RECORD_TRAINING));
        json_object_set_new(row, "finished", json_boolean(r->flags & GOSSIP_RECORD_FINISHED));
        json_object_set_new(row, "round", count(m->round));
        json_object_set_new(row, "step", count(m->step));
        json_object_set_new(row, "steps_per_s", number(m->steps_per_s));
        json_object_set_new(row, "http", pages_json(r));
        json_object_set_new(row, "boot", count(r->version.generation));
        json_object_set_new(row, "incarnation", count(r->version.incarnation));
        json_object_set_new(row, "slot", place(r->slot));
        json_object_set_new(row, "shard", place(r->shard));
        json_object_set_new(row, "examples", r->examples > 0 ? count(r->examples) : json_null());
        json_object_set_new(row, "addresses", addresses_json(r));
        json_object_set_new(row, "since", number(node_clock_seconds(m->since_ns, s->now_ns)));
        json_object_set_new(row, "linked", json_boolean(m->linked));
        set_path(row, m);
        json_object_set_new(row, "reachable", json_boolean(r->ways & GOSSIP_WAY_REACHABLE));
        json_object_set_new(row, "access", json_string(gossip_access_name((enum gossip_access)r->access)));
        json_object_set_new(row, "relays_for_others", json_boolean(r->ways & GOSSIP_WAY_RELAYS));
        json_object_set_new(row, "relays", relays_json(s, m));
        json_object_set_new(row, "neighbour", json_boolean(m->neighbour));
        json_object_set_new(row, "banned_s", seconds_of(m->banned_ns));
        json_object_set_new(row, "quiet_s", number((double)m->quiet_ns / (double)NODE_SECOND_NS));
        json_array_append_new(list, row);
    }
    return list;
}

// The operator's list of removed members.
static json_t *removed_json(const struct node_status *s)
{
    if (!s->removed)
        return json_null();
    json_t *row = json_object();
    json_object_set_new(row, "number", count(s->removed->number));
    json_object_set_new(row, "count", count(s->removed->count));
    return row;
}

static json_t *entries_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_entries; i++) {
        const struct gossip_entry *e = &s->entries[i].shown;
        json_t *row = json_object();
        json_object_set_new(row, "entry", json_string(s->entries[i].text));
        json_object_set_new(row, "state", json_string(gossip_entry_state_name(e->state)));
        json_object_set_new(row, "id", e->known ? id_text(&e->id) : json_null());
        json_object_set_new(row, "since", number(node_clock_seconds(e->since_ns, s->now_ns)));
        json_array_append_new(list, row);
    }
    return list;
}

// Neighbours that this node can't average with: neither end can call the other.
static json_t *missing_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_missing; i++) {
        json_t *row = json_object();
        const char *name = "";
        for (size_t k = 0; k < s->n_members; k++)
            if (gossip_id_compare(&s->members[k].record->id, &s->missing[i].peer) == 0)
                name = s->members[k].record->name;
        json_object_set_new(row, "name", json_string(name));
        json_object_set_new(row, "id", id_text(&s->missing[i].peer));
        json_object_set_new(row, "since", number(node_clock_seconds(s->missing[i].since_ns, s->now_ns)));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *datagrams_json(const struct node_status *s)
{
    const struct node_udp_counters *d = &s->cluster_counters.datagrams;
    json_t *row = json_object();
    json_object_set_new(row, "sent", count(d->sent));
    json_object_set_new(row, "received", count(d->received));
    json_object_set_new(row, "bytes_sent", count(d->bytes_sent));
    json_object_set_new(row, "bytes_received", count(d->bytes_received));
    json_object_set_new(row, "refused", count(s->cluster_counters.refused));
    return row;
}

static json_t *membership_json(const struct node_status *s)
{
    const struct gossip_membership_totals *t = &s->membership;
    char hash[17];
    json_t *row = json_object();
    snprintf(hash, sizeof hash, "%016" PRIx64, t->view_hash);
    json_object_set_new(row, "view_hash", json_string(hash));
    json_object_set_new(row, "view_changes", count(t->view_changes));
    json_object_set_new(row, "health", count(t->health));
    json_object_set_new(row, "alive", count(t->alive));
    json_object_set_new(row, "suspect", count(t->suspect));
    json_object_set_new(row, "dead", count(t->dead));
    json_object_set_new(row, "left", count(t->left));
    json_object_set_new(row, "unproven", count(t->unproven));
    json_object_set_new(row, "minority", json_boolean(t->minority));
    json_object_set_new(row, "probes", count(t->probes));
    json_object_set_new(row, "probes_failed", count(t->probes_failed));
    json_object_set_new(row, "accusations", count(t->suspicions));
    json_object_set_new(row, "refutations", count(t->refutations));
    json_object_set_new(row, "syncs", count(t->syncs));
    json_object_set_new(row, "pauses", count(t->pauses));
    json_object_set_new(row, "rejected", count(t->rejected));
    json_object_set_new(row, "datagrams", datagrams_json(s));
    return row;
}

// The latest `count` of those after one time and up to another.
static json_t *events_json(const struct node_status *s, size_t count, double after, double until)
{
    json_t *list = json_array();
    const size_t all = node_events_count(s->events);
    for (size_t i = all > count ? all - count : 0; i < all; i++)
        if (node_events_time(s->events, i) > after && node_events_time(s->events, i) <= until)
            json_array_append_new(list, json_loads(node_events_line(s->events, i), 0, NULL));
    return list;
}

const struct node_status_member *node_status_member_of(const struct node_status *s,
                                                       const struct gossip_id *id)
{
    for (size_t i = 0; i < s->n_members; i++)
        if (gossip_id_compare(&s->members[i].record->id, id) == 0)
            return &s->members[i];
    return NULL;
}

static json_t *edges_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_edges; i++) {
        const struct gossip_edge_info *e = &s->edges[i].edge;
        json_t *row = json_object();
        json_object_set_new(row, "peer", id_text(&e->peer));
        json_object_set_new(row, "name", json_string(s->edges[i].name));
        json_object_set_new(row, "state", json_string(gossip_edge_state_name(e->state)));
        json_object_set_new(row, "seq", count(e->sequence));
        json_object_set_new(row, "epoch", count(e->epoch));
        json_object_set_new(row, "bytes_sent", count(s->edges[i].traffic.sent));
        json_object_set_new(row, "bytes_received", count(s->edges[i].traffic.received));
        json_object_set_new(row, "sent_per_s", number(s->edges[i].sent_per_s));
        json_object_set_new(row, "received_per_s", number(s->edges[i].received_per_s));
        json_object_set_new(row, "step_ms", milliseconds(e->pace_ns));
        json_object_set_new(row, "exchanges", count(e->exchanges));
        json_object_set_new(row, "resyncs", count(e->resyncs));
        json_object_set_new(row, "replays", count(e->replays));
        json_object_set_new(row, "busy", count(e->busy));
        json_object_set_new(row, "timeouts", count(e->timeouts));
        json_object_set_new(row, "mismatches", count(e->mismatches));
        json_object_set_new(row, "implausible", count(e->implausible));
        json_object_set_new(row, "barred", json_boolean(e->barred));
        json_object_set_new(row, "distrusted", json_boolean(e->trust.state == GOSSIP_DISTRUSTED));
        json_object_set_new(row, "lost", e->trust.looked ? number(e->trust.lost) : json_null());
        json_object_set_new(row, "standing", json_string(gossip_standing_name(e->standing)));
        json_object_set_new(row, "answer_ms",
                            number((double)e->answer_median_ns / (double)NODE_MILLISECOND_NS));
        set_path(row, node_status_member_of(s, &e->peer));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *slowest_json(const struct node_glance *g)
{
    if (!g->slowest)
        return json_null();
    json_t *row = json_object();
    json_object_set_new(row, "name", json_string(g->slowest));
    json_object_set_new(row, "steps_per_s", number(g->slowest_steps_per_s));
    json_object_set_new(row, "step_ms", number(1e3 * g->slowest_step_s));
    json_object_set_new(row, "others_step_ms", number(1e3 * g->step_s));
    return row;
}

// The same facts as in the progress line of the log.
static void set_glance(json_t *root, const struct node_status *s)
{
    struct node_glance g;
    node_glance_of(s, &g);
    json_object_set_new(root, "condition", json_string(node_condition_name(g.condition)));
    json_object_set_new(root, "condition_text", json_string(g.text));
    json_object_set_new(root, "steps", s->steps > 0 ? count(s->steps) : json_null());
    json_object_set_new(root, "steps_per_s", number(g.steps_per_s));
    json_object_set_new(root, "left_s", number(g.left_s));
    json_object_set_new(root, "members_here", count(g.here));
    json_object_set_new(root, "members_known", count(g.known));
    json_object_set_new(root, "neighbours", count(g.neighbours));
    json_object_set_new(root, "neighbours_linked", count(g.linked));
    json_object_set_new(root, "neighbours_live", count(g.live));
    json_object_set_new(root, "slowest", slowest_json(&g));
    json_object_set_new(root, "step_ms", milliseconds(s->progress.step_ns));
    json_object_set_new(root, "sent_per_s", number(s->sent_per_s));
    json_object_set_new(root, "received_per_s", number(s->received_per_s));
    json_object_set_new(root, "disk_free",
                        s->progress.disk_free == UINT64_MAX ? json_null() : count(s->progress.disk_free));
}

// "": nobody that is a member now.
static const char *member_name(const struct node_status *s, const struct gossip_id *id)
{
    const struct node_status_member *m = node_status_member_of(s, id);
    return m ? m->record->name : "";
}

static void tell_adopted(const struct node_status *s, char *text, size_t bytes)
{
    static const char *const why[] = {[NODE_ADOPTED_NONE] = "",
                                      [NODE_ADOPTED_NEW] = "this node began while others trained already",
                                      [NODE_ADOPTED_BEHIND] = "this node was far behind",
                                      [NODE_ADOPTED_END] = "the others had finished",
                                      [NODE_ADOPTED_MERGED] = "average.finish"};
    const struct node_adopted *a = &s->progress.adopted;
    const char *name = member_name(s, &a->donor);
    char id[GOSSIP_ID_HEX], whose[LIMIT_NODE_NAME_BYTES + 60], losses[120] = "";
    gossip_id_hex(&a->donor, id);
    if (a->why == NODE_ADOPTED_MERGED)
        snprintf(whose, sizeof whose, "the mean of the models of %zu nodes", a->nodes);
    else
        snprintf(whose, sizeof whose, "the model of %s%.16s", name[0] ? name : "node ", name[0] ? "" : id);
    if (!isnan(a->other))
        snprintf(losses, sizeof losses, "; on its own examples the loss was %.4g, that of its own model %.4g",
                 a->other, a->own);
    snprintf(text, bytes, "took %s at round %" PRIu64 ": %s%s", whose, a->round, why[a->why], losses);
}

// The latest model of others that replaced this node's own.
static json_t *adopted_json(const struct node_status *s)
{
    static const char *const why[] = {[NODE_ADOPTED_NONE] = "",
                                      [NODE_ADOPTED_NEW] = "new",
                                      [NODE_ADOPTED_BEHIND] = "behind",
                                      [NODE_ADOPTED_END] = "end",
                                      [NODE_ADOPTED_MERGED] = "merged"};
    const struct node_adopted *a = &s->progress.adopted;
    char text[400];
    if (a->why == NODE_ADOPTED_NONE)
        return json_null();
    json_t *row = json_object();
    const bool merged = a->why == NODE_ADOPTED_MERGED;
    tell_adopted(s, text, sizeof text);
    json_object_set_new(row, "why", json_string(why[a->why]));
    json_object_set_new(row, "text", json_string(text));
    json_object_set_new(row, "id", merged ? json_null() : id_text(&a->donor));
    json_object_set_new(row, "name", merged ? json_null() : json_string(member_name(s, &a->donor)));
    json_object_set_new(row, "nodes", count(merged ? a->nodes : 1));
    json_object_set_new(row, "round", count(a->round));
    json_object_set_new(row, "step", count(a->step));
    json_object_set_new(row, "loss", number(a->other));
    json_object_set_new(row, "own_loss", number(a->own));
    json_object_set_new(row, "loss_of_nothing", number(a->nothing));
    return row;
}

static void set_learning(json_t *root, const struct node_progress *p)
{
    json_object_set_new(root, "state", json_string(p->state));
    json_object_set_new(root, "round", count(p->round));
    json_object_set_new(root, "step", count(p->step));
    json_object_set_new(root, "own_steps", count(p->own_steps));
    json_object_set_new(root, "adopted_step", p->adopted_step > 0 ? count(p->adopted_step) : json_null());
    json_object_set_new(root, "own_examples",
                        p->own_examples == NODE_NOT_COUNTED ? json_null() : count(p->own_examples));
    json_object_set_new(root, "loss", number(p->loss));
    json_object_set_new(root, "accuracy", number(p->regression ? (double)NAN : p->accuracy));
    if (p->regression) {
        json_object_set_new(root, "r2", number(p->accuracy));
        json_object_set_new(root, "rmse", number(p->rmse));
    }
    json_object_set_new(root, "merged", json_boolean(p->merged));
    json_object_set_new(root, "own_accuracy", number(p->merged ? p->own_accuracy : (double)NAN));
    json_object_set_new(root, "rate", number(p->rate));
    json_object_set_new(root, "rollbacks", count(p->rollbacks));
    json_object_set_new(root, "rollbacks_in_row", count(p->rollbacks_in_row));
    json_object_set_new(root, "returns", count(p->returns));
    json_object_set_new(root, "best_loss", number(p->losses.best > 0 ? p->losses.best : (double)NAN));
    json_object_set_new(root, "far_loss", number(p->losses.bound > 0 ? p->losses.bound : (double)NAN));
}

static const char *name_of(const struct node_status *s, const struct gossip_id *id)
{
    for (size_t i = 0; i < s->n_edges; i++)
        if (gossip_id_compare(&s->edges[i].edge.peer, id) == 0)
            return s->edges[i].name;
    return NULL;
}

// What the open boundary waits for, and how long boundaries have waited, by reason.
static json_t *wait_json(const struct node_status *s)
{
    const struct gossip_exchange_totals *t = &s->totals;
    const char *name = t->reason == GOSSIP_PACE_NO_REASON ? NULL : name_of(s, &t->waits_for);
    json_t *wait = json_object(), *seconds = json_object();
    json_object_set_new(wait, "reason", json_string(gossip_pace_reason_name(t->reason)));
    json_object_set_new(wait, "for", name ? json_string(name) : json_null());
    for (int reason = GOSSIP_PACE_NO_REASON + 1; reason < GOSSIP_PACE_REASONS; reason++)
        json_object_set_new(seconds, gossip_pace_reason_name((enum gossip_pace_reason)reason),
                            number(1e-9 * (double)t->waits.ns[reason]));
    json_object_set_new(wait, "seconds", seconds);
    return wait;
}

static json_t *unfit_json(const struct node_status *s)
{
    struct node_unfit unfit[NODE_FITS];
    const size_t count = node_fit_of(s, unfit);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "key", json_string(unfit[i].key));
        json_object_set_new(row, "text", json_string(unfit[i].text));
        json_array_append_new(list, row);
    }
    return list;
}

// The bytes of vectors, by owner, and of one vector.
static json_t *memory_json(const struct node_status *s)
{
    json_t *memory = json_object();
    json_object_set_new(memory, "vector", count(s->parameters * sizeof(float)));
    json_object_set_new(memory, "trainer", count(s->progress.memory));
    json_object_set_new(memory, "exchange", count(s->totals.memory));
    return memory;
}

// The part of the values that an exchange sends, as it is used; NAN before the first round.
static double ratio_of(const struct node_status *s)
{
    return s->totals.entries && s->parameters ? (double)s->totals.entries / (double)s->parameters
                                              : (double)NAN;
}

char *node_status_json(const struct node_status *s)
{
    json_t *root = json_object();
    json_object_set_new(root, "name", json_string(s->name));
    json_object_set_new(root, "id", id_text(&s->id));
    json_object_set_new(root, "cluster", json_string(s->cluster));
    json_object_set_new(root, "version", json_string(s->version));
    json_object_set_new(root, "directory", json_string(s->directory));
    set_glance(root, s);
    set_learning(root, &s->progress);
    json_object_set_new(root, "adopted", adopted_json(s));
    json_object_set_new(root, "settings_that_do_not_fit", unfit_json(s));
    json_object_set_new(root, "parameters", count(s->parameters));
    json_object_set_new(root, "weight", number(s->weight > 0 ? s->weight : (double)NAN));
    json_object_set_new(root, "ratio", number(ratio_of(s)));
    json_object_set_new(root, "apart", number(s->progress.apart > 0 ? s->progress.apart : (double)NAN));
    json_object_set_new(root, "memory_bytes", memory_json(s));
    json_object_set_new(root, "model", json_string(s->model));
    json_object_set_new(root, "consensus", number(s->totals.consensus));
    json_object_set_new(root, "exchanges", count(s->totals.exchanges));
    json_object_set_new(root, "implausible", count(s->totals.implausible));
    json_object_set_new(root, "wait", wait_json(s));
    json_object_set_new(root, "standing", json_string(gossip_standing_name(s->totals.standing)));
    json_object_set_new(root, "bytes_sent", count(s->bytes_sent));
    json_object_set_new(root, "bytes_received", count(s->bytes_received));
    json_object_set_new(root, "time", number(s->time));
    json_object_set_new(root, "uptime_s", number(node_clock_seconds(s->started_ns, s->now_ns)));
    json_object_set_new(root, "membership", membership_json(s));
    json_object_set_new(root, "members", members_json(s));
    json_object_set_new(root, "removed", removed_json(s));
    json_object_set_new(root, "peers", entries_json(s));
    json_object_set_new(root, "missing_links", missing_json(s));
    json_object_set_new(root, "reach", json_string(s->reach));
    json_object_set_new(root, "outside", s->outside[0] ? json_string(s->outside) : json_null());
    json_object_set_new(root, "port_mapping", mapping_json(s));
    json_object_set_new(root, "relay", number(s->relay));
    json_object_set_new(root, "forwarded_streams", count(s->peers.forwarded));
    json_object_set_new(root, "forwarded_bytes", count(s->peers.forwarded_bytes));
    json_object_set_new(root, "edges", edges_json(s));
    json_object_set_new(root, "events", events_json(s, EVENTS_SHOWN, -INFINITY, INFINITY));
    // 13 digits: unix times to the millisecond.
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(13));
    json_decref(root);
    return text;
}

// By the first digits of their ids, as rows name them.
static json_t *names_in(const struct node_status *s, const char *rows)
{
    json_t *names = json_object();
    for (size_t i = 0; i < s->n_members; i++) {
        char digits[GOSSIP_ID_HEX];
        gossip_id_hex(&s->members[i].record->id, digits);
        digits[ROW_ID_DIGITS] = 0;
        if (strstr(rows, digits))
            json_object_set_new(names, digits, json_string(s->members[i].record->name));
    }
    return names;
}

char *node_status_round(const struct node_status *s, uint64_t round)
{
    const struct node_rounds_part part = node_rounds_about(s->rounds, round);
    const bool dropped = node_events_count(s->events) == NODE_EVENTS_KEPT;
    json_t *root = json_object();
    json_object_set_new(root, "first", count(part.first));
    json_object_set_new(root, "last", count(part.last));
    json_object_set_new(root, "rows", part.rows ? json_loads(part.rows, 0, NULL) : json_null());
    json_object_set_new(root, "events", events_json(s, NODE_EVENTS_KEPT, part.after, part.until));
    json_object_set_new(root, "events_from", dropped ? number(node_events_time(s->events, 0)) : json_null());
    json_object_set_new(root, "set_back", number(part.set_back_s));
    json_object_set_new(root, "names", names_in(s, part.rows ? part.rows : ""));
    json_object_set_new(root, "wait", wait_json(s));
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    json_decref(root);
    free(part.rows);
    return text;
}

char *node_status_history(const struct node_status *s)
{
    return node_history_json(s->history, s->progress.regression, s->now_ns);
}
