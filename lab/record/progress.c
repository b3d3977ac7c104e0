#include "lab/record/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KILOBYTE 1000u

void lab_print_count(uint64_t value, char text[LAB_NUMBER_BYTES])
{
    char digits[LAB_NUMBER_BYTES];
    size_t count = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, value), used = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

void lab_print_percent(double fraction, char text[LAB_NUMBER_BYTES])
{
    if (isnan(fraction))
        snprintf(text, LAB_NUMBER_BYTES, "-");
    else
        snprintf(text, LAB_NUMBER_BYTES, "%.2f%%", 100 * fraction);
}

void lab_print_accuracy(double value, bool regression, char text[LAB_NUMBER_BYTES])
{
    (regression ? lab_print_real : lab_print_percent)(value, text);
}

// Four decimals; scientific notation for values that are too small or too large for that.
void lab_print_real(double value, char text[LAB_NUMBER_BYTES])
{
    double size = fabs(value);
    if (isnan(value))
        snprintf(text, LAB_NUMBER_BYTES, "-");
    else if (size >= 10000 || (size < 0.001 && size > 0))
        snprintf(text, LAB_NUMBER_BYTES, "%.2e", value);
    else
        snprintf(text, LAB_NUMBER_BYTES, "%.4f", value);
}

void lab_print_bytes(uint64_t bytes, char text[LAB_NUMBER_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= KILOBYTE;
        unit++;
    }
    snprintf(text, LAB_NUMBER_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void lab_progress_heading(bool regression, char line[LAB_LINE_BYTES])
{
    snprintf(line, LAB_LINE_BYTES, "%-8s %9s %11s %10s %9s %10s %11s  %s", "node", "round", "step", "loss",
             regression ? "R2" : "accuracy", "consensus", "kB sent", "state");
}

struct words {
    char round[LAB_NUMBER_BYTES], step[LAB_NUMBER_BYTES], loss[LAB_NUMBER_BYTES], accuracy[LAB_NUMBER_BYTES],
        consensus[LAB_NUMBER_BYTES], sent[LAB_NUMBER_BYTES];
};

static struct words to_words(const struct lab_progress *progress)
{
    struct words words = {"-", "-", "-", "-", "-", "-"};
    if (!progress->lines)
        return words;
    lab_print_count(progress->row.round, words.round);
    lab_print_count(progress->row.step, words.step);
    lab_print_real(progress->row.loss, words.loss);
    lab_print_accuracy(progress->row.accuracy, progress->row.regression, words.accuracy);
    lab_print_real(progress->row.consensus, words.consensus);
    lab_print_count(progress->row.bytes_sent / KILOBYTE, words.sent);
    return words;
}

void lab_progress_row(const struct lab_progress *progress, char line[LAB_LINE_BYTES])
{
    const struct words words = to_words(progress);
    snprintf(line, LAB_LINE_BYTES, "%-8s %9s %11s %10s %9s %10s %11s  %s", progress->name, words.round,
             words.step, words.loss, words.accuracy, words.consensus, words.sent, progress->state);
}

void lab_progress_plain(const struct lab_progress *progress, double seconds, char line[LAB_LINE_BYTES])
{
    const struct words words = to_words(progress);
    if (!progress->lines)
        snprintf(line, LAB_LINE_BYTES, "%6.1f s  %s  %s", seconds, progress->name, progress->state);
    else
        snprintf(line, LAB_LINE_BYTES,
                 "%6.1f s  %s  round %s  step %s  loss %s  %s %s  consensus %s  %s kB sent  %s", seconds,
                 progress->name, words.round, words.step, words.loss,
                 progress->row.regression ? "R2" : "accuracy", words.accuracy, words.consensus, words.sent,
                 progress->state);
}
