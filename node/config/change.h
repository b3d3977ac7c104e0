// Which keys can be changed while the cluster trains (`p2pml set`), and their values. Pure.
#ifndef NODE_CONFIG_CHANGE_H
#define NODE_CONFIG_CHANGE_H

#include "gossip/setting.h"
#include "node/config/config.h"

const char *node_change_key(enum gossip_setting_kind kind); // "train.rate"
void node_change_bounds(enum gossip_setting_kind kind, double *least, double *most);
// "key=value", checked as a configuration is. BASE_EINVAL: an unknown key, one that cannot be changed, or a
// wrong value; the reason says which and what was expected.
enum base_error node_change_parse(const char *assignment, enum gossip_setting_kind *kind, double *value,
                                  struct base_reason *why) BASE_CHECK;
// As every node of the cluster was started.
double node_change_initial(const struct node_config *config, enum gossip_setting_kind kind);

#endif
