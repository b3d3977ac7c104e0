// Protocol buffers, written: fields of four kinds, as https://protobuf.dev/programming-guides/encoding says.
// Messages are written in one pass: the length before one is put in when it closes. The first error stays,
// and later calls do nothing; look at it at the end. One owner.
#ifndef LAB_MODEL_PROTOBUF_H
#define LAB_MODEL_PROTOBUF_H

#include "base/buffer.h"

#define LAB_PROTOBUF_MAX ((size_t)INT32_MAX) // bytes of a message, by the format's own rule

struct lab_protobuf { // {0}: an empty message
    struct base_buffer bytes;
    enum base_error error; // BASE_ELIMIT, BASE_ENOMEM
};

void lab_protobuf_number(struct lab_protobuf *p, unsigned field, uint64_t value); // int32, int64, enum
void lab_protobuf_text(struct lab_protobuf *p, unsigned field, const char *text);
void lab_protobuf_bytes(struct lab_protobuf *p, unsigned field, const void *data, size_t count);
// A message inside: what is written between the two is its content. Returns what close wants.
size_t lab_protobuf_open(struct lab_protobuf *p, unsigned field);
void lab_protobuf_close(struct lab_protobuf *p, size_t opened);
void lab_protobuf_free(struct lab_protobuf *p); // leaves {0}

#endif
