// Mailboxes between threads: order, bounds, deadlines, the descriptor, and that no message is lost or taken
// twice. Also run under ThreadSanitizer.
#include "base/limits.h"
#include "node/queue/mailbox.h"
#include "node/queue/message.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define POSTERS 4
#define EACH    5000

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_readable(struct node_mailbox *box)
{
    struct pollfd one = {.fd = node_mailbox_descriptor(box), .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

static void a_mailbox_keeps_order_and_its_bound(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    int items[4];
    assert_int_equal(node_mailbox_create(0, &box), BASE_EINVAL);
    assert_int_equal(node_mailbox_create(SIZE_MAX, &box), BASE_EINVAL);
    assert_null(box);
    assert_int_equal(node_mailbox_create(3, &box), BASE_OK);
    assert_null(node_mailbox_take(box, 0));
    for (int lap = 0; lap < 5; lap++) { // the ring wraps around
        for (int i = 0; i < 3; i++)
            assert_int_equal(node_mailbox_post(box, &items[i]), BASE_OK);
        assert_int_equal(node_mailbox_post(box, &items[3]), BASE_ELIMIT);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[0]);
        assert_int_equal(node_mailbox_post(box, &items[3]), BASE_OK);
        for (int i = 1; i < 4; i++)
            assert_ptr_equal(node_mailbox_take(box, UINT64_MAX), &items[i]);
        assert_null(node_mailbox_take(box, 0));
    }
    node_mailbox_destroy(box, NULL);
    node_mailbox_destroy(NULL, NULL);
}

static void put_goes_beyond_the_bound_and_keeps_the_order(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    int items[20];
    assert_int_equal(node_mailbox_create(3, &box), BASE_OK);
    for (int lap = 0; lap < 3; lap++) { // the second lap begins inside the grown ring
        assert_int_equal(node_mailbox_post(box, &items[0]), BASE_OK);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[0]);
        for (int i = 0; i < 20; i++)
            node_mailbox_put(box, &items[i]);
        for (int i = 0; i < 17; i++) {
            assert_int_equal(node_mailbox_post(box, &items[0]),
                             BASE_ELIMIT); // the bound for others stays 3
            assert_true(is_readable(box));
            assert_ptr_equal(node_mailbox_take(box, 0), &items[i]);
        }
        assert_int_equal(node_mailbox_post(box, &items[0]), BASE_ELIMIT);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[17]);
        assert_int_equal(node_mailbox_post(box, &items[0]), BASE_OK);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[18]);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[19]);
        assert_ptr_equal(node_mailbox_take(box, 0), &items[0]);
        assert_null(node_mailbox_take(box, 0));
        assert_false(is_readable(box));
    }
    node_mailbox_destroy(box, NULL);
}

static void the_descriptor_is_readable_while_a_message_is_there(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    int item;
    assert_int_equal(node_mailbox_create(2, &box), BASE_OK);
    assert_false(is_readable(box));
    for (int lap = 0; lap < 3; lap++) {
        assert_int_equal(node_mailbox_post(box, &item), BASE_OK);
        assert_true(is_readable(box));
        assert_int_equal(node_mailbox_post(box, &item), BASE_OK);
        assert_int_equal(node_mailbox_post(box, &item), BASE_ELIMIT);
        assert_non_null(node_mailbox_take(box, 0));
        assert_true(is_readable(box)); // level, not edge
        assert_non_null(node_mailbox_take(box, 0));
        assert_false(is_readable(box));
    }
    node_mailbox_destroy(box, NULL);
}

static void take_waits_until_its_deadline_and_not_less(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    assert_int_equal(node_mailbox_create(2, &box), BASE_OK);
    uint64_t deadline = now_ns() + 20000000u;
    assert_null(node_mailbox_take(box, deadline));
    assert_true(now_ns() >= deadline);
    assert_null(node_mailbox_take(box, 1)); // long past
    node_mailbox_destroy(box, NULL);
}

static void *take_one(void *box)
{
    return node_mailbox_take(box, UINT64_MAX);
}

static void a_post_wakes_a_waiting_thread(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    pthread_t taker;
    void *taken = NULL;
    int item;
    assert_int_equal(node_mailbox_create(2, &box), BASE_OK);
    assert_int_equal(pthread_create(&taker, NULL, take_one, box), 0);
    assert_int_equal(node_mailbox_post(box, &item), BASE_OK);
    assert_int_equal(pthread_join(taker, &taken), 0);
    assert_ptr_equal(taken, &item);
    node_mailbox_destroy(box, NULL);
}

struct poster {
    struct node_mailbox *box;
    int index;
};

static void *post_all(void *argument)
{
    const struct poster *poster = argument;
    for (int i = 0; i < EACH; i++) {
        struct node_message *message = node_message_new(NODE_MESSAGE_SEND);
        message->bytes = malloc(sizeof i);
        BASE_ASSERT(message->bytes);
        memcpy(message->bytes, &i, sizeof i);
        message->n_bytes = sizeof i;
        message->as.left.exit_status = poster->index;
        while (node_mailbox_post(poster->box, message)) // full: the taker is behind
            sched_yield();
    }
    return NULL;
}

static void messages_of_many_posters_are_neither_lost_nor_reordered(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    int next[POSTERS] = {0};
    assert_int_equal(node_mailbox_create(16, &box), BASE_OK);
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){box, i};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    for (int taken = 0; taken < POSTERS * EACH;) {
        // Alternates between waiting and, like the event loop, waiting on the descriptor and taking all that
        // is there.
        struct pollfd one = {.fd = node_mailbox_descriptor(box), .events = POLLIN};
        bool by_descriptor = taken / 64 % 2;
        if (by_descriptor)
            assert_int_equal(poll(&one, 1, 60000), 1);
        struct node_message *message = node_mailbox_take(box, by_descriptor ? 0 : now_ns() + 60000000000u);
        assert_non_null(message);
        int number;
        memcpy(&number, message->bytes, sizeof number);
        assert_int_equal(number, next[message->as.left.exit_status]++); // in the order of its poster
        node_message_free(message);
        taken++;
    }
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_null(node_mailbox_take(box, 0));
    assert_false(is_readable(box));
    node_mailbox_destroy(box, node_message_free);
}

static void messages_that_are_left_are_released(void **state)
{
    (void)state;
    struct node_mailbox *box = NULL;
    assert_int_equal(node_mailbox_create(LIMIT_MAILBOX, &box), BASE_OK);
    for (int i = 0; i < 10; i++) {
        struct node_message *message = node_message_new(NODE_MESSAGE_EDGES);
        assert_int_equal(message->kind, NODE_MESSAGE_EDGES);
        assert_null(message->bytes);
        message->bytes = malloc(100);
        assert_int_equal(node_mailbox_post(box, message), BASE_OK);
    }
    node_mailbox_destroy(box, node_message_free); // AddressSanitizer would report a leak
    node_message_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mailbox_keeps_order_and_its_bound),
        cmocka_unit_test(put_goes_beyond_the_bound_and_keeps_the_order),
        cmocka_unit_test(the_descriptor_is_readable_while_a_message_is_there),
        cmocka_unit_test(take_waits_until_its_deadline_and_not_less),
        cmocka_unit_test(a_post_wakes_a_waiting_thread),
        cmocka_unit_test(messages_of_many_posters_are_neither_lost_nor_reordered),
        cmocka_unit_test(messages_that_are_left_are_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
