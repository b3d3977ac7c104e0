#include "lab/sim/sim_queue.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

void *sim_must(void *memory)
{
    BASE_ASSERT(memory);
    return memory;
}

void *sim_copy(const void *memory, size_t bytes)
{
    void *twin = sim_must(malloc(bytes ? bytes : 1));

    if (bytes)
        memcpy(twin, memory, bytes);
    return twin;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

void sim_queue_push(struct sim_queue *queue, const struct sim_event *event)
{
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity ? 2 * queue->capacity : 256;
        queue->heap = sim_must(realloc(queue->heap, queue->capacity * sizeof *queue->heap));
    }
    struct sim_event item = *event;
    item.order = queue->order++;
    if (item.time_ns < queue->now_ns)
        item.time_ns = queue->now_ns;
    size_t at = queue->count++;
    for (; at && before(&item, &queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = item;
}

static struct sim_event pop(struct sim_queue *queue)
{
    struct sim_event top = queue->heap[0], last = queue->heap[--queue->count];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < queue->count; at = child) {
        if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
    }
    queue->heap[at] = last;
    return top;
}

bool sim_queue_run(struct sim_queue *queue, uint64_t until_ns)
{
    if (!queue->count || queue->heap[0].time_ns > until_ns) {
        if (until_ns > queue->now_ns)
            queue->now_ns = until_ns;
        return false;
    }
    struct sim_event event = pop(queue);
    queue->now_ns = event.time_ns;
    event.run(event.owner, &event);
    free(event.bytes);
    return true;
}

void sim_queue_free(struct sim_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++)
        free(queue->heap[i].bytes);
    free(queue->heap);
    *queue = (struct sim_queue){0};
}
