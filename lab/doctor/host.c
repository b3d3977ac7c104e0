// The host, as a node with this configuration would find it.
#include "lab/doctor/doctor.h"
#include "lab/doctor/words.h"

#include "gossip/reach/reach.h"
#include "node/net/interfaces.h"
#include "node/net/listener.h"
#include "node/net/router.h"
#include "node/net/udp.h"
#include "node/peers/endpoints.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES   16u // of the peer list that are called: each may take ten seconds
#define ADDRESSES 4u  // of one entry that are called

struct entry {
    const char *text;
    char address[NODE_ADDRESS_TEXT]; // that was called last; "": none
    bool other_port;                 // only a call from another port than the listener's gets through
    struct lab_asked asked;
};

struct host {
    const struct node_config *config;
    struct lab_findings *findings;
    struct gossip_identity identity; // that calls
    struct gossip_secrets secrets;
    int listener; // -1: its port is not free
    unsigned port;
    bool loopback, runs; // only this host can call; the node of this configuration runs
    struct entry entries[ENTRIES];
    size_t n_entries;
};

static bool is_established(const struct lab_asked *asked)
{
    return asked->end <= LAB_ASK_PROTOCOL;
}

// -- ports

static void tell_busy(struct host *host, const struct base_reason *problem)
{
    struct base_reason why;
    const char *listen = host->config->node.listen, *http = host->config->node.http;
    host->runs = http[0] && !lab_doctor_node(http, host->config->cluster.name, host->findings, &why);
    if (host->runs) {
        lab_finding_add(host->findings, LAB_FINDING_OK, "port", "%s is used by that node", listen);
        return;
    }
    lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "port", "this node could not listen at %s", listen);
    lab_finding_advise(host->findings, "%s", problem->text);
}

static void take_port(struct host *host)
{
    struct base_reason why;
    const char *listen = host->config->node.listen;
    char named[LIMIT_HOST_BYTES];
    uint16_t port = 0;
    int udp = -1;
    if (node_address_parse(listen, named, &port, &why) ||
        node_listener_bind("node.listen", listen, &host->listener, &why)) {
        host->port = port;
        host->loopback = node_address_is_loopback(named);
        tell_busy(host, &why);
        return;
    }
    host->port = node_listener_port(host->listener);
    host->loopback = node_listener_is_loopback(host->listener);
    if (!node_udp_bind(host->listener, &udp, &why)) {
        close(udp);
        lab_finding_add(host->findings, LAB_FINDING_OK, "port", "%s is free, for TCP and UDP", listen);
        return;
    }
    lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "port", "%s is free for TCP, but not for UDP",
                    listen);
    lab_finding_advise(host->findings, "%s", why.text);
}

// -- the address that is told

static bool is_own(const struct node_address *address)
{
    return node_address_is_own(address);
}

// Every one of them means something on its own host only.
static bool all_near(const struct node_resolution *r)
{
    struct gossip_address told;
    bool near = r->count > 0;
    for (size_t i = 0; i < r->count; i++)
        near = near && (!node_address_tell(&r->addresses[i], &told) || gossip_address_is_near(&told));
    return near;
}

static void check_advertised(struct host *host)
{
    struct node_resolution r = {0};
    struct base_reason why;
    char text[NODE_ADDRESS_TEXT];
    const char *advertise = host->config->node.advertise;
    if (advertise[0] == 0)
        return;
    if (node_address_parse(advertise, r.host, &r.port, &why)) {
        lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "node.advertise", "%s", why.text);
        return;
    }
    node_resolve_now(&r);
    if (r.count == 0) {
        lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "node.advertise", "%s cannot be resolved (%s)",
                        r.host, r.problem);
        lab_finding_advise(host->findings,
                           "give a number, or correct the name; without the key the node finds out "
                           "its address itself");
        return;
    }
    node_address_text(&r.addresses[0], text);
    if (all_near(&r) && !node_address_is_loopback(r.host)) { // as node/cluster/addresses.c decides
        lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "node.advertise",
                        "%s is %s here (see /etc/hosts): others would reach themselves", advertise, text);
        lab_finding_advise(host->findings,
                           "give a number, or leave the key out: the node finds out its address itself");
    } else if (is_own(&r.addresses[0])) {
        lab_finding_add(host->findings, LAB_FINDING_OK, "node.advertise", "%s is an address of this host",
                        text);
    } else {
        lab_finding_add(
            host->findings, LAB_FINDING_NOTE, "node.advertise",
            "%s is no address of this host: a router must forward port %u (TCP and UDP) to port %u here",
            text, r.port ? (unsigned)r.port : host->port, host->port);
    }
}

// -- who calls

// With an allow-list a throw-away identity gets no answer: then the node's own one calls.
static enum base_error take_identity(struct host *host, struct base_reason *why)
{
    char path[4096];
    const struct node_config *config = host->config;
    if (config->cluster.allow_file[0] == 0)
        return lab_ask_identity(&host->identity);
    if (config->node.identity[0])
        snprintf(path, sizeof path, "%s", config->node.identity);
    else
        snprintf(path, sizeof path, "%s/identity", config->node.dir);
    if (!gossip_identity_load(path, &host->identity, why))
        return BASE_OK;
    lab_finding_add(host->findings, LAB_FINDING_NOTE, "identity", "%s; peers are called with another one",
                    why->text);
    return lab_ask_identity(&host->identity);
}

static bool take_secrets(struct host *host)
{
    struct base_reason why;
    if (!gossip_secrets_load(host->config->cluster.secret_file, &host->secrets, &why))
        return true;
    lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "cluster.secret_file", "%s", why.text);
    lab_finding_advise(host->findings, "without the secret no peer answers: nothing more was tried");
    return false;
}

// -- peers

static void ask(const struct host *host, struct entry *entry, const struct node_address *address,
                bool listen_port)
{
    const struct lab_ask_options options = {.identity = &host->identity,
                                            .secrets = &host->secrets,
                                            .cluster = host->config->cluster.name,
                                            .address = address,
                                            .listener = listen_port ? host->listener : -1};
    node_address_text(address, entry->address);
    lab_ask(&options, &entry->asked);
}

static unsigned port_of(const struct node_address *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
    return ntohs(address->storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

// A router or a firewall may treat the listen port differently from others.
static void try_other_port(const struct host *host, struct entry *entry, const struct node_address *address)
{
    const struct lab_asked first = entry->asked;
    if (host->listener < 0 || is_own(address) || first.end != LAB_ASK_UNANSWERED)
        return;
    ask(host, entry, address, false);
    entry->other_port = is_established(&entry->asked);
    if (!entry->other_port)
        entry->asked = first;
}

static void call_entry(struct host *host, struct entry *entry, const struct node_resolution *r)
{
    for (size_t i = 0; i < r->count && i < ADDRESSES; i++) {
        ask(host, entry, &r->addresses[i], true);
        try_other_port(host, entry, &r->addresses[i]);
        if (is_established(&entry->asked))
            return;
    }
}

static bool leads_here(const struct host *host, const struct node_resolution *r)
{
    bool all = r->count > 0;
    for (size_t i = 0; i < r->count; i++)
        all = all && port_of(&r->addresses[i]) == host->port && is_own(&r->addresses[i]);
    return all;
}

static bool all_loop(const struct node_resolution *r)
{
    bool all = r->count > 0;
    for (size_t i = 0; i < r->count; i++)
        all = all && node_address_loops(&r->addresses[i]);
    return all;
}

static void try_entry(struct host *host, const char *text)
{
    struct node_resolution r = {0};
    struct base_reason why;
    if (node_address_parse(text, r.host, &r.port, &why))
        return; // node_config_check has refused it
    node_resolve_now(&r);
    if (r.count == 0) {
        lab_finding_add(host->findings, LAB_FINDING_PROBLEM, text, "the name cannot be resolved (%s)",
                        r.problem);
        lab_finding_advise(host->findings,
                           "correct the name in peers, or the DNS of this host; a number works, too");
    } else if (leads_here(host, &r)) {
        lab_finding_add(host->findings, LAB_FINDING_OK, text,
                        "leads to this host itself; such an entry is left out");
    } else if (all_loop(&r) && !node_address_is_loopback(r.host)) {
        lab_finding_add(host->findings, LAB_FINDING_PROBLEM, text,
                        "this name means this host itself (loopback, see /etc/hosts), not another one");
        lab_finding_advise(host->findings, "give the number of the other host, or correct /etc/hosts");
    } else {
        struct entry *entry = &host->entries[host->n_entries++];
        entry->text = text;
        call_entry(host, entry, &r);
    }
}

// The router of this host itself: what it answers to a call from inside says nothing.
static bool is_own_router(const struct host *host, const struct entry *entry)
{
    const char *colon = strrchr(entry->address, ':');
    const size_t bytes = colon ? (size_t)(colon - entry->address) + 1 : 0;
    for (size_t i = 0; i < host->n_entries; i++)
        if (bytes > 0 && strncmp(host->entries[i].asked.greeting.seen, entry->address, bytes) == 0)
            return true;
    return false;
}

static void tell_entry(const struct host *host, const struct entry *entry, bool others)
{
    if (!is_established(&entry->asked) && is_own_router(host, entry)) {
        lab_finding_add(
            host->findings, LAB_FINDING_NOTE, entry->text,
            "this is the router of this host; whether it lets calls in, only a call from outside shows");
        return;
    }
    // One member that answers is enough, and hosts behind routers are not called from outside.
    if (entry->asked.end == LAB_ASK_UNANSWERED && others)
        lab_finding_add(
            host->findings, LAB_FINDING_NOTE, entry->text,
            "no answer (%s): off, or behind a router or a firewall; others answer, which is enough",
            entry->address);
    else
        lab_words_asked(entry->text, entry->address, &entry->asked, host->findings);
    if (!entry->other_port)
        return;
    lab_finding_add(host->findings, LAB_FINDING_PROBLEM, entry->text,
                    "calls from port %u (node.listen) do not get through, those from other ports do",
                    host->port);
    lab_finding_advise(host->findings,
                       "allow connections from that port to the outside, or use another port in "
                       "node.listen");
}

// Over an address of this host itself, which no router and no firewall sees.
static bool stays_here(const struct entry *entry, const char *own)
{
    const char *colon = strrchr(own, ':');
    const size_t bytes = colon ? (size_t)(colon - own) + 1 : 0;
    return bytes == 0 || node_address_loops(&entry->asked.own) || strncmp(entry->address, own, bytes) == 0;
}

static size_t sightings_of(const struct host *host, struct lab_sighting sightings[ENTRIES])
{
    size_t count = 0;
    for (size_t i = 0; i < host->n_entries; i++) {
        const struct entry *e = &host->entries[i];
        struct lab_sighting *s = &sightings[count];
        if (e->asked.end != LAB_ASK_GREETED || e->asked.greeting.seen[0] == 0)
            continue;
        *s = (struct lab_sighting){.listen_port = port_of(&e->asked.own) == host->port};
        node_address_text(&e->asked.own, s->own);
        if (stays_here(e, s->own))
            continue;
        snprintf(s->peer, sizeof s->peer, "%s", e->asked.greeting.name);
        snprintf(s->seen, sizeof s->seen, "%s", e->asked.greeting.seen);
        count++;
    }
    return count;
}

// Where somebody outside sees this host; "": nobody does, or at its own address.
static const char *seen_outside(const struct lab_sighting *sightings, size_t count)
{
    const char *seen = "";
    for (size_t i = 0; i < count && !seen[0]; i++)
        if (!lab_words_same_host(sightings[i].own, sightings[i].seen))
            seen = sightings[i].seen;
    return seen;
}

// Asks the router for its address outside, not for a port.
static void look_at_router(const struct host *host, const char *seen)
{
    struct gossip_mapping_answer answer;
    struct node_address address;
    char text[NODE_ADDRESS_TEXT] = "";
    const struct node_config *config = host->config;
    struct node_router *router = NULL;
    if (config->node.port_mapping == NODE_PORT_MAPPING_OFF || config->node.advertise[0] || host->loopback)
        return;
    router = node_router_create();
    if (!router)
        return; // not built
    node_router_look(router, &answer);
    node_router_destroy(router);
    if (answer.end == GOSSIP_MAPPING_MAPPED) {
        node_address_of(&answer.address, &address);
        node_address_text(&address, text);
    }
    lab_words_offer(text, answer.by, seen, gossip_address_is_public(&answer.address), host->port,
                    host->findings);
}

static void call_peers(struct host *host)
{
    const struct node_texts *peers = &host->config->peers;
    struct lab_sighting sightings[ENTRIES];
    size_t established = 0, count = peers->count < ENTRIES ? peers->count : ENTRIES;
    for (size_t i = 0; i < count; i++)
        try_entry(host, peers->items[i]);
    for (size_t i = 0; i < host->n_entries; i++)
        established += is_established(&host->entries[i].asked);
    for (size_t i = 0; i < host->n_entries; i++)
        tell_entry(host, &host->entries[i], established > 0);
    if (count < peers->count)
        lab_finding_add(host->findings, LAB_FINDING_NOTE, "peers", "the first %zu of %zu entries were tried",
                        count, peers->count);
    if (peers->count == 0)
        lab_finding_add(host->findings, LAB_FINDING_NOTE, "peers",
                        "the list is empty: this node waits until it is called, and others must list it");
    if (host->runs) // it has said more itself
        return;
    count = sightings_of(host, sightings);
    lab_words_router(sightings, count, host->port, host->findings);
    if (count == 0 || seen_outside(sightings, count)[0])
        look_at_router(host, seen_outside(sightings, count));
}

static void check_listen(const struct host *host)
{
    bool outside = false;
    for (size_t i = 0; i < host->n_entries; i++)
        outside |= host->entries[i].asked.own.bytes > 0 && !node_address_loops(&host->entries[i].asked.own);
    if (!host->loopback || (!outside && host->config->peers.count > 0))
        return;
    lab_finding_add(host->findings, LAB_FINDING_PROBLEM, "node.listen",
                    "%s is loopback: no other host can call this node", host->config->node.listen);
    lab_finding_advise(host->findings, "node.listen: 0.0.0.0:%u, with cluster.secret_file", host->port);
}

enum base_error lab_doctor_host(const struct node_config *config, struct lab_findings *findings,
                                struct base_reason *why)
{
    struct host *host = calloc(1, sizeof *host);
    if (!host)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    host->config = config;
    host->findings = findings;
    host->listener = -1;
    take_port(host);
    check_advertised(host);
    enum base_error error = take_identity(host, why);
    if (error) {
        error = base_fail(why, error, "the system gives no random numbers");
    } else if (take_secrets(host)) {
        call_peers(host);
        check_listen(host);
    }
    if (host->listener >= 0)
        close(host->listener);
    gossip_identity_wipe(&host->identity);
    explicit_bzero(&host->secrets, sizeof host->secrets);
    free(host);
    return error;
}
