#include "node/net/interfaces.h"

#include "base/error.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#define INTERFACES 64u

size_t node_interfaces(struct node_address *addresses, size_t capacity)
{
    struct ifaddrs *all = NULL;
    size_t count = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i && count < capacity; i = i->ifa_next) {
        const sa_family_t family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (!(i->ifa_flags & IFF_UP) || (family != AF_INET && family != AF_INET6))
            continue;
        struct node_address *to = &addresses[count++];
        memset(to, 0, sizeof *to);
        to->bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&to->storage, i->ifa_addr, to->bytes);
    }
    freeifaddrs(all);
    BASE_ASSERT(count <= capacity);
    return count;
}

bool node_address_loops(const struct node_address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
    if (address->storage.ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

static bool is_same_host(const struct node_address *a, const struct node_address *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)&a->storage,
                             *b4 = (const struct sockaddr_in *)&b->storage;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)&a->storage,
                              *b6 = (const struct sockaddr_in6 *)&b->storage;
    if (a->storage.ss_family != b->storage.ss_family)
        return false;
    return a->storage.ss_family == AF_INET
               ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
               : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

static bool bits_agree(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t count)
{
    bool agree = true;
    for (size_t i = 0; i < count && agree; i++)
        agree = ((a[i] ^ b[i]) & mask[i]) == 0;
    return agree;
}

static bool is_in_net_of(const struct ifaddrs *i, const struct node_address *address)
{
    const struct sockaddr *own = i->ifa_addr, *mask = i->ifa_netmask,
                          *to = (const struct sockaddr *)&address->storage;
    if (!own || !mask || !(i->ifa_flags & IFF_UP) || own->sa_family != to->sa_family)
        return false;
    if (own->sa_family == AF_INET)
        return bits_agree((const uint8_t *)&((const struct sockaddr_in *)own)->sin_addr,
                          (const uint8_t *)&((const struct sockaddr_in *)to)->sin_addr,
                          (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr, 4);
    return own->sa_family == AF_INET6 &&
           bits_agree(((const struct sockaddr_in6 *)own)->sin6_addr.s6_addr,
                      ((const struct sockaddr_in6 *)to)->sin6_addr.s6_addr,
                      ((const struct sockaddr_in6 *)mask)->sin6_addr.s6_addr, 16);
}

bool node_address_is_neighbour(const struct node_address *address)
{
    struct ifaddrs *all = NULL;
    bool found = node_address_loops(address);
    if (found || getifaddrs(&all) != 0)
        return found;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = is_in_net_of(i, address);
    freeifaddrs(all);
    return found;
}

bool node_address_is_own(const struct node_address *address)
{
    struct node_address own[INTERFACES];
    const size_t count = node_interfaces(own, INTERFACES);
    bool found = node_address_loops(address);
    for (size_t i = 0; i < count && !found; i++)
        found = is_same_host(&own[i], address);
    return found;
}
