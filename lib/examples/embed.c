/* A program with a linear model of its own that trains together with others:
 *
 *     embed DIRECTORY LISTEN-HOST:PORT ROUNDS SEED [PEER-HOST:PORT]
 *
 * SEED selects random data with noise. The true weights are the same for all: 0.1, 0.2, ... */
#include <p2pml.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 64, BATCH = 16 };

static float uniform(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

/* One step of gradient descent on a batch of random examples. Returns its loss. */
static double step(float *w, const float *correction, float rate)
{
    float x[INPUTS], gradient[INPUTS] = {0}, loss = 0;
    for (int row = 0; row < BATCH; row++) {
        float error = 0.1f * uniform();
        for (int i = 0; i < INPUTS; i++) {
            x[i] = uniform();
            error += x[i] * (w[i] - 0.1f * (float)(i + 1));
        }
        loss += error * error / BATCH;
        for (int i = 0; i < INPUTS; i++)
            gradient[i] += 2 * error * x[i] / BATCH;
    }
    for (int i = 0; i < INPUTS; i++)
        w[i] += rate * ((correction ? correction[i] : 0) - gradient[i]);
    return loss;
}

int main(int argc, char **argv)
{
    char dir[300], listen[300], peers[300] = "peers=", why[512];
    if (argc < 5)
        return fprintf(stderr, "usage: embed DIRECTORY LISTEN ROUNDS SEED [PEER]\n"), 2;
    snprintf(dir, sizeof dir, "node.dir=%s", argv[1]);
    snprintf(listen, sizeof listen, "node.listen=%s", argv[2]);
    if (argc > 5)
        snprintf(peers, sizeof peers, "peers=%s", argv[5]);
    srand((unsigned)atoi(argv[4]));

    const char *settings[] = {dir, listen, peers, "node.http=", "average.local_steps=8", NULL};
    const size_t shape[] = {INPUTS};
    const struct p2pml_tensor tensor = {"weight", shape, 1};
    struct p2pml_options options = {sizeof options, NULL, NULL, settings, &tensor, 1, 1, 0};
    p2pml_node *node = p2pml_open(&options, why, sizeof why);
    if (!node)
        return fprintf(stderr, "%s\n", why), 2;

    struct p2pml_round round;
    float *w = p2pml_vector(node, P2PML_MODEL, NULL);
    const float *correction = p2pml_vector(node, P2PML_CORRECTION, NULL);
    int code = p2pml_start(node, -1, &round);
    for (int i = 0; i < atoi(argv[3]) && code == P2PML_OK; i++) {
        double loss = 0;
        for (uint64_t s = 0; s < round.steps; s++)
            loss += step(w, correction, 0.05f) / (double)round.steps;
        code = p2pml_round_begin(node, round.steps, 0.05 * (double)round.steps, loss);
        if (code == P2PML_OK)
            code = p2pml_round_end(node, -1, &round);
    }
    if (code != P2PML_OK)
        fprintf(stderr, "%s\n", p2pml_reason(node));
    p2pml_leave(node, -1);
    double error = 0;
    for (int i = 0; i < INPUTS; i++)
        error += fabs(w[i] - 0.1 * (i + 1)) / INPUTS;
    printf("mean error of a weight: %.4f\n", error);
    p2pml_close(node);
    return code == P2PML_OK ? 0 : 1;
}
