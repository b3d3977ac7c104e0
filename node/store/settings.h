// Settings that were changed while the cluster trained, kept for --resume: <node.dir>/settings, a line
// "number round by value before" for each. Main thread.
#ifndef NODE_STORE_SETTINGS_H
#define NODE_STORE_SETTINGS_H

#include "base/error.h"
#include "gossip/setting.h"

// All zero if there is no file. BASE_EIO, BASE_EFORMAT with the reason.
enum base_error node_settings_read(const char *directory, struct gossip_setting settings[GOSSIP_SETTINGS],
                                   struct base_reason *why) BASE_CHECK;
// Replaces the whole file. BASE_EIO with the reason.
enum base_error node_settings_write(const char *directory,
                                    const struct gossip_setting settings[GOSSIP_SETTINGS],
                                    struct base_reason *why) BASE_CHECK;

#endif
