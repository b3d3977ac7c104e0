/* A program with a linear model of its own that trains together with others:
 *
 *     embed DIRECTORY LISTEN-HOST:PORT ROUNDS SEED [PEER-HOST:PORT]
 *
 * SEED selects random data with noise. The true weights are the same for all: 0.1, 0.2, ... */
#include <p2pml.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 64, BATCH = 16 };

static float uniform(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

/* One step of gradient descent on a batch of random examples. Returns its loss. */
static double step(float *w, float *momentum, const float *correction, float rate)
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
    for (int i = 0; i < INPUTS; i++) {
        momentum[i] = 0.5f * momentum[i] + 0.5f * gradient[i];
        w[i] += rate * ((correction ? correction[i] : 0) - momentum[i]); /* which bypasses the optimiser */
    }
    return loss;
}

/* On examples that are always the same: whether another node's model may replace this one. */
static int judge(void *context, const float *w, double *losses, int most)
{
    const int count = most < BATCH ? most : BATCH;
    (void)context;
    for (int row = 0; row < count; row++) {
        float error = 0;
        for (int i = 0; i < INPUTS; i++)
            error += sinf((float)(row + i)) * (w[i] - 0.1f * (float)(i + 1));
        losses[row] = error * error;
    }
    return count;
}

/* The momentum is this program's. It is that of the checkpoint if the model is, and zero if it belongs to
 * steps on another model, or is not finite. */
static void follow(p2pml_node *node, const struct p2pml_round *round, float *momentum)
{
    const void *kept = NULL;
    size_t bytes = 0;
    if (round->another == P2PML_RESTORED && p2pml_state(node, NULL, 0, &kept, &bytes) == P2PML_OK &&
        bytes == INPUTS * sizeof *momentum)
        memcpy(momentum, kept, bytes);
    for (int i = 0; i < INPUTS; i++)
        if (round->another == P2PML_TAKEN || (round->rolled_back && !isfinite(momentum[i])))
            momentum[i] = 0;
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
    struct p2pml_options options = {sizeof options, NULL, NULL, settings, &tensor, 1, 1, 0, 0, judge, NULL};
    p2pml_node *node = p2pml_open(&options, why, sizeof why);
    if (!node)
        return fprintf(stderr, "%s\n", why), 2;

    struct p2pml_round round;
    float *w = p2pml_vector(node, P2PML_MODEL, NULL), momentum[INPUTS] = {0};
    const float *correction = p2pml_vector(node, P2PML_CORRECTION, NULL);
    int code = p2pml_start(node, -1, &round);
    for (int i = 0; i < atoi(argv[3]) && code == P2PML_OK; i++) {
        double loss = 0;
        follow(node, &round, momentum);
        for (uint64_t s = 0; s < round.steps; s++)
            loss += step(w, momentum, correction, 0.05f) / (double)round.steps;
        if (round.saves)
            (void)p2pml_state(node, momentum, sizeof momentum, NULL, NULL);
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
