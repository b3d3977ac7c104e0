// One room of links and its events, for tests of the rules of gossip/links.
#ifndef TEST_SUPPORT_LINKS_RULES_H
#define TEST_SUPPORT_LINKS_RULES_H

#include "gossip/links/links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define S  1000000000ull
#define MS 1000000ull

enum { LOW = 1, SELF = 5, HIGH = 9, HIGHER = 10 }; // first bytes of ids

static struct {
    struct gossip_links *links;
    struct gossip_greeting greeting;
    struct gossip_links_action action[600];
    size_t actions;
    uint64_t now_ns, entropy;
    struct gossip_entry entry; // the first one, as told
} w;

static inline struct gossip_id id(uint8_t first)
{
    return (struct gossip_id){.bytes = {first}};
}

static inline int begin_with(size_t entries, const struct gossip_allow_list *allow)
{
    memset(&w, 0, sizeof w);
    w.now_ns = 100 * S;
    w.greeting =
        (struct gossip_greeting){.schema = 2, .parameters = 3, .rules = "train.steps: 4", .instance_id = 77};
    const struct gossip_links_options options = {
        .self = id(SELF), .greeting = &w.greeting, .allow = allow, .entries = entries, .now_ns = w.now_ns};
    return !gossip_links_create(&options, &w.links) ? 0 : -1;
}

static inline int end(void **state)
{
    (void)state;
    gossip_links_destroy(w.links);
    return 0;
}

static inline int begin(void **state)
{
    (void)state;
    return begin_with(1, NULL);
}

static inline void without_entries(void)
{
    end(NULL);
    assert_int_equal(begin_with(0, NULL), 0);
}

// Who shows the entries hears of every change.
static inline void check_entry(enum gossip_entry_state before)
{
    for (size_t i = 0; i < w.actions; i++)
        if (w.action[i].kind == GOSSIP_LINKS_ENTRY && w.action[i].target.entry == 0)
            w.entry = *gossip_links_entry(w.links, 0);
    if (gossip_links_entries(w.links) == 0)
        return;
    assert_int_equal(w.entry.state, gossip_links_entry(w.links, 0)->state);
    if (gossip_links_entry(w.links, 0)->state != before)
        assert_int_equal(gossip_links_entry(w.links, 0)->since_ns, w.now_ns);
}

// Keeps only the actions of this event.
static inline void say(struct gossip_links_event event)
{
    event.now_ns = w.now_ns;
    event.entropy = w.entropy += 0x12345;
    w.actions = 0;
    const enum gossip_entry_state before = w.entry.state;
    assert_int_equal(gossip_links_step(w.links, &event), BASE_OK);
    while (gossip_links_next(w.links, &w.action[w.actions]))
        assert_true(++w.actions < sizeof w.action / sizeof *w.action);
    gossip_links_check(w.links);
    check_entry(before);
}

#define SAY(...) say((struct gossip_links_event){.kind = __VA_ARGS__})

static inline const struct gossip_links_action *find_for(enum gossip_links_action_kind kind, bool look)
{
    for (size_t i = 0; i < w.actions; i++)
        if (w.action[i].kind == kind && w.action[i].target.direct == look)
            return &w.action[i];
    return NULL;
}

// RESOLVE and CALL: not for a look at a member.
static inline const struct gossip_links_action *find(enum gossip_links_action_kind kind)
{
    const bool calls = kind == GOSSIP_LINKS_RESOLVE || kind == GOSSIP_LINKS_CALL;
    const struct gossip_links_action *look = calls ? NULL : find_for(kind, true);
    return look ? look : find_for(kind, false);
}

static inline const struct gossip_links_action *need(enum gossip_links_action_kind kind)
{
    const struct gossip_links_action *action = find(kind);
    assert_non_null(action);
    return action;
}

// Lets time pass until this action comes; returns when.
static inline uint64_t until(enum gossip_links_action_kind kind, uint64_t at_most_ns)
{
    uint64_t limit_ns = w.now_ns + at_most_ns;
    do {
        uint64_t due_ns = gossip_links_deadline(w.links);
        assert_true(due_ns <= limit_ns);
        if (due_ns > w.now_ns)
            w.now_ns = due_ns;
        SAY(GOSSIP_LINKS_TIMER);
    } while (!find(kind));
    return w.now_ns;
}

static inline void quiet(uint64_t for_ns, enum gossip_links_action_kind kind)
{
    uint64_t limit_ns = w.now_ns + for_ns;
    while (gossip_links_deadline(w.links) <= limit_ns) {
        if (gossip_links_deadline(w.links) > w.now_ns)
            w.now_ns = gossip_links_deadline(w.links);
        SAY(GOSSIP_LINKS_TIMER);
        assert_null(find(kind));
    }
    w.now_ns = limit_ns;
}

static inline void want(uint8_t first)
{
    const struct gossip_id ids[] = {id(first)};
    SAY(GOSSIP_LINKS_WANT, .ids = ids, .count = first ? 1 : 0);
}

static inline uint64_t accept_authenticated(uint8_t first, bool alive)
{
    uint64_t link = gossip_links_accept(w.links, w.now_ns, first, false, NULL);
    assert_true(link != 0);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(first),
        .alive = alive);
    return link;
}

static inline void greet_with_life(uint64_t link, uint64_t instance_id)
{
    struct gossip_greeting theirs = w.greeting;
    theirs.instance_id = instance_id;
    SAY(GOSSIP_LINKS_GREETING, .link = link, .greeting = &theirs);
}

static inline uint64_t accept_active(uint8_t first)
{
    uint64_t link = accept_authenticated(first, true);
    greet_with_life(link, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
    return link;
}

static inline uint64_t call_of_entry(size_t entry, size_t addresses)
{
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = entry}, .count = addresses);
    return need(GOSSIP_LINKS_CALL)->link;
}

static inline uint64_t call_of_member(uint8_t first)
{
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(first)}, .count = 1);
    return need(GOSSIP_LINKS_CALL)->link;
}

#endif
