// A small network of members under virtual time, and what each knows of the others, for tests of
// gossip/member.
#ifndef TEST_SUPPORT_MEMBER_RULES_H
#define TEST_SUPPORT_MEMBER_RULES_H

#include "test/support/member_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MILLISECOND 1000000ull
#define SECOND      1000000000ull
#define HEADER      31 // bytes of a packet without target

static bool tell_silent; // lies are of silence, not of evidence
static inline void tell_lie(size_t liar, size_t to, size_t about);
static inline void tell_lie_of(size_t liar, size_t to, size_t about, const struct gossip_version *version);

static inline uint64_t seed(void)
{
    const char *text = getenv("P2PML_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

static struct member_net net;

static inline void begin(size_t count)
{
    member_net_create(&net, count, seed());
    member_net_start_all(&net);
    assert_true(member_net_agrees(&net));
}

static inline struct gossip_membership_totals totals(size_t node)
{
    struct gossip_membership_totals t;
    gossip_membership_totals(net.nodes[node].membership, &t);
    return t;
}

static inline enum gossip_member_state state_of(size_t observer, size_t node)
{
    struct gossip_member_info info;
    assert_int_equal(
        gossip_membership_find(net.nodes[observer].membership, &net.nodes[node].identity.id, &info), BASE_OK);
    return info.state;
}

static inline struct gossip_member_info info_of(size_t observer, size_t node)
{
    struct gossip_member_info info;
    assert_int_equal(
        gossip_membership_find(net.nodes[observer].membership, &net.nodes[node].identity.id, &info), BASE_OK);
    return info;
}

static inline unsigned deaths(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < net.count; i++)
        sum += net.nodes[i].deaths;
    return sum;
}

static inline uint64_t refutations(size_t except)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < net.count; i++)
        sum += i == except ? 0 : totals(i).refutations;
    return sum;
}

static inline double last_detection_s(size_t victim, uint64_t since_ns)
{
    double last = 0;
    for (size_t i = 0; i < net.count; i++) {
        if (!net.nodes[i].running)
            continue;
        assert_int_equal(net.nodes[i].state[victim], GOSSIP_MEMBER_DEAD);
        double took = (double)(net.nodes[i].changed_ns[victim] - since_ns) / (double)SECOND;
        last = took > last ? took : last;
    }
    return last;
}

static inline bool agree_within(uint64_t ns)
{
    for (uint64_t waited = 0; waited < ns && !member_net_agrees(&net); waited += 50 * MILLISECOND)
        member_net_run(&net, 50 * MILLISECOND);
    return member_net_agrees(&net);
}

static inline void tell_lie_of(size_t liar, size_t to, size_t about, const struct gossip_version *version)
{
    struct gossip_suspicion suspicion = {.subject = net.nodes[about].identity.id,
                                         .suspector = net.nodes[liar].identity.id,
                                         .version = *version,
                                         .class = tell_silent ? GOSSIP_SUSPECTED_SILENT
                                                              : GOSSIP_SUSPECTED_EVIDENCE};
    gossip_suspicion_sign(&suspicion, &net.nodes[liar].identity);
    uint8_t bytes[256] = {6};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    base_write_u8(&writer, 2);
    gossip_suspicion_write(&suspicion, &writer);
    member_net_step(&net, to,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                      .peer = net.nodes[liar].identity.id,
                                                      .bytes = bytes,
                                                      .n_bytes = HEADER + base_writer_used(&writer)});
}

static inline void tell_lie(size_t liar, size_t to, size_t about)
{
    tell_lie_of(liar, to, about, &info_of(to, about).record->version);
}

#endif
