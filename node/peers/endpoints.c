#include "node/peers/endpoints.h"

#include "base/array.h"
#include "gossip/reach/reach.h"
#include <stdlib.h>
#include <string.h>

struct endpoint {
    struct gossip_id id;
    struct gossip_address from;   // family 0: never heard
    struct gossip_address linked; // the latest that others can use; family 0: none
    uint64_t heard_ns;
    unsigned unanswered; // datagrams since
};

struct node_endpoints {
    struct endpoint *rows; // in the order of their ids
    size_t count;
};

void node_address_of(const struct gossip_address *from, struct node_address *to)
{
    BASE_ASSERT(from->family == 4 || from->family == 6);
    memset(to, 0, sizeof *to);
    if (from->family == 4) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(from->port)};
        memcpy(&v4.sin_addr, from->ip, sizeof v4.sin_addr);
        memcpy(&to->storage, &v4, sizeof v4);
        to->bytes = sizeof v4;
    } else {
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
        memcpy(&v6.sin6_addr, from->ip, sizeof v6.sin6_addr);
        memcpy(&to->storage, &v6, sizeof v6);
        to->bytes = sizeof v6;
    }
}

bool node_address_tell(const struct node_address *from, struct gossip_address *to)
{
    struct gossip_address told = {0};
    if (from->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&from->storage;
        told.family = 4;
        told.port = ntohs(v4->sin_port);
        memcpy(told.ip, &v4->sin_addr, 4);
    } else if (from->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&from->storage;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
            return false;
        told.family = mapped ? 4 : 6;
        told.port = ntohs(v6->sin6_port);
        memcpy(told.ip, v6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    } else {
        return false;
    }
    *to = told;
    return true;
}

bool node_address_equal(const struct node_address *a, const struct node_address *b)
{
    struct gossip_address x, y;
    return node_address_tell(a, &x) && node_address_tell(b, &y) && gossip_address_same(&x, &y);
}

enum base_error node_endpoints_create(struct node_endpoints **out)
{
    struct node_endpoints *endpoints = calloc(1, sizeof *endpoints);
    if (!endpoints)
        return BASE_ENOMEM;
    *out = endpoints;
    return BASE_OK;
}

void node_endpoints_destroy(struct node_endpoints *endpoints)
{
    if (!endpoints)
        return;
    free(endpoints->rows);
    free(endpoints);
}

static size_t place_of(const struct node_endpoints *e, const struct gossip_id *id, bool *there)
{
    return gossip_id_place(id, e->rows, e->count, sizeof *e->rows, there);
}

static struct endpoint *find(const struct node_endpoints *e, const struct gossip_id *id)
{
    bool there;
    size_t at = place_of(e, id, &there);
    return there ? &e->rows[at] : NULL;
}

static struct endpoint *find_or_add(struct node_endpoints *e, const struct gossip_id *id)
{
    bool there;
    size_t at = place_of(e, id, &there);
    if (there)
        return &e->rows[at];
    if (e->count >= LIMIT_MEMBERS)
        return NULL;
    struct endpoint *rows = base_array_grow(e->rows, e->count, sizeof *rows);
    if (!rows)
        return NULL;
    e->rows = rows;
    BASE_ASSERT(at <= e->count);
    memmove(&e->rows[at + 1], &e->rows[at], (e->count - at) * sizeof *e->rows);
    e->count++;
    e->rows[at] = (struct endpoint){.id = *id};
    return &e->rows[at];
}

void node_endpoints_heard(struct node_endpoints *endpoints, const struct gossip_id *id,
                          const struct node_address *from, uint64_t now_ns)
{
    struct endpoint *row = find_or_add(endpoints, id);
    struct gossip_address told;
    if (!row || !node_address_tell(from, &told))
        return;
    row->from = told;
    row->heard_ns = now_ns;
    row->unanswered = 0;
}

void node_endpoints_linked(struct node_endpoints *endpoints, const struct gossip_id *id,
                           const struct node_address *from)
{
    struct gossip_address told;
    struct endpoint *row =
        node_address_tell(from, &told) && !gossip_address_is_near(&told) ? find_or_add(endpoints, id) : NULL;
    if (row)
        row->linked = told;
}

static struct gossip_address reachable(const struct endpoint *row, const struct gossip_address *told)
{
    if (!row || row->linked.family == 0 || !gossip_address_is_near(told))
        return *told;
    struct gossip_address there = row->linked;
    there.port = told->port;
    return there;
}

size_t node_endpoints_of(const struct node_endpoints *endpoints, const struct gossip_record *record,
                         struct node_address out[LIMIT_ADDRESSES])
{
    const struct endpoint *row = find(endpoints, &record->id);
    for (size_t i = 0; i < record->n_addresses; i++) {
        const struct gossip_address address = reachable(row, &record->addresses[i]);
        node_address_of(&address, &out[i]);
    }
    return record->n_addresses;
}

// The turn begins at the address where it was heard last.
static size_t begin_of_turn(const struct endpoint *row, const struct node_address *addresses, size_t count)
{
    struct gossip_address told;
    for (size_t i = 0; row && i < count; i++)
        if (node_address_tell(&addresses[i], &told) && gossip_address_same(&row->from, &told))
            return i;
    return 0;
}

bool node_endpoints_pick(struct node_endpoints *endpoints, const struct gossip_record *record,
                         uint64_t now_ns, bool (*reaches)(const void *context, const struct node_address *to),
                         const void *context, struct node_address *to)
{
    struct endpoint *row = find_or_add(endpoints, &record->id);
    if (row && row->from.family != 0 && now_ns - row->heard_ns < NODE_ENDPOINT_FRESH_NS) {
        node_address_of(&row->from, to);
        return true;
    }
    struct node_address addresses[LIMIT_ADDRESSES];
    const size_t n = node_endpoints_of(endpoints, record, addresses),
                 first = begin_of_turn(row, addresses, n) + (row ? row->unanswered : 0);
    for (size_t i = 0; i < n; i++) {
        *to = addresses[(first + i) % n];
        if (!reaches(context, to))
            continue;
        if (row)
            row->unanswered += (unsigned)i + 1;
        return true;
    }
    return false;
}

bool node_endpoints_at(const struct node_endpoints *endpoints, const struct node_address *address,
                       struct gossip_id *id)
{
    const struct endpoint *latest = NULL;
    struct gossip_address told;
    if (!node_address_tell(address, &told))
        return false;
    for (size_t i = 0; i < endpoints->count; i++) {
        const struct endpoint *row = &endpoints->rows[i];
        if (gossip_address_same(&row->from, &told) && (!latest || row->heard_ns > latest->heard_ns))
            latest = row;
    }
    if (latest)
        *id = latest->id;
    return latest != NULL;
}

void node_endpoints_forget(struct node_endpoints *endpoints, const struct gossip_id *id)
{
    struct endpoint *row = find(endpoints, id);
    if (!row)
        return;
    size_t at = (size_t)(row - endpoints->rows);
    BASE_ASSERT(at < endpoints->count);
    memmove(row, row + 1, (endpoints->count - at - 1) * sizeof *row);
    endpoints->count--;
}
