// A process that writes a checkpoint gives up the parent's pages: training that goes on copies none of them,
// and the process still has the state of its beginning.
#include "checkpoint_net.h"
#include "node/store/checkpoint_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define HUGE    ((uintptr_t)2 << 20)
#define HIDDEN  2048u // a vector of 6.5 MB: two huge pages at least
#define VECTORS 16
#define EXCLUSIVE                                                                                            \
    56 // bit of an entry of /proc/PID/pagemap: no other process has the page (proc_pid_pagemap(5))
#define PAGE_BYTES 4096u

struct vectors {
    const void *at[VECTORS];
    size_t bytes[VECTORS], count;
};

static void add(struct vectors *all, const void *at, size_t bytes)
{
    if (!at)
        return;
    assert_true(all->count < VECTORS);
    all->at[all->count] = at;
    all->bytes[all->count++] = bytes;
}

// What a checkpoint of node 0 holds.
static struct vectors vectors_of(struct net *net)
{
    struct vectors all = {.count = 0};
    const size_t count = net->parameters, bytes = count * sizeof(float);
    struct train_state_vector state[4];
    add(&all, train_trainer_model(net->learner.trainer), bytes);
    const size_t n = train_trainer_state_vectors(net->learner.trainer, state);
    for (size_t i = 0; i < n; i++)
        add(&all, state[i].values, bytes);
    add(&all, net->learner.outer, bytes);
    add(&all, net->learner.round_start, bytes);
    add(&all, gossip_exchange_correction(net->exchange[0]), bytes);
    for (size_t i = 0; i < gossip_exchange_edges(net->exchange[0]); i++) {
        struct gossip_edge_info edge;
        gossip_exchange_edge_info(net->exchange[0], i, &edge);
        add(&all, edge.reference, bytes);
        add(&all, edge.correction, bytes);
        add(&all, edge.reference_bf16, count * sizeof(uint16_t));
        add(&all, edge.correction_bf16, count * sizeof(uint16_t));
    }
    for (size_t i = 0; i < gossip_exchange_orphans(net->exchange[0]); i++)
        add(&all, gossip_exchange_orphan_at(net->exchange[0], i).correction, bytes);
    return all;
}

static uint64_t hash_of(const struct vectors *all)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < all->count; i++)
        hash = base_hash_bytes(hash, all->at[i], all->bytes[i]);
    return hash;
}

// The first huge page that lies within the vector.
static const char *whole_page(const struct vectors *all, size_t vector)
{
    const uintptr_t from = (uintptr_t)all->at[vector], first = (from + HUGE - 1) / HUGE * HUGE;
    assert_true(first + HUGE <= from + all->bytes[vector]);
    return (const char *)first;
}

static bool is_exclusive(const void *address)
{
    uint64_t entry = 0;
    const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(map >= 0);
    assert_int_equal(
        pread(map, &entry, sizeof entry, (off_t)((uintptr_t)address / PAGE_BYTES * sizeof entry)),
        sizeof entry);
    close(map);
    return entry >> EXCLUSIVE & 1;
}

// Linux tells which pages a child shares, and leaves out those that it was told to. qemu, which runs the
// tests of other processors, may not.
static bool tells_exclusive_pages(void)
{
    int status;
    char *pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (access("/proc/self/pagemap", R_OK) || sysconf(_SC_PAGESIZE) != PAGE_BYTES || pages == MAP_FAILED)
        return false;
    pages[0] = pages[PAGE_BYTES] = 1;
    assert_int_equal(madvise(pages, PAGE_BYTES, MADV_DONTFORK), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    const bool tells = is_exclusive(pages) && !is_exclusive(pages + PAGE_BYTES);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(munmap(pages, 2 * PAGE_BYTES), 0);
    return tells;
}

static void expect_stopped(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

static pid_t fork_writer(struct net *net, const struct vectors *all)
{
    node_checkpoint_pages_advise(&net->learner.parts, MADV_DONTFORK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // a failed test must not leave it behind
        const uint64_t before = hash_of(all);
        (void)raise(SIGSTOP);
        node_checkpoint_pages_take(&net->learner.parts);
        (void)raise(SIGSTOP);
        _exit(hash_of(all) == before ? 0 : 1);
    }
    node_checkpoint_pages_advise(&net->learner.parts, MADV_DOFORK);
    expect_stopped(child);
    return child;
}

static void take_while_training_goes_on(void)
{
    struct net net = {0};
    net_make(&net);
    exchange_some(&net, 4);
    const struct gossip_id two = id_of(2);
    step(&net, 0, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_FORGET, .peer = two, .dead = true});
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 1);
    memset(net.learner.outer, 1, net.parameters * sizeof(float)); // zero pages belong to nobody
    memset(net.learner.round_start, 2, net.parameters * sizeof(float));
    const struct vectors all = vectors_of(&net);
    assert_true(all.count >= 7);
    const pid_t child = fork_writer(&net, &all);
    const bool tells = tells_exclusive_pages();
    for (size_t i = 0; i < all.count && tells; i++)
        assert_false(is_exclusive(whole_page(&all, i)));
    size_t bytes;
    const char *published = gossip_exchange_scratch(net.exchange[0], &bytes);
    assert_true(!tells || is_exclusive(published + bytes / 2));
    net.x[0][net.parameters / 2] += 1; // training is faster than the child
    assert_int_equal(kill(child, SIGCONT), 0);
    expect_stopped(child);
    for (size_t i = 0; i < all.count && tells; i++)
        assert_true(is_exclusive(whole_page(&all, i)));
    for (size_t i = 0; i < net.parameters; i++)
        net.x[0][i] += 1;
    begin_round(&net, 0, 1);
    deliver_all(&net);
    int status;
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    net_free(&net);
}

static void the_pages_of_all_vectors_are_given_up(void **state)
{
    (void)state;
    hidden = HIDDEN;
    take_while_training_goes_on();
    in_bf16 = true;
    hidden = 2 * HIDDEN; // vectors of two bytes per element
    take_while_training_goes_on();
    if (!tells_exclusive_pages())
        skip(); // only the content was checked
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pages_of_all_vectors_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
