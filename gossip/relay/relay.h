// Streams of bytes between two members over a third, which is linked with both. One object is a node's part
// in all of them: an end (of its own calls, and of the calls of others) and, if it has a rate, a relay.
// Rules: README.md.
//
//       caller                        relay                         callee
//     gossip_relay_call -- OPEN ---> forwards ---- CALLED ---------> ACCEPT
//     READ ------------ DATA ------> checks window and rate, DATA --> DELIVER
//     ALLOW <--------- CREDIT ------ checks ------ CREDIT ---------- WRITTEN
//     END <----------- CLOSE ------- tells  ------ CLOSE ----------- ENDED
//
// Both ends may send at once, up to the window, before the other has answered.
//
// A state machine: time comes in with the event, actions go out through gossip_relay_next. It knows no
// sockets and no links, and reads none of the bytes. One owner (the loop). Memory: a window for each
// direction of a stream whose bytes wait for the rate, GOSSIP_RELAY_STREAMS and GOSSIP_RELAY_ENDS streams.
#ifndef GOSSIP_RELAY_RELAY_H
#define GOSSIP_RELAY_RELAY_H

#include "base/error.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_RELAY_WINDOW   65536u     // bytes that an end may send before the other has taken them
#define GOSSIP_RELAY_STREAMS  512u       // forwarded at a time
#define GOSSIP_RELAY_MEMBER   32u        // of these opened by one member
#define GOSSIP_RELAY_ENDS     256u       // of this node
#define GOSSIP_RELAY_ANY      UINT64_MAX // a rate without a limit
#define GOSSIP_RELAY_BURST_NS 250000000u // so much of the rate may be used at once; at least one chunk

struct gossip_relay;

struct gossip_relay_options {
    struct gossip_id self;
    uint64_t rate; // bytes of DATA per second that are forwarded; 0: this node does not relay
};

enum gossip_relay_end { // why a stream ends; the amount of CLOSE
    GOSSIP_RELAY_GOES_ON,
    GOSSIP_RELAY_END_ENDED,   // by the other end, or for a reason that this node does not know
    GOSSIP_RELAY_END_NO_LINK, // the relay has no link to the other end, or no longer
    GOSSIP_RELAY_END_FULL,    // a limit of the relay or of the other end, or no memory there
    GOSSIP_RELAY_END_OFF,     // the member does not relay, or no longer
    GOSSIP_RELAY_END_BROKEN,  // one of the three broke the rules
    GOSSIP_RELAY_END_LOST,    // the link to the relay has ended; never sent
};
const char *gossip_relay_end_text(enum gossip_relay_end why); // for people

enum gossip_relay_event_kind {
    GOSSIP_RELAY_LINKED, // a direct link to `peer` is in use; it may replace another, whose streams are lost
    GOSSIP_RELAY_UNLINKED, // ... no longer
    GOSSIP_RELAY_HEARD,    // `message`, decoded, over the direct link to `peer`
    GOSSIP_RELAY_READ,     // the local end of `stream` has written bytes[count]: at most what it is allowed
    GOSSIP_RELAY_WRITTEN,  // it has taken `count` more of the delivered bytes
    GOSSIP_RELAY_ENDED,    // it has ended; no action about `stream` follows
    GOSSIP_RELAY_TIMER,    // the gossip_relay_deadline has passed
    GOSSIP_RELAY_RATE,     // `rate` replaces the one of the options
};
struct gossip_relay_event {
    enum gossip_relay_event_kind kind;
    uint64_t now_ns; // monotonic
    struct gossip_id peer;
    const struct gossip_relay_message *message;
    uint64_t stream;
    const uint8_t *bytes;
    size_t count;
    uint64_t rate;
};

enum gossip_relay_action_kind {
    GOSSIP_RELAY_SEND,    // `message` over the direct link to `peer`
    GOSSIP_RELAY_ACCEPT,  // `peer` has called this node over `via`: `stream`, which may be read as after a
                          // call
    GOSSIP_RELAY_ALLOW,   // from now on `count` bytes of the local end of `stream` may be read, no matter how
                          // many were allowed before
    GOSSIP_RELAY_DELIVER, // bytes[count] to the local end of `stream`: at most a window that is not WRITTEN
    GOSSIP_RELAY_END,     // `stream` has ended, after what was delivered: `why`. The handle is gone
};
struct gossip_relay_action {
    enum gossip_relay_action_kind kind;
    struct gossip_id peer, via;
    struct gossip_relay_message message;
    uint64_t stream;
    const uint8_t *bytes;
    size_t count;
    enum gossip_relay_end why;
};

enum base_error gossip_relay_create(const struct gossip_relay_options *options,
                                    struct gossip_relay **relay) BASE_CHECK;
void gossip_relay_destroy(struct gossip_relay *relay); // NULL is fine

// Calls `peer` over the member `via`. Returns the stream, of which GOSSIP_RELAY_WINDOW bytes may be read at
// once; 0: no link to `via`, `peer` is `via` or this node, GOSSIP_RELAY_ENDS, or no memory. Whoever called
// learns by END that the call failed, but of a relay without memory nothing: it limits the time itself.
uint64_t gossip_relay_call(struct gossip_relay *relay, uint64_t now_ns, const struct gossip_id *via,
                           const struct gossip_id *peer);

// Handles one event. It may come while an action is carried out. Events about a stream that is gone, and
// messages of a peer that is not linked, change nothing. BASE_ENOMEM, of LINKED only: `peer` counts as not
// linked, nothing else has changed.
//
// What passes at once is not copied: the bytes of READ and HEARD stay valid until gossip_relay_next has
// returned false, or until the next event has been handled.
enum base_error gossip_relay_step(struct gossip_relay *relay,
                                  const struct gossip_relay_event *event) BASE_CHECK;
// The bytes of an action are valid until the next call of gossip_relay_next or gossip_relay_step.
bool gossip_relay_next(struct gossip_relay *relay, struct gossip_relay_action *action);
// When to send TIMER (monotonic ns); UINT64_MAX: never.
uint64_t gossip_relay_deadline(const struct gossip_relay *relay);

// What the local end of `stream` has sent is not taken, or took several times as long as usual: the relay
// hangs, drops bytes or is slow, or the other end. To be asked several times a second.
bool gossip_relay_is_late(struct gossip_relay *relay, uint64_t stream, uint64_t now_ns);

// The relay of a stream of this node; NULL: no such stream.
const struct gossip_id *gossip_relay_via(const struct gossip_relay *relay, uint64_t stream);

struct gossip_relay_totals {
    size_t forwarded, ends; // streams, now
    uint64_t bytes;         // of DATA that were forwarded
    uint64_t refused;       // streams that others wanted over this node, or to it
};
void gossip_relay_totals(const struct gossip_relay *relay, struct gossip_relay_totals *totals);

void gossip_relay_check(const struct gossip_relay *relay); // asserts the invariants, for tests

#endif
