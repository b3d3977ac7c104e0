// Future events in the order of virtual time; events of one moment run in the order of insertion. A binary
// heap of events by value. One owner.
#ifndef LAB_SIM_QUEUE_H
#define LAB_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MS     1000000ull
#define SIM_SECOND 1000000000ull

struct sim_event {
    uint64_t time_ns, order;
    void (*run)(void *owner, struct sim_event *event);
    void *owner;
    uint64_t a, b, c; // for the owner
    uint8_t *bytes;   // malloc'ed; freed after run unless run set it to NULL
    size_t n_bytes;
};

struct sim_queue {
    struct sim_event *heap;
    size_t count, capacity;
    uint64_t now_ns, order;
};

void *sim_must(void *memory); // returns memory; NULL ends the program
void *sim_copy(const void *memory, size_t bytes);

void sim_queue_push(struct sim_queue *queue, const struct sim_event *event);
// Runs the next event if it is due by `until_ns`; else moves the time there and returns false.
bool sim_queue_run(struct sim_queue *queue, uint64_t until_ns);
void sim_queue_free(struct sim_queue *queue);

#endif
