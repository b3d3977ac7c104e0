// The packets of choco and sparseloco: the largest differences, in the packet format of p2pml-node.
#include "lab/methods/engine.h"

#include "base/hash.h"
#include "compress/packet.h"
#include "compress/select.h"

#include <stdlib.h>

static struct compress_selection selection_of(const struct rounds_world *world, size_t node)
{
    const struct node_config *config = world->config;
    size_t block = (size_t)config->average.select_block, blocks = block ? (world->d + block - 1) / block : 1;
    size_t k = compress_select_count(config->average.ratio, world->d);
    k = k < blocks ? blocks : k;
    return (struct compress_selection){.method = (enum compress_method)config->average.select,
                                       .k = k < world->d ? k : world->d,
                                       .block = block,
                                       .seed = base_hash_mix(node ^ base_hash_mix(world->round))};
}

// `entries` and `bytes` are large enough.
static enum base_error compress(const struct rounds_world *world, const struct compress_selection *selection,
                                const struct kernels_difference *v, struct compress_sparse *entries,
                                uint8_t *bytes, size_t room, struct rounds_packet *packet)
{
    struct compress_energy energy;
    enum base_error error = compress_select(world->kernels, selection, v, entries, &energy);
    if (!error)
        error = compress_packet_encode(world->kernels, entries, world->d,
                                       (enum kernels_format)world->config->average.values, NULL, bytes, room,
                                       &packet->bytes);
    packet->whole = error ? 0 : energy.a;
    return error;
}

static void add(const struct compress_sparse *entries, float *replica, struct rounds_packet *packet)
{
    packet->kept = 0;
    for (size_t k = 0; k < entries->count; k++) {
        float q = entries->value[k];
        replica[entries->index[k]] += q;
        packet->kept += (double)q * (double)q;
    }
}

enum base_error rounds_compress(struct rounds_world *world, size_t node, const float *x, float *replica)
{
    struct rounds_packet *packet = &world->packet[node];
    struct compress_selection selection = selection_of(world, node);
    const struct kernels_difference v = {.x = x, .r = replica, .count = world->d};
    size_t room =
        compress_packet_bound(world->d, selection.k, (enum kernels_format)world->config->average.values);
    struct compress_sparse entries = {0};
    uint8_t *bytes = malloc(room);
    enum base_error error =
        bytes ? compress_sparse_create(compress_select_room(&selection, world->d), &entries) : BASE_ENOMEM;
    if (!error)
        error = compress(world, &selection, &v, &entries, bytes, room, packet);
    if (!error)
        add(&entries, replica, packet);
    compress_sparse_destroy(&entries);
    free(bytes);
    return error;
}
