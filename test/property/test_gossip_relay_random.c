// Relayed streams in a network of links that delay messages, go up and down, and are replaced; from seeds, 3
// to 6 nodes, with reads, writes, ends and changes of rates at any time. What arrives is what was sent, in
// order; who ends has delivered everything; a stream whose links stay delivers all; windows are kept; a
// stream ends at both of its ends or at none; nothing is left. Of two streams over a slow relay each gets
// half.
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "gossip/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS     1000000ull
#define SECOND (1000 * MS)
#define WINDOW GOSSIP_RELAY_WINDOW

enum { NODES = 6, ENDS = 512, LIVE = 12, TAG = 8 };

enum mail_kind { MAIL_MESSAGE, MAIL_UP, MAIL_DOWN };
struct mail {
    enum mail_kind kind;
    size_t from, to;
    uint64_t due_ns, generation; // of the link
    struct gossip_relay_message message;
    uint8_t *bytes; // owned
    struct mail *next;
};

struct pair {
    bool up;
    uint64_t generation, changed_ns;
    uint64_t last_ns[2]; // latest mail to the lower, to the higher: a link keeps the order
};

struct node {
    struct gossip_relay *relay;
    struct gossip_id id;
    uint64_t rate, off_ns;  // off_ns: when it last stopped relaying
    uint64_t linked[NODES]; // the generation of its link; 0: none
    size_t opened[NODES];   // streams over this relay, in all
};

struct end { // of a stream
    size_t node, peer, via;
    uint64_t stream;       // 0: gone
    uint64_t tag;          // begins what it sends, and says the rest of it
    uint64_t sent, target; // of these it may still read `allowed`
    uint64_t allowed;
    uint64_t got, taken; // delivered, and what the owner has taken of it
    uint64_t tag_heard;  // of the other end
    bool disturbed;      // a link or the relay has changed: it may end for other reasons than its owners
    bool ended;          // by its owner
};

static struct {
    uint64_t seed, now_ns, tags, delay_ns;
    struct base_rng rng;
    size_t nodes, ends;
    struct node node[NODES];
    struct pair pair[NODES][NODES]; // [lower][higher]
    struct mail *mails;
    struct end end[ENDS];
    uint64_t last[NODES][NODES]; // of node.linked
} w;

static size_t below(size_t bound)
{
    return (size_t)base_rng_below(&w.rng, bound);
}

static void claim(bool good, const char *what)
{
    if (!good)
        fail_msg("%s (P2PML_SEED=%llu)", what, (unsigned long long)w.seed);
}

static size_t node_of(const struct gossip_id *id)
{
    return id->bytes[0] - 1u;
}

static struct pair *pair_of(size_t a, size_t b)
{
    return a < b ? &w.pair[a][b] : &w.pair[b][a];
}

static uint8_t byte_at(uint64_t tag, uint64_t at)
{
    return (uint8_t)((at < TAG ? tag : base_hash_mix(tag + at / 8)) >> at % 8 * 8);
}

// -- the network

static void post(size_t from, size_t to, enum mail_kind kind, uint64_t generation,
                 const struct gossip_relay_message *message)
{
    struct pair *pair = pair_of(from, to);
    struct mail *mail = calloc(1, sizeof *mail), **at = &w.mails;
    assert_non_null(mail);
    uint64_t *last_ns = &pair->last_ns[to > from];
    uint64_t due_ns = w.now_ns + w.delay_ns / 2 + below(w.delay_ns);
    *last_ns = *last_ns > due_ns ? *last_ns : due_ns;
    *mail = (struct mail){.kind = kind, .from = from, .to = to, .due_ns = *last_ns, .generation = generation};
    if (message) {
        mail->message = *message;
        mail->bytes = malloc(message->bytes_bytes + 1u);
        assert_non_null(mail->bytes);
        if (message->bytes_bytes)
            memcpy(mail->bytes, message->bytes, message->bytes_bytes);
        mail->message.bytes = mail->bytes;
    }
    while (*at && (*at)->due_ns <= mail->due_ns)
        at = &(*at)->next;
    mail->next = *at;
    *at = mail;
}

static void step(size_t node, struct gossip_relay_event event)
{
    event.now_ns = w.now_ns;
    assert_int_equal(gossip_relay_step(w.node[node].relay, &event), BASE_OK);
}

static void drain(size_t node);

static void set_link(size_t node, size_t peer, uint64_t generation)
{
    w.node[node].linked[peer] = generation;
    step(node, (struct gossip_relay_event){.kind = generation ? GOSSIP_RELAY_LINKED : GOSSIP_RELAY_UNLINKED,
                                           .peer = w.node[peer].id});
    drain(node);
}

static bool uses(const struct end *end, size_t a, size_t b)
{
    return (end->via == a && (end->node == b || end->peer == b)) ||
           (end->via == b && (end->node == a || end->peer == a));
}

static void disturb_pair(size_t a, size_t b)
{
    pair_of(a, b)->changed_ns = w.now_ns;
    for (size_t i = 0; i < w.ends; i++)
        w.end[i].disturbed |= uses(&w.end[i], a, b);
}

// A new link, perhaps in the place of another: the lower id uses it first, and says so.
static void link_up(size_t a, size_t b)
{
    struct pair *pair = pair_of(a, b);
    size_t low = a < b ? a : b, high = a < b ? b : a;
    disturb_pair(a, b);
    pair->up = true;
    pair->generation++;
    post(low, high, MAIL_UP, pair->generation, NULL);
    set_link(low, high, pair->generation);
}

// `first` notices at once, the other one after all that is on its way.
static void link_down(size_t first, size_t other)
{
    struct pair *pair = pair_of(first, other);
    disturb_pair(first, other);
    pair->up = false;
    post(first, other, MAIL_DOWN, pair->generation, NULL);
    if (w.node[first].linked[other])
        set_link(first, other, 0);
}

static void arrive(const struct mail *mail)
{
    struct node *node = &w.node[mail->to];
    struct pair *pair = pair_of(mail->from, mail->to);
    if (mail->kind == MAIL_UP && pair->up && pair->generation == mail->generation) {
        set_link(mail->to, mail->from, mail->generation);
    } else if (mail->kind == MAIL_DOWN && node->linked[mail->from] == mail->generation) {
        set_link(mail->to, mail->from, 0);
    } else if (mail->kind == MAIL_MESSAGE && node->linked[mail->from] == mail->generation) {
        step(mail->to, (struct gossip_relay_event){.kind = GOSSIP_RELAY_HEARD,
                                                   .peer = w.node[mail->from].id,
                                                   .message = &mail->message});
        drain(mail->to);
    }
}

static bool steady(size_t a, size_t b)
{
    const struct pair *pair = pair_of(a, b);
    return pair->up && w.node[a].linked[b] == pair->generation && w.node[b].linked[a] == pair->generation &&
           w.now_ns > pair->changed_ns + 2 * SECOND;
}

// -- the ends

static struct end *add_end(size_t node, size_t peer, size_t via, uint64_t stream)
{
    claim(w.ends < ENDS && stream != 0, "too many streams");
    struct end *end = &w.end[w.ends++];
    *end = (struct end){.node = node,
                        .peer = peer,
                        .via = via,
                        .stream = stream,
                        .tag = base_hash_mix(++w.tags),
                        .target = TAG + below(200000),
                        .allowed = WINDOW};
    end->disturbed = !steady(node, via) || !steady(via, peer) || !w.node[via].rate ||
                     w.now_ns < w.node[via].off_ns + 2 * SECOND;
    return end;
}

static struct end *end_of(size_t node, uint64_t stream)
{
    for (size_t i = 0; i < w.ends; i++)
        if (w.end[i].node == node && w.end[i].stream == stream)
            return &w.end[i];
    claim(false, "an action about no stream");
    return NULL;
}

static struct end *other_end(const struct end *end)
{
    for (size_t i = 0; end->got >= TAG && i < w.ends; i++)
        if (w.end[i].tag == end->tag_heard)
            return &w.end[i];
    claim(end->got < TAG, "bytes of nobody");
    return NULL;
}

static void delivered(struct end *end, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++, end->got++) {
        if (end->got < TAG)
            end->tag_heard |= (uint64_t)bytes[i] << 8 * end->got;
        else
            claim(bytes[i] == byte_at(end->tag_heard, end->got), "other bytes than were sent");
    }
    claim(end->got - end->taken <= WINDOW, "an end holds more than a window");
    const struct end *other = other_end(end);
    claim(!other || (other->node == end->peer && other->peer == end->node && other->via == end->via),
          "bytes of another stream");
    claim(!other || end->got <= other->sent, "more bytes than were sent");
}

// Somebody has ended after just these bytes, too few to know which end it is.
static bool has_said_little(const struct end *end)
{
    bool found = false;
    for (size_t i = 0; i < w.ends; i++) {
        const struct end *other = &w.end[i];
        uint64_t both = other->tag ^ end->tag_heard;
        found |= other->ended && other->sent == end->got && other->node == end->peer &&
                 other->peer == end->node && !(both & ((1ull << 8 * end->got) - 1));
    }
    return found;
}

static void ended(struct end *end, enum gossip_relay_end why)
{
    const struct end *other = other_end(end);
    end->stream = 0;
    claim(why != GOSSIP_RELAY_END_BROKEN && why != GOSSIP_RELAY_GOES_ON, "an honest end is called a liar");
    claim(why != GOSSIP_RELAY_END_FULL || w.node[end->node].opened[end->via] >= GOSSIP_RELAY_MEMBER,
          "refused without need");
    if (why == GOSSIP_RELAY_END_ENDED) {
        claim(!other || (other->ended && end->got == other->sent), "who ended has not delivered all");
        claim(other || has_said_little(end), "who ended has said more");
    } else {
        claim(end->disturbed || why == GOSSIP_RELAY_END_FULL, "it ends although nothing has happened");
    }
}

static void write_some(struct end *end, size_t most)
{
    static uint8_t buffers[2][WINDOW]; // the bytes of an event stay valid until the next one has been handled
    static size_t turn;
    uint8_t *bytes = buffers[turn++ % 2];
    uint64_t count = end->target - end->sent;
    count = count < end->allowed ? count : end->allowed;
    count = count < most ? count : most;
    if (!count)
        return;
    for (size_t i = 0; i < count; i++)
        bytes[i] = byte_at(end->tag, end->sent + i);
    end->sent += count;
    end->allowed -= count;
    step(end->node,
         (struct gossip_relay_event){
             .kind = GOSSIP_RELAY_READ, .stream = end->stream, .bytes = bytes, .count = (size_t)count});
}

static void take_some(struct end *end, size_t most)
{
    uint64_t count = end->got - end->taken;
    count = count < most ? count : most;
    end->taken += count;
    step(end->node, (struct gossip_relay_event){
                        .kind = GOSSIP_RELAY_WRITTEN, .stream = end->stream, .count = (size_t)count});
}

static void end_now(struct end *end)
{
    step(end->node, (struct gossip_relay_event){.kind = GOSSIP_RELAY_ENDED, .stream = end->stream});
    end->stream = 0;
    end->ended = true;
}

static void carry_out(size_t node, const struct gossip_relay_action *action)
{
    struct end *end = NULL;
    switch (action->kind) {
    case GOSSIP_RELAY_SEND:
        claim(w.node[node].linked[node_of(&action->peer)] != 0, "a message without a link");
        post(node, node_of(&action->peer), MAIL_MESSAGE, w.node[node].linked[node_of(&action->peer)],
             &action->message);
        return;
    case GOSSIP_RELAY_ACCEPT:
        add_end(node, node_of(&action->peer), node_of(&action->via), action->stream);
        return;
    case GOSSIP_RELAY_ALLOW:
        end = end_of(node, action->stream);
        claim(action->count <= WINDOW, "an allowance of more than the window");
        end->allowed = action->count;
        return;
    case GOSSIP_RELAY_DELIVER:
        delivered(end_of(node, action->stream), action->bytes, action->count);
        return;
    case GOSSIP_RELAY_END:
        ended(end_of(node, action->stream), action->why);
        return;
    }
}

// An event may come before all actions are taken.
static void interfere(size_t node)
{
    struct end *end = w.ends ? &w.end[below(w.ends)] : NULL;
    if (!end || end->node != node || !end->stream)
        return;
    if (below(2))
        write_some(end, 1 + below(100));
    else
        take_some(end, WINDOW);
}

static void drain(size_t node)
{
    struct gossip_relay_action action;
    gossip_relay_check(w.node[node].relay);
    while (gossip_relay_next(w.node[node].relay, &action)) {
        carry_out(node, &action);
        if (below(8) == 0)
            interfere(node);
        gossip_relay_check(w.node[node].relay);
    }
}

// -- time

static void run(uint64_t duration_ns)
{
    uint64_t until_ns = w.now_ns + duration_ns;
    for (;;) {
        size_t node = NODES;
        uint64_t next_ns = until_ns;
        for (size_t i = 0; i < w.nodes; i++)
            if (gossip_relay_deadline(w.node[i].relay) < next_ns) {
                node = i;
                next_ns = gossip_relay_deadline(w.node[i].relay);
            }
        struct mail *mail = w.mails && w.mails->due_ns <= next_ns ? w.mails : NULL;
        if (mail) {
            w.now_ns = mail->due_ns > w.now_ns ? mail->due_ns : w.now_ns;
            w.mails = mail->next;
            arrive(mail);
            free(mail->bytes);
            free(mail);
        } else if (node < NODES) {
            w.now_ns = next_ns > w.now_ns ? next_ns : w.now_ns;
            step(node, (struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER});
            drain(node);
        } else {
            break;
        }
    }
    w.now_ns = until_ns;
}

static void create(uint64_t seed, size_t nodes)
{
    memset(&w, 0, sizeof w);
    w.seed = seed;
    w.nodes = nodes;
    w.now_ns = 10 * SECOND;
    base_rng_seed(&w.rng, seed);
    w.delay_ns = (1 + below(200)) * MS;
    for (size_t i = 0; i < nodes; i++) {
        static const uint64_t rates[] = {50000, 200000, 2000000, GOSSIP_RELAY_ANY};
        struct node *node = &w.node[i];
        node->id.bytes[0] = (uint8_t)(i + 1);
        node->rate = rates[below(4)];
        const struct gossip_relay_options options = {.self = node->id, .rate = node->rate};
        assert_int_equal(gossip_relay_create(&options, &node->relay), BASE_OK);
    }
}

static void destroy(void)
{
    for (size_t i = 0; i < w.nodes; i++)
        gossip_relay_destroy(w.node[i].relay);
    while (w.mails) {
        struct mail *mail = w.mails;
        w.mails = mail->next;
        free(mail->bytes);
        free(mail);
    }
}

// -- streams in a network that changes

static void set_rate(size_t node, uint64_t rate)
{
    w.node[node].rate = rate;
    if (!rate)
        w.node[node].off_ns = w.now_ns;
    for (size_t i = 0; !rate && i < w.ends; i++)
        w.end[i].disturbed |= w.end[i].via == node;
    step(node, (struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = rate});
    drain(node);
}

static void call_somebody(void)
{
    size_t node = below(w.nodes), peer = below(w.nodes), via = below(w.nodes), live = 0;
    for (size_t i = 0; i < w.ends; i++)
        live += w.end[i].stream && w.end[i].node == node;
    if (live >= LIVE || w.ends + 2 * NODES * LIVE > ENDS)
        return;
    uint64_t stream = gossip_relay_call(w.node[node].relay, w.now_ns, &w.node[via].id, &w.node[peer].id);
    claim((stream != 0) == (w.node[node].linked[via] && peer != via && peer != node), "a call");
    if (!stream)
        return;
    w.node[node].opened[via]++;
    add_end(node, peer, via, stream);
    drain(node);
}

static void move_an_end(void)
{
    struct end *end = w.ends ? &w.end[below(w.ends)] : NULL;
    if (!end || !end->stream)
        return;
    size_t what = below(32);
    if (what == 0)
        end_now(end);
    else if (what < 16)
        write_some(end, 1 + below(WINDOW));
    else
        take_some(end, 1 + below(WINDOW));
    drain(end->node);
}

static void change_a_link(void)
{
    size_t a = below(w.nodes), b = below(w.nodes);
    if (a != b && pair_of(a, b)->up && below(3))
        link_down(a, b);
    else if (a != b)
        link_up(a, b);
}

static void disturb(size_t changes)
{
    static const uint64_t rates[] = {0, 20000, 300000, 5000000, GOSSIP_RELAY_ANY};
    size_t what = below(1000);
    if (what < changes)
        change_a_link();
    else if (what < changes + changes / 8)
        set_rate(below(w.nodes), rates[below(5)]);
    else if (what < 200)
        call_somebody();
    else
        move_an_end();
}

// From now on nothing changes, and all ends send and take what they can.
static void settle(void)
{
    bool moves = true;
    for (size_t a = 0; a < w.nodes; a++) {
        if (w.node[a].rate < 50000)
            set_rate(a, 50000);
        for (size_t b = a + 1; b < w.nodes; b++)
            if (!pair_of(a, b)->up)
                link_up(a, b);
    }
    for (size_t turn = 0; moves; turn++) {
        claim(turn < 20000,
              "streams stand still"); // 1,000 s, for at most 144 x 200 kB at 50 kB/s and a relay
        moves = false;
        for (size_t i = 0; i < w.ends; i++) {
            struct end *end = &w.end[i];
            if (!end->stream)
                continue;
            take_some(end, WINDOW);
            write_some(end, WINDOW);
            drain(end->node);
            moves |= end->stream && end->sent < end->target;
        }
        for (size_t i = 0; i < w.nodes; i++)
            moves |= gossip_relay_deadline(w.node[i].relay) != UINT64_MAX;
        moves |= w.mails != NULL;
        run(50 * MS);
    }
}

static void a_stream_lives_at_both_ends_and_has_delivered_all(void)
{
    for (size_t i = 0; i < w.ends; i++) {
        const struct end *end = &w.end[i], *other = other_end(end);
        if (end->stream)
            claim(other && other->stream && end->got == other->target, "a stream has not delivered all");
    }
}

static void who_ends_ends_both(void)
{
    for (size_t i = 0; i < w.ends; i++)
        if (w.end[i].stream && below(2)) {
            end_now(&w.end[i]);
            drain(w.end[i].node);
        }
    run(60 * SECOND);
    for (size_t i = 0; i < w.ends; i++) {
        const struct end *other = other_end(&w.end[i]);
        claim(!w.end[i].stream || (other && other->stream), "half a stream");
        if (w.end[i].stream) {
            end_now(&w.end[i]);
            drain(w.end[i].node);
            run(10 * SECOND);
        }
    }
    for (size_t i = 0; i < w.nodes; i++) {
        struct gossip_relay_totals totals;
        gossip_relay_totals(w.node[i].relay, &totals);
        claim(totals.ends == 0 && totals.forwarded == 0, "something is left");
    }
}

static void streams_in_a_network_that_changes(uint64_t seed)
{
    static const uint64_t paces[] = {1, 20, 200};
    create(seed, 3 + (size_t)(seed % (NODES - 2)));
    uint64_t pace_ns = paces[below(3)] * MS;
    size_t changes = below(3) ? below(60) : 0, turns = 200 + below(2000);
    for (size_t a = 0; a < w.nodes; a++)
        for (size_t b = a + 1; b < w.nodes; b++)
            if (below(4))
                link_up(a, b);
    run(5 * SECOND);
    for (size_t i = 0; i < turns; i++) {
        disturb(changes);
        run(below(pace_ns));
    }
    settle();
    a_stream_lives_at_both_ends_and_has_delivered_all();
    who_ends_ends_both();
    destroy();
}

static uint64_t number_of(const char *name, uint64_t usual)
{
    const char *given = getenv(name);
    return given ? strtoull(given, NULL, 0) : usual;
}

static void what_arrives_is_what_was_sent(void **state)
{
    uint64_t first = number_of("P2PML_SEED", 0),
             count = number_of("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : 60);
    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++)
        streams_in_a_network_that_changes(seed);
}

// -- fairness

enum { RELAY = 0, CALLEE = 1, FIRST = 2, SECOND_CALLER = 3 };

// Two streams that always have something to send, in pieces of any size, over a relay of one rate.
static void share(uint64_t seed)
{
    create(seed, 4);
    uint64_t rate = 20000 + below(500000), began_ns;
    for (size_t i = 1; i < w.nodes; i++)
        link_up(RELAY, i);
    set_rate(RELAY, rate);
    run(5 * SECOND);
    for (size_t i = FIRST; i <= SECOND_CALLER; i++) {
        uint64_t stream = gossip_relay_call(w.node[i].relay, w.now_ns, &w.node[RELAY].id, &w.node[CALLEE].id);
        add_end(i, CALLEE, RELAY, stream)->target = UINT64_MAX;
        drain(i);
    }
    const size_t most[2] = {1 + below(WINDOW), 1 + below(WINDOW)};
    began_ns = w.now_ns;
    while (w.now_ns < began_ns + 120 * SECOND) {
        for (size_t i = 0; i < w.ends; i++) {
            for (size_t k = 0; i < 2 && k < 1 + WINDOW / most[i]; k++)
                write_some(&w.end[i], most[i]);
            take_some(&w.end[i], WINDOW);
            drain(w.end[i].node);
        }
        run(20 * MS);
    }
    claim(w.ends == 4, "two streams");
    double all = (double)(w.end[2].got + w.end[3].got), part = (double)w.end[2].got / all;
    claim(part > 0.4 && part < 0.6, "the streams do not share the rate");
    claim(all < 1.01 * 120.0 * (double)rate + 2 * WINDOW, "the rate is not kept");
    // Two windows in flight for the time that a byte and its credit take, at most.
    bool enough = rate < WINDOW * SECOND / (6 * w.delay_ns + 100 * MS);
    claim(!enough || all > 0.95 * 120.0 * (double)rate, "the rate is not used");
    destroy();
}

static void streams_share_the_rate(void **state)
{
    uint64_t first = number_of("P2PML_SEED", 0), count = getenv("P2PML_SEED") ? 1 : 12;
    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++)
        share(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_arrives_is_what_was_sent),
                                       cmocka_unit_test(streams_share_the_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
