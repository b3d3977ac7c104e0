// Streams of the simulated network end as those of TCP do.
#include "lab/sim/sim_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct ends { // what each of two hosts has been told
    size_t received[2], ended[2];
    enum sim_end how[2];
};

static struct sim_queue queue;
static struct sim_net net;
static struct ends ends;

static void tell(void *owner, size_t host, const struct sim_input *input)
{
    struct ends *told = owner;
    told->received[host] += input->kind == SIM_IN_RECEIVED;
    if (input->kind != SIM_IN_ENDED)
        return;
    told->ended[host]++;
    told->how[host] = input->end;
}

static int make(void **state)
{
    (void)state;
    queue = (struct sim_queue){0};
    ends = (struct ends){0};
    sim_net_create(&net, &queue, 2, 1, tell, &ends);
    net.state[0] = net.state[1] = SIM_HOST_OPEN;
    return 0;
}

static int drop(void **state)
{
    (void)state;
    sim_net_destroy(&net);
    sim_queue_free(&queue);
    return 0;
}

static void pass(uint64_t ns)
{
    const uint64_t until_ns = queue.now_ns + ns;
    while (sim_queue_run(&queue, until_ns))
        ;
}

static void cut(bool on)
{
    sim_net_path(&net, 0, 1)->cuts = sim_net_path(&net, 1, 0)->cuts = on;
}

static void write_from(size_t host, uint64_t stream)
{
    const uint8_t byte = 7;
    sim_net_write(&net, host, stream, &byte, 1, 1);
}

static void data_after_an_orderly_end_is_dropped(void **state)
{
    (void)state;
    const uint64_t stream = sim_net_join(&net, 0, 1);
    write_from(1, stream);
    sim_net_close(&net, 1, stream);
    write_from(0, stream);
    pass(SIM_SECOND);
    assert_int_equal(ends.received[0], 1);
    assert_int_equal(ends.received[1], 0);
    assert_int_equal(ends.ended[0], 1);
    assert_int_equal(ends.how[0], SIM_END_CLOSED);
}

// The end was sent in vain for so long that its kernel has forgotten the stream: the other end would
// otherwise keep it for good.
static void data_after_an_end_that_never_arrived_is_answered_by_a_reset(void **state)
{
    (void)state;
    const uint64_t stream = sim_net_join(&net, 0, 1);
    cut(true);
    sim_net_close(&net, 1, stream);
    pass(60 * SIM_SECOND);
    cut(false);
    pass(60 * SIM_SECOND);
    assert_int_equal(ends.ended[0], 0);
    write_from(0, stream);
    pass(SIM_SECOND);
    assert_int_equal(ends.ended[0], 1);
    assert_int_equal(ends.how[0], SIM_END_RESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_after_an_orderly_end_is_dropped, make, drop),
        cmocka_unit_test_setup_teardown(data_after_an_end_that_never_arrived_is_answered_by_a_reset, make,
                                        drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
