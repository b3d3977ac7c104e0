// What the lines of a text file look like: LIBSVM rows, a table, or prose. Private to lab/cli. Main thread.
#ifndef LAB_CLI_DATA_GUESS_LINES_H
#define LAB_CLI_DATA_GUESS_LINES_H

#include "node/config/config.h"
#include <stdbool.h>

enum base_error lab_data_assign(struct node_config *config, const char *key, const char *value,
                                struct base_reason *why) BASE_CHECK;

// `start`: the beginning of the file, zero-terminated.
bool lab_data_looks_like_libsvm(const char *start);
// Words and sentences, with no delimiter of a table. `is_named`: the file is called so, as .txt.
bool lab_data_looks_like_prose(const char *start, bool is_named);
// Delimiter and decimal mark.
enum base_error lab_data_guess_table(const char *start, struct node_config *config,
                                     struct base_reason *why) BASE_CHECK;
// Features and labels, which need the whole file.
enum base_error lab_data_guess_libsvm(const char *path, struct node_config *config,
                                      struct base_reason *why) BASE_CHECK;

#endif
