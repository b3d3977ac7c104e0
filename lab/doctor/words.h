// What a call of p2pml doctor means, in words. Pure.
#ifndef LAB_DOCTOR_WORDS_H
#define LAB_DOCTOR_WORDS_H

#include "lab/doctor/ask.h"
#include "lab/doctor/findings.h"

// How one peer saw this host.
struct lab_sighting {
    char peer[64];               // for people
    char own[NODE_ADDRESS_TEXT]; // this end of the connection
    char seen[GOSSIP_SEEN_TEXT]; // the same end as the peer sees it
    bool listen_port;            // the call left from the port of node.listen
};

// `about`: the entry of the peer list; `address`: the one of its addresses that was called.
void lab_words_asked(const char *about, const char *address, const struct lab_asked *asked,
                     struct lab_findings *findings);
bool lab_words_same_host(const char *a, const char *b); // HOST:PORT
// What stands between this host and those that saw it.
void lab_words_router(const struct lab_sighting *sightings, size_t count, unsigned port,
                      struct lab_findings *findings);

// The router forwards this address, but stands behind another router.
void lab_words_double(const char *address, const char *by, unsigned port, struct lab_findings *findings);
// Whether the router of this host offers ports. `address`: its own outside, "": no router answers; `by`: how
// it was asked; `seen`: where a peer outside sees this host, "": not known.
void lab_words_offer(const char *address, const char *by, const char *seen, bool public, unsigned port,
                     struct lab_findings *findings);

#endif
