// Guesses the settings data.* for a file from its name and its first bytes. Blocking; main thread.
#ifndef LAB_CLI_DATA_GUESS_H
#define LAB_CLI_DATA_GUESS_H

#include "lab/cli/data_guess_lines.h"

// Reads the beginning of a file, unpacked where it is gzip, into text[capacity], zero-terminated; "" where it
// cannot be read.
void lab_data_start(const char *path, char *text, size_t capacity);
// Sets the kind, the files, and the other settings that this kind needs. `kind`: what --set data.kind says,
// NULL: found out. *certain: the file states its kind; otherwise it is a guess from its first lines.
// BASE_ENOTFOUND, BASE_EINVAL (nothing can be told), BASE_EFORMAT.
enum base_error lab_data_guess(const char *path, const char *kind, struct node_config *config, bool *certain,
                               struct base_reason *why) BASE_CHECK;

#endif
