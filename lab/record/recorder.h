// Measurements of an experiment in progress: rounds.jsonl in the directory of a run, one JSON object per
// line. Written by `p2pml run` and by both engines of `p2pml sim`; read by results, report and plot. One
// owner.
#ifndef LAB_RECORD_RECORDER_H
#define LAB_RECORD_RECORDER_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct lab_sample {           // NAN: not known, null in the file
    uint64_t round;           // done, mean over the present nodes
    uint64_t step;            // local steps, the same
    double time;              // seconds since training began: virtual, or real
    uint64_t bytes;           // sent by all nodes so far, all framing included
    uint64_t nodes;           // present
    double accuracy, loss;    // of the averaged model on the test examples
    double worst, mean, best; // accuracy of single nodes
    double consensus;         // RMS distance of the models to their mean over its norm
    double train_loss;        // mean over the nodes, of their latest round
    double rmse;              // of a regression, whose accuracies are R2; not in the file
    bool regression;          // not in the file
};

struct lab_recorder {
    FILE *file;
    uint64_t points;
};

enum base_error lab_recorder_open(const char *path, struct lab_recorder *recorder,
                                  struct base_reason *why) BASE_CHECK;
// BASE_EIO: the disk is full.
enum base_error lab_recorder_add(struct lab_recorder *recorder, const struct lab_sample *sample,
                                 struct base_reason *why) BASE_CHECK;
enum base_error lab_recorder_close(struct lab_recorder *recorder, struct base_reason *why) BASE_CHECK;

// The next line of a file of samples. 1: a sample; 0: the end; negative: BASE_EFORMAT, the line is not a
// sample.
int lab_sample_read(FILE *file, struct lab_sample *sample);

#endif
