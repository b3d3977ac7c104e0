// A sealed stream between two links over loopback, each with its own stream thread, beside what bounds it, in
// turn: the cipher alone (records of 16 KiB, as a sealer makes them; the AEAD of the stream), on one core and
// on two at once, and the socket alone. Then how long a small message waits while the stream is full.
// `bench_node_stream [rounds [MiB]]` prints JSON lines; GB/s are 10^9 bytes of messages per second.
#include "base/limits.h"
#include "gossip/session/aead.h"
#include "node/net/connection.h"
#include "node/net/stream.h"
#include "test/support/bench.h"
#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES (4u << 20)
#define WINDOW        4u // messages under way
#define RECORD        16384u
#define CHUNK         (256u * 1024u)
#define PROBE_BYTES   64u
#define ROUNDS_MAX    1000u

static double cpu_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *must(void *memory)
{
    BASE_ASSERT(memory != NULL);
    return memory;
}

static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    BASE_ASSERT(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    BASE_ASSERT(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    BASE_ASSERT(connect(ends[0], (struct sockaddr *)&address, size) == 0);
    ends[1] = accept(listener, NULL, NULL);
    BASE_ASSERT(ends[1] >= 0);
    close(listener);
}

// -- the cipher alone: seals, or opens what was sealed before

struct cipher {
    size_t bytes;
    double seal_ns, open_ns, cpu_ns; // per byte; CPU of both
};

static enum gossip_aead best_aead(void)
{
    return gossip_aead_choose(UINT8_MAX, gossip_aead_offer());
}

static void *run_cipher(void *argument)
{
    struct cipher *c = argument;
    uint8_t *plain = must(calloc(1, RECORD)), *sealed = must(malloc(RECORD + 16));
    const size_t records = c->bytes / RECORD;
    const uint8_t bytes[GOSSIP_AEAD_KEY_BYTES] = {1};
    struct gossip_aead_key *key = must(gossip_aead_key_create(best_aead(), bytes));
    struct gossip_aead_message seal = {0, NULL, 0, plain, RECORD, sealed},
                               open = {0, NULL, 0, sealed, RECORD + 16, plain};
    const double cpu = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    double start = bench_now();
    for (size_t i = 0; i < records; i++, seal.nonce++)
        gossip_aead_seal(key, &seal);
    c->seal_ns = (bench_now() - start) / (double)(records * RECORD);
    open.nonce = seal.nonce - 1;
    start = bench_now();
    for (size_t i = 0; i < records; i++) // the same record each time
        BASE_ASSERT(!gossip_aead_open(key, &open));
    c->open_ns = (bench_now() - start) / (double)(records * RECORD);
    c->cpu_ns = 1e9 * (cpu_s(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)(records * RECORD);
    gossip_aead_key_destroy(key);
    free(plain);
    free(sealed);
    return NULL;
}

// Per byte, sealed on both cores at once.
static double run_both(size_t bytes)
{
    struct cipher c[2] = {{.bytes = bytes}, {.bytes = bytes}};
    pthread_t other;
    BASE_ASSERT(pthread_create(&other, NULL, run_cipher, &c[1]) == 0);
    run_cipher(&c[0]);
    pthread_join(other, NULL);
    return (c[0].seal_ns + c[1].seal_ns) / 4;
}

// -- the socket alone

struct drain {
    int socket;
    size_t bytes;
};

static void *run_drain(void *argument)
{
    struct drain *d = argument;
    uint8_t *room = must(malloc(CHUNK));
    for (size_t got = 0; got < d->bytes;) {
        ssize_t now = recv(d->socket, room, CHUNK, 0);
        BASE_ASSERT(now > 0);
        got += (size_t)now;
    }
    free(room);
    return NULL;
}

static double run_socket(size_t bytes, double *cpu_ns)
{
    int ends[2];
    connect_pair(ends);
    struct drain drain = {ends[1], bytes};
    uint8_t *from = must(calloc(1, CHUNK));
    pthread_t other;
    const double cpu = cpu_s(CLOCK_PROCESS_CPUTIME_ID), start = bench_now();
    BASE_ASSERT(pthread_create(&other, NULL, run_drain, &drain) == 0);
    for (size_t sent = 0; sent < bytes;) {
        size_t next = bytes - sent < CHUNK ? bytes - sent : CHUNK;
        ssize_t now = send(ends[0], from, next, MSG_NOSIGNAL);
        BASE_ASSERT(now > 0);
        sent += (size_t)now;
    }
    pthread_join(other, NULL);
    const double ns = (bench_now() - start) / (double)bytes;
    *cpu_ns = 1e9 * (cpu_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)bytes;
    free(from);
    close(ends[0]);
    close(ends[1]);
    return ns;
}

// -- two links

struct end {
    struct node_link *link;
    struct gossip_identity identity;
    struct node_counters counters;
    bool established;
    size_t messages, bytes;
    double *waits; // of probes, ns
    size_t n_waits;
};

static void on_established(void *owner, const struct gossip_session_event *event)
{
    (void)event;
    ((struct end *)owner)->established = true;
}

static void on_message(void *owner, uint8_t *bytes, size_t count)
{
    struct end *end = owner;
    double sent;
    if (count == PROBE_BYTES) {
        memcpy(&sent, bytes, sizeof sent);
        end->waits[end->n_waits++] = bench_now() - sent;
    } else {
        end->messages++;
        end->bytes += count;
    }
    free(bytes);
}

static void on_closed(void *owner, enum base_error code, const char *why)
{
    (void)owner;
    fprintf(stderr, "a link has ended: %s (%s)\n", why, base_error_name(code));
    abort();
}

struct two {
    struct event_base *base;
    struct node_streams *streams[2];
    struct end end[2];
};

static void open_end(struct two *two, unsigned i, int socket)
{
    static const struct node_link_handler handler = {on_established, on_message, on_closed, NULL};
    const uint8_t seed[32] = {(uint8_t)(i + 1)};
    struct end *end = &two->end[i];
    gossip_identity_from_seed(seed, &end->identity);
    evutil_make_socket_nonblocking(socket);
    static const struct gossip_secrets no_secret = {.count = 1};
    struct node_link_options options = {.base = two->base,
                                        .streams = two->streams[i],
                                        .socket = socket,
                                        .initiator = i == 0,
                                        .identity = &end->identity,
                                        .secrets = &no_secret,
                                        .cluster = "bench",
                                        .message_limit = MESSAGE_BYTES,
                                        .handshake_ns = 60 * 1000000000ull,
                                        .counters = &end->counters,
                                        .handler = &handler,
                                        .owner = end};
    BASE_ASSERT(!node_link_create(&options, &end->link));
}

static void open_two(struct two *two)
{
    int ends[2];
    *two = (struct two){.base = must(event_base_new())};
    connect_pair(ends);
    for (unsigned i = 0; i < 2; i++) {
        BASE_ASSERT(!node_streams_create(two->base, &two->streams[i]));
        open_end(two, i, ends[i]);
    }
    while (!two->end[0].established || !two->end[1].established)
        event_base_loop(two->base, EVLOOP_ONCE);
}

static void close_two(struct two *two)
{
    for (unsigned i = 0; i < 2; i++) {
        node_link_destroy(two->end[i].link);
        node_streams_destroy(two->streams[i]);
        gossip_identity_wipe(&two->end[i].identity);
    }
    event_base_free(two->base);
}

struct stream_time {
    double ns, cpu_ns, loop_ns; // per byte: wall, CPU of all threads, CPU of the loop
};

// Sends `count` messages, WINDOW at a time; with probes, each comes with a small one.
static void run_stream(struct two *two, size_t count, bool probes, struct stream_time *time)
{
    struct end *from = &two->end[0], *to = &two->end[1];
    const double cpu = cpu_s(CLOCK_PROCESS_CPUTIME_ID), loop = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    const double start = bench_now();
    to->messages = to->bytes = 0;
    for (size_t sent = 0; to->messages < count;) {
        for (; sent < count && sent - to->messages < WINDOW; sent++)
            BASE_ASSERT(!node_link_give(from->link, must(malloc(MESSAGE_BYTES)), MESSAGE_BYTES));
        if (probes) {
            uint8_t probe[PROBE_BYTES] = {0};
            const double now = bench_now();
            memcpy(probe, &now, sizeof now);
            BASE_ASSERT(!node_link_send(from->link, probe, sizeof probe));
        }
        const size_t seen = to->messages + to->n_waits;
        while (to->messages + to->n_waits == seen)
            event_base_loop(two->base, EVLOOP_ONCE);
    }
    const double bytes = (double)to->bytes;
    time->ns = (bench_now() - start) / bytes;
    time->cpu_ns = 1e9 * (cpu_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / bytes;
    time->loop_ns = 1e9 * (cpu_s(CLOCK_THREAD_CPUTIME_ID) - loop) / bytes;
}

static void probe_waits(size_t bytes)
{
    struct two two;
    struct stream_time time;
    open_two(&two);
    struct end *to = &two.end[1];
    to->waits = must(malloc((1u << 20) * sizeof *to->waits));
    run_stream(&two, 4, false, &time);
    run_stream(&two, bytes / MESSAGE_BYTES, true, &time);
    const double median = bench_median(to->waits, to->n_waits); // sorts
    printf("{\"bench\": \"node_stream\", \"case\": \"probe while %zu MiB stream\", \"count\": %zu, \"ns\": "
           "%.0f, "
           "\"ns_p99\": %.0f, \"ns_max\": %.0f, \"message_ns\": %.0f}\n",
           bytes >> 20, to->n_waits, median, to->waits[to->n_waits * 99 / 100], to->waits[to->n_waits - 1],
           time.ns * MESSAGE_BYTES);
    close_two(&two);
    free(to->waits);
}

enum row { SEAL, OPEN, BOTH, SOCKET, STREAM, CIPHER_CPU, SOCKET_CPU, STREAM_CPU, STREAM_LOOP, ROWS };

int main(int count, char **arguments)
{
    static double times[ROWS][ROUNDS_MAX];
    static const char *const names[ROWS] = {"cipher: seal", "cipher: open", "cipher: two cores",
                                            "socket",       "stream",       "cipher: CPU",
                                            "socket: CPU",  "stream: CPU",  "stream: CPU of the loop"};
    const size_t rounds = count > 1 ? strtoul(arguments[1], NULL, 10) : 9;
    const size_t bytes = (count > 2 ? strtoul(arguments[2], NULL, 10) : 128) << 20;
    double median[ROWS];
    printf("{\"bench\": \"node_stream\", \"aead\": \"%s\"}\n", gossip_aead_name(best_aead()));
    BASE_ASSERT(rounds > 0 && rounds <= ROUNDS_MAX && bytes >= MESSAGE_BYTES);
    for (size_t i = 0; i < rounds; i++) {
        struct cipher c = {.bytes = bytes};
        struct stream_time time;
        struct two two;
        run_cipher(&c);
        times[SEAL][i] = c.seal_ns;
        times[OPEN][i] = c.open_ns;
        times[CIPHER_CPU][i] = c.cpu_ns;
        times[BOTH][i] = run_both(bytes / 2);
        times[SOCKET][i] = run_socket(bytes, &times[SOCKET_CPU][i]);
        open_two(&two);
        run_stream(&two, 2, false, &time); // first touch of the buffers
        run_stream(&two, bytes / MESSAGE_BYTES, false, &time);
        close_two(&two);
        times[STREAM][i] = time.ns;
        times[STREAM_CPU][i] = time.cpu_ns;
        times[STREAM_LOOP][i] = time.loop_ns;
    }
    for (size_t row = 0; row < ROWS; row++) {
        median[row] = bench_median(times[row], rounds);
        printf(
            "{\"bench\": \"node_stream\", \"case\": \"%s\", \"count\": %zu, \"ns\": %.4f, \"ns_min\": %.4f, "
            "\"gb_per_s\": %.3f}\n",
            names[row], bytes, median[row], bench_minimum(times[row], rounds), 1 / median[row]);
    }
    const double slower = median[SEAL] > median[SOCKET] ? median[SEAL] : median[SOCKET];
    // Every byte is sealed, sent, received and opened: that is the least CPU time, which two cores share
    // evenly at best. The shares of CPU are meaningful on a busy machine, too.
    const double least = median[CIPHER_CPU] + median[SOCKET_CPU];
    printf("{\"bench\": \"node_stream\", \"case\": \"share\", \"of_slower\": %.3f, \"of_two_cores\": %.3f, "
           "\"bound_of_slower\": %.3f, \"cpu_to_least\": %.3f, \"loop_of_cpu\": %.4f}\n",
           slower / median[STREAM], least / 2 / median[STREAM], slower / (least / 2),
           median[STREAM_CPU] / least, median[STREAM_LOOP] / median[STREAM_CPU]);
    probe_waits((size_t)256 << 20);
    return 0;
}
