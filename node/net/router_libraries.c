// A build with libminiupnpc (UPnP IGD) and libnatpmp (NAT-PMP).
#include "node/net/router.h"

#include "node/queue/clock.h"
#include <arpa/inet.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>
#include <natpmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS (2 * NODE_SECOND_NS) // of NAT-PMP: three times, at 0, 0.25 and 0.75 s
#define LONGEST_MS  1000
#define DISCOVER_MS 2000
#define TTL         2

// Error codes of the IGD standard.
#define UPNP_CONFLICT       718
#define UPNP_SAME_PORT_ONLY 724
#define UPNP_PERMANENT_ONLY 725

struct gateway { // one that speaks UPnP
    bool known;
    struct UPNPUrls urls;
    struct IGDdatas data;
    char lan[INET_ADDRSTRLEN]; // this host, as the gateway sees it
};

struct node_router {
    struct gateway gateway;
    struct gossip_mapping_request held;
    bool holds, by_upnp; // how
};

static const char natpmp_name[] = "NAT-PMP", upnp_name[] = "UPnP";

bool node_router_is_built(void)
{
    return true;
}

struct node_router *node_router_create(void)
{
    return calloc(1, sizeof(struct node_router));
}

static void finish(struct gossip_mapping_answer *answer, enum gossip_mapping_end end, const char *by)
{
    *answer = (struct gossip_mapping_answer){.end = end, .by = by};
}

// -- NAT-PMP

struct natpmp_question {
    int protocol; // NATPMP_PROTOCOL_*; 0: the address outside
    uint16_t inside, outside;
    uint32_t lease_s;
};

static bool leaves_from(int socket, const uint8_t host[4])
{
    static const uint8_t any[4];
    struct sockaddr_in own;
    socklen_t bytes = sizeof own;
    return getsockname(socket, (struct sockaddr *)&own, &bytes) == 0 && own.sin_family == AF_INET &&
           ntohl(own.sin_addr.s_addr) >> 24 != 127 &&
           (memcmp(host, any, sizeof any) == 0 || memcmp(host, &own.sin_addr, sizeof any) == 0);
}

static int natpmp_wait(natpmp_t *natpmp, natpmpresp_t *response)
{
    const uint64_t until_ns = node_clock_ns() + PATIENCE_NS;
    int result = NATPMP_TRYAGAIN;
    while (result == NATPMP_TRYAGAIN && node_clock_ns() < until_ns) {
        struct timeval wait = {0};
        struct pollfd polled = {.fd = natpmp->s, .events = POLLIN};
        (void)getnatpmprequesttimeout(natpmp, &wait);
        const long ms = (long)wait.tv_sec * 1000 + (long)wait.tv_usec / 1000 + 1;
        (void)poll(&polled, 1, ms < 0 ? 0 : ms > LONGEST_MS ? LONGEST_MS : (int)ms); // the clock may be set
        result = readnatpmpresponseorretry(natpmp, response);
    }
    return result;
}

static bool natpmp_send(natpmp_t *natpmp, const struct natpmp_question *q)
{
    return q->protocol == 0
               ? sendpublicaddressrequest(natpmp) > 0
               : sendnewportmappingrequest(natpmp, q->protocol, q->inside, q->outside, q->lease_s) > 0;
}

// Each has a socket of its own, so a late answer to an earlier one does not count.
static bool natpmp_begin(natpmp_t *natpmp, const uint8_t host[4], const struct natpmp_question *question)
{
    if (initnatpmp(natpmp, 0, 0) != 0)
        return false;
    const bool sent = leaves_from(natpmp->s, host) && natpmp_send(natpmp, question);
    if (!sent)
        (void)closenatpmp(natpmp);
    return sent;
}

static int natpmp_end(natpmp_t *natpmp, natpmpresp_t *response)
{
    const int result = natpmp_wait(natpmp, response);
    (void)closenatpmp(natpmp);
    return result;
}

static int natpmp_ask(const uint8_t host[4], const struct natpmp_question *question, natpmpresp_t *response)
{
    natpmp_t natpmp;
    memset(response, 0, sizeof *response);
    return natpmp_begin(&natpmp, host, question) ? natpmp_end(&natpmp, response)
                                                 : NATPMP_ERR_NOGATEWAYSUPPORT;
}

static bool natpmp_look(const uint8_t host[4], struct gossip_address *outside)
{
    const struct natpmp_question question = {.protocol = 0};
    natpmpresp_t response;
    if (natpmp_ask(host, &question, &response) != 0 || response.type != NATPMP_RESPTYPE_PUBLICADDRESS ||
        response.pnu.publicaddress.addr.s_addr == 0)
        return false;
    *outside = (struct gossip_address){.family = 4};
    memcpy(outside->ip, &response.pnu.publicaddress.addr, 4);
    return true;
}

// Both at once: the node may be about to end.
static void natpmp_unmap(const struct gossip_mapping_request *held)
{
    const struct natpmp_question questions[2] = {{.protocol = NATPMP_PROTOCOL_TCP, .inside = held->inside},
                                                 {.protocol = NATPMP_PROTOCOL_UDP, .inside = held->inside}};
    natpmp_t natpmp[2];
    natpmpresp_t ignored;
    bool sent[2];
    for (size_t i = 0; i < 2; i++)
        sent[i] = natpmp_begin(&natpmp[i], held->host, &questions[i]);
    for (size_t i = 0; i < 2; i++)
        if (sent[i])
            (void)natpmp_end(&natpmp[i], &ignored);
}

// A router whose port is taken gives another one; UDP must have the same.
static void natpmp_map(const struct gossip_mapping_request *request, struct gossip_mapping_answer *answer)
{
    struct natpmp_question question = {NATPMP_PROTOCOL_TCP, request->inside, request->outside,
                                       request->lease_s};
    struct gossip_address outside;
    natpmpresp_t tcp, udp;
    finish(answer, GOSSIP_MAPPING_NOBODY, NULL);
    if (!natpmp_look(request->host, &outside))
        return;
    finish(answer, GOSSIP_MAPPING_DENIED, natpmp_name);
    if (natpmp_ask(request->host, &question, &tcp) != 0)
        return;
    question.protocol = NATPMP_PROTOCOL_UDP;
    question.outside = tcp.pnu.newportmapping.mappedpublicport;
    const bool both = natpmp_ask(request->host, &question, &udp) == 0;
    const uint16_t port = udp.pnu.newportmapping.mappedpublicport;
    if (!both || port != question.outside || port == 0) {
        natpmp_unmap(request);
        answer->end = both ? GOSSIP_MAPPING_TAKEN : GOSSIP_MAPPING_DENIED;
        return;
    }
    answer->end = GOSSIP_MAPPING_MAPPED;
    answer->address = outside;
    answer->address.port = port;
    answer->lease_s = tcp.pnu.newportmapping.lifetime;
}

// -- UPnP

// The address of this host on the network of its default route. No packet is sent.
static bool lan_address(const uint8_t host[4], char text[INET_ADDRSTRLEN])
{
    const struct sockaddr_in elsewhere = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0xc0000201)}}; // 192.0.2.1
    struct sockaddr_in own;
    socklen_t bytes = sizeof own;
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool found = s >= 0 && connect(s, (const struct sockaddr *)&elsewhere, sizeof elsewhere) == 0 &&
                       leaves_from(s, host) && getsockname(s, (struct sockaddr *)&own, &bytes) == 0 &&
                       inet_ntop(AF_INET, &own.sin_addr, text, INET_ADDRSTRLEN);
    if (s >= 0)
        close(s);
    return found;
}

// Connected to the outside, also by an address that is private itself.
static bool pick(struct UPNPDev *devices, struct gateway *gateway)
{
#if MINIUPNPC_API_VERSION >= 18
    char outside[INET_ADDRSTRLEN];
    const int kind = UPNP_GetValidIGD(devices, &gateway->urls, &gateway->data, gateway->lan,
                                      sizeof gateway->lan, outside, sizeof outside);
    const bool connected = kind == 1 || kind == 2;
#else
    const int kind =
        UPNP_GetValidIGD(devices, &gateway->urls, &gateway->data, gateway->lan, sizeof gateway->lan);
    const bool connected = kind == 1;
#endif
    if (kind != 0 && !connected)
        FreeUPNPUrls(&gateway->urls);
    return connected;
}

static void forget(struct gateway *gateway)
{
    if (gateway->known)
        FreeUPNPUrls(&gateway->urls);
    *gateway = (struct gateway){0};
}

static bool discover(struct gateway *gateway, const uint8_t host[4])
{
    char lan[INET_ADDRSTRLEN];
    int error = 0;
    if (gateway->known)
        return true;
    if (!lan_address(host, lan))
        return false;
    struct UPNPDev *devices = upnpDiscover(DISCOVER_MS, lan, NULL, UPNP_LOCAL_PORT_ANY, 0, TTL, &error);
    *gateway = (struct gateway){0};
    gateway->known = devices && pick(devices, gateway);
    freeUPNPDevlist(devices);
    return gateway->known;
}

static bool upnp_look(const struct gateway *gateway, struct gossip_address *outside)
{
    char text[INET6_ADDRSTRLEN] = "";
    *outside = (struct gossip_address){.family = 4};
    return UPNP_GetExternalIPAddress(gateway->urls.controlURL, gateway->data.first.servicetype, text) ==
               UPNPCOMMAND_SUCCESS &&
           inet_pton(AF_INET, text, outside->ip) == 1 && outside->ip[0] != 0;
}

// What answered before may be of an earlier network.
static bool upnp_find(struct gateway *gateway, const uint8_t host[4], struct gossip_address *outside)
{
    const bool known = gateway->known;
    if (discover(gateway, host) && upnp_look(gateway, outside))
        return true;
    forget(gateway);
    return known && discover(gateway, host) && upnp_look(gateway, outside);
}

static int upnp_add(const struct gateway *gateway, const struct gossip_mapping_request *request,
                    const char *protocol, const char *lease)
{
    char inside[8], outside[8];
    snprintf(inside, sizeof inside, "%u", (unsigned)request->inside);
    snprintf(outside, sizeof outside, "%u", (unsigned)request->outside);
    return UPNP_AddPortMapping(gateway->urls.controlURL, gateway->data.first.servicetype, outside, inside,
                               gateway->lan, "p2pml", protocol, NULL, lease);
}

// Some routers know no leases. *lease_s: 0, if this is one of them.
static int upnp_open(const struct gateway *gateway, const struct gossip_mapping_request *request,
                     const char *protocol, uint32_t *lease_s)
{
    char lease[12];
    snprintf(lease, sizeof lease, "%u", (unsigned)*lease_s);
    const int result = upnp_add(gateway, request, protocol, lease);
    if (result != UPNP_PERMANENT_ONLY)
        return result;
    *lease_s = 0;
    return upnp_add(gateway, request, protocol, "0");
}

static void upnp_close(const struct gateway *gateway, uint16_t port, const char *protocol)
{
    char outside[8];
    snprintf(outside, sizeof outside, "%u", (unsigned)port);
    (void)UPNP_DeletePortMapping(gateway->urls.controlURL, gateway->data.first.servicetype, outside, protocol,
                                 NULL);
}

static enum gossip_mapping_end end_of(int result)
{
    if (result == UPNPCOMMAND_SUCCESS)
        return GOSSIP_MAPPING_MAPPED;
    return result == UPNP_CONFLICT || result == UPNP_SAME_PORT_ONLY ? GOSSIP_MAPPING_TAKEN
                                                                    : GOSSIP_MAPPING_DENIED;
}

static void upnp_map(struct gateway *gateway, const struct gossip_mapping_request *request,
                     struct gossip_mapping_answer *answer)
{
    finish(answer, GOSSIP_MAPPING_NOBODY, NULL);
    if (!upnp_find(gateway, request->host, &answer->address))
        return;
    answer->by = upnp_name;
    answer->lease_s = request->lease_s;
    answer->address.port = request->outside;
    answer->end = end_of(upnp_open(gateway, request, "TCP", &answer->lease_s));
    if (answer->end != GOSSIP_MAPPING_MAPPED)
        return;
    answer->end = end_of(upnp_open(gateway, request, "UDP", &answer->lease_s));
    if (answer->end != GOSSIP_MAPPING_MAPPED)
        upnp_close(gateway, request->outside, "TCP");
}

// -- both

static void unmap(struct node_router *router)
{
    if (router->holds && !router->by_upnp) {
        natpmp_unmap(&router->held);
    } else if (router->holds && router->gateway.known) {
        upnp_close(&router->gateway, router->held.outside, "TCP");
        upnp_close(&router->gateway, router->held.outside, "UDP");
    }
    router->holds = false;
}

void node_router_map(struct node_router *router, const struct gossip_mapping_request *request,
                     struct gossip_mapping_answer *answer)
{
    const bool renews = router->holds && router->by_upnp;
    struct gossip_mapping_answer other;
    finish(answer, GOSSIP_MAPPING_NOBODY, NULL);
    if (!renews)
        natpmp_map(request, answer);
    const bool upnp = answer->end != GOSSIP_MAPPING_MAPPED;
    if (upnp)
        upnp_map(&router->gateway, request, &other);
    if (upnp && other.by)
        *answer = other;
    if (answer->end != GOSSIP_MAPPING_MAPPED) {
        router->holds = router->holds && answer->end != GOSSIP_MAPPING_TAKEN; // it is another's now
        unmap(router);
        return;
    }
    router->holds = true;
    router->by_upnp = upnp;
    router->held = *request;
    router->held.outside = answer->address.port;
}

void node_router_look(struct node_router *router, struct gossip_mapping_answer *answer)
{
    static const uint8_t any[4];
    finish(answer, GOSSIP_MAPPING_NOBODY, NULL);
    if (natpmp_look(any, &answer->address))
        answer->by = natpmp_name;
    else if (upnp_find(&router->gateway, any, &answer->address))
        answer->by = upnp_name;
    if (answer->by)
        answer->end = GOSSIP_MAPPING_MAPPED;
}

void node_router_destroy(struct node_router *router)
{
    if (!router)
        return;
    unmap(router);
    forget(&router->gateway);
    free(router);
}
