// Merging final models under all faults, from seeds: nodes that begin late, links that come late, break and
// come back, pairs that never reach each other, deaths at any moment and heard of at any time. All nodes that
// are left hold the same bits, or all keep their own; there are never two merged models, and no honest node
// is refused.
#include "base/hash.h"
#include "base/rng.h"
#include "gossip/merge/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLISECOND 1000000ull
#define SECOND      (1000 * MILLISECOND)
#define PATIENCE_NS (10 * SECOND)

enum { NODES = 9 };

struct mail {
    size_t from, to;
    uint64_t due_ns, number, link; // link: the number of the link that it is on
    struct gossip_message message;
    uint8_t *bytes; // owned
    struct mail *next;
};

struct node {
    struct gossip_merge *merge;
    struct gossip_id id;
    float *own, *merged;                          // merged: NULL, or the model at its end
    bool begun, over, dead, gives, late, company; // late: the others did not know that it would finish
    uint64_t begins_ns, dies_ns;
    uint64_t hears_ns[NODES]; // when it learns that the other one has died or left
    bool knows[NODES];        // ... or is there
    enum gossip_merge_end end;
};

struct pair {
    bool up, never;
    uint64_t number, changes_ns; // of the link; when it comes or goes next
};

struct world {
    uint64_t seed, now_ns, mails;
    size_t n, parameters;
    struct base_rng rng;
    struct node node[NODES];
    struct pair pair[NODES][NODES]; // [lower][higher]
    struct mail *first;
    double breaks;                // links are lost so often, per second
    uint64_t splits_ns, heals_ns; // the network, into the nodes of `side` and the others; UINT64_MAX: never
    unsigned side;
};

// P2PML_SEEDS sets how many seeds, P2PML_SEED the first one.
static uint64_t seeded_count(uint64_t usual)
{
    const char *given = getenv("P2PML_SEEDS");

    return given ? strtoull(given, NULL, 0) : usual;
}

static uint64_t seeded_first(uint64_t usual)
{
    const char *given = getenv("P2PML_SEED");

    return given ? strtoull(given, NULL, 0) : usual;
}

static void check(const struct world *w, bool good, const char *what)
{
    for (size_t i = 0; i < w->n && !good; i++)
        print_message("node %zu: %s, %s, begins at %.2f s, dies at %.2f s, %s\n", i,
                      w->node[i].dead ? "dead" : "lives", w->node[i].gives ? "gives" : "takes",
                      (double)w->node[i].begins_ns / SECOND, (double)w->node[i].dies_ns / SECOND,
                      w->node[i].over ? gossip_merge_end_text(w->node[i].end) : "not over");
    if (!good)
        fail_msg("%s (n=%zu, P2PML_SEED=%llu)", what, w->n, (unsigned long long)w->seed);
}

static struct pair *pair_of(struct world *w, size_t a, size_t b)
{
    return a < b ? &w->pair[a][b] : &w->pair[b][a];
}

static bool runs(const struct node *node)
{
    return !node->dead && !node->over;
}

static void post(struct world *w, size_t from, size_t to, const struct gossip_message *message)
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    const size_t n = gossip_message_payloads(message, payloads);
    struct mail *mail = calloc(1, sizeof *mail), **at = &w->first;
    uint64_t due_ns = w->now_ns + base_rng_below(&w->rng, 200 * MILLISECOND);

    assert_non_null(mail);
    *mail = (struct mail){.from = from,
                          .to = to,
                          .link = pair_of(w, from, to)->number,
                          .number = w->mails++,
                          .message = *message};
    if (n > 0) {
        mail->bytes = malloc(payloads[0].count);
        assert_non_null(mail->bytes);
        memcpy(mail->bytes, payloads[0].bytes, payloads[0].count);
        if (message->kind == GOSSIP_MERGE)
            mail->message.as.merge.keys = mail->bytes;
        else
            mail->message.as.tell.values = mail->bytes;
    }
    for (; *at; at = &(*at)->next) // a link keeps the order
        if ((*at)->from == from && (*at)->to == to && (*at)->due_ns > due_ns)
            due_ns = (*at)->due_ns;
    mail->due_ns = due_ns;
    *at = mail;
}

static void tell_members(struct world *w, size_t self)
{
    struct gossip_merge_member members[NODES];
    size_t count = 0;

    for (size_t i = 0; i < w->n; i++)
        if (w->node[self].knows[i])
            members[count++] =
                (struct gossip_merge_member){w->node[i].id, gossip_merge_key(&w->node[i].id, 1, i)};
    gossip_merge_members(w->node[self].merge, members, count, w->now_ns);
}

static void end(struct world *w, size_t self)
{
    struct node *node = &w->node[self];

    node->end = gossip_merge_end(node->merge);
    if (node->end == GOSSIP_MERGE_MERGED) {
        node->merged = malloc(w->parameters * sizeof *node->merged);
        assert_non_null(node->merged);
        memcpy(node->merged, gossip_merge_model(node->merge), w->parameters * sizeof *node->merged);
    }
    gossip_merge_finish(node->merge);
    node->over = true;
}

static void act(struct world *w, size_t self)
{
    struct node *node = &w->node[self];
    struct gossip_message message;
    struct gossip_id peer;

    while (runs(node) && gossip_merge_next(node->merge, &peer, &message)) {
        const size_t to = (size_t)peer.bytes[31];
        check(w, pair_of(w, self, to)->up, "a message without a link");
        post(w, self, to, &message);
    }
    if (runs(node) && gossip_merge_end(node->merge))
        end(w, self);
}

static void set_link(struct world *w, size_t a, size_t b, bool up)
{
    struct pair *pair = pair_of(w, a, b);
    const size_t ends[2] = {a, b};

    if (pair->up == up)
        return;
    pair->up = up;
    pair->number++;
    for (int k = 0; k < 2; k++) {
        const struct gossip_id *peer = &w->node[ends[1 - k]].id;
        if (!runs(&w->node[ends[k]]))
            continue;
        if (up)
            gossip_merge_linked(w->node[ends[k]].merge, peer, w->now_ns);
        else
            gossip_merge_unlinked(w->node[ends[k]].merge, peer, w->now_ns);
        act(w, ends[k]);
    }
}

// It is gone: its links end, and each of the others learns it sometime.
static void leave(struct world *w, size_t self)
{
    for (size_t i = 0; i < w->n; i++) {
        if (i == self)
            continue;
        set_link(w, self, i, false);
        w->node[i].hears_ns[self] = w->now_ns + base_rng_below(&w->rng, 3 * SECOND);
    }
}

static bool is_split(const struct world *w, size_t a, size_t b)
{
    return w->now_ns >= w->splits_ns && w->now_ns < w->heals_ns && (w->side >> a & 1) != (w->side >> b & 1);
}

// What the failure detector of a node makes of it.
static void split_or_heal(struct world *w, bool split)
{
    for (size_t a = 0; a < w->n; a++)
        for (size_t b = 0; b < w->n; b++) {
            if (a == b || (w->side >> a & 1) == (w->side >> b & 1) || !runs(&w->node[b]))
                continue;
            if (split) {
                set_link(w, a, b, false);
                w->node[a].hears_ns[b] = w->now_ns + base_rng_below(&w->rng, 3 * SECOND);
            } else if (runs(&w->node[a])) {
                w->node[a].hears_ns[b] = UINT64_MAX;
                w->node[a].knows[b] = true;
                if (w->node[a].begun)
                    tell_members(w, a);
            }
        }
}

static void change_links(struct world *w)
{
    for (size_t a = 0; a < w->n; a++)
        for (size_t b = a + 1; b < w->n; b++) {
            struct pair *pair = &w->pair[a][b];
            if (pair->never || is_split(w, a, b) || !runs(&w->node[a]) || !runs(&w->node[b]))
                continue;
            if (!pair->up && w->now_ns >= pair->changes_ns) {
                set_link(w, a, b, true);
            } else if (pair->up && base_rng_uniform(&w->rng) < w->breaks / 100) {
                pair->changes_ns = w->now_ns + base_rng_below(&w->rng, SECOND);
                set_link(w, a, b, false);
            }
        }
}

// The others learn only now that it has finished.
static void come_late(struct world *w, size_t self)
{
    for (size_t i = 0; i < w->n; i++) {
        if (i == self || !runs(&w->node[i]))
            continue;
        w->node[i].knows[self] = true;
        w->node[i].hears_ns[self] = UINT64_MAX;
        w->node[self].company = true;
        if (w->node[i].begun)
            tell_members(w, i);
    }
}

static void change_node(struct world *w, size_t self)
{
    struct node *node = &w->node[self];
    bool changed = false;

    if (runs(node) && w->now_ns >= node->dies_ns) {
        node->dead = true;
        leave(w, self);
    }
    if (!runs(node))
        return;
    for (size_t i = 0; i < w->n; i++)
        if (node->knows[i] && w->now_ns >= node->hears_ns[i]) {
            node->knows[i] = false;
            changed = true;
        }
    if (!node->begun && w->now_ns >= node->begins_ns) {
        node->begun = changed = true;
        if (node->late)
            come_late(w, self);
        assert_int_equal(gossip_merge_begin(node->merge, node->own, node->gives, w->now_ns), BASE_OK);
    }
    if (changed && node->begun)
        tell_members(w, self);
    if (w->now_ns >= gossip_merge_deadline(node->merge))
        gossip_merge_tick(node->merge, w->now_ns);
    act(w, self);
    if (node->over)
        leave(w, self);
}

static void deliver(struct world *w)
{
    struct mail **at = &w->first;

    while (*at) {
        struct mail *mail = *at;
        if (mail->due_ns > w->now_ns) {
            at = &mail->next;
            continue;
        }
        *at = mail->next;
        struct node *to = &w->node[mail->to];
        if (runs(to) && pair_of(w, mail->from, mail->to)->number == mail->link) {
            check(w, !gossip_merge_heard(to->merge, &w->node[mail->from].id, &mail->message, w->now_ns),
                  "an honest node was refused");
            act(w, mail->to);
            if (to->over)
                leave(w, mail->to);
        }
        free(mail->bytes);
        free(mail);
        at = &w->first;
    }
}

static void run(struct world *w)
{
    bool going = true;

    for (; going; w->now_ns += 10 * MILLISECOND) {
        check(w, w->now_ns < 700 * SECOND, "it does not end");
        if (w->splits_ns <= w->now_ns && w->now_ns < w->splits_ns + 10 * MILLISECOND)
            split_or_heal(w, true);
        if (w->heals_ns <= w->now_ns && w->now_ns < w->heals_ns + 10 * MILLISECOND)
            split_or_heal(w, false);
        change_links(w);
        going = false;
        for (size_t i = 0; i < w->n; i++) {
            change_node(w, i);
            going |= runs(&w->node[i]);
        }
        deliver(w);
    }
}

static void create(struct world *w, uint64_t seed, size_t n, size_t parameters)
{
    *w = (struct world){.seed = seed,
                        .n = n,
                        .parameters = parameters,
                        .now_ns = SECOND,
                        .splits_ns = UINT64_MAX,
                        .heals_ns = UINT64_MAX};
    base_rng_seed(&w->rng, seed);
    for (size_t i = 0; i < n; i++) {
        struct node *node = &w->node[i];
        node->id.bytes[31] = (uint8_t)i;
        node->id.bytes[0] = (uint8_t)base_rng_below(&w->rng, 256);
        const struct gossip_merge_options options = {
            .self = node->id, .parameters = parameters, .patience_ns = PATIENCE_NS};
        assert_int_equal(gossip_merge_create(&options, &node->merge), BASE_OK);
        node->own = malloc(parameters * sizeof *node->own);
        assert_non_null(node->own);
        for (size_t j = 0; j < parameters; j++)
            node->own[j] = (float)base_rng_uniform(&w->rng) * (float)(i + 1);
        node->gives = true;
        node->begins_ns = w->now_ns + base_rng_below(&w->rng, SECOND);
        node->dies_ns = UINT64_MAX;
        for (size_t j = 0; j < n; j++) {
            node->hears_ns[j] = UINT64_MAX;
            node->knows[j] = true;
            w->pair[i][j].changes_ns = w->now_ns + base_rng_below(&w->rng, SECOND);
        }
    }
}

static void destroy(struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        gossip_merge_destroy(w->node[i].merge);
        free(w->node[i].own);
        free(w->node[i].merged);
    }
    while (w->first) {
        struct mail *next = w->first->next;
        free(w->first->bytes);
        free(w->first);
        w->first = next;
    }
}

// Dead nodes may have ended with a merged model first: theirs counts, too.
static size_t merged_nodes(const struct world *w, bool living)
{
    const float *one = NULL;
    size_t count = 0;

    for (size_t i = 0; i < w->n; i++) {
        const struct node *node = &w->node[i];
        if (!node->merged)
            continue;
        if (one)
            check(w, memcmp(one, node->merged, w->parameters * sizeof *one) == 0, "two merged models");
        one = node->merged;
        count += !living || !node->dead;
    }
    return count;
}

static size_t living(const struct world *w)
{
    size_t count = 0;

    for (size_t i = 0; i < w->n; i++)
        count += !w->node[i].dead;
    return count;
}

static void check_mean(const struct world *w)
{
    for (size_t j = 0; j < w->parameters; j += 1 + w->parameters / 5000) {
        double sum = 0, givers = 0;
        for (size_t i = 0; i < w->n; i++)
            if (w->node[i].gives) {
                sum += (double)w->node[i].own[j];
                givers++;
            }
        const double mean = sum / givers, got = (double)w->node[0].merged[j];
        check(w, got > mean - 1e-6 * mean && got < mean + 1e-6 * mean, "another mean");
    }
}

static void test_all_hold_the_mean(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(30); seed++)
        for (size_t n = 2; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(1) + seed, n, 1 + base_hash_mix(seed) % 300);
            if (n > 2)
                w.node[seed % n].gives = false;
            run(&w);
            check(&w, merged_nodes(&w, true) == n, "not all have merged");
            check_mean(&w);
            destroy(&w);
        }
}

// Everything that differs between two runs of one cluster: who begins when, how long each message takes.
static void test_the_bits_do_not_depend_on_the_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(10); seed++)
        for (size_t n = 3; n <= NODES; n++) {
            struct world w[2];
            for (int k = 0; k < 2; k++) {
                create(&w[k], seeded_first(20000) + seed, n, 100);
                for (size_t i = 0; i < n; i++)
                    for (size_t j = 0; j < w[k].parameters; j++) // sums that depend on the order of the terms
                        w[k].node[i].own[j] *= i % 3 == 0 ? 1e3f : i % 3 == 1 ? -1e3f : 1e-13f;
                base_rng_seed(&w[k].rng, (uint64_t)k);
                for (size_t i = 0; i < n; i++)
                    w[k].node[i].begins_ns = SECOND + base_rng_below(&w[k].rng, SECOND);
                run(&w[k]);
                check(&w[k], merged_nodes(&w[k], true) == n, "not all have merged");
            }
            check(&w[0], memcmp(w[0].node[0].merged, w[1].node[0].merged, 100 * sizeof(float)) == 0,
                  "the bits depend on the order");
            destroy(&w[0]);
            destroy(&w[1]);
        }
}

static void test_one_that_finishes_late_takes_the_mean(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(20); seed++)
        for (size_t n = 3; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(30000) + seed, n, 50);
            w.node[1].late = true;
            w.node[1].begins_ns = 2 * SECOND + base_rng_below(&w.rng, SECOND);
            for (size_t i = 0; i < n; i++)
                w.node[i].knows[1] = i == 1;
            run(&w);
            check(&w, merged_nodes(&w, true) == n - !w.node[1].company, "not all have merged");
            destroy(&w);
        }
}

static void test_models_of_many_blocks(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 4; n++) {
        struct world w;
        create(&w, n, n, n * 3 * LIMIT_SNAPSHOT_BLOCK + 1234);
        w.breaks = 0.2;
        run(&w);
        check(&w, merged_nodes(&w, true) == n, "not all have merged");
        check_mean(&w);
        destroy(&w);
    }
}

// A death at every moment of a merge.
static void test_a_death_leaves_one_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(60); seed++)
        for (size_t n = 2; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(1000) + seed, n, 100);
            w.node[seed % n].dies_ns = SECOND + base_rng_below(&w.rng, 3 * SECOND);
            run(&w);
            // Of two nodes none or one is left, which has its own or what both had.
            check(&w, n == 2 || merged_nodes(&w, true) == living(&w), "not all that live have merged");
            (void)merged_nodes(&w, false);
            destroy(&w);
        }
}

static void test_whatever_happens_there_is_one_model(void **state)
{
    size_t all = 0, none = 0;

    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(300); seed++)
        for (size_t n = 2; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(5000) + seed, n, 1 + base_hash_mix(seed) % 200);
            w.breaks = base_rng_uniform(&w.rng) < 0.5 ? base_rng_uniform(&w.rng) : 0;
            for (size_t i = 0; i < n; i++) {
                if (base_rng_below(&w.rng, 4) == 0)
                    w.node[i].dies_ns = SECOND + base_rng_below(&w.rng, 4 * SECOND);
                if (base_rng_below(&w.rng, 8) == 0)
                    w.node[i].begins_ns += base_rng_below(&w.rng, 5 * SECOND);
                w.node[i].gives = base_rng_below(&w.rng, 6) > 0;
            }
            run(&w);
            const size_t merged = merged_nodes(&w, true);
            check(&w, merged == 0 || merged == living(&w), "some have merged, and some have not");
            (void)merged_nodes(&w, false);
            all += merged > 0;
            none += merged == 0 && living(&w) > 1;
            destroy(&w);
        }
    print_message("%zu ended with one model, %zu with their own\n", all, none);
    assert_true(all > 8 * none);
}

// Each side takes the other for dead; the network may heal, with all that is still on its way.
static void test_a_partition_makes_no_second_model(void **state)
{
    size_t merged = 0;

    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(200); seed++)
        for (size_t n = 2; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(13000) + seed, n, 60);
            w.side = 1 + (unsigned)base_rng_below(&w.rng, (1u << n) - 2);
            w.splits_ns = 2 * SECOND + base_rng_below(&w.rng, 3 * SECOND); // all have begun
            w.heals_ns = seed % 2 ? w.splits_ns + base_rng_below(&w.rng, 8 * SECOND) : UINT64_MAX;
            if (seed % 3 == 0)
                w.node[seed % n].dies_ns = SECOND + base_rng_below(&w.rng, 4 * SECOND);
            run(&w);
            merged += merged_nodes(&w, false) > 0;
            destroy(&w);
        }
    print_message("%zu had a merged model\n", merged);
    assert_true(merged > 0);
}

// The one with the higher key of two that cannot reach each other takes the mean of the others.
static void test_a_pair_that_cannot_meet(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeded_count(20); seed++)
        for (size_t n = 3; n <= NODES; n++) {
            struct world w;
            create(&w, seeded_first(9000) + seed, n, 100);
            w.pair[0][1].never = true;
            run(&w);
            check(&w, merged_nodes(&w, true) == n, "not all have merged");
            destroy(&w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bits_do_not_depend_on_the_order),
        cmocka_unit_test(test_all_hold_the_mean),
        cmocka_unit_test(test_one_that_finishes_late_takes_the_mean),
        cmocka_unit_test(test_models_of_many_blocks),
        cmocka_unit_test(test_a_death_leaves_one_model),
        cmocka_unit_test(test_a_pair_that_cannot_meet),
        cmocka_unit_test(test_a_partition_makes_no_second_model),
        cmocka_unit_test(test_whatever_happens_there_is_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
