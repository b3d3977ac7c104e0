#include "test/support/links_net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum what { CONNECT, ANSWER, PROOF, GREETING, BYE, MESSAGE, END, RESET, GIVE_UP };

struct links_net_event {
    uint64_t time_ns, order;
    enum what what;
    struct links_net_stream *stream;
    size_t side; // the end that it reaches
    struct gossip_greeting greeting;
    char reason[64];
};

static size_t room_of(const struct links_net *net, const struct gossip_id *id)
{
    size_t i = 0;
    while (i < net->rooms && gossip_id_compare(&net->room[i].id, id) != 0)
        i++;
    BASE_ASSERT(i < net->rooms); // the id of a node of this net
    return i;
}

static struct links_net_event *post(struct links_net *net, enum what what, struct links_net_stream *stream,
                                    size_t side, uint64_t after_ns)
{
    static uint64_t order;
    uint64_t due_ns = net->now_ns + after_ns;
    if (net->events == net->capacity) {
        net->capacity = net->capacity ? 2 * net->capacity : 64;
        net->event = realloc(net->event, net->capacity * sizeof *net->event);
        BASE_ASSERT(net->event);
    }
    if (due_ns < stream->due_ns[side])
        due_ns = stream->due_ns[side];
    stream->due_ns[side] = due_ns;
    net->event[net->events] = (struct links_net_event){
        .time_ns = due_ns, .order = order++, .what = what, .stream = stream, .side = side};
    return &net->event[net->events++];
}

static uint64_t delay(struct links_net *net, const struct links_net_stream *stream)
{
    return (stream->relayed ? 2 : 1) * (net->delay_ns / 2 + base_rng_below(&net->rng, net->delay_ns + 1));
}

static void end(struct links_net *net, struct links_net_stream *stream, size_t side, enum gossip_link_end how)
{
    if (!stream->open[side])
        return;
    stream->open[side] = false;
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_ENDED, .link = stream->link[side], .end = how};
    const uint64_t evidence = net->room[stream->room[side]].unreachables;
    links_net_say(net, stream->room[side], &event);
    BASE_ASSERT(!stream->relayed || net->room[stream->room[side]].unreachables == evidence);
}

// Of a member: the wrong address, its own, the relay. An entry has one.
static struct gossip_links_event addresses(const struct links_net *net, size_t room,
                                           const struct gossip_links_target *target)
{
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_RESOLVED, .target = *target, .count = 1};
    if (target->entry != GOSSIP_NO_ENTRY)
        return event;
    const size_t other = room_of(net, &target->peer);
    event.count += net->room[other].wrong;
    if (net->relayed[room][other] && !target->direct)
        event.relayed = 1u << event.count++;
    return event;
}

static void call(struct links_net *net, size_t from, const struct gossip_links_action *action)
{
    // Entry i of a room leads to room i; a member to its own room.
    size_t to = action->target.entry == GOSSIP_NO_ENTRY ? room_of(net, &action->target.peer)
                                                        : action->target.entry % net->rooms;
    struct links_net_stream *stream = calloc(1, sizeof *stream);
    BASE_ASSERT(stream);
    net->stream = realloc(net->stream, (net->streams + 1) * sizeof(struct links_net_stream *));
    BASE_ASSERT(net->stream);
    net->stream[net->streams++] = stream;
    *stream = (struct links_net_stream){.relayed = action->relayed,
                                        .room = {from, to},
                                        .link = {action->link, 0},
                                        .open = {true, false},
                                        .life = {net->room[from].lives, 0}};
    gossip_links_bind(net->room[from].links, action->link, stream);
    net->room[from].calls++;
    if (action->target.entry != GOSSIP_NO_ENTRY || action->address > 0 || !net->room[to].wrong)
        post(net, CONNECT, stream, 1, delay(net, stream));
}

static void close_link(struct links_net *net, size_t room, const struct gossip_links_action *action)
{
    struct links_net_stream *stream = action->owner;
    size_t side = stream->link[0] == action->link && stream->room[0] == room ? 0 : 1;
    const char *bye = gossip_close_bye(action->why);
    net->room[room].broken += action->why == GOSSIP_CLOSE_BROKEN;
    if (bye && stream->authenticated[side])
        snprintf(post(net, BYE, stream, 1 - side, delay(net, stream))->reason, 64, "%s", bye);
    post(net, END, stream, 1 - side, delay(net, stream));
    end(net, stream, side, GOSSIP_END_OTHER);
}

static void act(struct links_net *net, size_t room, const struct gossip_links_action *action)
{
    struct links_net_room *at = &net->room[room];
    struct links_net_stream *stream = action->owner;
    size_t side = stream && stream->room[1] == room && stream->link[1] == action->link ? 1 : 0;
    switch (action->kind) {
    case GOSSIP_LINKS_RESOLVE: {
        struct gossip_links_event event = addresses(net, room, &action->target);
        links_net_say(net, room, &event);
        break;
    }
    case GOSSIP_LINKS_CALL:
        call(net, room, action);
        break;
    case GOSSIP_LINKS_GREET:
        if (stream->open[side])
            post(net, GREETING, stream, 1 - side, delay(net, stream))->greeting = at->greeting;
        break;
    case GOSSIP_LINKS_CLOSE:
        close_link(net, room, action);
        break;
    case GOSSIP_LINKS_UP:
        BASE_ASSERT(!at->active[room_of(net, &action->peer)]);
        at->active[room_of(net, &action->peer)] = stream;
        at->ups++;
        break;
    case GOSSIP_LINKS_DOWN:
        BASE_ASSERT(at->active[room_of(net, &action->peer)] == stream);
        at->active[room_of(net, &action->peer)] = NULL;
        at->downs++;
        break;
    case GOSSIP_LINKS_DELIVER:
        at->delivered++;
        break;
    case GOSSIP_LINKS_EXPLAIN:
        if (stream->open[side])
            post(net, MESSAGE, stream, 1 - side, delay(net, stream));
        break;
    case GOSSIP_LINKS_SEND:
        BASE_ASSERT(action->bytes && action->count);
        if (stream->open[side])
            post(net, MESSAGE, stream, 1 - side, delay(net, stream));
        at->packets++;
        break;
    case GOSSIP_LINKS_UNREACHABLE:
        at->unreachables++;
        break;
    case GOSSIP_LINKS_DUPLICATE:
        at->duplicates++;
        break;
    case GOSSIP_LINKS_MISSING:
        at->missing++;
        break;
    case GOSSIP_LINKS_REACHED:
        BASE_ASSERT(side == 1 && !stream->relayed && stream->room[0] == room_of(net, &action->peer));
        at->reached[stream->room[0]]++;
        break;
    case GOSSIP_LINKS_ENTRY:
        break;
    }
}

void links_net_say(struct links_net *net, size_t room, struct gossip_links_event *event)
{
    struct gossip_links *links = net->room[room].links;
    struct gossip_links_action action;
    if (!links)
        return;
    event->now_ns = net->now_ns;
    event->entropy = base_rng_u64(&net->rng);
    BASE_ASSERT(!gossip_links_step(links, event));
    while (net->room[room].links == links && gossip_links_next(links, &action))
        act(net, room, &action);
    gossip_links_check(links);
}

static void connect_now(struct links_net *net, struct links_net_stream *stream)
{
    size_t from = stream->room[0], to = stream->room[1];
    struct links_net_room *called = &net->room[to];
    enum links_net_path path = net->path[from][to];
    if (stream->relayed)
        path = net->relayed[from][to] ? LINKS_NET_OPEN : LINKS_NET_REFUSED;
    if (!stream->open[0] || path == LINKS_NET_SILENT || (net->cut[from][to] && !stream->relayed))
        return; // the caller's timeout ends it
    if (path == LINKS_NET_OPEN && called->links)
        stream->link[1] = gossip_links_accept(called->links, net->now_ns, from, stream->relayed, stream);
    if (!called->links || path == LINKS_NET_REFUSED) {
        post(net, RESET, stream, 0, delay(net, stream))->reason[0] = 'r';
        return;
    }
    stream->life[1] = called->lives;
    stream->open[1] = stream->link[1] != 0;
    post(net, stream->open[1] ? ANSWER : END, stream, 0,
         2 * delay(net, stream)); // the handshake's second message
}

static void prove(struct links_net *net, struct links_net_stream *stream, size_t side)
{
    size_t room = stream->room[side], other = stream->room[1 - side];
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_AUTHENTICATED,
                                       .protocol = GOSSIP_PROTOCOL,
                                       .link = stream->link[side],
                                       .peer = net->room[other].id,
                                       .alive = net->room[room].alive[other]};
    stream->authenticated[side] = true;
    if (side == 0)
        post(net, PROOF, stream, 1, delay(net, stream));
    links_net_say(net, room, &event);
}

static void message_arrives(struct links_net *net, struct links_net_stream *stream, size_t side)
{
    struct links_net_room *at = &net->room[stream->room[side]];
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_MESSAGE, .link = stream->link[side]};
    uint64_t before = at->delivered;
    links_net_say(net, stream->room[side], &event);
    BASE_ASSERT(at->delivered == before + 1); // the sender learns that the link was accepted
}

// The other end notices by its keepalive.
static void give_up(struct links_net *net, struct links_net_stream *stream, size_t side)
{
    if (stream->open[1 - side])
        post(net, GIVE_UP, stream, 1 - side, 12 * LINKS_NET_S);
    end(net, stream, side, GOSSIP_END_OTHER);
}

static void arrive(struct links_net *net, const struct links_net_event *e)
{
    struct links_net_stream *stream = e->stream;
    struct gossip_links_event event = {.link = stream->link[e->side]};
    if (e->what == CONNECT) {
        connect_now(net, stream);
        return;
    }
    if (!stream->open[e->side] || (stream->lost[e->side] && e->what != GIVE_UP))
        return;
    if (net->cut[stream->room[0]][stream->room[1]] && !stream->relayed) { // tried again, then given up
        if (e->what == GIVE_UP)
            give_up(net, stream, e->side);
        else
            post(net, GIVE_UP, stream, e->side, 15 * LINKS_NET_S);
        stream->lost[e->side] = true;
        return;
    }
    switch (e->what) {
    case ANSWER:
    case PROOF:
        prove(net, stream, e->side);
        break;
    case GREETING:
        event.kind = GOSSIP_LINKS_GREETING;
        event.greeting = &e->greeting;
        links_net_say(net, stream->room[e->side], &event);
        break;
    case BYE:
        event.kind = GOSSIP_LINKS_BYE;
        event.reason = e->reason;
        links_net_say(net, stream->room[e->side], &event);
        break;
    case MESSAGE:
        message_arrives(net, stream, e->side);
        break;
    case RESET:
        end(net, stream, e->side, e->reason[0] ? GOSSIP_END_REFUSED : GOSSIP_END_GONE);
        break;
    case GIVE_UP:
        give_up(net, stream, e->side);
        break;
    default:
        end(net, stream, e->side, GOSSIP_END_GONE);
        break;
    }
}

void links_net_create(struct links_net *net, size_t rooms, size_t entries, uint64_t seed)
{
    *net = (struct links_net){.rooms = rooms, .now_ns = 1000 * LINKS_NET_S, .delay_ns = 10 * LINKS_NET_MS};
    base_rng_seed(&net->rng, seed);
    for (size_t i = 0; i < rooms; i++) {
        struct links_net_room *at = &net->room[i];
        at->id.bytes[0] = (uint8_t)base_rng_below(&net->rng, 256); // ids in any order
        at->id.bytes[1] = (uint8_t)(i + 1);
        at->greeting = (struct gossip_greeting){.parameters = entries};
        for (size_t k = 0; k < rooms; k++)
            at->alive[k] = true;
    }
}

void links_net_destroy(struct links_net *net)
{
    for (size_t i = 0; i < net->rooms; i++)
        gossip_links_destroy(net->room[i].links);
    for (size_t i = 0; i < net->streams; i++)
        free(net->stream[i]);
    free(net->stream);
    free(net->event);
}

static void say_wanted(struct links_net *net, size_t room)
{
    struct links_net_room *at = &net->room[room];
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_WANT, .ids = at->wanted, .count = at->n_wanted};
    links_net_say(net, room, &event);
}

void links_net_start(struct links_net *net, size_t room)
{
    struct links_net_room *at = &net->room[room];
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_START};
    at->lives++;
    at->greeting.instance_id = base_rng_u64(&net->rng);
    const struct gossip_links_options options = {.self = at->id,
                                                 .greeting = &at->greeting,
                                                 .entries = at->greeting.parameters,
                                                 .salt = base_rng_u64(&net->rng),
                                                 .now_ns = net->now_ns};
    BASE_ASSERT(!at->links && !gossip_links_create(&options, &at->links));
    memset(at->active, 0, sizeof at->active);
    say_wanted(net, room);
    links_net_say(net, room, &event);
}

void links_net_kill(struct links_net *net, size_t room, bool silent)
{
    struct links_net_room *at = &net->room[room];
    for (size_t i = 0; i < net->streams; i++) {
        struct links_net_stream *stream = net->stream[i];
        for (size_t side = 0; side < 2; side++) {
            if (stream->room[side] != room || !stream->open[side])
                continue;
            stream->open[side] = false;
            if (silent) // until keepalive gives up
                post(net, GIVE_UP, stream, 1 - side, 12 * LINKS_NET_S);
            else
                post(net, RESET, stream, 1 - side, delay(net, stream));
        }
    }
    gossip_links_destroy(at->links);
    at->links = NULL;
    memset(at->active, 0, sizeof at->active);
}

static void die(struct links_net *net, size_t a, size_t b, bool relayed)
{
    BASE_ASSERT(a < net->rooms && b < net->rooms);
    for (size_t i = 0; i < net->streams; i++) {
        struct links_net_stream *stream = net->stream[i];
        const size_t from = stream->room[0], to = stream->room[1];
        if (stream->relayed == relayed && ((from == a && to == b) || (from == b && to == a)))
            for (size_t side = 0; side < 2; side++)
                post(net, relayed ? END : GIVE_UP, stream, side, delay(net, stream));
    }
}

void links_net_relay_dies(struct links_net *net, size_t a, size_t b)
{
    die(net, a, b, true);
}

void links_net_path_dies(struct links_net *net, size_t a, size_t b)
{
    die(net, a, b, false);
}

void links_net_want(struct links_net *net, size_t room, size_t other)
{
    struct links_net_room *at = &net->room[room];
    at->wanted[at->n_wanted++] = net->room[other].id;
    say_wanted(net, room);
}

void links_net_want_none(struct links_net *net, size_t room)
{
    net->room[room].n_wanted = 0;
    say_wanted(net, room);
}

void links_net_send(struct links_net *net, size_t room, size_t other)
{
    struct links_net_room *at = &net->room[room];
    struct links_net_stream *stream = at->active[other];
    if (!at->links || !stream)
        return;
    size_t side = stream->room[0] == room ? 0 : 1;
    gossip_links_sent(at->links, stream->link[side], net->now_ns);
    post(net, MESSAGE, stream, 1 - side, delay(net, stream));
}

static size_t first_event(const struct links_net *net)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < net->events; i++)
        if (first == SIZE_MAX || net->event[i].time_ns < net->event[first].time_ns ||
            (net->event[i].time_ns == net->event[first].time_ns &&
             net->event[i].order < net->event[first].order))
            first = i;
    return first;
}

static size_t first_timer(const struct links_net *net, uint64_t *due_ns)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < net->rooms; i++)
        if (net->room[i].links && gossip_links_deadline(net->room[i].links) < *due_ns) {
            first = i;
            *due_ns = gossip_links_deadline(net->room[i].links);
        }
    return first;
}

void links_net_run(struct links_net *net, uint64_t for_ns)
{
    uint64_t until_ns = net->now_ns + for_ns;
    for (;;) {
        size_t event = first_event(net);
        uint64_t due_ns = event == SIZE_MAX ? UINT64_MAX : net->event[event].time_ns;
        size_t room = first_timer(net, &due_ns);
        if (due_ns > until_ns)
            break;
        if (due_ns > net->now_ns)
            net->now_ns = due_ns;
        if (room != SIZE_MAX) {
            struct gossip_links_event timer = {.kind = GOSSIP_LINKS_TIMER};
            links_net_say(net, room, &timer);
            continue;
        }
        struct links_net_event e = net->event[event];
        net->event[event] = net->event[--net->events];
        arrive(net, &e);
    }
    net->now_ns = until_ns;
}

bool links_net_linked(const struct links_net *net, size_t a, size_t b)
{
    const struct links_net_stream *stream = net->room[a].active[b];
    if (!stream || stream != net->room[b].active[a])
        return false;
    BASE_ASSERT(gossip_links_is_relayed(net->room[a].links, &net->room[b].id) == stream->relayed);
    BASE_ASSERT(gossip_links_is_relayed(net->room[b].links, &net->room[a].id) == stream->relayed);
    return true;
}
