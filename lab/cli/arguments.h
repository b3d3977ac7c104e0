// The arguments of a subcommand, read by a table. Main thread.
#ifndef LAB_CLI_ARGUMENTS_H
#define LAB_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lab_texts {
    const char **items; // malloc'ed by lab_arguments_read; the caller frees it
    size_t count;
};

enum lab_argument_kind {
    LAB_ARGUMENT_FLAG,   // bool
    LAB_ARGUMENT_TEXT,   // const char *
    LAB_ARGUMENT_TEXTS,  // struct lab_texts: may be repeated
    LAB_ARGUMENT_COUNT,  // uint64_t, from `least` to `most`
    LAB_ARGUMENT_REAL,   // double, finite and at least 0
    LAB_ARGUMENT_CHOICE, // int: 1 for the first word of `expected` ("png, svg or pdf"), 2 for the second, ...
};
struct lab_argument {
    const char *name; // "out", of --out
    enum lab_argument_kind kind;
    size_t offset; // of its field in the command's struct
    const char *expected;
    uint64_t least, most;
    char letter; // -o, beside --out; 0: none
};
// A row: the option --NAME sets `field` of the command's own struct wanted.
#define LAB_ARGUMENT(option, type, field, ...)                                                               \
    {                                                                                                        \
        .name = option, .kind = LAB_ARGUMENT_##type, .offset = offsetof(struct wanted, field), __VA_ARGS__   \
    }

struct lab_arguments {
    const char *command; // "topology show", for messages
    const struct lab_argument *table;
    size_t count;
};

enum lab_arguments_end { LAB_ARGUMENTS_READ, LAB_ARGUMENTS_HELP, LAB_ARGUMENTS_WRONG };

// Reads argv into the fields of `into`. Arguments that are not options move to the end: argv[optind] to
// argv[argc - 1]. HELP: -h or --help was found first. WRONG: the mistake was reported on stderr.
enum lab_arguments_end lab_arguments_read(const struct lab_arguments *arguments, int argc, char **argv,
                                          void *into);
// "--NAME: found 'FOUND', expected EXPECTED" on stderr; returns false.
bool lab_arguments_refuse(const struct lab_arguments *arguments, const char *name, const char *found,
                          const char *expected);

#endif
