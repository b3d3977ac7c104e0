// Filters on lists in the memory of another backend.
#include "compress_filters.h"
#include "test/support/compress_tools.h"
#include <sys/mman.h>

// A backend whose memory the host can access only through the table.
static struct {
    uint8_t *memory;
    size_t bytes, used;
} device;

static void device_open(bool open)
{
    assert_int_equal(mprotect(device.memory, device.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}

static void *device_alloc(size_t bytes)
{
    void *memory = device.memory + device.used;
    device.used += (bytes + 63) / 64 * 64;
    assert_true(device.used <= device.bytes);
    return memory;
}

static void *device_alloc_none(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void device_release(void *memory)
{
    assert_ptr_not_equal(memory, NULL);
}

static void device_copy(void *to, const void *from, size_t bytes)
{
    device_open(true);
    memcpy(to, from, bytes);
    device_open(false);
}

static void device_wait(void)
{
}

static void device_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index,
                        float *value)
{
    device_open(true);
    host_pick(a, entries, index, value);
    device_open(false);
}

static const struct kernels_select other_select = {.pick = device_pick};
static const struct kernels other = {.name = "other",
                                     .alloc = device_alloc,
                                     .release = device_release,
                                     .upload = device_copy,
                                     .download = device_copy,
                                     .wait = device_wait,
                                     .select = &other_select};

static void device_create(void)
{
    device.bytes = 1 << 20;
    device.used = 0;
    device.memory = mmap(NULL, device.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(device.memory != MAP_FAILED);
}

static void device_destroy(void)
{
    munmap(device.memory, device.bytes);
    device.memory = NULL;
}

// Moves the world's vectors and list to the device; the list comes back into kept_*.
static struct compress_sparse device_move(struct kernels_difference *a)
{
    size_t count = world.entries.capacity;
    float *x = device_alloc(sizeof world.x), *r = device_alloc(sizeof world.r);
    struct compress_sparse there = {.index = device_alloc(count * 4),
                                    .value = device_alloc(count * 4),
                                    .count = world.entries.count,
                                    .capacity = count};
    device_copy(x, world.x, sizeof world.x);
    device_copy(r, world.r, sizeof world.r);
    device_copy(there.index, world.kept_index, count * 4);
    device_copy(there.value, world.kept_value, count * 4);
    *a = (struct kernels_difference){.x = x, .r = r, .count = ELEMENTS};
    world.turn.kernels = &other;
    world.turn.a = a;
    return there;
}

static void device_return(const struct compress_sparse *there)
{
    world.entries.count = there->count;
    device_copy(world.kept_index, there->index, there->count * 4);
    device_copy(world.kept_value, there->value, there->count * 4);
}

static void another_backend_gives_the_same_list(void **state)
{
    (void)state;
    static const char *const texts[] = {"random-skip:0.5", "significantly-modified:0.25",
                                        "random-skip:0.25,significantly-modified:0.1"};
    static uint32_t index[COUNT_MAX];
    static float value[COUNT_MAX];
    for (size_t i = 0; i < 3 * COUNTS; i++) {
        struct kernels_difference a;
        struct compress_filters filters = chain_of(texts[i % 3]);
        world_fill(counts[i / 3]);
        world_drop(texts[i % 3]);
        size_t kept = world.entries.count;
        memcpy(index, world.kept_index, kept * sizeof *index);
        memcpy(value, world.kept_value, kept * sizeof *value);
        device_create();
        world_fill(counts[i / 3]);
        struct compress_sparse there = device_move(&a);
        assert_int_equal(compress_filters_drop(&filters, &world.turn, &there), BASE_OK);
        device_return(&there);
        device_destroy();
        assert_int_equal(world.entries.count, kept);
        assert_memory_equal(world.kept_index, index, kept * sizeof *index);
        assert_memory_equal(world.kept_value, value, kept * sizeof *value);
    }
}

static void another_backend_sends_the_same_keys(void **state)
{
    (void)state;
    struct compress_history history = {0};
    struct kernels_difference a;
    struct compress_filters filters = chain_of("same-keys:1");
    bool chosen;
    device_create();
    world_fill(500);
    history_sent(&history, world.index, 500, false);
    struct compress_sparse there = device_move(&a);
    there.count = 0;
    world.turn.last = &history;
    assert_int_equal(compress_filters_choose(&filters, &world.turn, &there, &chosen), BASE_OK);
    assert_true(chosen);
    memset(world.kept_index, 0, sizeof world.kept_index);
    memset(world.kept_value, 0, sizeof world.kept_value);
    device_return(&there);
    assert_keeps(500, all);
    compress_history_forget(&history);
    device_destroy();
}

static void out_of_memory_changes_nothing(void **state)
{
    (void)state;
    struct kernels full = other;
    struct kernels_difference a;
    struct compress_filters filters = chain_of("significantly-modified:0.25");
    full.alloc = device_alloc_none;
    device_create();
    world_fill(500);
    struct compress_sparse there = device_move(&a);
    world.turn.kernels = &full;
    assert_int_equal(compress_filters_drop(&filters, &world.turn, &there), BASE_ENOMEM);
    device_return(&there);
    assert_keeps(500, all);
    device_destroy();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_backend_gives_the_same_list),
        cmocka_unit_test(another_backend_sends_the_same_keys),
        cmocka_unit_test(out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
