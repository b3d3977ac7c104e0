// Event files of TensorBoard, read back by a small reader: framing, checksums and fields; how often rows are
// written; a full disk.
#include "node/store/tensorboard.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/p2pml-tensorboard-XXXXXX", path[512];
static uint8_t file[1 << 20];
static size_t size;

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command);
}

static void read_file(void)
{
    char node[256];
    snprintf(node, sizeof node, "%s/deep/n-1", directory);
    DIR *d = opendir(node);
    assert_non_null(d);
    size_t found = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, "events.out.tfevents.", 20) == 0) {
            found++;
            snprintf(path, sizeof path, "%s/%s", node, e->d_name);
        }
    closedir(d);
    assert_int_equal(found, 1);
    int f = open(path, O_RDONLY);
    ssize_t got = read(f, file, sizeof file);
    close(f);
    assert_true(got > 0);
    size = (size_t)got;
}

// CRC-32C by polynomial division over the whole message, bit by bit: a different method from the writer's.
static uint32_t crc32c(const uint8_t *bytes, size_t count)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * count; i++) {
        uint32_t bit = (bytes[i / 8] >> (i % 8) & 1u) ^ (crc & 1u);
        crc = crc >> 1 ^ (bit ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint64_t little(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static void assert_crc(const uint8_t *bytes, size_t count, const uint8_t *told)
{
    uint32_t masked = (uint32_t)little(told, 4) - 0xa282ead8u;
    assert_int_equal(masked >> 17 | masked << 15, crc32c(bytes, count));
}

struct scalars {
    uint64_t step;
    double time;
    size_t count;
    struct {
        char tag[64];
        float value;
    } of[16];
    char version[32];
};

static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static void read_value(const uint8_t *at, const uint8_t *end, struct scalars *s)
{
    assert_true(s->count < 16);
    while (at < end) {
        uint64_t key = varint(&at);
        if (key == (1 << 3 | 2)) {
            size_t n = (size_t)varint(&at);
            assert_true(n < 64);
            memcpy(s->of[s->count].tag, at, n);
            at += n;
        } else {
            assert_int_equal(key, 2 << 3 | 5);
            memcpy(&s->of[s->count].value, at, 4);
            at += 4;
        }
    }
    assert_true(at == end);
    s->count++;
}

static void read_event(const uint8_t *at, const uint8_t *end, struct scalars *s)
{
    *s = (struct scalars){0};
    while (at < end) {
        uint64_t key = varint(&at);
        if (key == (1 << 3 | 1)) {
            memcpy(&s->time, at, 8);
            at += 8;
        } else if (key == (2 << 3 | 0)) {
            s->step = varint(&at);
        } else if (key == (3 << 3 | 2)) {
            size_t n = (size_t)varint(&at);
            memcpy(s->version, at, n);
            at += n;
        } else {
            assert_int_equal(key, 5 << 3 | 2);
            size_t n = (size_t)varint(&at);
            const uint8_t *inside = at, *close = at + n;
            while (inside < close) {
                assert_int_equal(varint(&inside), 1 << 3 | 2);
                size_t bytes = (size_t)varint(&inside);
                read_value(inside, inside + bytes, s);
                inside += bytes;
            }
            at = close;
        }
    }
    assert_true(at == end);
}

// Reads the file into events; returns how many.
static size_t events(struct scalars *list, size_t capacity)
{
    size_t count = 0;
    read_file();
    for (const uint8_t *at = file; at < file + size;) {
        size_t n = (size_t)little(at, 8);
        assert_true(at + 16 + n <= file + size && count < capacity);
        assert_crc(at, 8, at + 8);
        assert_crc(at + 12, n, at + 12 + n);
        read_event(at + 12, at + 12 + n, &list[count++]);
        at += 16 + n;
    }
    return count;
}

static double value_of(const struct scalars *s, const char *tag)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->of[i].tag, tag) == 0)
            return (double)s->of[i].value;
    return NAN;
}

static struct node_tensorboard *opened(void)
{
    struct node_tensorboard *t = NULL;
    struct base_reason why;
    char deep[64];
    snprintf(deep, sizeof deep, "%s/deep", directory);
    assert_int_equal(node_tensorboard_open(deep, "n-1", &t, &why), BASE_OK);
    return t;
}

static struct node_metrics_row row_at(double time, uint64_t step)
{
    return (struct node_metrics_row){.time = time,
                                     .step = step,
                                     .bytes_sent = 1024 * step,
                                     .bytes_received = 512,
                                     .loss = 0.5,
                                     .accuracy = NAN,
                                     .test_loss = NAN,
                                     .consensus = NAN,
                                     .rate = 0.125,
                                     .state = "training"};
}

static void a_written_row_is_read_back(void **state)
{
    (void)state;
    struct node_tensorboard *t = opened();
    struct scalars s[8];
    struct node_metrics_row row = row_at(1e9, 100);
    node_tensorboard_write(t, &row);
    row = row_at(1e9 + 0.5, 300); // too soon: its measurement goes into the next row
    row.accuracy = 0.75;
    row.test_loss = 0.25;
    node_tensorboard_write(t, &row);
    row = row_at(1e9 + 2, 500);
    row.loss = INFINITY;
    node_tensorboard_write(t, &row);
    row = row_at(1e9 + 2.1, 510);
    row.state = "finished"; // the last row is always written
    node_tensorboard_write(t, &row);
    node_tensorboard_close(t);
    assert_int_equal(events(s, 8), 4);
    assert_string_equal(s[0].version, "brain.Event:2");
    assert_int_equal(s[1].step, 100);
    assert_true(s[1].time == 1e9 && value_of(&s[1], "loss/train") == 0.5);
    assert_true(isnan(value_of(&s[1], "accuracy/test")) && isnan(value_of(&s[1], "rate/steps_per_second")));
    assert_true(value_of(&s[1], "bytes/sent") == 102400 && value_of(&s[1], "rate/learning") == 0.125);
    assert_int_equal(s[2].step, 500);
    assert_true(value_of(&s[2], "accuracy/test") == 0.75 && value_of(&s[2], "loss/test") == 0.25);
    assert_true(value_of(&s[2], "rate/steps_per_second") == 200);
    assert_true(isnan(value_of(&s[2], "loss/train"))); // not finite: omitted
    assert_true(isnan(value_of(&s[3], "accuracy/test")) && s[3].step == 510);
}

static void a_long_training_stays_small(void **state)
{
    (void)state;
    struct node_tensorboard *t = opened();
    static struct scalars s[7000];
    for (uint64_t i = 0; i < 864000; i++) { // a day with ten rows per second
        struct node_metrics_row row = row_at(1e9 + (double)i / 10, i);
        row.regression = true;
        row.accuracy = row.rmse = 0.5;
        node_tensorboard_write(t, &row);
    }
    node_tensorboard_close(t);
    size_t count = events(s, 7000);
    assert_true(count > 4000 && count < 6000);
    assert_true(size < 1000000);
    assert_true(value_of(&s[9], "r2/test") == 0.5 && value_of(&s[9], "rmse/test") == 0.5);
    assert_true(isnan(value_of(&s[9], "accuracy/test")));
}

static void a_full_disk_leaves_complete_records(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct node_tensorboard *t = opened();
    struct scalars s[8];
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 400;
    setrlimit(RLIMIT_FSIZE, &small);
    for (uint64_t i = 0; i < 10; i++) {
        struct node_metrics_row row = row_at(1e9 + (double)(2 * i), i);
        node_tensorboard_write(t, &row);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    node_tensorboard_close(t);
    size_t count = events(s, 8); // checks every record
    assert_true(count >= 2 && count < 8);
}

static void a_file_in_place_of_the_directory_is_reported(void **state)
{
    (void)state;
    struct node_tensorboard *t = NULL;
    struct base_reason why;
    snprintf(path, sizeof path, "%s/deep", directory);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    assert_int_not_equal(node_tensorboard_open(path, "n-1", &t, &why), BASE_OK);
    assert_non_null(strstr(why.text, "metrics.tensorboard"));
    assert_non_null(strstr(why.text, "deep"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_row_is_read_back, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(a_long_training_stays_small, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_complete_records, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_file_in_place_of_the_directory_is_reported, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
