// Calls one address as a member would: connection, handshake, greeting; then goes, before it counts as a
// member. The node there sees an identity that it knows nothing of, and forgets it. Blocks; bounded in time.
#ifndef LAB_DOCTOR_ASK_H
#define LAB_DOCTOR_ASK_H

#include "gossip/session/session.h"
#include "node/net/path.h"
#include "node/net/resolve.h"

enum lab_ask_end {
    LAB_ASK_GREETED,     // a node of this cluster, which has said how it sees this host
    LAB_ASK_MUTE,        // it has proved its identity, but nothing more has come
    LAB_ASK_TURNED_AWAY, // ... and said goodbye, with `text`
    LAB_ASK_PROTOCOL,    // ... and speaks no protocol that this program speaks
    LAB_ASK_STRANGER,    // what listens there has ended the connection
    LAB_ASK_SILENT,      // ... has accepted it, and sent nothing
    LAB_ASK_REFUSED,     // nothing listens there, or a firewall says so
    LAB_ASK_UNANSWERED,  // no answer at all
    LAB_ASK_FAILED,      // `text`: no route, no permission
};
enum lab_ask_large { LAB_ASK_UNKNOWN, LAB_ASK_ARRIVES, LAB_ASK_VANISHES };

struct lab_ask_options {
    const struct gossip_identity *identity;
    const struct gossip_secrets *secrets;
    const char *cluster;
    const struct node_address *address;
    int listener; // the call leaves from its port; -1: from any
};

struct lab_asked {
    enum lab_ask_end end;
    char text[80];
    bool greets_first;       // the other end, as its id is the higher one
    struct node_address own; // this end of the connection
    struct gossip_id peer;
    struct gossip_protocols protocols;
    struct gossip_greeting greeting; // GREETED
    struct node_path path;           // of an established connection
    enum lab_ask_large large;        // packets as large as the path is said to allow, from here to there
};

// An identity for one conversation. Its id is lower than (nearly) any other, so that the node there greets
// first.
enum base_error lab_ask_identity(struct gossip_identity *identity) BASE_CHECK;
void lab_ask(const struct lab_ask_options *options, struct lab_asked *asked);

#endif
