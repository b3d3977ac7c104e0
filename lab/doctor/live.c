#include "lab/doctor/live.h"
#include "lab/doctor/words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SOON_S  15.0 // a node that has just started has not found out yet
#define CLOCK_S 2.0

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool is(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static bool here(const json_t *member)
{
    const char *state = text_of(member, "state");
    return strcmp(state, "alive") == 0 || strcmp(state, "suspect") == 0;
}

static bool young(const json_t *status)
{
    return number_of(status, "uptime_s") < SOON_S;
}

// "n1 and n2"; "" of an empty list.
static const char *names_of(const json_t *list, char text[160])
{
    const json_t *name;
    size_t i, used = 0;
    text[0] = 0;
    json_array_foreach(list, i, name) {
        const int more = snprintf(text + used, 160 - used, "%s%s",
                                  i == 0 ? "" : (i + 1 == json_array_size(list) ? " and " : ", "),
                                  json_string_value(name) ? json_string_value(name) : "?");
        used += more > 0 && (size_t)more < 160 - used ? (size_t)more : 0;
    }
    return text;
}

static const char *bytes_text(double bytes, char text[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(text, 32, bytes < 9.95 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static const json_t *self_of(const json_t *status)
{
    const json_t *member;
    size_t i;
    json_array_foreach(json_object_get(status, "members"), i, member)
        if (is(member, "self"))
            return member;
    return NULL;
}

static const json_t *member_of(const json_t *status, const char *name)
{
    const json_t *member;
    size_t i;
    json_array_foreach(json_object_get(status, "members"), i, member)
        if (strcmp(text_of(member, "name"), name) == 0)
            return member;
    return NULL;
}

static unsigned port_of(const json_t *status)
{
    const json_t *addresses = json_object_get(self_of(status), "addresses");
    const char *first = json_string_value(json_array_get(addresses, 0)),
               *colon = first ? strrchr(first, ':') : NULL;
    unsigned port = 0;
    return colon && sscanf(colon + 1, "%u", &port) == 1 ? port : 7400;
}

static size_t others(const json_t *status, bool linked)
{
    const json_t *member;
    size_t i, count = 0;
    json_array_foreach(json_object_get(status, "members"), i, member)
        count += !is(member, "self") && (linked ? is(member, "linked") : here(member));
    return count;
}

static bool is_missing(const json_t *status, const json_t *member)
{
    const json_t *missing;
    size_t i;
    json_array_foreach(json_object_get(status, "missing_links"), i, missing)
        if (strcmp(text_of(missing, "id"), text_of(member, "id")) == 0)
            return true;
    return false;
}

// -- the node itself

static void tell_private(const json_t *status, struct lab_findings *findings)
{
    char relays[160];
    const char *outside = text_of(status, "outside");
    const bool alone = json_array_size(json_object_get(self_of(status), "relays")) == 0;
    const bool missing = json_array_size(json_object_get(status, "missing_links")) > 0;
    names_of(json_object_get(self_of(status), "relays"), relays);
    lab_finding_add(
        findings, alone && missing ? LAB_FINDING_PROBLEM : LAB_FINDING_NOTE, "reach",
        "private: no member could call this node%s%s; it stands behind a router or a firewall%s%s",
        outside[0] ? ", which others see at " : "", outside,
        alone ? " and no member relays for it"
              : ". Members that cannot be called themselves meet it "
                "directly if the routers let them, else over ",
        relays);
    if (alone)
        lab_finding_advise(
            findings,
            "open one port for connections from outside, here (%u, TCP and UDP) or on any other "
            "member, and leave node.relay on there: one such host is enough for all",
            port_of(status));
    else
        lab_finding_advise(
            findings,
            "nothing must be done. If the router can forward port %u (TCP and UDP) to this host, "
            "all its links become direct",
            port_of(status));
}

static void tell_reach(const json_t *status, struct lab_findings *findings)
{
    char own[160];
    const char *reach = text_of(status, "reach"), *outside = text_of(status, "outside");
    const char *at = outside[0] ? outside : names_of(json_object_get(self_of(status), "addresses"), own);
    if (strcmp(reach, "reachable") == 0)
        lab_finding_add(findings, LAB_FINDING_OK, "reach", "reachable: others can call this node%s%s",
                        at[0] ? " at " : "", at);
    else if (strcmp(reach, "private") == 0)
        tell_private(status, findings);
    else
        lab_finding_add(findings, LAB_FINDING_NOTE, "reach",
                        "whether members can call this node is not known yet: %s",
                        others(status, true) == 0 ? "it has no link" : "ask again in some seconds");
}

static void tell_no_mapping(const char *state, const char *by, unsigned port, struct lab_findings *findings)
{
    if (strcmp(state, "no answer") == 0) {
        lab_finding_add(findings, LAB_FINDING_NOTE, "port mapping",
                        "the router answers neither to NAT-PMP nor to UPnP");
        lab_finding_advise(
            findings, "nothing must be done; if UPnP or NAT-PMP is switched on in the router, the node gets "
                      "a port of it by itself");
    } else if (strcmp(state, "refused") == 0) {
        lab_finding_add(findings, LAB_FINDING_NOTE, "port mapping",
                        "the router answers (%s), but forwards no port to this node", by);
        lab_finding_advise(findings, "allow it there for this host, or forward port %u (TCP and UDP) by hand",
                           port);
    } else if (strcmp(state, "not built") == 0) {
        lab_finding_add(
            findings, LAB_FINDING_NOTE, "port mapping",
            "this p2pml was built without libminiupnpc and libnatpmp: it asks no router for a port");
    }
}

// A router is of interest where members cannot call the node without it.
static void tell_mapping(const json_t *status, struct lab_findings *findings)
{
    const json_t *mapping = json_object_get(status, "port_mapping");
    const char *state = text_of(mapping, "state"), *by = text_of(mapping, "by"),
               *address = text_of(mapping, "address");
    const bool private = strcmp(text_of(status, "reach"), "private") == 0;
    if (strcmp(state, "mapped") == 0)
        lab_finding_add(findings, LAB_FINDING_OK, "port mapping",
                        "the router forwards %s to this node (%s), and members are told that address",
                        address, by);
    else if (strcmp(state, "not told") == 0)
        lab_words_double(address, by, port_of(status), findings);
    else if (private)
        tell_no_mapping(state, by, port_of(status), findings);
}

static void tell_forwarding(const json_t *status, struct lab_findings *findings)
{
    char bytes[32];
    const double streams = number_of(status, "forwarded_streams"),
                 total = number_of(status, "forwarded_bytes"), limit = number_of(status, "relay");
    if (streams > 0 || total > 0)
        lab_finding_add(findings, LAB_FINDING_NOTE, "relaying",
                        "this node forwards %.0f %s of members that cannot call each other, %s so far; "
                        "node.relay limits the rate",
                        streams, streams == 1 ? "link" : "links", bytes_text(total, bytes));
    else if (limit <= 0 && strcmp(text_of(status, "reach"), "reachable") == 0)
        lab_finding_add(findings, LAB_FINDING_NOTE, "relaying",
                        "others can call this node, but it relays for nobody (node.relay: off)");
}

static void tell_datagrams(const json_t *status, struct lab_findings *findings)
{
    const json_t *datagrams = json_object_get(json_object_get(status, "membership"), "datagrams");
    if (young(status) || others(status, true) == 0 || !datagrams)
        return;
    if (number_of(datagrams, "received") > 0) {
        lab_finding_add(findings, LAB_FINDING_OK, "udp", "datagrams of members arrive");
        return;
    }
    lab_finding_add(
        findings, LAB_FINDING_NOTE, "udp",
        "no datagram has arrived: something on the way drops UDP. Members are asked over their links "
        "instead, and a death is noticed later");
    lab_finding_advise(findings, "let UDP to and from port %u pass", port_of(status));
}

static void tell_clock(const json_t *status, double now_s, struct lab_findings *findings)
{
    const double ahead = number_of(status, "time") - now_s;
    if (isnan(ahead))
        return;
    if (fabs(ahead) <= CLOCK_S) {
        lab_finding_add(findings, LAB_FINDING_OK, "clock", "it agrees with the clock of this host");
        return;
    }
    lab_finding_add(
        findings, LAB_FINDING_NOTE, "clock",
        "the clock of the node is %.0f s %s that of this host: training does not mind, but times in "
        "logs and reports do not fit together",
        fabs(ahead), ahead > 0 ? "ahead of" : "behind");
    lab_finding_advise(findings, "synchronise both hosts (timedatectl set-ntp true)");
}

static void tell_settings(const json_t *status, struct lab_findings *findings)
{
    const json_t *unfit;
    size_t i;
    json_array_foreach(json_object_get(status, "settings_that_do_not_fit"), i, unfit)
        lab_finding_add(findings, LAB_FINDING_NOTE, text_of(unfit, "key"), "%s", text_of(unfit, "text"));
}

// -- its members

static void tell_direct(const json_t *member, struct lab_findings *findings)
{
    char rate[32], measured[96] = "";
    const double trip = number_of(member, "round_trip_ms"), speed = number_of(member, "rate");
    if (!isnan(trip) && !isnan(speed))
        snprintf(measured, sizeof measured, ": round trip %.*f ms, at least %s/s", trip < 9.95 ? 1 : 0, trip,
                 bytes_text(speed, rate));
    lab_finding_add(findings, LAB_FINDING_OK, text_of(member, "name"), "direct link%s%s",
                    strcmp(text_of(member, "path"), "mapped") == 0 ? " over the port that the router forwards"
                                                                   : "",
                    measured);
}

static void tell_relayed(const json_t *member, struct lab_findings *findings)
{
    const char *via = text_of(member, "via");
    lab_finding_add(
        findings, LAB_FINDING_NOTE, text_of(member, "name"),
        "linked over %s: neither end could call the other yet. %s forwards sealed bytes that it cannot "
        "read; direct ways are tried again and again",
        via[0] ? via : "another member", via[0] ? via : "It");
}

// Why two neighbours have no link, as far as the two records say it.
static void tell_missing(const json_t *status, const json_t *member, struct lab_findings *findings)
{
    char relays[160], addresses[160];
    const char *name = text_of(member, "name"), *first;
    const json_t *list = json_object_get(member, "relays");
    names_of(list, relays);
    names_of(json_object_get(member, "addresses"), addresses);
    if (is(member, "reachable")) {
        lab_finding_add(findings, LAB_FINDING_PROBLEM, name,
                        "no link, although other members can call it at %s: this host cannot", addresses);
        lab_finding_advise(findings,
                           "look whether a firewall near this host blocks connections to that address "
                           "and port, or whether this host has no route there (IPv6?)");
        return;
    }
    if (relays[0] == 0) {
        lab_finding_add(findings, LAB_FINDING_PROBLEM, name,
                        "no link: neither end can call the other, and no member relays for %s", name);
        lab_finding_advise(findings,
                           "open the port of one of the two, or of any third member (TCP and UDP), and "
                           "leave node.relay on there: one such host is enough for all");
        return;
    }
    first = json_string_value(json_array_get(list, 0));
    const json_t *relay = member_of(status, first ? first : "");
    lab_finding_add(findings, LAB_FINDING_PROBLEM, name,
                    "no link: neither end can call the other. It is reached over %s, %s", relays,
                    is(relay, "linked") ? "to which this node is linked, but no link came about"
                                        : "to which this node has no link");
    lab_finding_advise(findings, "ask there: p2pml doctor --node, with the page of %s",
                       first ? first : "that member");
}

static void tell_member(const json_t *status, const json_t *member, struct lab_findings *findings)
{
    const bool linked = is(member, "linked"), neighbour = is(member, "neighbour");
    if (is(member, "self"))
        return;
    if (linked && strcmp(text_of(member, "path"), "relayed") == 0)
        tell_relayed(member, findings);
    else if (linked)
        tell_direct(member, findings);
    else if (strcmp(text_of(member, "state"), "dead") == 0)
        lab_finding_add(findings, LAB_FINDING_NOTE, text_of(member, "name"), "dead since %.0f s",
                        number_of(member, "since"));
    else if (is_missing(status, member))
        tell_missing(status, member, findings);
    else if (neighbour && here(member))
        lab_finding_add(findings, LAB_FINDING_NOTE, text_of(member, "name"),
                        "a neighbour without a link at this moment; ask again in half a minute");
}

static void tell_members(const json_t *status, struct lab_findings *findings)
{
    const json_t *member;
    size_t i, quiet = 0;
    json_array_foreach(json_object_get(status, "members"), i, member) {
        tell_member(status, member, findings);
        quiet += !is(member, "self") && here(member) && !is(member, "linked") && !is(member, "neighbour") &&
                 !is_missing(status, member);
    }
    if (quiet > 0)
        lab_finding_add(findings, LAB_FINDING_OK, "others",
                        "%zu %s no neighbour of this node: no link is needed", quiet,
                        quiet == 1 ? "member is" : "members are");
}

// -- its peer list

static void tell_entry(const json_t *status, const json_t *entry, struct lab_findings *findings)
{
    const char *state = text_of(entry, "state"), *text = text_of(entry, "entry");
    const bool alone = others(status, true) == 0;
    if (strcmp(state, "refused") == 0) {
        lab_finding_add(
            findings, LAB_FINDING_PROBLEM, text,
            "the node there and this one cannot train together: other settings, another version, or one "
            "does not allow the other");
        lab_finding_advise(findings,
                           "the log line peer_refused or refused_by_peer, here or there, says what differs");
    } else if (strcmp(state, "unknown") == 0 && !young(status)) {
        lab_finding_add(findings, alone ? LAB_FINDING_PROBLEM : LAB_FINDING_NOTE, text,
                        "no node of this cluster has answered there for %.0f s", number_of(entry, "since"));
        lab_finding_advise(findings,
                           "on this host, with the configuration of the node: p2pml doctor CONFIG says "
                           "how far a call gets");
    }
}

static void tell_entries(const json_t *status, struct lab_findings *findings)
{
    const json_t *entries = json_object_get(status, "peers"), *entry;
    size_t i;
    json_array_foreach(entries, i, entry)
        tell_entry(status, entry, findings);
    if (others(status, false) > 0)
        return;
    if (json_array_size(entries) == 0)
        lab_finding_add(findings, LAB_FINDING_NOTE, "peers",
                        "the peer list is empty, and no member is known: this node waits until it is called");
    else
        lab_finding_add(findings, young(status) ? LAB_FINDING_NOTE : LAB_FINDING_PROBLEM, "peers",
                        "no other member is known");
}

void lab_doctor_live(const json_t *status, double now_s, struct lab_findings *findings)
{
    lab_finding_add(findings, LAB_FINDING_OK, "node", "%s of cluster %s, p2pml %s, runs for %.0f s",
                    text_of(status, "name"), text_of(status, "cluster"), text_of(status, "version"),
                    number_of(status, "uptime_s"));
    tell_reach(status, findings);
    tell_mapping(status, findings);
    tell_members(status, findings);
    tell_entries(status, findings);
    tell_datagrams(status, findings);
    tell_forwarding(status, findings);
    tell_clock(status, now_s, findings);
    tell_settings(status, findings);
}
