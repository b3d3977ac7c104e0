// Who belongs to the cluster, as this node knows it: a table of members and what became of them. Pure: time
// comes in as an argument, what follows goes out as an answer; it refuses to know sockets. Rows are this node
// itself (row 0), one for every entry of the peer list (rows 1..entries, in its order) and one for every
// other node that has greeted.
//
// The view is what topology works on: this node and every peer that has greeted and is not forgotten, in the
// order of topology_member_key(seed, name), then name. Loop's thread.
#ifndef NODE_ROSTER_H
#define NODE_ROSTER_H

#include "base/error.h"
#include "base/limits.h"
#include "gossip/id.h"
#include "node/schema.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_member_state {
    NODE_MEMBER_UNKNOWN,     // listed, nothing heard yet
    NODE_MEMBER_CONNECTING,  // being called
    NODE_MEMBER_ALIVE,       // linked
    NODE_MEMBER_UNREACHABLE, // was linked
    NODE_MEMBER_FINISHED,    // has done its last step (and may still be linked)
    NODE_MEMBER_REFUSED,     // trains something else, or is not allowed
    NODE_MEMBER_SELF,
};
const char *node_member_state_name(enum node_member_state state);

struct node_member {
    bool known;  // id is valid
    bool linked; // a greeted link exists
    bool in_view;
    bool listed;   // an entry of the peer list
    bool left_out; // an entry that is this node itself, or reaches the same node as another
    bool done;     // said so since its latest link
    struct gossip_id id;
    char name[LIMIT_NODE_NAME_BYTES];
    char address[LIMIT_HOST_BYTES + 8]; // as configured, else where it came from
    enum node_member_state state;
    uint64_t since_ns; // of the state
};

struct node_roster;

struct node_roster_options {
    struct gossip_id self;
    const char *name, *address;
    const struct node_texts *peers; // copied
    uint64_t topology_seed;
    uint64_t now_ns;
};
enum base_error node_roster_create(const struct node_roster_options *options,
                                   struct node_roster **roster) BASE_CHECK;
void node_roster_destroy(struct node_roster *roster);

size_t node_roster_count(const struct node_roster *roster);
const struct node_member *node_roster_at(const struct node_roster *roster, size_t row);
const struct node_member *node_roster_find(const struct node_roster *roster,
                                           const struct gossip_id *id); // NULL: no row
// The row of an entry of the peer list.
const struct node_member *node_roster_entry(const struct node_roster *roster, size_t entry);

void node_roster_calling(struct node_roster *roster, size_t entry, uint64_t now_ns);
void node_roster_call_failed(struct node_roster *roster, size_t entry,
                             uint64_t now_ns); // nobody answered there

enum node_learned {
    NODE_LEARNED_PEER,      // this entry stands for that node
    NODE_LEARNED_SELF,      // ... for this node itself: left out from now on
    NODE_LEARNED_DUPLICATE, // ... for a node that an earlier entry stands for: left out
};
// A handshake proved who answers at an entry's address.
enum node_learned node_roster_learn(struct node_roster *roster, size_t entry, const struct gossip_id *id,
                                    uint64_t now_ns);

// A link to `id` is up. BASE_ELIMIT: the table is full.
enum base_error node_roster_up(struct node_roster *roster, const struct gossip_id *id, const char *name,
                               const char *address, uint64_t now_ns) BASE_CHECK;
void node_roster_down(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns);
void node_roster_done(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns);
void node_roster_refused(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns);

// Who else bears this name and is in the view; NULL for nobody.
const struct node_member *node_roster_bearer(const struct node_roster *roster, const char *name,
                                             const struct gossip_id *except);

// Drops one member that has been away for `after_ns` from the view, into *id. False: there is none (more).
bool node_roster_forget(struct node_roster *roster, uint64_t now_ns, uint64_t after_ns, struct gossip_id *id);
// Drops this one at once, if it is in the view and not linked.
bool node_roster_forget_id(struct node_roster *roster, const struct gossip_id *id, uint64_t now_ns);

// The view into ids[capacity]; returns how many it has.
size_t node_roster_view(const struct node_roster *roster, struct gossip_id *ids, size_t capacity);
// Grows with every change of the view.
uint64_t node_roster_revision(const struct node_roster *roster);

#endif
