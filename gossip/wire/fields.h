// Shared by the writing and reading of messages: private to gossip/wire.
#ifndef GOSSIP_WIRE_FIELDS_H
#define GOSSIP_WIRE_FIELDS_H

#include "gossip/wire/message.h"
#include <stdbool.h>

enum gossip_charset {
    GOSSIP_CHARSET_NAME, // [A-Za-z0-9._-], not empty
    GOSSIP_CHARSET_TEXT, // printable ASCII
};

// Elements of the header array, kind included; 0 for no kind.
unsigned gossip_message_fields(enum gossip_message_kind kind);
bool gossip_text_valid(const char *text, size_t length, enum gossip_charset charset);
bool gossip_exchange_message_valid(const struct gossip_exchange_message *exchange);
bool gossip_members_valid(const struct gossip_members_message *members);
bool gossip_tell_valid(const struct gossip_snapshot_tell *tell);

#endif
