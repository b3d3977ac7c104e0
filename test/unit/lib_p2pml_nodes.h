// Nodes of libp2pml in one process over loopback, each with its own loss.
#ifndef TEST_UNIT_LIB_P2PML_NODES_H
#define TEST_UNIT_LIB_P2PML_NODES_H

#include "lib/p2pml.h"
#include <arpa/inet.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 50, COLUMNS = 10, D = ROWS * COLUMNS, STEPS = 5, WAIT_MS = 30000 };

static const float rate = 0.02f;
static char root[] = "/tmp/p2pml-test-lib-XXXXXX";

static inline bool is_free(uint16_t port, int type)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const bool is = bind(s, (const struct sockaddr *)&at, sizeof at) == 0;
    close(s);
    return is;
}

// Outside the kernel's range, and reserved until this test ends: test/e2e/ports.py and lab/term/ports.c claim
// the same names.
static inline int free_port(void)
{
    for (;;) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        uint16_t any = 0;
        assert_int_equal(getrandom(&any, sizeof any, 0), sizeof any);
        const uint16_t port = (uint16_t)(10240 + any % (32768 - 10240));
        const int length = snprintf(name.sun_path + 1, 32, "p2pml-port-%u", port);
        int claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(claim >= 0);
        if (bind(claim, (const struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0 &&
            is_free(port, SOCK_STREAM) && is_free(port, SOCK_DGRAM))
            return port; // the claim stays
        close(claim);
    }
}

struct wish {
    const char *name; // of its directory, below root
    int port, peer;   // peer 0: none
    size_t rows;      // 0: ROWS
    int resume, changes;
    uint64_t examples;
    const char *more[4]; // settings
    p2pml_losses judge;
    void *judge_context;
};

static inline p2pml_node *open_node(const struct wish *w)
{
    char dir[100], listen[60], peers[60] = "peers=", why[600] = "";
    const size_t shape[] = {w->rows ? w->rows : ROWS, COLUMNS};
    const struct p2pml_tensor tensor = {"weight", shape, 2};
    snprintf(dir, sizeof dir, "node.dir=%s/%s", root, w->name);
    snprintf(listen, sizeof listen, "node.listen=127.0.0.1:%d", w->port);
    if (w->peer)
        snprintf(peers, sizeof peers, "peers=127.0.0.1:%d", w->peer);
    const char *settings[12] = {dir, listen, peers, "node.http=", "average.local_steps=5", "log.level=error"};
    for (size_t i = 0, at = 6; i < 4 && w->more[i]; i++)
        settings[at++] = w->more[i];
    const struct p2pml_options options = {.size = sizeof options,
                                          .settings = settings,
                                          .tensors = &tensor,
                                          .n_tensors = 1,
                                          .resume = w->resume,
                                          .changes = w->changes,
                                          .examples = w->examples,
                                          .judge = w->judge,
                                          .judge_context = w->judge_context};
    p2pml_node *node = p2pml_open(&options, why, sizeof why);
    if (!node)
        fail_msg("%s", why);
    return node;
}

static inline void start_both(p2pml_node *a, p2pml_node *b, struct p2pml_round *round)
{
    assert_true(p2pml_start(a, 0, NULL) >= 0); // joins meanwhile
    assert_int_equal(p2pml_start(b, WAIT_MS, round), P2PML_OK);
    assert_int_equal(p2pml_start(a, WAIT_MS, NULL), P2PML_OK);
}

static inline void take_steps(p2pml_node *node, float own)
{
    float *x = p2pml_vector(node, P2PML_MODEL, NULL);
    const float *c = p2pml_vector(node, P2PML_CORRECTION, NULL);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < D; i++)
            x[i] += rate * (sinf((float)i) + own - x[i]) + rate * c[i];
}

static inline void begin_round(p2pml_node *node, float own)
{
    take_steps(node, own);
    assert_int_equal(p2pml_round_begin(node, STEPS, STEPS * rate, NAN), P2PML_OK);
}

static inline double error_of(p2pml_node *node)
{
    const float *x = p2pml_vector(node, P2PML_MODEL, NULL);
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += pow(x[i] - sin(i), 2);
    return sqrt(sum / D);
}

static inline void train_both(p2pml_node *a, p2pml_node *b, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        begin_round(a, 1);
        begin_round(b, -1);
        assert_int_equal(p2pml_round_end(a, WAIT_MS, NULL), P2PML_OK);
        assert_int_equal(p2pml_round_end(b, WAIT_MS, NULL), P2PML_OK);
    }
}

static inline int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

#endif
