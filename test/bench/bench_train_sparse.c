// How long an epoch of logistic regression over sparse rows takes: gradient over all examples and update, one
// thread, beside one read of the same bytes. torch_sparse.py times PyTorch and scikit-learn on the same file.
//
//     bench_train_sparse FILE [features] [seconds]      (LIBSVM, two classes; a9a has 123 features)
#include "test/support/bench.h"
#include "train/rows.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { EPOCHS_MAX = 100000 };

static double now_ms(void)
{
    return bench_clock(CLOCK_THREAD_CPUTIME_ID) * 1e-6; // other programs may use the machine
}

static void report(const char *name, double *times, size_t count, size_t bytes)
{
    const double median = bench_median(times, count), minimum = bench_minimum(times, count);
    printf("%s median=%.4f min=%.4f GB/s=%.2f count=%zu\n", name, median, minimum,
           (double)bytes / minimum * 1e-6, count);
}

static void fail(const struct base_reason *why)
{
    fprintf(stderr, "bench_train_sparse: %s\n", why->text);
    exit(1);
}

// Four sums, so that additions do not wait for each other.
static uint64_t read_all(const uint64_t *words, size_t count)
{
    uint64_t sum[4] = {0};
    for (size_t i = 0; i + 4 <= count; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sum[k] += words[i + k];
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void bench_epochs(struct train_trainer *trainer, double seconds, size_t bytes, double *times)
{
    size_t epochs = 0;
    for (double end = now_ms() + seconds * 1e3; epochs < EPOCHS_MAX && now_ms() < end; epochs++) {
        struct kernels_loss loss;
        size_t rows;
        const double start = now_ms();
        train_trainer_step(trainer, false, &loss, &rows);
        times[epochs] = now_ms() - start;
    }
    report("epoch_ms", times, epochs, bytes);
}

static void bench_rows(const struct train_csr *csr, size_t examples, double seconds, size_t bytes,
                       double *times)
{
    size_t reads = 0;
    uint64_t sum = 0;
    for (double end = now_ms() + seconds * 1e3; reads < EPOCHS_MAX && now_ms() < end; reads++) {
        const double start = now_ms();
        const size_t entries = csr->start[examples];
        sum += read_all((const uint64_t *)(const void *)csr->start, examples);
        sum += read_all((const uint64_t *)(const void *)csr->column, entries / 2);
        sum += read_all((const uint64_t *)(const void *)csr->value, entries / 2);
        times[reads] = now_ms() - start;
    }
    report("read_ms", times, reads, bytes);
    fprintf(stderr, "(sum %llu)\n", (unsigned long long)sum);
}

int main(int argc, char **argv)
{
    const size_t features = argc > 2 ? strtoull(argv[2], NULL, 10) : 123;
    const double seconds = argc > 3 ? atof(argv[3]) : 2.0;
    static double times[EPOCHS_MAX];
    const struct kernels *kernels;
    struct train_dataset data;
    struct train_model *model = NULL;
    struct train_trainer *trainer = NULL;
    struct base_reason why = {"a LIBSVM file is needed"};
    if (argc < 2 || kernels_open("cpu", 1, &kernels, &why) ||
        train_dataset_load_libsvm(
            argv[1], &(struct train_libsvm_options){.features = features, .classes = 2, .sparse = true},
            &data, &why)) {
        fail(&why);
    }
    const struct train_model_spec spec = {.kind = TRAIN_LOGISTIC, .inputs = features, .classes = 2};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.25, .momentum = 0.9, .batch = data.examples, .l1 = 1e-3};
    float *start = calloc(features + 1, sizeof *start);
    if (!start || train_model_create(&spec, kernels, 1024, &model, &why) ||
        train_trainer_create(&options, model, &data, start, &trainer, &why)) {
        fail(&why);
    }
    const size_t entries = data.csr->start[data.examples];
    const size_t bytes = entries * 8 + (data.examples + 1) * 8 + data.examples * 4; // with the labels
    printf("examples=%zu entries=%zu bytes=%zu\n", data.examples, entries, bytes);
    bench_epochs(trainer, seconds, bytes, times);
    bench_rows(data.csr, data.examples, seconds, bytes, times);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
    free(start);
    return 0;
}
