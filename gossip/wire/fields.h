// The fields of each kind of message, as a table that is used for writing, reading and payloads. Private to
// gossip/wire.
#ifndef GOSSIP_WIRE_FIELDS_H
#define GOSSIP_WIRE_FIELDS_H

#include "gossip/wire/message.h"
#include <stdbool.h>

enum gossip_field_type {
    GOSSIP_FIELD_UINT,    // 1, 4 or 8 bytes in memory; at most `max`
    GOSSIP_FIELD_FLOAT,   // float 32
    GOSSIP_FIELD_NAME,    // text of [A-Za-z0-9._-], not empty
    GOSSIP_FIELD_TEXT,    // text of printable ASCII
    GOSSIP_FIELD_PAYLOAD, // a UINT, and as many bytes after the header
};

struct gossip_field {
    enum gossip_field_type type;
    size_t offset, size; // in struct gossip_message, in bytes; a text includes its terminating zero
    size_t payload;      // offset of the pointer to a PAYLOAD
    uint64_t max;
};

struct gossip_kind {
    const char *name;
    const struct gossip_field *fields; // [count], without the kind
    unsigned count;
};

const struct gossip_kind *gossip_kind_of(enum gossip_message_kind kind); // NULL: there is no such kind
bool gossip_text_valid(const char *text, size_t length, enum gossip_field_type type);
// Checks conditions that bounds of single fields cannot express.
bool gossip_message_valid(const struct gossip_message *message);

#endif
