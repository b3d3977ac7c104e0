// Sealed datagrams over time: replay and reordering, restarts of both ends, late records, two processes with
// one identity, and forgetting.
#include "test_gossip_datagrams.h"

static void test_replays_are_refused_and_reordering_is_accepted(void **state)
{
    (void)state;
    enum { SENT = 2 * WINDOW };
    static struct datagram datagrams[SENT];
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    for (size_t i = 0; i < SENT; i++)
        datagrams[i] = datagram_from(alice, BOB, 20);
    assert_opens(bob, &datagrams[WINDOW], ALICE);
    for (size_t i = WINDOW + 1; i-- > 1;) // backwards, to the oldest that the window holds
        assert_int_equal(open_datagram(bob, &datagrams[i], ALICE), i == WINDOW ? BASE_ESTATE : BASE_OK);
    assert_int_equal(open_datagram(bob, &datagrams[0], ALICE), BASE_ESTATE);
    assert_opens(bob, &datagrams[SENT - 1], ALICE);
    for (size_t i = WINDOW + 1; i < SENT - 1; i++)
        assert_opens(bob, &datagrams[i], ALICE);
    for (size_t i = 0; i < SENT; i++)
        assert_int_equal(open_datagram(bob, &datagrams[i], ALICE), BASE_ESTATE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// Bob is at generation 3; Alice knows his record of generation 7, from before his disk was restored from a
// backup.
static void test_alice_can_seal_for_an_older_generation(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 7), *bob = node(BOB, 3, ALICE, 1);
    struct datagram datagram = datagram_from(alice, BOB, 20);
    assert_int_equal(open_datagram(bob, &datagram, ALICE), BASE_EAUTH);
    assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 3, datagram.plain, 20, datagram.sealed,
                                          &datagram.sealed_bytes),
                     BASE_OK);
    assert_opens(bob, &datagram, ALICE);
    assert_int_equal(open_datagram(bob, &datagram, ALICE), BASE_ESTATE);
    gossip_datagrams_generation(bob, 7); // datagrams after that are again sealed for the later one
    datagram = datagram_from(alice, BOB, 20);
    assert_opens(bob, &datagram, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// What a receiver must accept, kept as a plain set.
struct model {
    uint64_t generation, highest;
    uint64_t *taken; // counters of this generation
    size_t n_taken;
};

static bool model_takes(struct model *model, uint64_t generation, uint64_t counter)
{
    if (generation < model->generation || counter == UINT64_MAX)
        return false;
    if (generation > model->generation) {
        model->generation = generation;
        model->n_taken = 0;
    }
    if (model->n_taken > 0 && model->highest >= WINDOW && counter <= model->highest - WINDOW)
        return false;
    for (size_t i = 0; i < model->n_taken; i++)
        if (model->taken[i] == counter)
            return false;
    if (model->n_taken == 0 || counter > model->highest)
        model->highest = counter;
    model->taken[model->n_taken++] = counter;
    return true;
}

// Mostly near the highest counter so far, often at the edges of the window, sometimes far ahead or at either
// end.
static uint64_t random_counter(const struct model *model)
{
    static const uint64_t edges[] = {WINDOW - 1, WINDOW, WINDOW + 1, 63, 64, 65};
    const uint64_t at = model->n_taken > 0 ? model->highest : base_rng_u64(&rng) >> base_rng_below(&rng, 64);
    switch (base_rng_below(&rng, 64)) {
    case 0:
        return at + base_rng_below(&rng, 1000);
    case 1:
        return base_rng_below(&rng, 3);
    case 2:
        return base_rng_below(&rng, 8) == 0 ? UINT64_MAX - base_rng_below(&rng, 3) : at;
    case 3: // wraps below zero: a number far ahead, rare
        return base_rng_below(&rng, 8) == 0 ? at - edges[base_rng_below(&rng, LENGTH_OF(edges))] : at;
    case 4:
    case 5:
    case 6:
        return at + edges[base_rng_below(&rng, LENGTH_OF(edges))];
    default:
        return at + 3 - base_rng_below(&rng, at < 300 ? at + 4 : 300);
    }
}

static void test_window_against_a_plain_set(void **state)
{
    (void)state;
    enum { STEPS = 20000 };
    struct model model = {.generation = 1};
    unsigned accepted = 0;
    model.taken = malloc(STEPS * sizeof *model.taken);
    assert_non_null(model.taken);
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    struct forgery said = alice_to_bob();
    for (unsigned step = 0; step < STEPS; step++) {
        const uint64_t dice = base_rng_below(&rng, 1000);
        said.generation = dice < 5    ? model.generation + 1
                          : dice < 20 ? model.generation - 1
                                      : model.generation;
        said.counter = random_counter(&model);
        struct datagram datagram = forge(&said, base_rng_below(&rng, 30));
        if (base_rng_below(&rng, 10) == 0) { // changed on the way: the window must not move
            datagram.sealed[HEAD_BYTES + base_rng_below(&rng, datagram.sealed_bytes - HEAD_BYTES)] ^= 4;
            assert_int_not_equal(open_datagram(bob, &datagram, ALICE), BASE_OK);
            continue;
        }
        const bool taken = model_takes(&model, said.generation, said.counter);
        assert_int_equal(open_datagram(bob, &datagram, ALICE), taken ? BASE_OK : BASE_ESTATE);
        accepted += taken ? 1 : 0;
    }
    assert_in_range(accepted, STEPS / 10, STEPS * 9 / 10); // a mix of accepted and refused steps
    free(model.taken);
    gossip_datagrams_destroy(bob);
}

static void test_a_restarted_receiver_accepts_the_sender(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1);
    const struct datagram old = datagram_from(alice, BOB, 80);
    struct gossip_datagrams *bob = node(BOB, 2, ALICE, 1); // it has no memory of what was received
    assert_int_equal(open_datagram(bob, &old, ALICE), BASE_EAUTH);
    const struct datagram news = datagram_from(bob, ALICE, 80);
    assert_opens(alice, &news, BOB); // arrives before Bob's new record: Alice learns his generation here
    const struct datagram answer = datagram_from(alice, BOB, 80);
    assert_opens(bob, &answer, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

static void test_a_restarted_sender_is_accepted(void **state)
{
    (void)state;
    struct gossip_datagrams *before = node(ALICE, 1, BOB, 1), *after = node(ALICE, 2, BOB, 1);
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    const struct datagram old = datagram_from(before, BOB, 10), late = datagram_from(before, BOB, 10);
    const struct datagram first = datagram_from(after, BOB, 10), second = datagram_from(after, BOB, 10);
    assert_opens(bob, &old, ALICE);
    assert_opens(bob, &first, ALICE);
    assert_int_equal(open_datagram(bob, &late, ALICE), BASE_ESTATE);
    know(bob, ALICE, 2); // her record comes late: the window stays
    assert_int_equal(open_datagram(bob, &first, ALICE), BASE_ESTATE);
    know(bob, ALICE, 1); // and her old record comes even later
    assert_int_equal(open_datagram(bob, &late, ALICE), BASE_ESTATE);
    assert_opens(bob, &second, ALICE);
    gossip_datagrams_destroy(before);
    gossip_datagrams_destroy(after);
    gossip_datagrams_destroy(bob);
}

static void test_a_record_raises_the_generation(void **state)
{
    (void)state;
    struct gossip_datagrams *before = node(ALICE, 1, BOB, 1), *after = node(ALICE, 2, BOB, 1);
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    const struct datagram old = datagram_from(before, BOB, 10), fresh = datagram_from(after, BOB, 10);
    know(bob, ALICE, 2);
    assert_int_equal(open_datagram(bob, &old, ALICE), BASE_ESTATE);
    assert_opens(bob, &fresh, ALICE);
    const struct datagram answer = datagram_from(bob, ALICE, 10);
    assert_int_equal(open_datagram(before, &answer, BOB), BASE_EAUTH);
    assert_opens(after, &answer, BOB);
    gossip_datagrams_destroy(before);
    gossip_datagrams_destroy(after);
    gossip_datagrams_destroy(bob);
}

static void test_the_own_generation_can_only_be_raised(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    const struct datagram before = datagram_from(bob, ALICE, 10), old = datagram_from(alice, BOB, 10);
    gossip_datagrams_generation(alice, 5);
    gossip_datagrams_generation(alice, 3); // never lowered
    assert_int_equal(open_datagram(alice, &before, BOB), BASE_EAUTH);
    const struct datagram news = datagram_from(alice, BOB, 10);
    assert_int_equal(news.sealed[8], 5);
    assert_opens(bob, &news, ALICE);
    assert_int_equal(open_datagram(bob, &old, ALICE), BASE_ESTATE);
    const struct datagram after = datagram_from(bob, ALICE, 10);
    assert_opens(alice, &after, BOB);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// One identity, one generation, two processes: the one that is heard first keeps the generation; the other
// must raise its own.
static void test_of_two_processes_with_one_identity_the_first_keeps_the_generation(void **state)
{
    (void)state;
    struct gossip_datagrams *first = node(ALICE, 1, BOB, 1), *second = node(ALICE, 1, BOB, 1);
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    const struct datagram question = datagram_from(bob, ALICE, 10);
    assert_opens(first, &question, BOB);
    assert_opens(second, &question, BOB);
    (void)datagram_from(second, BOB, 10); // lost: from now on its counters are ahead
    for (unsigned i = 0; i < 2 * WINDOW; i++) {
        const struct datagram one = datagram_from(first, BOB, 10), two = datagram_from(second, BOB, 10);
        assert_memory_not_equal(one.sealed + 8, two.sealed + 8, 24);
        assert_opens(bob, &one, ALICE);
        assert_int_equal(open_datagram(bob, &two, ALICE), BASE_ESTATE);
    }
    gossip_datagrams_generation(second, 2);
    const struct datagram two = datagram_from(second, BOB, 10), one = datagram_from(first, BOB, 10);
    assert_opens(bob, &two, ALICE);
    assert_int_equal(open_datagram(bob, &one, ALICE), BASE_ESTATE);
    gossip_datagrams_destroy(first);
    gossip_datagrams_destroy(second);
    gossip_datagrams_destroy(bob);
}

static void test_a_peer_can_be_forgotten_and_known_again(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes = 0;
    for (unsigned i = 0; i < 5; i++) {
        const struct datagram datagram = datagram_from(alice, BOB, 10);
        assert_opens(bob, &datagram, ALICE);
    }
    gossip_datagrams_forget(alice, &identity[MALLORY].id); // a peer that was never known
    gossip_datagrams_forget(alice, &identity[BOB].id);
    gossip_datagrams_forget(alice, &identity[BOB].id);
    assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 0, sealed, 1, sealed, &bytes),
                     BASE_ENOTFOUND);
    const struct datagram unheard = datagram_from(bob, ALICE, 10);
    assert_int_equal(open_datagram(alice, &unheard, BOB), BASE_ENOTFOUND);
    know(alice, BOB, 1);
    const struct datagram again = datagram_from(alice, BOB, 10);
    assert_int_equal(again.sealed[16], 5); // no nonce comes twice
    assert_opens(bob, &again, ALICE);
    assert_opens(alice, &unheard, BOB);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// The secrets with these numbers, the first of which is used.
static struct gossip_secrets secrets_of(size_t count, const uint8_t *numbers)
{
    struct gossip_secrets secrets = {.count = count};
    for (size_t i = 0; i < count; i++)
        memset(secrets.psk[i], numbers[i], sizeof secrets.psk[i]);
    return secrets;
}

static void use(struct gossip_datagrams *datagrams, size_t count, const uint8_t *numbers)
{
    const struct gossip_secrets secrets = secrets_of(count, numbers);
    assert_int_equal(gossip_datagrams_secrets(datagrams, &secrets), BASE_OK);
}

// All pairs of lists of up to four secrets: a datagram opens if the receiver has the first one of the sender.
static void test_datagrams_are_sealed_under_the_first_secret_and_opened_under_any(void **state)
{
    (void)state;
    static const uint8_t lists[][LIMIT_SECRETS] = {{1},       {2},          {1, 2},      {2, 1},
                                                   {3, 2, 1}, {4, 3, 2, 1}, {4, 1, 3, 2}};
    static const size_t counts[] = {1, 1, 2, 2, 3, 4, 4};
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    know(bob, MALLORY, 1); // more than one peer
    for (size_t i = 0; i < LENGTH_OF(lists); i++)
        for (size_t j = 0; j < LENGTH_OF(lists); j++) {
            use(alice, counts[i], lists[i]);
            use(bob, counts[j], lists[j]);
            const struct datagram datagram = datagram_from(alice, BOB, 20);
            const bool has = memchr(lists[j], lists[i][0], counts[j]) != NULL;
            assert_int_equal(open_datagram(bob, &datagram, ALICE), has ? BASE_OK : BASE_ENOTFOUND);
            assert_int_equal(open_datagram(bob, &datagram, ALICE), has ? BASE_ESTATE : BASE_ENOTFOUND);
        }
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// The same datagram does not open twice, whatever happens to the secrets in between, and no counter is used
// again under a secret that comes back.
static void test_other_secrets_keep_windows_counters_and_generations(void **state)
{
    (void)state;
    static const uint8_t old[] = {1}, both[] = {2, 1}, fresh[] = {2};
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    use(alice, 1, old);
    use(bob, 1, old);
    const struct datagram taken = datagram_from(alice, BOB, 20), kept = datagram_from(alice, BOB, 20);
    assert_opens(bob, &taken, ALICE);
    use(bob, 2, both);
    assert_int_equal(open_datagram(bob, &taken, ALICE), BASE_ESTATE);
    use(bob, 1, fresh);
    assert_int_equal(open_datagram(bob, &taken, ALICE), BASE_ENOTFOUND);
    assert_int_equal(open_datagram(bob, &kept, ALICE), BASE_ENOTFOUND); // a secret that is no longer accepted
    use(bob, 2, both);
    assert_int_equal(open_datagram(bob, &taken, ALICE), BASE_ESTATE);
    assert_opens(bob, &kept, ALICE);
    use(alice, 1, fresh);
    const struct datagram later = datagram_from(alice, BOB, 20);
    assert_memory_not_equal(later.sealed, kept.sealed, 8); // another tag
    use(alice, 1, old);
    const struct datagram again = datagram_from(alice, BOB, 20);
    assert_memory_equal(again.sealed, kept.sealed, 8);
    for (const struct datagram *other = &taken;; other = other == &taken ? &kept : &later) {
        assert_memory_not_equal(again.sealed + 16, other->sealed + 16, 8); // the counter
        if (other == &later)
            break;
    }
    assert_opens(bob, &again, ALICE);
    assert_opens(bob, &later, ALICE);
    know(bob, ALICE, 5); // her next process: the earlier one is refused under every secret
    const struct datagram late = datagram_from(alice, BOB, 20);
    assert_int_equal(open_datagram(bob, &late, ALICE), BASE_ESTATE);
    use(bob, 1, old);
    assert_int_equal(open_datagram(bob, &late, ALICE), BASE_ESTATE);
    gossip_datagrams_forget(bob, &identity[ALICE].id);
    use(bob, 2, both);
    assert_int_equal(open_datagram(bob, &late, ALICE), BASE_ENOTFOUND);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

static void test_a_new_exchange_key_replaces_the_old_one(void **state)
{
    (void)state;
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 2);
    struct gossip_identity other = identity[MALLORY];
    other.id = identity[ALICE].id;
    struct forgery said = alice_to_bob();
    said.generation = 2;
    const struct datagram first = forge(&said, 10);
    said.counter = 1;
    const struct datagram unheard = forge(&said, 10);
    said.from = &other;
    const struct datagram under_new_key = forge(&said, 10);
    assert_opens(bob, &first, ALICE);
    // The key of an older record is ignored; that of a newer one replaces the derived keys.
    assert_int_equal(gossip_datagrams_peer(bob, &other.id, other.exchange_public, 1), BASE_OK);
    assert_int_equal(open_datagram(bob, &under_new_key, ALICE), BASE_EAUTH);
    assert_int_equal(gossip_datagrams_peer(bob, &other.id, other.exchange_public, 2), BASE_OK);
    assert_int_equal(open_datagram(bob, &unheard, ALICE), BASE_EAUTH);
    assert_opens(bob, &under_new_key, ALICE);
    gossip_datagrams_destroy(bob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_are_refused_and_reordering_is_accepted),
        cmocka_unit_test(test_window_against_a_plain_set),
        cmocka_unit_test(test_alice_can_seal_for_an_older_generation),
        cmocka_unit_test(test_a_restarted_receiver_accepts_the_sender),
        cmocka_unit_test(test_a_restarted_sender_is_accepted),
        cmocka_unit_test(test_a_record_raises_the_generation),
        cmocka_unit_test(test_the_own_generation_can_only_be_raised),
        cmocka_unit_test(test_of_two_processes_with_one_identity_the_first_keeps_the_generation),
        cmocka_unit_test(test_a_peer_can_be_forgotten_and_known_again),
        cmocka_unit_test(test_datagrams_are_sealed_under_the_first_secret_and_opened_under_any),
        cmocka_unit_test(test_other_secrets_keep_windows_counters_and_generations),
        cmocka_unit_test(test_a_new_exchange_key_replaces_the_old_one),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
