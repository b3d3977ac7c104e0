// CIFAR-10's binary files (Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images"): records
// of one byte of label and 3,072 of pixels, red, green and blue planes of 32 x 32 each.
#ifndef TRAIN_CIFAR_H
#define TRAIN_CIFAR_H

#include "base/error.h"
#include "train/dataset.h"

// `path`: a file of records, or a folder whose data_batch_*.bin files are read in the order of their names. x
// is [examples, 32, 32, 3], value / 255; the ten classes have CIFAR-10's names. Errors name the file:
// BASE_EFORMAT (half a record, a label over 9), BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_cifar10(const char *path, struct train_dataset *data,
                                           struct base_reason *why) BASE_CHECK;

#endif
