// The rows of a table of keys. The table's file defines KEYS_OF, the struct of its configuration, before it
// includes this. The meaning comes last, followed by `share` and `counts` (struct node_key) if nodes share
// the key.
#ifndef NODE_SCHEMA_ROWS_H
#define NODE_SCHEMA_ROWS_H

#include "node/schema/schema.h"

#define ROW(type, key, field, initial, least, most, choices, ...)                                            \
    {                                                                                                        \
        key, NODE_KEY_##type, offsetof(KEYS_OF, field), initial, least, most, choices,                       \
            .meaning = __VA_ARGS__                                                                           \
    }
#define TEXT(key, field, initial, ...)            ROW(TEXT, key, field, initial, 0, 0, NULL, __VA_ARGS__)
#define CHOICE(key, field, initial, choices, ...) ROW(CHOICE, key, field, initial, 0, 0, choices, __VA_ARGS__)
#define BOOL(key, field, initial, ...)            ROW(BOOL, key, field, initial, 0, 0, NULL, __VA_ARGS__)
#define INTEGER(key, field, initial, least, most, ...)                                                       \
    ROW(INTEGER, key, field, initial, least, most, NULL, __VA_ARGS__)
#define REAL(key, field, initial, least, most, ...)                                                          \
    ROW(REAL, key, field, initial, least, most, NULL, __VA_ARGS__)
// A number, or the word, which is stored as 0, or as -1 where 0 is a number of the key.
#define REAL_OR(key, field, word, initial, least, most, ...)                                                 \
    ROW(REAL, key, field, initial, least, most, word, __VA_ARGS__)
#define RATE(key, field, initial, least, most, ...)                                                          \
    ROW(RATE, key, field, initial, least, most, NULL, __VA_ARGS__)
#define DURATION(key, field, initial, least, most, ...)                                                      \
    ROW(DURATION, key, field, initial, least, most, NULL, __VA_ARGS__)
#define TEXTS(key, field, initial, ...) ROW(TEXTS, key, field, initial, 0, 0, NULL, __VA_ARGS__)
#define MAPS(key, field, ...)           ROW(MAPS, key, field, "[]", 0, 0, NULL, __VA_ARGS__)

#endif
