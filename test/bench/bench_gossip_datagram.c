// Sealing and opening of datagrams beside the bare libsodium call; replays and forgeries; and the cost of a
// peer in time and memory: `bench_gossip_datagram [datagrams]`.
#include "base/error.h"
#include "gossip/session/datagram.h"
#include "test/support/bench.h"

#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEERS 1000u

struct sealed {
    uint8_t bytes[LIMIT_DATAGRAM_BYTES];
    size_t n_bytes;
};

struct ends {
    struct gossip_identity identity[2];
    struct gossip_datagrams *side[2];
    struct sealed *kept;
    unsigned count;
};

static struct gossip_datagrams *create(const struct gossip_identity *identity)
{
    static const struct gossip_secrets secrets = {.count = 1};
    struct gossip_datagrams *made = NULL;
    const struct gossip_datagrams_options options = {
        .identity = identity, .secrets = &secrets, .cluster = "bench", .generation = 1};
    BASE_ASSERT(!gossip_datagrams_create(&options, &made));
    return made;
}

static void begin(struct ends *ends)
{
    uint8_t seed[32];
    for (int i = 0; i < 2; i++)
        gossip_identity_from_seed(memset(seed, 1 + i, sizeof seed), &ends->identity[i]);
    for (int i = 0; i < 2; i++) {
        const struct gossip_identity *other = &ends->identity[1 - i];
        ends->side[i] = create(&ends->identity[i]);
        BASE_ASSERT(!gossip_datagrams_peer(ends->side[i], &other->id, other->exchange_public, 1));
    }
}

static void print_rate(const char *what, size_t plain, unsigned count, double seconds)
{
    printf("%-28s %5zu B  %7.0f ns  %9.0f /s\n", what, plain, 1e9 * seconds / count, count / seconds);
}

// The floor: the AEAD alone, with the associated data and nonce of a datagram.
static void bare_call(const struct ends *ends, size_t plain)
{
    static uint8_t text[LIMIT_DATAGRAM_BYTES], key[32], nonce[24], bound[16];
    double start = bench_now_s();
    for (unsigned i = 0; i < ends->count; i++) {
        memcpy(nonce + 8, &i, sizeof i);
        crypto_aead_xchacha20poly1305_ietf_encrypt(ends->kept[i].bytes, NULL, text, plain, bound,
                                                   sizeof bound, NULL, nonce, key);
    }
    print_rate("libsodium encrypt", plain, ends->count, bench_now_s() - start);
    start = bench_now_s();
    for (unsigned i = 0; i < ends->count; i++) {
        memcpy(nonce + 8, &i, sizeof i);
        BASE_ASSERT(crypto_aead_xchacha20poly1305_ietf_decrypt(text, NULL, NULL, ends->kept[i].bytes,
                                                               plain + 16, bound, sizeof bound, nonce,
                                                               key) == 0);
    }
    print_rate("libsodium decrypt", plain, ends->count, bench_now_s() - start);
}

static double open_all(struct ends *ends, enum base_error expected)
{
    uint8_t plain[LIMIT_DATAGRAM_BYTES];
    struct gossip_id peer;
    size_t bytes = 0;
    const double start = bench_now_s();
    for (unsigned i = 0; i < ends->count; i++)
        BASE_ASSERT(gossip_datagram_open(ends->side[1], ends->kept[i].bytes, ends->kept[i].n_bytes, plain,
                                         &bytes, &peer) == expected);
    return bench_now_s() - start;
}

static void seal_and_open(struct ends *ends, size_t plain)
{
    static const uint8_t text[LIMIT_DATAGRAM_BYTES];
    const double start = bench_now_s();
    for (unsigned i = 0; i < ends->count; i++)
        BASE_ASSERT(!gossip_datagram_seal(ends->side[0], &ends->identity[1].id, 0, text, plain,
                                          ends->kept[i].bytes, &ends->kept[i].n_bytes));
    print_rate("seal", plain, ends->count, bench_now_s() - start);
    for (unsigned i = 0; i < ends->count; i++)
        ends->kept[i].bytes[23] ^= 0x40; // a counter far ahead: the window admits it, the tag does not match
    print_rate("refuse a forgery", plain, ends->count, open_all(ends, BASE_EAUTH));
    for (unsigned i = 0; i < ends->count; i++)
        ends->kept[i].bytes[23] ^= 0x40;
    print_rate("open", plain, ends->count, open_all(ends, BASE_OK));
    print_rate("refuse a replay", plain, ends->count, open_all(ends, BASE_ESTATE));
    for (unsigned i = 0; i < ends->count; i++)
        ends->kept[i].bytes[0] ^= 1;
    print_rate("refuse a stranger", plain, ends->count, open_all(ends, BASE_ENOTFOUND));
}

static void many_peers(struct ends *ends)
{
    struct gossip_id id = {{0}};
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes = 0;
    const size_t empty = mallinfo2().uordblks;
    struct gossip_datagrams *datagrams = create(&ends->identity[0]);
    const size_t before = mallinfo2().uordblks;
    double start = bench_now_s();
    for (unsigned i = 0; i < PEERS; i++) {
        memcpy(id.bytes, &i, sizeof i);
        BASE_ASSERT(!gossip_datagrams_peer(datagrams, &id, ends->identity[1].exchange_public, 1));
    }
    printf("add a peer: %.2f us, %zu bytes; the object itself %zu bytes\n",
           1e6 * (bench_now_s() - start) / PEERS, (mallinfo2().uordblks - before) / PEERS, before - empty);
    start = bench_now_s();
    for (unsigned i = 0; i < PEERS; i++) {
        memcpy(id.bytes, &i, sizeof i);
        BASE_ASSERT(!gossip_datagram_seal(datagrams, &id, 0, NULL, 0, sealed, &bytes));
    }
    printf("first datagram to a peer: %.1f us\n", 1e6 * (bench_now_s() - start) / PEERS);
    gossip_datagrams_destroy(datagrams);
}

int main(int count, char **arguments)
{
    static const size_t sizes[] = {80 - LIMIT_DATAGRAM_OVERHEAD, 80,
                                   LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD};
    struct ends ends = {.count = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 20000};
    ends.kept = calloc(ends.count, sizeof *ends.kept);
    BASE_ASSERT(ends.kept != NULL);
    memset(ends.kept, 1, ends.count * sizeof *ends.kept); // no page faults while the clock runs
    begin(&ends);
    puts("plaintext; a sealed datagram is 48 bytes longer");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bare_call(&ends, sizes[i]);
        seal_and_open(&ends, sizes[i]);
    }
    many_peers(&ends);
    for (unsigned i = 0; i < 2; i++) {
        gossip_datagrams_destroy(ends.side[i]);
        gossip_identity_wipe(&ends.identity[i]);
    }
    free(ends.kept);
    return 0;
}
