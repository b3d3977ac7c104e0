// Labelled examples in host memory, dense fp32 rows. Loaders validate the whole input before they return
// anything. A data set is immutable, and any thread may read it, with one exception: its owner may scale it
// in place while no other thread reads it.
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include "base/error.h"
#include "train/meaning.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct train_csr;
struct train_tokens;

// How a file was divided into examples to train on and examples to test on (train/split.h).
struct train_split {
    size_t examples, tests; // in the file, and of them held out; tests 0: not divided, examples 0: not known
    size_t seen;            // of these: also, with the same values, among those to train on
    uint64_t digest, tests_digest;
    double part;
    uint64_t seed;
};

struct train_dataset {
    size_t examples, features, classes;
    float *x; // [examples, features], 64-byte aligned; NULL if the examples are sparse
    // What a number of the file has beyond its float in x or targets: [examples, features] and [examples,
    // outputs]; NULL: nothing. Until the data are scaled (train/scale.h), x + x_rest is the number.
    float *x_rest, *targets_rest;
    struct train_csr *csr;          // the examples if they are sparse (train/rows.h); else NULL
    size_t height, width, channels; // if the examples are images: x is [examples, height, width, channels];
                                    // else 0
    uint32_t *labels;               // [examples], each < classes; NULL for a regression, where classes is 0
    size_t whole; // number of examples in the set that this one was cut from; equal to `examples` if
                  // nothing was cut
    struct train_split split; // of the file that both parts came from
    // Of data that are not scaled, the number, from 1, of the first feature whose numbers a float cannot tell
    // apart, how many different ones the file has, and how many are left (train/scale.h); 0: none.
    size_t collapsed, different, left;
    size_t mapped_bytes; // size of x, and of x_rest, if they are separate memory mappings; 0: malloc'ed
    // The encoding in the file, so that a model can be used on other files of this kind: x is the number in
    // the file divided by input_divisor; class 0 is first_label in the file, unless the meaning names the
    // classes.
    float input_divisor;
    int32_t first_label;
    size_t outputs;                // for a regression, else 0
    float *targets;                // [examples, outputs] for a regression, else NULL
    struct train_meaning *meaning; // shared; NULL: plain numbers, and classes counted from 0
    // For text (train/tokens.h), in which case x and labels are NULL, features is the context and classes the
    // vocabulary; else both NULL.
    struct train_tokens *tokens; // shared
    size_t *starts;              // [examples], ascending: the first token of each window
};
void train_dataset_destroy(struct train_dataset *data);        // leaves {0}
void train_dataset_round(struct train_dataset *data);          // frees x_rest and targets_rest
size_t train_dataset_labels(const struct train_dataset *data); // labels of one example: 1, or for text one
                                                               // per token

// IDX files (http://yann.lecun.com/exdb/mnist, "the IDX file format"), plain or gzip: unsigned byte images
// and labels of equal count; pixels become value/255. Examples first .. first+count-1 (count 0: to the end).
// `classes` bounds the labels. Errors name the file, what was found and what was expected; BASE_ENOTFOUND,
// BASE_EFORMAT, BASE_ELIMIT, BASE_EMISMATCH (counts differ), BASE_EIO.
enum base_error train_dataset_load_idx(const char *images, const char *labels, size_t first, size_t count,
                                       size_t classes, struct train_dataset *data,
                                       struct base_reason *why) BASE_CHECK;

// LIBSVM text ("label index:value ..."), indices from 1, ascending, <= features; "#" begins a comment. The
// labels are whole numbers, and the names of the classes in the meaning.
struct train_libsvm_options {
    size_t features, classes;
    struct train_names labels;  // the label of each class, in order; none: from `like`, or from the file
    struct train_meaning *like; // borrowed; NULL: the file must show whether its `classes` labels count from
                                // 0 or from 1, or are -1 and +1
    size_t first, count;        // as above
    bool sparse;                // the rows stay sparse, in data->csr instead of x
};
// Errors name file and line; BASE_EFORMAT (NaN and Inf, too), BASE_EMISMATCH (another label than the known
// ones), BASE_EINVAL, BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_libsvm(const char *path, const struct train_libsvm_options *options,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// Built-in digits: 28x28, ten classes, drawn from strokes under random affine and elastic distortion,
// thickness and noise. Example i of a seed is always the same picture, with a label drawn from the seed. The
// set is unbounded; this makes examples first .. first+count-1. Pixels in [0, 1].
enum base_error train_dataset_make_digits(uint64_t seed, uint64_t first, size_t count,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;
// The same examples without pictures: only labels, classes and number, for a partition.
enum base_error train_dataset_outline_digits(uint64_t seed, uint64_t first, size_t count,
                                             struct train_dataset *outline,
                                             struct base_reason *why) BASE_CHECK;
// Of the examples from `first` on, makes those in rows[count], with the same result as train_dataset_subset
// of all. The caller sets `whole`.
enum base_error train_dataset_draw_digits(uint64_t seed, uint64_t first, const uint32_t *rows, size_t count,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// Checks first and count against the `examples` that `name` has. *taken: the number of examples selected.
// BASE_EINVAL.
enum base_error train_dataset_range(const char *name, size_t examples, size_t first, size_t count,
                                    size_t *taken, struct base_reason *why) BASE_CHECK;

// Copies the rows rows[0..count-1]; the meaning is shared.
enum base_error train_dataset_subset(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                     struct train_dataset *subset) BASE_CHECK;

// Which shard trains on which example: owner[i] in [0, shards) for every example. `contiguous`: runs of
// consecutive examples of equal length. `iid`: a seeded shuffle, divided equally. `dirichlet`: for each
// class, proportions ~ Dirichlet(alpha, ..., alpha) over the shards (Yurochkin et al. 2019); redrawn, a
// bounded number of times, until every shard has at least `least` examples; after that, small shards are
// filled up from the largest. Seeded.
enum base_error train_partition_contiguous(size_t examples, size_t shards, uint32_t *owner) BASE_CHECK;
enum base_error train_partition_iid(size_t examples, size_t shards, uint64_t seed,
                                    uint32_t *owner) BASE_CHECK;
enum base_error train_partition_dirichlet(const uint32_t *labels, size_t examples, size_t classes,
                                          size_t shards, double alpha, size_t least, uint64_t seed,
                                          uint32_t *owner, struct base_reason *why) BASE_CHECK;

// Which shard trains on which example while only the shards s with living[s] have a node. An example of a
// living shard stays there; an example of an orphaned shard goes to the living shard with the highest hash of
// (seed, example, shard). So all nodes compute the same result, and when a shard dies or returns, only the
// examples that it gives or takes move. `trainer` may be `owner`. BASE_EINVAL: no shard is living, or an
// owner is not a shard.
enum base_error train_partition_living(const uint32_t *owner, size_t examples, const bool *living,
                                       size_t shards, uint64_t seed, uint32_t *trainer) BASE_CHECK;

#endif
