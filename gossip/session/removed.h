// The list of the members that the operator of a cluster has removed. Whoever has the operator's identity
// signs it; all nodes that know the operator's id pass it on and keep it. A list with a higher number
// replaces an older one, so an id that is no longer in it may come back. Pure; any thread.
//
//     u64 number, little-endian | 32 bytes of each id, ascending | 64 bytes of signature
//
// The signature is over "p2pml removed", a zero byte, the name of the cluster, a zero byte, number and ids.
#ifndef GOSSIP_SESSION_REMOVED_H
#define GOSSIP_SESSION_REMOVED_H

#include "gossip/session/identity.h"

#define GOSSIP_REMOVED_LEAST (8u + 64u) // bytes of an empty list
#define GOSSIP_REMOVED_BYTES (GOSSIP_REMOVED_LEAST + LIMIT_REMOVED * GOSSIP_ID_BYTES)

// Sorts the list, leaves out what is there twice, and signs it. `cluster`: cluster.name.
void gossip_removed_sign(struct gossip_removed *list, const char *cluster, const struct gossip_identity *by);
size_t gossip_removed_write(const struct gossip_removed *list, uint8_t out[GOSSIP_REMOVED_BYTES]);
// BASE_EFORMAT: it is no list. BASE_EAUTH: it is not signed by this operator for this cluster. Then *list is
// as before.
enum base_error gossip_removed_read(const uint8_t *bytes, size_t count, const char *cluster,
                                    const struct gossip_id *by, struct gossip_removed *list) BASE_CHECK;

// The same as hex digits, for `p2pml set`. BASE_EFORMAT: no such digits, or too many.
#define GOSSIP_REMOVED_HEX (2u * GOSSIP_REMOVED_BYTES + 1)
void gossip_removed_hex(const struct gossip_removed *list, char hex[GOSSIP_REMOVED_HEX]);
enum base_error gossip_removed_bytes(const char *hex, uint8_t out[GOSSIP_REMOVED_BYTES],
                                     size_t *count) BASE_CHECK;

#endif
