// The entries of the peer list and whom they stand for, as far as handshakes have shown it. An entry may be a
// name with many addresses: it stands for whoever answered there last, or for this node when nobody else did.
// Pure. Loop's thread.
#ifndef NODE_ENTRIES_H
#define NODE_ENTRIES_H

#include "base/error.h"
#include "gossip/id.h"
#include "node/schema.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_entry_state {
    NODE_ENTRY_UNKNOWN, // nobody has answered
    NODE_ENTRY_MEMBER,  // stands for `id`
    NODE_ENTRY_SELF,    // leads to this node only
    NODE_ENTRY_REFUSED, // who answers there trains something else, or is not allowed
};
const char *node_entry_state_name(enum node_entry_state state);

struct node_entry {
    const char *text; // as configured
    enum node_entry_state state;
    bool known;          // id is valid
    struct gossip_id id; // who answered last
    bool self_seen;      // in the turn of calls under way
    uint64_t since_ns;   // of the state
};

struct node_entries;

// `texts` are borrowed.
enum base_error node_entries_create(const struct node_texts *texts, uint64_t now_ns,
                                    struct node_entries **entries) BASE_CHECK;
void node_entries_destroy(struct node_entries *entries); // NULL is fine
size_t node_entries_count(const struct node_entries *entries);
const struct node_entry *node_entries_at(const struct node_entries *entries, size_t entry);

// True: it is news that this entry stands for this id.
bool node_entries_answered(struct node_entries *entries, size_t entry, const struct gossip_id *id,
                           uint64_t now_ns);
void node_entries_refused(struct node_entries *entries, size_t entry, uint64_t now_ns);
void node_entries_self(struct node_entries *entries, size_t entry); // one of its addresses is this node's
// A turn of calls is over and led to nobody else. True: it is news that the entry leads to this node only.
bool node_entries_turned(struct node_entries *entries, size_t entry, uint64_t now_ns);

#endif
