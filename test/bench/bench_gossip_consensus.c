// Rounds to consensus on a butterfly of 16 over Gaussian vectors, without training: to 1e-4 of the initial
// energy, and the energy in the end. `r` is compared bit for bit on every edge after every round. Usage:
// bench_gossip_consensus [parameters [bf16]]; bf16: references are stored in bf16
#include "test/support/exchange_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void measure(size_t parameters, bool bf16, float ratio, uint64_t limit, uint64_t seed)
{
    struct gossip_exchange_options options = {.ratio = ratio,
                                              .values = KERNELS_INT8,
                                              .sync = true,
                                              .reference_bf16 = bf16,
                                              .deadline_floor_ns = 100000000,
                                              .deadline_ceiling_ns = 1000000000};
    struct net *net = net_create(16, parameters, TOPOLOGY_BUTTERFLY, seed, &options);
    uint64_t reached = 0, round = 0;
    double initial = 0;
    bool identical = true;

    net_link_all(net);
    for (size_t i = 0; i < net->nodes; i++)
        for (size_t j = 0; j < parameters; j++) {
            net->node[i].x[j] = (float)base_rng_normal(&net->rng);
            initial += (double)net->node[i].x[j] * (double)net->node[i].x[j];
        }
    while (round < limit && !(reached && round >= 4 * reached)) {
        net_round_all(net, ++round);
        identical = identical && net_references_match(net);
        if (!reached && net_energy(net) <= 1e-4 * initial)
            reached = round;
    }
    printf("consensus nodes=16 parameters=%zu bf16=%d ratio=%g seed=%llu rounds_to_1e-4=%llu rounds=%llu "
           "energy_left=%.2e "
           "references_identical=%s\n",
           parameters, bf16, (double)ratio, (unsigned long long)seed, (unsigned long long)reached,
           (unsigned long long)round, net_energy(net) / initial, identical ? "yes" : "NO");
    net_destroy(net);
}

int main(int argc, char **argv)
{
    size_t parameters = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    bool bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0;
    static const float ratios[] = {0.25f, 0.1f, 0.05f, 0.01f};

    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            measure(parameters, bf16, ratios[i], 5000, seed);
    return 0;
}
