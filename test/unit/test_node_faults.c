// The list of ids that are cut off: read, read again, and sockets that end silently.
#include "gossip/session/identity.h"
#include "node/net/faults.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const struct gossip_id one = {{1}}, two = {{2}};

struct world {
    char path[32];
    struct node_faults *faults;
};

static void write_list(const struct world *w, const struct gossip_id *ids, size_t count)
{
    FILE *file = fopen(w->path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++) {
        char hex[GOSSIP_ID_HEX];
        gossip_id_hex(&ids[i], hex);
        fprintf(file, "%s # a node\n", hex);
    }
    assert_int_equal(fclose(file), 0);
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why;
    strcpy(w->path, "/tmp/p2pml-faults-XXXXXX");
    int file = mkstemp(w->path);
    close(file);
    unlink(w->path);
    *state = w;
    return file < 0 || node_faults_create(w->path, &w->faults, &why);
}

static int free_world(void **state)
{
    struct world *w = *state;
    node_faults_destroy(w->faults);
    unlink(w->path);
    free(w);
    return 0;
}

static void reload(struct world *w)
{
    struct base_reason why = {0};
    assert_int_equal(node_faults_reload(w->faults, &why), BASE_OK);
}

static void a_missing_file_cuts_no_node_off(void **state)
{
    struct world *w = *state;
    assert_int_equal(node_faults_count(w->faults), 0);
    assert_false(node_faults_has(w->faults, &one));
    write_list(w, &one, 1);
    reload(w);
    assert_true(node_faults_has(w->faults, &one));
    assert_false(node_faults_has(w->faults, &two));
    unlink(w->path);
    reload(w);
    assert_false(node_faults_has(w->faults, &one));
}

static void a_wrong_file_changes_nothing(void **state)
{
    struct world *w = *state;
    struct base_reason why = {0};
    write_list(w, &one, 1);
    reload(w);
    FILE *file = fopen(w->path, "w");
    fputs("not an id\n", file);
    fclose(file);
    assert_int_equal(node_faults_reload(w->faults, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, w->path));
    assert_true(node_faults_has(w->faults, &one));
}

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
}

static bool has_ended(int s)
{
    char byte;
    ssize_t got = recv(s, &byte, 1, 0);
    assert_true(got == 0 || errno == EAGAIN);
    return got == 0;
}

static void sockets_stay_open_until_the_fault_ends(void **state)
{
    struct world *w = *state;
    const struct gossip_id both[] = {{{1}}, {{2}}};
    int first[2], second[2];
    write_list(w, both, 2);
    reload(w);
    make_pair(first);
    make_pair(second);
    node_faults_bury(w->faults, &one, first[0]);
    node_faults_bury(w->faults, &two, second[0]);
    reload(w);
    assert_false(has_ended(first[1]));
    write_list(w, &two, 1);
    reload(w);
    assert_true(has_ended(first[1]));
    assert_false(has_ended(second[1]));
    close(first[1]);
    close(second[1]);
}

static void the_number_of_kept_sockets_is_bounded(void **state)
{
    struct world *w = *state;
    int pairs[NODE_FAULTS_BURIED + 1][2];
    write_list(w, &one, 1);
    reload(w);
    for (size_t i = 0; i <= NODE_FAULTS_BURIED; i++) {
        make_pair(pairs[i]);
        node_faults_bury(w->faults, &one, pairs[i][0]);
    }
    for (size_t i = 0; i <= NODE_FAULTS_BURIED; i++) {
        assert_int_equal(has_ended(pairs[i][1]), i == 0); // the oldest one was closed
        close(pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_file_cuts_no_node_off, make_world, free_world),
        cmocka_unit_test_setup_teardown(a_wrong_file_changes_nothing, make_world, free_world),
        cmocka_unit_test_setup_teardown(sockets_stay_open_until_the_fault_ends, make_world, free_world),
        cmocka_unit_test_setup_teardown(the_number_of_kept_sockets_is_bounded, make_world, free_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
