// What the checks of a configuration share.
#ifndef NODE_CONFIG_PRIVATE_H
#define NODE_CONFIG_PRIVATE_H

#include "base/log.h"
#include "node/config/config.h"

#define NODE_DIGITS_FEATURES 784u
#define NODE_DIGITS_CLASSES  10u

// Puts the origin of the key's value and the key before the reason; returns `error`.
enum base_error node_config_at(const struct node_config *config, const char *key, struct base_reason *why,
                               enum base_error error);
// The value of a key is wrong: what was found and what was expected. Returns `code`, or BASE_EINVAL.
enum base_error node_config_fail(const struct node_config *config, const char *key, enum base_error error,
                                 struct base_reason *why, const char *format, ...) BASE_PRINTF(5, 6);
#define node_config_refuse(config, key, why, ...) node_config_fail(config, key, BASE_EINVAL, why, __VA_ARGS__)
void node_config_say(enum base_log_level level, const struct node_config *config, const char *key,
                     const char *format, ...) BASE_PRINTF(4, 5);
// A key at its default is never an error: configs/node/node.yaml shows all of them.
void node_config_warn_unused(const struct node_config *config, const char *key, const char *used_when);

// Checks that a file can be read; `what` is its content, in words.
enum base_error node_config_check_file(const struct node_config *config, const char *key, const char *path,
                                       const char *what, struct base_reason *why) BASE_CHECK;
enum base_error node_config_check_data(const struct node_config *config, struct base_reason *why) BASE_CHECK;
enum base_error node_config_check_method(const struct node_config *config,
                                         struct base_reason *why) BASE_CHECK;
enum base_error node_config_check_topology(const struct node_config *config,
                                           struct base_reason *why) BASE_CHECK;
enum base_error node_config_check_runnable_method(const struct node_config *config,
                                                  struct base_reason *why) BASE_CHECK;

enum base_error node_config_check_train(const struct node_config *config, struct base_reason *why) BASE_CHECK;
enum base_error node_config_check_average(const struct node_config *config,
                                          struct base_reason *why) BASE_CHECK;

#endif
