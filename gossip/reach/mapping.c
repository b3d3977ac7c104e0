#include "gossip/reach/mapping.h"

#include "base/array.h"
#include "base/hash.h"
#include <string.h>

#define SECOND_NS  1000000000ull
#define PORTS_FROM 49152u // those that nobody registers

void gossip_mapping_begin(struct gossip_mapping *m, uint64_t now_ns, const uint8_t host[4], uint16_t port,
                          uint64_t seed)
{
    BASE_ASSERT(port != 0);
    *m = (struct gossip_mapping){
        .state = GOSSIP_MAPPING_IDLE, .inside = port, .outside = port, .seed = seed, .begun_ns = now_ns};
    memcpy(m->host, host, sizeof m->host);
}

bool gossip_mapping_fits(const struct gossip_address *interfaces, size_t count)
{
    bool inside = false, outside = false;
    for (size_t i = 0; i < count; i++) {
        if (interfaces[i].family != 4 || gossip_address_is_near(&interfaces[i]))
            continue;
        outside |= gossip_address_is_public(&interfaces[i]);
        inside |= !gossip_address_is_public(&interfaces[i]);
    }
    return inside && !outside;
}

static bool is_needed(const struct gossip_mapping *m, uint64_t now_ns, enum gossip_reach_state state)
{
    return m->state == GOSSIP_MAPPING_HELD || m->tries > 0 || state == GOSSIP_REACH_PRIVATE ||
           (state == GOSSIP_REACH_UNKNOWN && now_ns >= m->begun_ns + GOSSIP_MAPPING_WAIT_NS);
}

bool gossip_mapping_asks(struct gossip_mapping *m, uint64_t now_ns, enum gossip_reach_state state, bool fits,
                         struct gossip_mapping_request *request)
{
    if (m->state == GOSSIP_MAPPING_HELD && (!fits || now_ns >= m->ends_ns))
        m->state = GOSSIP_MAPPING_IDLE;
    if (m->state == GOSSIP_MAPPING_OFF || m->asked || !fits || now_ns < m->due_ns ||
        !is_needed(m, now_ns, state))
        return false;
    m->asked = true;
    m->asked_ns = now_ns;
    *request = (struct gossip_mapping_request){
        .inside = m->inside, .outside = m->outside, .lease_s = GOSSIP_MAPPING_LEASE_S};
    memcpy(request->host, m->host, sizeof request->host);
    return true;
}

static void take(struct gossip_mapping *m, uint64_t now_ns, const struct gossip_mapping_answer *answer)
{
    const uint64_t lease_ns = (answer->lease_s ? answer->lease_s : GOSSIP_MAPPING_LEASE_S) * SECOND_NS;
    m->state = GOSSIP_MAPPING_HELD;
    m->address = answer->address;
    m->outside = answer->address.port;
    m->tries = 0;
    m->ends_ns = now_ns + lease_ns;
    m->due_ns = now_ns + (lease_ns / 2 < GOSSIP_MAPPING_AGAIN_NS ? lease_ns / 2 : GOSSIP_MAPPING_AGAIN_NS);
}

static void try_another(struct gossip_mapping *m, uint64_t now_ns)
{
    m->tries++;
    const uint64_t of[2] = {m->seed, m->tries};
    const bool more = m->tries < GOSSIP_MAPPING_PORTS;
    m->state = more ? GOSSIP_MAPPING_IDLE : GOSSIP_MAPPING_REFUSED;
    m->outside = (uint16_t)(PORTS_FROM + base_hash_bytes(0, of, sizeof of) % (65536u - PORTS_FROM));
    m->due_ns = now_ns;
    if (more)
        return;
    m->tries = 0;
    m->outside = m->inside;
    m->due_ns = now_ns + GOSSIP_MAPPING_AGAIN_NS;
}

void gossip_mapping_answered(struct gossip_mapping *m, uint64_t now_ns,
                             const struct gossip_mapping_answer *answer)
{
    BASE_ASSERT(m->asked);
    m->asked = false;
    m->by = answer->by;
    m->due_ns = now_ns + GOSSIP_MAPPING_AGAIN_NS;
    if (answer->end == GOSSIP_MAPPING_MAPPED)
        take(m, now_ns, answer);
    else if (answer->end == GOSSIP_MAPPING_TAKEN)
        try_another(m, now_ns);
    else
        m->state = answer->end == GOSSIP_MAPPING_DENIED ? GOSSIP_MAPPING_REFUSED : GOSSIP_MAPPING_NO_ROUTER;
    // A router that grants a moment only is not asked all the time.
    m->due_ns = m->tries > 0 ? m->due_ns : base_max(m->due_ns, m->asked_ns + GOSSIP_MAPPING_PAUSE_NS);
    if (m->moved)
        gossip_mapping_moved(m);
}

void gossip_mapping_moved(struct gossip_mapping *m)
{
    m->moved = m->asked;
    if (!m->asked)
        m->due_ns = m->asked_ns ? m->asked_ns + GOSSIP_MAPPING_PAUSE_NS : 0;
}
