// Snapshots under all faults, from seeds: questions and blocks that are lost or late, and donors that join,
// die at any block, freeze again, or lie. A joiner that has an honest donor completes, and holds only what an
// honest donor held.
#include "base/hash.h"
#include "base/rng.h"
#include "gossip/snapshot/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLISECOND 1000000ull
#define SECOND      (1000 * MILLISECOND)
#define PATIENCE_NS (2 * SECOND)

enum { DONORS = 6, JOINERS = 3, PARAMETERS_MAX = 3 * LIMIT_SNAPSHOT_BLOCK };

struct world_donor {
    struct gossip_donor *donor;
    bool up, liar;
    uint64_t round;
};

struct message { // under way; links here keep no order, which is harsher than in reality
    bool to_joiner;
    size_t donor, joiner;
    uint64_t due_ns;
    struct gossip_message message;
    float *values; // owned: of a block
    struct message *next;
};

struct world_joiner {
    struct gossip_joiner *joiner;
    struct gossip_snapshot_vectors into;
    bool closed[DONORS]; // it has refused an answer of this donor
};

struct world {
    uint64_t seed, now_ns;
    size_t parameters, parts;
    struct base_rng rng;
    struct world_donor donor[DONORS];
    struct world_joiner joiner[JOINERS];
    struct message *first;
    double loss;
};

static void check(const struct world *world, bool good, const char *what)
{
    if (!good)
        fail_msg("%s (P2PML_SEED=%llu)", what, (unsigned long long)world->seed);
}

static struct gossip_id id_of(size_t number)
{
    return (struct gossip_id){{(uint8_t)(number + 1)}};
}

// The value of an element at every honest donor: it depends on the round, which shows in the fraction.
static float value_of(size_t part, size_t index, uint64_t round)
{
    return (float)(index % 1000 + 1) + 2000.0f * (float)part + (float)round / 128.0f;
}

static float *vector_of(const struct world *world, size_t part, uint64_t round)
{
    float *vector = malloc(world->parameters * sizeof *vector);
    assert_non_null(vector);
    for (size_t i = 0; i < world->parameters; i++)
        vector[i] = value_of(part, i, round);
    return vector;
}

static void send(struct world *world, bool to_joiner, size_t donor, size_t joiner,
                 const struct gossip_message *message)
{
    if (base_rng_uniform(&world->rng) < world->loss)
        return;
    struct message *item = calloc(1, sizeof *item);
    assert_non_null(item);
    *item = (struct message){.to_joiner = to_joiner,
                             .donor = donor,
                             .joiner = joiner,
                             .due_ns = world->now_ns + base_rng_below(&world->rng, 50 * MILLISECOND),
                             .message = *message,
                             .next = world->first};
    if (to_joiner) {
        item->values = malloc(message->as.tell.values_bytes);
        assert_non_null(item->values);
        memcpy(item->values, message->as.tell.values, message->as.tell.values_bytes);
        item->message.as.tell.values = (const uint8_t *)item->values;
    }
    world->first = item;
}

static void lie(struct world *world, struct message *item)
{
    struct gossip_snapshot_tell *tell = &item->message.as.tell;
    const size_t count = tell->values_bytes / sizeof(float);
    switch (base_rng_below(&world->rng, 5)) {
    case 0:
        tell->hash ^= 1ull << base_rng_below(&world->rng, 64);
        break;
    case 1:
        tell->block += 1 + (uint32_t)base_rng_below(&world->rng, 5) * LIMIT_SNAPSHOT_BLOCK;
        tell->values_bytes -= 4;
        break;
    case 2:
        item->values[base_rng_below(&world->rng, count)] = NAN;
        tell->hash = base_hash_vector(item->values, count);
        break;
    case 3:
        tell->values_bytes = 4 * (uint32_t)base_rng_below(&world->rng, count);
        break;
    default:
        item->values[base_rng_below(&world->rng, count)] += 1;
    }
}

static void answer(struct world *world, size_t donor, const struct gossip_id *peer,
                   const struct gossip_message *block)
{
    const struct message *before = world->first;
    send(world, true, donor, (size_t)peer->bytes[0] - 1, block);
    if (world->donor[donor].liar && world->first != before)
        lie(world, world->first);
}

static void freeze(struct world *world, size_t at)
{
    struct world_donor *donor = &world->donor[at];
    struct gossip_snapshot_vectors vectors = {.round = ++donor->round, .step = 3 * donor->round};
    struct gossip_message block;
    struct gossip_id peer;
    if (!donor->up || !gossip_donor_wants(donor->donor))
        return;
    for (size_t p = 0; p < world->parts; p++)
        vectors.part[p] = vector_of(world, p, donor->round);
    assert_int_equal(gossip_donor_freeze(donor->donor, &vectors, world->now_ns), BASE_OK);
    for (size_t p = 0; p < world->parts; p++)
        free(vectors.part[p]);
    while (gossip_donor_waiting(donor->donor, &peer, &block))
        answer(world, at, &peer, &block);
}

static void deliver_ask(struct world *world, const struct message *item)
{
    struct world_donor *donor = &world->donor[item->donor];
    const struct gossip_id peer = id_of(item->joiner);
    struct gossip_message block;
    bool answered = false;
    if (!donor->up)
        return;
    assert_int_equal(
        gossip_donor_ask(donor->donor, &peer, &item->message.as.ask, world->now_ns, &block, &answered),
        BASE_OK);
    if (answered)
        answer(world, item->donor, &peer, &block);
}

static void deliver_tell(struct world *world, const struct message *item)
{
    struct world_joiner *joiner = &world->joiner[item->joiner];
    const struct gossip_id peer = id_of(item->donor);
    if (!gossip_joiner_tell(joiner->joiner, &peer, &item->message.as.tell, world->now_ns))
        return;
    check(world, world->donor[item->donor].liar, "an honest donor's block was refused");
    joiner->closed[item->donor] = true;
    gossip_joiner_donor_down(joiner->joiner, &peer, world->now_ns);
}

static void deliver_due(struct world *world)
{
    for (struct message **at = &world->first; *at;) {
        struct message *item = *at;
        if (item->due_ns > world->now_ns) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        (item->to_joiner ? deliver_tell : deliver_ask)(world, item);
        free(item->values);
        free(item);
        at = &world->first; // a delivery may have queued more
    }
}

static void let_joiners_ask(struct world *world)
{
    for (size_t j = 0; j < JOINERS; j++) {
        struct gossip_message ask;
        struct gossip_id peer;
        while (gossip_joiner_next(world->joiner[j].joiner, world->now_ns, &peer, &ask)) {
            const size_t donor = (size_t)peer.bytes[0] - 1;
            check(world, world->donor[donor].up, "a donor that is down is asked");
            check(world, !world->joiner[j].closed[donor], "a donor that lied is asked again");
            send(world, false, donor, j, &ask);
        }
    }
}

static void set_up(struct world *world, size_t at, bool up)
{
    const struct gossip_id peer = id_of(at);
    struct world_donor *donor = &world->donor[at];
    if (donor->up == up)
        return;
    donor->up = up;
    for (size_t j = 0; j < JOINERS; j++)
        (up ? gossip_joiner_donor_up : gossip_joiner_donor_down)(world->joiner[j].joiner, &peer,
                                                                 world->now_ns);
    if (up)
        return;
    gossip_donor_destroy(donor->donor);
    assert_int_equal(gossip_donor_create(world->parameters, &donor->donor), BASE_OK);
}

static void step(struct world *world, bool harsh)
{
    world->now_ns += base_rng_below(&world->rng, 40 * MILLISECOND);
    for (size_t d = 0; d < DONORS; d++) {
        if (harsh && base_rng_below(&world->rng, 20) == 0)
            set_up(world, d, base_rng_below(&world->rng, 2));
        if (base_rng_below(&world->rng, 8) == 0)
            freeze(world, d);
        gossip_donor_tick(world->donor[d].donor, world->now_ns);
    }
    deliver_due(world);
    let_joiners_ask(world);
}

static bool all_complete(const struct world *world)
{
    uint64_t round, done;
    for (size_t j = 0; j < JOINERS; j++)
        if (!gossip_joiner_complete(world->joiner[j].joiner, &round, &done))
            return false;
    return true;
}

static void world_create(struct world *world, uint64_t seed)
{
    *world = (struct world){.seed = seed, .now_ns = SECOND};
    base_rng_seed(&world->rng, seed);
    world->parameters = 1 + base_rng_below(&world->rng, PARAMETERS_MAX);
    world->parts = 1 + base_rng_below(&world->rng, GOSSIP_PARTS);
    world->loss = base_rng_below(&world->rng, 2) ? 0.2 : 0;
    const size_t honest = base_rng_below(&world->rng, DONORS);
    for (size_t d = 0; d < DONORS; d++) {
        assert_int_equal(gossip_donor_create(world->parameters, &world->donor[d].donor), BASE_OK);
        world->donor[d].liar = d != honest && base_rng_below(&world->rng, 3) == 0;
        world->donor[d].round = base_rng_below(&world->rng, 20);
    }
    for (size_t j = 0; j < JOINERS; j++) {
        struct world_joiner *joiner = &world->joiner[j];
        for (size_t p = 0; p < world->parts; p++) {
            joiner->into.part[p] = calloc(world->parameters, sizeof(float));
            assert_non_null(joiner->into.part[p]);
        }
        const struct gossip_joiner_options options = {
            .parameters = world->parameters, .into = &joiner->into, .patience_ns = PATIENCE_NS, .seed = j};
        assert_int_equal(gossip_joiner_create(&options, &joiner->joiner), BASE_OK);
    }
}

static void world_destroy(struct world *world)
{
    for (struct message *item = world->first, *next; item; item = next) {
        next = item->next;
        free(item->values);
        free(item);
    }
    for (size_t d = 0; d < DONORS; d++)
        gossip_donor_destroy(world->donor[d].donor);
    for (size_t j = 0; j < JOINERS; j++) {
        for (size_t p = 0; p < GOSSIP_PARTS; p++)
            free(world->joiner[j].into.part[p]);
        gossip_joiner_destroy(world->joiner[j].joiner);
    }
}

// Each block is whole and of one round; round and step are those of the latest.
static void check_joiner(const struct world *world, const struct world_joiner *joiner)
{
    uint64_t round, done, latest = 0;
    check(world, gossip_joiner_complete(joiner->joiner, &round, &done), "a joiner is not complete");
    for (size_t p = 0; p < world->parts; p++) {
        const float *part = joiner->into.part[p];
        for (size_t i = 0; i < world->parameters; i++) {
            const size_t head = i - i % LIMIT_SNAPSHOT_BLOCK;
            const uint64_t of = (uint64_t)(128.0f * (part[head] - value_of(p, head, 0)));
            check(world, part[i] == value_of(p, i, of), "a value that no donor held");
            latest = of > latest ? of : latest;
        }
    }
    check(world, round == latest && done == 3 * latest, "round or step of no block");
}

static void run_seed(uint64_t seed)
{
    struct world world;
    world_create(&world, seed);
    for (size_t i = base_rng_below(&world.rng, 400); i-- > 0;)
        step(&world, true);
    for (size_t d = 0; d < DONORS; d++) // from here on all donors stay, also those that lie
        set_up(&world, d, true);
    for (size_t i = 0; i < 5000 && !all_complete(&world); i++)
        step(&world, false);
    for (size_t j = 0; j < JOINERS; j++)
        check_joiner(&world, &world.joiner[j]);
    world.now_ns += 100 * SECOND;
    for (size_t d = 0; d < DONORS; d++) {
        gossip_donor_tick(world.donor[d].donor, world.now_ns);
        check(&world, gossip_donor_deadline(world.donor[d].donor) == UINT64_MAX, "a copy stays behind");
    }
    world_destroy(&world);
}

static void a_joiner_completes_where_an_honest_donor_stays(void **state)
{
    const char *given = getenv("P2PML_SEED"), *count = getenv("P2PML_SEEDS");
    const uint64_t first = given ? strtoull(given, NULL, 0) : 1;
    const uint64_t seeds = count ? strtoull(count, NULL, 0) : given ? 1 : 200;
    (void)state;
    printf("seed %llu, %llu seeds (P2PML_SEED and P2PML_SEEDS set others)\n", (unsigned long long)first,
           (unsigned long long)seeds);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        run_seed(seed);
}

enum { CIRCLE_MAX = 6 };

struct circle { // each asks the next one, and then learns of a node that has a model
    size_t count;
    struct gossip_id id[CIRCLE_MAX];
    float into[CIRCLE_MAX];
    struct gossip_snapshot_vectors view[CIRCLE_MAX];
    struct gossip_joiner *joiner[CIRCLE_MAX];
    struct gossip_id honest;
};

static bool is_complete(const struct circle *circle, size_t at)
{
    uint64_t round, done;
    return gossip_joiner_complete(circle->joiner[at], &round, &done);
}

static void give(struct circle *circle, size_t at, const struct gossip_id *from)
{
    static const float model = 1;
    const struct gossip_snapshot_tell told = {.snapshot = 1,
                                              .parts = 1,
                                              .round = 1,
                                              .step = 1,
                                              .hash = base_hash_vector(&model, 1),
                                              .values = (const uint8_t *)&model,
                                              .values_bytes = sizeof model};
    assert_int_equal(gossip_joiner_tell(circle->joiner[at], from, &told, SECOND), BASE_OK);
}

static void circle_create(struct circle *circle, struct base_rng *rng)
{
    *circle = (struct circle){.count = 2 + base_rng_below(rng, CIRCLE_MAX - 1),
                              .honest = {{(uint8_t)base_rng_u64(rng), 1}}};
    for (size_t i = 0; i < circle->count; i++) {
        circle->id[i] = (struct gossip_id){{(uint8_t)base_rng_u64(rng), 2, (uint8_t)i}};
        circle->view[i].part[GOSSIP_PART_MODEL] = &circle->into[i];
        const struct gossip_joiner_options options = {.self = circle->id[i],
                                                      .parameters = 1,
                                                      .into = &circle->view[i],
                                                      .patience_ns = PATIENCE_NS,
                                                      .seed = base_rng_u64(rng)};
        assert_int_equal(gossip_joiner_create(&options, &circle->joiner[i]), BASE_OK);
    }
}

// No time passes, so no timeout ends.
static void a_circle_of_nodes_that_fetch_is_broken(void **state)
{
    struct gossip_message question;
    struct gossip_id peer;
    struct base_rng rng;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct circle c;
        base_rng_seed(&rng, seed);
        circle_create(&c, &rng);
        for (size_t i = 0; i < c.count; i++) {
            gossip_joiner_donor_up(c.joiner[i], &c.id[(i + 1) % c.count], SECOND);
            assert_true(gossip_joiner_next(c.joiner[i], SECOND, &peer, &question));
            gossip_joiner_donor_up(c.joiner[i], &c.honest, SECOND);
        }
        for (size_t i = 0; i < c.count; i++)
            gossip_joiner_donor_asks(c.joiner[(i + 1) % c.count], &c.id[i], SECOND);
        for (size_t turns = 0; turns < c.count; turns++)
            for (size_t i = 0; i < c.count; i++) {
                if (gossip_joiner_next(c.joiner[i], SECOND, &peer, &question) &&
                    gossip_id_compare(&peer, &c.honest) == 0)
                    give(&c, i, &peer);
                if (is_complete(&c, (i + 1) % c.count) &&
                    !is_complete(&c, i)) // what it had asked is answered now
                    give(&c, i, &c.id[(i + 1) % c.count]);
            }
        for (size_t i = 0; i < c.count; i++) {
            if (!is_complete(&c, i))
                fail_msg("seed %llu: %zu of %zu waits", (unsigned long long)seed, i, c.count);
            gossip_joiner_destroy(c.joiner[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_joiner_completes_where_an_honest_donor_stays),
                                       cmocka_unit_test(a_circle_of_nodes_that_fetch_is_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
