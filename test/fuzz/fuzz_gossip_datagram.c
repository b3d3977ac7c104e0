// A receiver against hostile datagrams. The first byte of the input chooses: arbitrary bytes, arbitrary bytes
// behind a tag that a stranger saw on the way, or a series of operations on genuine datagrams (keep, deliver,
// change, cut, reflect, restart, forget). No datagram may open twice, and no changed one may open at all.
// Keys and entropy are fixed, so every input replays.
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/datagram.h"

#include <string.h>

#define KEPT 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ALICE, BOB, SIDES };

struct kept {
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes;
    unsigned from;
    uint64_t receiver_generation; // the generation of the receiver for which it was sealed
    unsigned receiver_forgets;    // how often the receiver had forgotten the sender by then
    bool opened;
};

struct world {
    struct gossip_identity identity[SIDES];
    struct gossip_datagrams *side[SIDES];
    uint64_t generation[SIDES];
    uint64_t lives; // counts the processes: each has its own entropy
    unsigned forgets[SIDES];
    struct kept kept[KEPT];
};

static void know(struct world *world, unsigned self, uint64_t generation)
{
    const struct gossip_identity *other = &world->identity[1 - self];
    BASE_ASSERT(!gossip_datagrams_peer(world->side[self], &other->id, other->exchange_public, generation));
}

// A node with secrets `first` and the other, or with `first` alone.
static struct gossip_secrets secrets_of(unsigned first, bool alone)
{
    struct gossip_secrets secrets = {.count = alone ? 1 : 2};
    secrets.psk[0][0] = (uint8_t)(1 + first);
    secrets.psk[1][0] = (uint8_t)(2 - first);
    return secrets;
}

static void start(struct world *world, unsigned self)
{
    const struct gossip_secrets secrets = secrets_of(0, false);
    struct gossip_datagrams_options options = {.identity = &world->identity[self],
                                               .secrets = &secrets,
                                               .cluster = "fuzz",
                                               .generation = ++world->generation[self]};
    world->lives++;
    memcpy(options.entropy, &world->lives, sizeof options.entropy);
    gossip_datagrams_destroy(world->side[self]);
    BASE_ASSERT(!gossip_datagrams_create(&options, &world->side[self]));
    know(world, self, world->generation[1 - self]);
}

// Checks what must hold after every open, with any result.
static enum base_error deliver(struct world *world, unsigned to, const uint8_t *sealed, size_t bytes)
{
    uint8_t exact[LIMIT_DATAGRAM_BYTES + 64], plain[LIMIT_DATAGRAM_BYTES];
    struct gossip_id peer;
    size_t plain_bytes = SIZE_MAX;
    BASE_ASSERT(bytes <= sizeof exact);
    uint8_t *at = exact + sizeof exact - bytes; // a read past the end leaves the array
    if (bytes > 0)
        memcpy(at, sealed, bytes);
    const enum base_error error =
        gossip_datagram_open(world->side[to], at, bytes, plain, &plain_bytes, &peer);
    if (!error) {
        BASE_ASSERT(plain_bytes == bytes - LIMIT_DATAGRAM_OVERHEAD);
        BASE_ASSERT(gossip_id_compare(&peer, &world->identity[1 - to].id) == 0);
        return error;
    }
    BASE_ASSERT(plain_bytes == SIZE_MAX);
    BASE_ASSERT(error == BASE_EFORMAT || error == BASE_ENOTFOUND || error == BASE_EAUTH ||
                error == BASE_ESTATE);
    return error;
}

static void seal(struct world *world, unsigned from, struct kept *kept, const uint8_t *plain, size_t bytes)
{
    const enum base_error error = gossip_datagram_seal(world->side[from], &world->identity[1 - from].id, 0,
                                                       plain, bytes, kept->sealed, &kept->bytes);
    BASE_ASSERT(!error && kept->bytes == bytes + LIMIT_DATAGRAM_OVERHEAD);
    kept->from = from;
    kept->receiver_generation = world->generation[1 - from];
    kept->receiver_forgets = world->forgets[1 - from];
    kept->opened = false;
}

static void deliver_kept(struct world *world, struct kept *kept)
{
    const unsigned to = 1 - kept->from;
    const enum base_error error = deliver(world, to, kept->sealed, kept->bytes);
    if (error)
        return;
    BASE_ASSERT(kept->receiver_generation == world->generation[to]); // nothing opens in a later generation
    BASE_ASSERT(!kept->opened || kept->receiver_forgets != world->forgets[to]);
    kept->opened = true;
    kept->receiver_forgets = world->forgets[to];
}

static void deliver_changed(struct world *world, const struct kept *kept, size_t where, uint8_t change)
{
    struct kept changed = *kept;
    if (kept->bytes == 0 || change == 0)
        return;
    changed.sealed[where % kept->bytes] ^= change;
    BASE_ASSERT(deliver(world, 1 - kept->from, changed.sealed, changed.bytes) != BASE_OK);
    BASE_ASSERT(deliver(world, 1 - kept->from, kept->sealed, where % kept->bytes) != BASE_OK); // cut there
}

static void operate(struct world *world, struct base_reader *reader)
{
    const uint8_t operation = base_read_u8(reader), argument = base_read_u8(reader);
    const unsigned side = operation >> 7;
    struct kept *kept = &world->kept[argument % KEPT];
    switch (operation & 7) {
    case 0:
    case 1: {
        const size_t left = base_reader_left(reader), most = operation >> 3 & 15;
        const size_t bytes = most < left ? most : left;
        seal(world, side, kept, base_read_bytes(reader, bytes), bytes);
        break;
    }
    case 2:
    case 3:
        if (kept->bytes > 0)
            deliver_kept(world, kept);
        break;
    case 4:
        deliver_changed(world, kept, base_read_u16(reader), base_read_u8(reader));
        break;
    case 5:
        BASE_ASSERT(deliver(world, kept->from, kept->sealed, kept->bytes) != BASE_OK); // reflected
        break;
    case 6:
        if (argument < 64) {
            start(world, side);
            world->forgets[side]++;
        } else if (argument < 128) {
            gossip_datagrams_generation(world->side[side], ++world->generation[side]);
        }
        know(world, 1 - side, world->generation[side]);
        break;
    case 7:
        if (argument & 128) {
            const struct gossip_secrets secrets = secrets_of(argument & 1, argument & 2);
            BASE_ASSERT(!gossip_datagrams_secrets(world->side[side], &secrets));
            break;
        }
        gossip_datagrams_forget(world->side[side], &world->identity[1 - side].id);
        world->forgets[side]++;
        know(world, side, world->generation[1 - side]);
    }
}

static void say_bytes(struct world *world, bool behind_head, const uint8_t *data, size_t size)
{
    uint8_t sealed[LIMIT_DATAGRAM_BYTES + 64];
    struct kept genuine = {0};
    seal(world, ALICE, &genuine, NULL, 0);
    const size_t head = behind_head ? 8 : 0;
    if (size > sizeof sealed - head)
        size = sizeof sealed - head;
    memcpy(sealed, genuine.sealed, head);
    if (size > 0)
        memcpy(sealed + head, data, size);
    if (head + size == genuine.bytes && memcmp(sealed, genuine.sealed, genuine.bytes) == 0)
        return;
    BASE_ASSERT(deliver(world, BOB, sealed, head + size) != BASE_OK);
    BASE_ASSERT(!deliver(world, BOB, genuine.sealed, genuine.bytes)); // the state has not changed
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t seeds[SIDES][32] = {{1}, {2}};
    struct world world = {0};
    if (size == 0)
        return 0;
    for (unsigned i = 0; i < SIDES; i++)
        gossip_identity_from_seed(seeds[i], &world.identity[i]);
    world.generation[BOB] = 1;
    start(&world, ALICE);
    world.generation[BOB] = 0;
    start(&world, BOB);
    if (data[0] % 4 < 2) {
        say_bytes(&world, data[0] % 4 == 1, data + 1, size - 1);
    } else {
        struct base_reader reader = base_reader_of(data + 1, size - 1);
        while (base_reader_left(&reader) >= 2)
            operate(&world, &reader);
    }
    for (unsigned i = 0; i < SIDES; i++)
        gossip_datagrams_destroy(world.side[i]);
    return 0;
}
