#include "node/http.h"
#include "base/limits.h"
#include "node/clock.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MOST 32u
#define IDLE_S           5                     // without a byte
#define LIFE_NS          (10 * NODE_SECOND_NS) // of one connection, however it drips

// evhttp neither limits its connections nor tells of their end; a pass-through filter under each of them
// does: its free callback runs with the connection's.
struct connection {
    LIST_ENTRY(connection) others;
    struct node_http *http;
    struct bufferevent *socket;
    struct event *end_of_life;
};

struct node_http {
    struct node_http_options options;
    struct evhttp *server;
    struct evhttp_bound_socket *bound;
    size_t count;
    bool ending;
    LIST_HEAD(, connection) connections;
};

static void connection_gone(void *argument)
{
    struct connection *c = argument;
    struct node_http *http = c->http;
    LIST_REMOVE(c, others);
    event_free(c->end_of_life);
    free(c);
    if (http->count-- == CONNECTIONS_MOST && !http->ending)
        evconnlistener_enable(evhttp_bound_socket_get_listener(http->bound));
    if (http->ending && http->count == 0)
        free(http);
}

static void life_over(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct connection *c = argument;
    evutil_socket_t fd = bufferevent_getfd(c->socket);
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR); // evhttp sees the end and frees the connection
}

static struct bufferevent *new_connection(struct event_base *base, void *argument)
{
    struct node_http *http = argument;
    struct connection *c = calloc(1, sizeof *c);
    struct bufferevent *filter = NULL;
    if (!c)
        return NULL;
    c->http = http;
    c->end_of_life = event_new(base, -1, 0, life_over, c);
    c->socket = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (c->end_of_life && c->socket)
        filter = bufferevent_filter_new(c->socket, NULL, NULL, BEV_OPT_CLOSE_ON_FREE, connection_gone, c);
    if (!filter) {
        if (c->socket)
            bufferevent_free(c->socket);
        if (c->end_of_life)
            event_free(c->end_of_life);
        free(c);
        return NULL;
    }
    LIST_INSERT_HEAD(&http->connections, c, others);
    struct timeval life = node_clock_timeval(LIFE_NS);
    event_add(c->end_of_life, &life);
    if (++http->count == CONNECTIONS_MOST) // the others wait in the kernel's queue
        evconnlistener_disable(evhttp_bound_socket_get_listener(http->bound));
    return filter;
}

static void reply(struct evhttp_request *request, int status, const char *type, const char *text)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Connection", "close");
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    if (status == 405)
        evhttp_add_header(headers, "Allow", "GET, HEAD");
    struct evbuffer *body = evbuffer_new();
    if (body)
        evbuffer_add(body, text, strlen(text));
    const char *phrase = status == 200   ? "OK"
                         : status == 404 ? "Not Found"
                         : status == 405 ? "Method Not Allowed"
                                         : "Internal Server Error";
    evhttp_send_reply(request, status, phrase, body);
    if (body)
        evbuffer_free(body);
}

static void on_request(struct evhttp_request *request, void *argument)
{
    struct node_http *http = argument;
    enum evhttp_cmd_type method = evhttp_request_get_command(request);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        reply(request, 405, "text/plain; charset=utf-8", "only GET and HEAD\n");
        return;
    }
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    struct node_http_answer answer = {.status = 500};
    http->options.answer(http->options.owner, path && path[0] ? path : "/", &answer);
    const char *text = answer.text ? answer.text : answer.constant;
    if (!text)
        reply(request, 500, "text/plain; charset=utf-8", "out of memory\n");
    else
        reply(request, answer.status, answer.type, text);
    free(answer.text);
}

enum base_error node_http_create(const struct node_http_options *options, struct node_http **out)
{
    struct node_http *http = calloc(1, sizeof *http);
    if (!http)
        return BASE_ENOMEM;
    http->options = *options;
    LIST_INIT(&http->connections);
    http->server = evhttp_new(options->base);
    if (!http->server)
        goto fail;
    evhttp_set_max_headers_size(http->server, LIMIT_HTTP_REQUEST_BYTES);
    evhttp_set_max_body_size(http->server, LIMIT_HTTP_REQUEST_BYTES);
    evhttp_set_timeout(http->server, IDLE_S);
    evhttp_set_allowed_methods(http->server, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                                 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                                 EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT |
                                                 EVHTTP_REQ_PATCH); // 405 is ours to say
    evhttp_set_gencb(http->server, on_request, http);
    evhttp_set_bevcb(http->server, new_connection, http);
    http->bound = evhttp_accept_socket_with_handle(http->server, options->listener);
    if (!http->bound)
        goto fail;
    *out = http;
    return BASE_OK;
fail:
    if (http->server)
        evhttp_free(http->server);
    free(http);
    return BASE_ENOMEM;
}

void node_http_destroy(struct node_http *http)
{
    if (!http)
        return;
    http->ending = true;
    http->count++; // hold
    evhttp_free(http->server);
    if (--http->count == 0) // else libevent frees the last connections later, and they this
        free(http);
}
