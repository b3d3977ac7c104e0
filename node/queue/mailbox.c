#include "node/queue/mailbox.h"

#include "node/queue/condition.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct node_mailbox {
    pthread_mutex_t lock;   // guards all below
    pthread_cond_t arrived; // on CLOCK_MONOTONIC
    int descriptor;         // counter 1 exactly while count > 0
    size_t capacity;        // of node_mailbox_post
    void **items;           // ring of `room`, of which `count` are used from `first` on
    size_t room, first, count;
};

enum base_error node_mailbox_create(size_t capacity, struct node_mailbox **mailbox)
{
    if (!capacity || capacity > SIZE_MAX / sizeof(void *) / 2)
        return BASE_EINVAL;
    struct node_mailbox *box = calloc(1, sizeof *box);
    void **items = calloc(capacity, sizeof *items);
    const int descriptor = box && items ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (descriptor < 0) {
        enum base_error error = box && items ? BASE_EIO : BASE_ENOMEM;
        free(items);
        free(box);
        return error;
    }
    *box = (struct node_mailbox){
        .descriptor = descriptor, .capacity = capacity, .items = items, .room = capacity};
    node_condition_init(&box->lock, &box->arrived);
    *mailbox = box;
    return BASE_OK;
}

void node_mailbox_destroy(struct node_mailbox *mailbox, void (*release)(void *item))
{
    if (!mailbox)
        return;
    for (size_t i = 0; release && i < mailbox->count; i++)
        release(mailbox->items[(mailbox->first + i) % mailbox->room]);
    pthread_cond_destroy(&mailbox->arrived);
    pthread_mutex_destroy(&mailbox->lock);
    close(mailbox->descriptor);
    free(mailbox->items);
    free(mailbox);
}

// With the lock.
static void append(struct node_mailbox *box, void *item)
{
    static const uint64_t one = 1;
    BASE_ASSERT(item && box->first < box->room &&
                box->count <= box->room); // take() returns NULL for "nothing"
    if (box->count == box->room) {
        void **items = malloc(2 * box->room * sizeof *items);
        BASE_ASSERT(items); // a few bytes, as for a message
        for (size_t i = 0; i < box->count; i++)
            items[i] = box->items[(box->first + i) % box->room];
        free(box->items);
        box->items = items;
        box->room *= 2;
        box->first = 0;
    }
    box->items[(box->first + box->count) % box->room] = item;
    if (!box->count++) {
        const ssize_t wrote = write(box->descriptor, &one, sizeof one);
        BASE_ASSERT(wrote == (ssize_t)sizeof one);
    }
    pthread_cond_signal(&box->arrived);
}

enum base_error node_mailbox_post(struct node_mailbox *mailbox, void *item)
{
    pthread_mutex_lock(&mailbox->lock);
    enum base_error error = mailbox->count < mailbox->capacity ? BASE_OK : BASE_ELIMIT;
    if (!error)
        append(mailbox, item);
    pthread_mutex_unlock(&mailbox->lock);
    return error;
}

void node_mailbox_put(struct node_mailbox *mailbox, void *item)
{
    pthread_mutex_lock(&mailbox->lock);
    append(mailbox, item);
    pthread_mutex_unlock(&mailbox->lock);
}

enum base_error node_mailbox_post_by(struct node_mailbox *mailbox, void *item, uint64_t deadline_ns)
{
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    enum base_error error;
    while ((error = node_mailbox_post(mailbox, item)) && node_clock_ns() <= deadline_ns)
        nanosleep(&moment, NULL);
    return error;
}

void node_mailbox_deliver(struct node_mailbox *mailbox, void *item)
{
    BASE_ASSERT(!node_mailbox_post_by(mailbox, item, UINT64_MAX));
}

void *node_mailbox_take(struct node_mailbox *mailbox, uint64_t deadline_ns)
{
    void *item = NULL;
    uint64_t counter;
    pthread_mutex_lock(&mailbox->lock);
    while (!mailbox->count && node_condition_wait(&mailbox->lock, &mailbox->arrived, deadline_ns))
        ;
    if (mailbox->count) {
        item = mailbox->items[mailbox->first];
        mailbox->first = (mailbox->first + 1) % mailbox->room;
        if (!--mailbox->count) {
            const ssize_t got = read(mailbox->descriptor, &counter, sizeof counter);
            BASE_ASSERT(got == (ssize_t)sizeof counter);
        }
    }
    pthread_mutex_unlock(&mailbox->lock);
    return item;
}

int node_mailbox_descriptor(struct node_mailbox *mailbox)
{
    return mailbox->descriptor;
}
