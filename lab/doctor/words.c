#include "lab/doctor/words.h"

#include "node/queue/clock.h"

#include <string.h>

static const char *at(const char *about, const char *address, char text[96])
{
    if (strcmp(about, address) == 0)
        text[0] = 0;
    else
        snprintf(text, 96, " (%s)", address);
    return text;
}

static void tell_large(const char *about, const struct lab_asked *asked, struct lab_findings *findings)
{
    const struct node_path *path = &asked->path;
    if (asked->large == LAB_ASK_VANISHES) {
        lab_finding_add(
            findings, LAB_FINDING_PROBLEM, about,
            "small packets arrive, full ones of %u bytes vanish on the way: something in between has a "
            "smaller MTU and does not say so, and links stall",
            path->mtu);
        lab_finding_advise(findings,
                           "set a smaller MTU on the interface towards that peer (ip link set dev DEVICE mtu "
                           "1280), here or there");
    } else if (asked->large == LAB_ASK_ARRIVES && path->mtu < 1280) {
        lab_finding_add(findings, LAB_FINDING_NOTE, about, "the path allows packets of %u bytes only",
                        path->mtu);
    }
}

static void tell_greeted(const char *about, const char *where, const struct lab_asked *asked,
                         struct lab_findings *findings)
{
    const double trip = (double)asked->path.round_trip_ns / (double)NODE_MILLISECOND_NS;
    lab_finding_add(findings, LAB_FINDING_OK, about, "%s%s answers: p2pml %s, %s; round trip %.*f ms%s",
                    asked->greeting.name, where, asked->greeting.version, asked->greeting.model,
                    trip < 9.95 ? 1 : 0, trip, asked->large == LAB_ASK_ARRIVES ? ", full packets pass" : "");
}

static void tell_turned_away(const char *about, const char *where, const struct lab_asked *asked,
                             struct lab_findings *findings)
{
    const bool listed = strstr(asked->text, "allow-list") != NULL;
    lab_finding_add(findings, LAB_FINDING_NOTE, about,
                    listed
                        ? "a node of this cluster%s lets in only listed nodes, and ended the conversation: %s"
                        : "a node of this cluster%s ended the conversation: %s",
                    where, asked->text);
    if (listed)
        lab_finding_advise(findings,
                           "the id of this node must be in its cluster.allow_file; set cluster.allow_file "
                           "here, too, and p2pml doctor calls with the identity of this node");
}

static void tell_protocols(const char *about, const char *where, const struct lab_asked *asked,
                           struct lab_findings *findings)
{
    lab_finding_add(findings, LAB_FINDING_PROBLEM, about,
                    "a node of this cluster%s speaks protocols %u to %u, this program %u to %u", where,
                    asked->protocols.least, asked->protocols.most, gossip_own_protocols.least,
                    gossip_own_protocols.most);
    lab_finding_advise(findings, "update p2pml %s",
                       asked->protocols.most < gossip_own_protocols.least ? "there" : "here");
}

static void tell_mute(const char *about, const char *where, const struct lab_asked *asked,
                      struct lab_findings *findings)
{
    if (!asked->greets_first) {
        lab_finding_add(findings, LAB_FINDING_OK, about,
                        "a node of this cluster%s answers, and lets this node in", where);
        return;
    }
    lab_finding_add(findings, LAB_FINDING_NOTE, about,
                    "a node of this cluster%s has proved its identity, but its greeting has not arrived",
                    where);
    lab_finding_advise(findings,
                       "if it is so again, packets from there that are larger than that vanish on the way: "
                       "set a smaller MTU there (ip link set dev DEVICE mtu 1280)");
}

static void tell_failure(const char *about, const char *where, const struct lab_asked *asked,
                         struct lab_findings *findings)
{
    static const struct {
        const char *text, *advice;
    } words[] = {
        [LAB_ASK_STRANGER] =
            {"something listens there and closes the connection: another secret, another "
             "cluster.name, or another program",
             "compare cluster.name and the contents of cluster.secret_file on both hosts, and see the "
             "log of the node there (stranger)"},
        [LAB_ASK_SILENT] =
            {"the connection is accepted, but nothing comes back: another program, a proxy, or a node "
             "that hangs",
             "see what listens on that port there (ss -tlnp)"},
        [LAB_ASK_REFUSED] =
            {"nothing listens there, or a firewall refuses",
             "start the node there; see that its node.listen is 0.0.0.0 with this port and not "
             "127.0.0.1, and that its firewall lets TCP to that port in"},
        [LAB_ASK_UNANSWERED] =
            {"no answer: the host is off, its address is another one, or a firewall or a router drops "
             "the call",
             "if that host is behind a router, no call gets in unless the router forwards the port. "
             "It is enough if one member can be called by all: list that one in peers"},
        [LAB_ASK_FAILED] =
            {"it cannot be called",
             "look at the routes of this host (ip route get ADDRESS), and whether both hosts have the "
             "same kind of address, IPv4 or IPv6"},
    };
    BASE_ASSERT(asked->end < sizeof words / sizeof *words && words[asked->end].text);
    lab_finding_add(findings, LAB_FINDING_PROBLEM, about, "%s%s%s%s", words[asked->end].text, where,
                    asked->end == LAB_ASK_FAILED ? ": " : "",
                    asked->end == LAB_ASK_FAILED ? asked->text : "");
    lab_finding_advise(findings, "%s", words[asked->end].advice);
}

void lab_words_asked(const char *about, const char *address, const struct lab_asked *asked,
                     struct lab_findings *findings)
{
    char text[96];
    const char *where = at(about, address, text);
    switch (asked->end) {
    case LAB_ASK_GREETED:
        tell_greeted(about, where, asked, findings);
        break;
    case LAB_ASK_MUTE:
        tell_mute(about, where, asked, findings);
        break;
    case LAB_ASK_TURNED_AWAY:
        tell_turned_away(about, where, asked, findings);
        break;
    case LAB_ASK_PROTOCOL:
        tell_protocols(about, where, asked, findings);
        break;
    default:
        tell_failure(about, where, asked, findings);
        break;
    }
    tell_large(about, asked, findings);
}

// -- routers

static size_t host_bytes(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon ? (size_t)(colon - address) : strlen(address);
}

bool lab_words_same_host(const char *a, const char *b)
{
    return host_bytes(a) == host_bytes(b) && strncmp(a, b, host_bytes(a)) == 0;
}

// What the peers outside of a router say of it.
struct outside {
    const struct lab_sighting *first;
    size_t count;
    bool other_host, other_port, any_port;
};

static struct outside outside_of(const struct lab_sighting *sightings, size_t count)
{
    struct outside outside = {0};
    for (size_t i = 0; i < count; i++) {
        const struct lab_sighting *s = &sightings[i];
        if (s->seen[0] == 0 || lab_words_same_host(s->own, s->seen))
            continue;
        if (!outside.first)
            outside.first = s;
        outside.count++;
        outside.any_port |= !s->listen_port;
        outside.other_host |= !lab_words_same_host(outside.first->seen, s->seen);
        outside.other_port |= strcmp(outside.first->seen, s->seen) != 0;
    }
    return outside;
}

static void tell_one_port(const struct outside *o, unsigned port, struct lab_findings *findings)
{
    lab_finding_add(
        findings, LAB_FINDING_NOTE, "router",
        "this host is behind a router: %zu peers see it at %s. The router gives port %u one address for "
        "all, so most pairs of hosts behind such routers get direct links; the others are relayed",
        o->count, o->first->seen, port);
}

static void tell_many_ports(const struct outside *o, struct lab_findings *findings)
{
    lab_finding_add(
        findings, LAB_FINDING_NOTE, "router",
        "this host is behind a router that gives each connection another address outside (a symmetric "
        "NAT; one is %s): its links to hosts behind other routers are relayed",
        o->first->seen);
}

void lab_words_router(const struct lab_sighting *sightings, size_t count, unsigned port,
                      struct lab_findings *findings)
{
    const struct outside o = outside_of(sightings, count);
    size_t seen = 0;
    for (size_t i = 0; i < count; i++)
        seen += sightings[i].seen[0] != 0;
    if (seen == 0)
        return;
    if (o.count == 0) {
        lab_finding_add(
            findings, LAB_FINDING_OK, "router",
            "no router changes the address of this host: %s sees it at %s. Whether a firewall lets calls in, "
            "a running node finds out (p2pml doctor --node)",
            sightings[0].peer, sightings[0].seen);
        return;
    }
    if (o.any_port || o.count == 1)
        lab_finding_add(
            findings, LAB_FINDING_NOTE, "router",
            "this host is behind a router: %s sees it at %s. What kind of router it is, two peers can tell "
            "if they are called from port %u",
            o.first->peer, o.first->seen, port);
    else if (o.other_port || o.other_host)
        tell_many_ports(&o, findings);
    else
        tell_one_port(&o, port, findings);
    lab_finding_advise(
        findings,
        "nothing must be done if one member of the cluster can be called by all. If the router can "
        "forward port %u (TCP and UDP) to this host, all its links become direct",
        port);
}

void lab_words_double(const char *address, const char *by, unsigned port, struct lab_findings *findings)
{
    lab_finding_add(
        findings, LAB_FINDING_NOTE, "port mapping",
        "the router offers %s (%s), but stands behind another router itself: others cannot use that "
        "address, and are not told",
        address, by);
    lab_finding_advise(
        findings,
        "nothing must be done. Links become direct if the outer router forwards port %u (TCP and "
        "UDP) to the inner one, or if one of the two only passes packets on (bridge mode)",
        port);
}

void lab_words_offer(const char *address, const char *by, const char *seen, bool public, unsigned port,
                     struct lab_findings *findings)
{
    const bool fits = seen[0] ? lab_words_same_host(address, seen) : public;
    if (address[0] && fits)
        lab_finding_add(
            findings, LAB_FINDING_OK, "port mapping",
            "the router offers ports (%s); its address outside is %.*s. A node that members cannot call "
            "takes one",
            by, (int)host_bytes(address), address);
    else if (address[0])
        lab_words_double(address, by, port, findings);
    else if (seen[0])
        lab_finding_add(
            findings, LAB_FINDING_NOTE, "port mapping",
            "the router answers neither to NAT-PMP nor to UPnP; with one of them switched on, a node "
            "gets a port of it by itself");
}
