// The HTTP port: GET of a few paths, POST of /set, whole answers, one request per connection. Request size,
// number of connections and their duration are bounded. It asks its owner for the answer. Loop's thread.
#ifndef NODE_HTTP_HTTP_H
#define NODE_HTTP_HTTP_H

#include "base/error.h"

struct event_base;
struct node_http;

struct node_http_answer {
    const char *type; // Content-Type
    char *text;       // malloc'ed, or NULL with `constant` set
    const char *constant;
    int status; // 200; 404: there is no such path; 503: not now, `text` says why; POST: 400, 401, 409
};

struct node_http_options {
    struct event_base *base;
    int listener; // bound, non-blocking; this object's after success
    void (*answer)(void *owner, const char *path, struct node_http_answer *answer);
    // POST of /set: the token of "Authorization: Bearer TOKEN", "" without; and the body, a text.
    void (*set)(void *owner, const char *token, const char *text, struct node_http_answer *answer);
    void *owner;
};

enum base_error node_http_create(const struct node_http_options *options, struct node_http **http) BASE_CHECK;
void node_http_destroy(struct node_http *http);

#endif
