// Shared by the loaders: allocation of a data set, and parsers of bytes in memory, which the fuzzers call.
// Private to train/ and its tests. Pure functions; any thread.
#ifndef TRAIN_LOADERS_H
#define TRAIN_LOADERS_H

#include "base/error.h"
#include "train/dataset.h"
#include <stddef.h>
#include <stdint.h>

#define TRAIN_IDX_IMAGES_HEADER_BYTES 16u // magic, count, rows, columns
#define TRAIN_IDX_LABELS_HEADER_BYTES 8u  // magic, count

// Allocates zeroed x and labels or, for a regression (`outputs` > 0, `classes` 0), targets. BASE_ELIMIT: over
// LIMIT_DATASET_VALUES or 2^32-1 examples. BASE_ENOMEM. BASE_EINVAL: no examples or features.
enum base_error train_dataset_allocate(size_t examples, size_t features, size_t classes, size_t outputs,
                                       struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// Sets x[at], or targets[at], to a number of the file, which a float holds. BASE_ENOMEM.
enum base_error train_dataset_put(struct train_dataset *data, size_t at, double value,
                                  struct base_reason *why) BASE_CHECK;
enum base_error train_dataset_put_target(struct train_dataset *data, size_t at, double value,
                                         struct base_reason *why) BASE_CHECK;

// Sparse: allocates the entries that start[0..examples] describes (train/rows.h), which the caller fills in,
// and zeroed labels.
enum base_error train_dataset_allocate_sparse(const size_t *start, size_t examples, size_t features,
                                              size_t classes, struct train_dataset *data,
                                              struct base_reason *why) BASE_CHECK;

// The bytes of a file, borrowed, and its name for messages.
struct train_bytes {
    const char *name;
    const uint8_t *data;
    size_t bytes;
};

// Each of the two may be plain or gzip, recognised by its first bytes.
enum base_error train_idx_parse(const struct train_bytes *images, const struct train_bytes *labels,
                                size_t first, size_t count, size_t classes, struct train_dataset *data,
                                struct base_reason *why) BASE_CHECK;

enum base_error train_libsvm_parse(const struct train_bytes *text, const struct train_libsvm_options *options,
                                   struct train_dataset *data, struct base_reason *why) BASE_CHECK;

enum base_error train_cifar10_parse(const struct train_bytes *files, size_t n_files,
                                    struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// `y` NULL: `x` is a .npz.
enum base_error train_npy_parse(const struct train_bytes *x, const struct train_bytes *y, bool regression,
                                struct train_meaning *like, struct train_dataset *data,
                                struct base_reason *why) BASE_CHECK;

struct train_text_options;
enum base_error train_text_parse(const struct train_bytes *text, const struct train_text_options *options,
                                 struct train_dataset *data, struct base_reason *why) BASE_CHECK;
enum base_error train_tokens_parse(const struct train_bytes *file, size_t width, size_t vocabulary,
                                   size_t context, struct train_dataset *data,
                                   struct base_reason *why) BASE_CHECK;

struct train_table_options;
enum base_error train_csv_parse(const struct train_bytes *text, const struct train_table_options *options,
                                struct train_dataset *data, struct base_reason *why) BASE_CHECK;

#endif
