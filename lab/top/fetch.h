// GET of one page of a node without waiting: the owner polls. One owner. Or with waiting, also a POST.
#ifndef LAB_TOP_FETCH_H
#define LAB_TOP_FETCH_H

#include "base/buffer.h"
#include "lab/top/table.h"

#define LAB_TOP_FETCH_NS    3000000000ull // for a complete answer
#define LAB_TOP_FETCH_BYTES (16u << 20)   // of an answer; with 4,096 members it has about 3 MiB

enum lab_top_outcome { LAB_TOP_UNDER_WAY, LAB_TOP_ANSWERED, LAB_TOP_FAILED };

struct lab_top_fetch {
    char address[LAB_TOP_ADDRESS_BYTES];
    const char *path, *token, *text; // token, text: of a POST; else NULL
    int socket;
    bool asked; // the request was sent
    uint64_t since_ns;
    struct base_buffer answer;
};

// path: "/status", borrowed until the fetch ends. Address: "host:port" or "[IPv6]:port"; a name is resolved
// at once. False: no such host, or no free descriptor.
bool lab_top_fetch_begin(struct lab_top_fetch *fetch, const char *address, const char *path, uint64_t now_ns);
short lab_top_fetch_events(const struct lab_top_fetch *fetch); // to poll its socket for
// ready: the events of poll. ANSWERED: *body is the text, valid until the fetch ends.
enum lab_top_outcome lab_top_fetch_step(struct lab_top_fetch *fetch, short ready, uint64_t now_ns,
                                        const char **body);
void lab_top_fetch_end(struct lab_top_fetch *fetch);

// All of that at once. malloc'ed; NULL: no answer.
char *lab_top_get(const char *address, const char *path);
// POST of a text with "Authorization: Bearer TOKEN". *accepted: the status was 200.
char *lab_top_post(const char *address, const char *path, const char *token, const char *text,
                   bool *accepted);

#endif
