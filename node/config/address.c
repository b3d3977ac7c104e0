#include "base/limits.h"
#include "node/config/config.h"
#include "node/schema/private.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_ipv6(const char *host)
{
    char plain[LIMIT_HOST_BYTES];
    struct in6_addr address;
    snprintf(plain, sizeof plain, "%s", host);
    char *zone = strchr(plain, '%'); // fe80::1%eth0
    if (zone && !zone[1])
        return false;
    if (zone)
        *zone = 0;
    return inet_pton(AF_INET6, plain, &address) == 1;
}

// A DNS name or an IPv4 address. A name whose last label is a number is meant as an address.
static bool is_host(const char *host)
{
    struct in_addr address;
    size_t label = 0;
    bool number = true;
    for (const char *c = host; *c; c++) {
        bool digit = *c >= '0' && *c <= '9';
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '-' || *c == '_';
        if (*c == '.') {
            if (!label)
                return false;
            label = 0;
            number = true;
            continue;
        }
        if ((!digit && !letter) || ++label > 63)
            return false;
        number = number && digit;
    }
    if (label && number)
        return inet_pton(AF_INET, host, &address) == 1;
    return host[0] && host[0] != '.';
}

enum base_error node_address_parse(const char *text, char *host, uint16_t *port, struct base_reason *why)
{
    char name[LIMIT_HOST_BYTES], found[SCHEMA_FOUND_BYTES];
    uint64_t number = 0;
    bool bracket = text[0] == '[';
    const char *start = text + bracket;
    const char *end = bracket ? strchr(start, ']') : strrchr(start, ':');
    const char *colon = bracket && end ? end + 1 : end;
    node_schema_found(text, strlen(text), found);
    if (strstr(text, "://"))
        return base_fail(why, BASE_EINVAL, "found %s, which is a URL, expected host:port alone", found);
    if (!end || *colon != ':')
        return base_fail(why, BASE_EINVAL, "found %s, expected host:port or [IPv6 address]:port", found);
    size_t length = (size_t)(end - start);
    if (!length)
        return base_fail(why, BASE_EINVAL,
                         "found %s without a host, expected host:port; 0.0.0.0 stands for all interfaces",
                         found);
    if (length >= sizeof name)
        return base_fail(why, BASE_EINVAL, "found a host of %zu bytes in %s, expected at most %zu", length,
                         found, sizeof name - 1);
    memcpy(name, start, length);
    name[length] = 0;
    if (!bracket && strchr(name, ':'))
        return base_fail(why, BASE_EINVAL, "found %s, expected an IPv6 address in brackets: [address]:port",
                         found);
    if (bracket ? !is_ipv6(name) : !is_host(name))
        return base_fail(
            why, BASE_EINVAL,
            "found %s, expected a host name, an IPv4 address or an [IPv6 address] before the port", found);
    if (!node_schema_parse_integer(colon + 1, strlen(colon + 1), &number) || number > UINT16_MAX)
        return base_fail(why, BASE_EINVAL, "found %s, expected a port from 0 to 65535 after the host", found);
    memcpy(host, name, length + 1);
    *port = (uint16_t)number;
    return BASE_OK;
}

bool node_address_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
