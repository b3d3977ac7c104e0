// A writer of protocol buffers: fields of six kinds, as in https://protobuf.dev/programming-guides/encoding.
// Messages are written in one pass: the length of a message is inserted when it closes. After an error later
// calls do nothing; check `error` at the end. One owner.
#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H

#include "base/buffer.h"

#define BASE_PROTOBUF_MAX ((size_t)INT32_MAX) // bytes of a message: the limit of the format

struct base_protobuf { // {0}: an empty message
    struct base_buffer bytes;
    enum base_error error; // BASE_ELIMIT, BASE_ENOMEM
};

void base_protobuf_number(struct base_protobuf *p, unsigned field, uint64_t value); // int32, int64, enum
void base_protobuf_text(struct base_protobuf *p, unsigned field, const char *text);
void base_protobuf_bytes(struct base_protobuf *p, unsigned field, const void *data, size_t count);
void base_protobuf_float(struct base_protobuf *p, unsigned field, float value);
void base_protobuf_double(struct base_protobuf *p, unsigned field, double value);
// A nested message: everything written between the two calls is its content. Returns the argument for close.
size_t base_protobuf_open(struct base_protobuf *p, unsigned field);
void base_protobuf_close(struct base_protobuf *p, size_t opened);
void base_protobuf_free(struct base_protobuf *p); // leaves {0}

#endif
