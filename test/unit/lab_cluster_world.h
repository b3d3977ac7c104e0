// What the tests of lab_cluster share.
#ifndef TEST_UNIT_LAB_CLUSTER_WORLD_H
#define TEST_UNIT_LAB_CLUSTER_WORLD_H

#include "base/file.h"
#include "gossip/session/identity.h"
#include "lab/processes/supervisor.h"
#include "lab/record/directory.h"
#include "lab/term/environment.h"
#include "lab/term/ports.h"
#include "test/support/lab_world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char directory[TEMPORARY_BYTES];
    char *script, *said; // said: what was shown
    size_t said_bytes;
    struct lab_experiment experiment;
    struct lab_cluster cluster;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_supervisor_options options;
};

static inline int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why = {""};
    assert_non_null(w);
    temporary_make(w->directory, "cluster");
    char *file = lab_path("%s/fake.yaml", w->directory);
    w->script = lab_path("%s/node", w->directory);
    temporary_write(file, "experiment:\n  nodes: 3\n");
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_cluster_prepare(&w->experiment, w->directory, &w->cluster, &why) ||
        lab_signals_open(&w->signals, &why))
        fail_msg("%s", why.text);
    FILE *out = open_memstream(&w->said, &w->said_bytes);
    assert_non_null(out);
    w->display = (struct lab_display){.out = out};
    w->options = (struct lab_supervisor_options){.program = w->script,
                                                 .environment = environ,
                                                 .stop_grace_ns = 60000000000,
                                                 .signals = &w->signals,
                                                 .display = &w->display};
    free(file);
    *state = w;
    return 0;
}

static inline int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_signals_close(&w->signals);
    lab_cluster_free(&w->cluster);
    lab_experiment_free(&w->experiment);
    fclose(w->display.out);
    free(w->said);
    free(w->script);
    free(w);
    return 0;
}

// `body` has the node's directory in $dir and its name in $name.
static inline void play(struct world *w, const char *body)
{
    char *text = lab_path("#!/bin/sh\ndir=$(dirname \"$2\")\nname=$(basename \"$dir\")\n%s\n", body);
    temporary_write_mode(w->script, text, 0700);
    free(text);
}

static inline void run(struct world *w)
{
    struct base_reason why = {""};
    if (lab_supervisor_run(&w->options, &w->cluster, &why))
        fail_msg("%s", why.text);
    fflush(w->display.out);
    for (size_t i = 0; i < w->cluster.count; i++)
        assert_false(w->cluster.nodes[i].process.running);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, remove_world)

#endif
