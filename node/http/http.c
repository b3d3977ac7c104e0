#include "node/http/http.h"
#include "base/limits.h"
#include "node/queue/clock.h"
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 32u
#define IDLE_S          5                           // without a byte
#define SWEEP_NS        (100 * NODE_MILLISECOND_NS) // while there are connections
#define REST_NS         NODE_SECOND_NS              // without connections: an idle node sleeps
#define LIFE_NS         (10 * NODE_SECOND_NS)       // of one connection, however slowly it sends
#define CROWDED_NS      (500 * NODE_MILLISECOND_NS) // instead, while there are CONNECTIONS_MAX: others may wait

// The page loads everything from this server and has no inline script.
#define POLICY                                                                                               \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "           \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// evhttp neither limits its connections nor reports their end. So a reference to each is kept here and
// polled: one without callbacks was freed by evhttp.
struct connection {
    LIST_ENTRY(connection) others;
    struct bufferevent *stream;
    uint64_t born_ns;
};

struct node_http {
    struct node_http_options options;
    struct evhttp *server;
    struct evhttp_bound_socket *bound;
    struct event *sweep;
    bool on_loopback;
    size_t count;
    LIST_HEAD(, connection) connections;
};

static bool is_over(const struct connection *c)
{
    bufferevent_event_cb on_event = NULL;
    bufferevent_getcb(c->stream, NULL, NULL, &on_event, NULL);
    return !on_event;
}

// Further connections wait in the kernel's queue.
static void accept_while_there_is_room(struct node_http *http)
{
    struct evconnlistener *listener = evhttp_bound_socket_get_listener(http->bound);
    if (http->count < CONNECTIONS_MAX)
        evconnlistener_enable(listener);
    else
        evconnlistener_disable(listener);
}

static void forget(struct node_http *http, struct connection *c)
{
    BASE_ASSERT(http->count > 0);
    LIST_REMOVE(c, others);
    bufferevent_decref(c->stream);
    free(c);
    http->count--;
}

// Out of descriptors: libevent alone would write a line to stderr and try again at once, for ever. The next
// sweep accepts again. (`argument` is evhttp's.)
static void on_accept_error(struct evconnlistener *listener, void *argument)
{
    (void)argument;
    evconnlistener_disable(listener);
}

static bool sweep_after(struct node_http *http, uint64_t ns)
{
    struct timeval wait = node_clock_timeval(ns);
    return event_add(http->sweep, &wait) == 0;
}

static void sweep(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_http *http = argument;
    uint64_t now_ns = node_clock_ns(), life_ns = http->count < CONNECTIONS_MAX ? LIFE_NS : CROWDED_NS;
    for (struct connection *c = LIST_FIRST(&http->connections), *next; c; c = next) {
        next = LIST_NEXT(c, others);
        BASE_ASSERT(now_ns >= c->born_ns);
        if (is_over(c))
            forget(http, c);
        else if (now_ns - c->born_ns > life_ns && bufferevent_getfd(c->stream) >= 0)
            shutdown(bufferevent_getfd(c->stream), SHUT_RDWR); // evhttp sees the end and frees it
    }
    accept_while_there_is_room(http);
    (void)sweep_after(http, http->count > 0 ? SWEEP_NS : REST_NS);
}

static struct bufferevent *new_connection(struct event_base *base, void *argument)
{
    struct node_http *http = argument;
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL; // evhttp then makes one itself
    c->stream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!c->stream) {
        free(c);
        return NULL;
    }
    BASE_ASSERT((http->count == 0) == LIST_EMPTY(&http->connections));
    bufferevent_incref(c->stream);
    c->born_ns = node_clock_ns();
    LIST_INSERT_HEAD(&http->connections, c, others);
    if (http->count++ == 0)
        (void)sweep_after(http, SWEEP_NS);
    accept_while_there_is_room(http);
    return c->stream;
}

// A page on loopback is for this host. A name that another site has pointed at loopback would let its scripts
// read the page in the browser of somebody who sits here.
static bool is_loopback(int listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {.any = {0}};
    socklen_t bytes = sizeof at;
    if (getsockname(listener, &at.any, &bytes))
        return false;
    return at.any.sa_family == AF_INET
               ? ntohl(at.four.sin_addr.s_addr) >> 24 == 127
               : at.any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&at.six.sin6_addr);
}

static bool is_name_of_loopback(const char *host)
{
    struct in_addr four;
    const size_t length = strlen(host), local = strlen("localhost");
    const char *end = host + (length > local ? length - local : 0);
    return host[0] == '[' || inet_pton(AF_INET, host, &four) == 1 ||
           (strcasecmp(end, "localhost") == 0 && (end == host || end[-1] == '.'));
}

static void reply(struct evhttp_request *request, int status, const char *type, const char *text)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Connection", "close");
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
    evhttp_add_header(headers, "Content-Security-Policy", POLICY);
    if (status == 405)
        evhttp_add_header(headers, "Allow", "GET, HEAD");
    struct evbuffer *body = evbuffer_new();
    char length[24];
    snprintf(length, sizeof length, "%zu", strlen(text));
    evhttp_add_header(headers, "Content-Length", length);
    if (body && evhttp_request_get_command(request) != EVHTTP_REQ_HEAD)
        evbuffer_add(body, text, strlen(text));
    const char *phrase = status == 200   ? "OK"
                         : status == 400 ? "Bad Request"
                         : status == 401 ? "Unauthorized"
                         : status == 403 ? "Forbidden"
                         : status == 404 ? "Not Found"
                         : status == 405 ? "Method Not Allowed"
                         : status == 409 ? "Conflict"
                         : status == 503 ? "Service Unavailable"
                                         : "Internal Server Error";
    evhttp_send_reply(request, status, phrase, body);
    if (body)
        evbuffer_free(body);
}

static void send_answer(struct evhttp_request *request, struct node_http_answer *answer)
{
    const char *text = answer->text ? answer->text : answer->constant;
    if (!text)
        reply(request, 500, "text/plain; charset=utf-8", "out of memory\n");
    else
        reply(request, answer->status, answer->type, text);
    free(answer->text);
}

// libevent has limited the size of the body.
static void on_set(struct node_http *http, struct evhttp_request *request)
{
    static const char bearer[] = "Bearer ";
    const char *token = evhttp_find_header(evhttp_request_get_input_headers(request), "Authorization");
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    char text[LIMIT_HTTP_REQUEST_BYTES + 1];
    const ev_ssize_t bytes = body ? evbuffer_copyout(body, text, LIMIT_HTTP_REQUEST_BYTES) : 0;
    struct node_http_answer answer = {.status = 500};
    text[bytes > 0 ? bytes : 0] = '\0';
    const bool given = token && strncasecmp(token, bearer, strlen(bearer)) == 0;
    http->options.set(http->options.owner, given ? token + strlen(bearer) : "", text, &answer);
    send_answer(request, &answer);
}

static void on_request(struct evhttp_request *request, void *argument)
{
    struct node_http *http = argument;
    enum evhttp_cmd_type method = evhttp_request_get_command(request);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const bool sets = method == EVHTTP_REQ_POST && path && strcmp(path, "/set") == 0;
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD && !sets) {
        reply(request, 405, "text/plain; charset=utf-8", "only GET and HEAD\n");
        return;
    }
    const char *host = evhttp_request_get_host(request);
    if (http->on_loopback && host && !is_name_of_loopback(host)) {
        reply(request, 403, "text/plain; charset=utf-8",
              "this page is for its own host: call it localhost or by its address\n");
        return;
    }
    if (sets) {
        on_set(http, request);
        return;
    }
    struct node_http_answer answer = {.status = 500};
    http->options.answer(http->options.owner, path && path[0] ? path : "/", &answer);
    send_answer(request, &answer);
}

enum base_error node_http_create(const struct node_http_options *options, struct node_http **out)
{
    struct node_http *http = calloc(1, sizeof *http);
    if (!http)
        return BASE_ENOMEM;
    http->options = *options;
    http->on_loopback = is_loopback(options->listener);
    LIST_INIT(&http->connections);
    http->server = evhttp_new(options->base);
    http->sweep = event_new(options->base, -1, 0, sweep, http);
    if (!http->server || !http->sweep || !sweep_after(http, REST_NS))
        goto fail;
    evhttp_set_max_headers_size(http->server, LIMIT_HTTP_REQUEST_BYTES);
    evhttp_set_max_body_size(http->server, LIMIT_HTTP_REQUEST_BYTES);
    evhttp_set_timeout(http->server, IDLE_S);
    evhttp_set_allowed_methods(http->server, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                                 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                                 EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT |
                                                 EVHTTP_REQ_PATCH); // so that 405 is answered here
    evhttp_set_gencb(http->server, on_request, http);
    evhttp_set_bevcb(http->server, new_connection, http);
    http->bound = evhttp_accept_socket_with_handle(http->server, options->listener);
    if (!http->bound)
        goto fail;
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(http->bound), on_accept_error);
    *out = http;
    return BASE_OK;
fail:
    if (http->server)
        evhttp_free(http->server);
    if (http->sweep)
        event_free(http->sweep);
    free(http);
    return BASE_ENOMEM;
}

void node_http_destroy(struct node_http *http)
{
    if (!http)
        return;
    struct connection *c;
    while ((c = LIST_FIRST(&http->connections)))
        forget(http, c);
    evhttp_free(http->server);
    event_free(http->sweep);
    free(http);
}
