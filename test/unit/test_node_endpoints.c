// Where a member is called, and where its datagrams go.
#include "node/peers/endpoints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static struct gossip_address v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
    return (struct gossip_address){.family = 4, .port = port, .ip = {a, b, c, d}};
}

static struct node_address at(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
    const struct gossip_address told = v4(a, b, c, d, port);
    struct node_address address;
    node_address_of(&told, &address);
    return address;
}

static bool is(const struct node_address *address, const char *text)
{
    char found[NODE_ADDRESS_TEXT];
    node_address_text(address, found);
    return strcmp(found, text) == 0;
}

static bool reaches(const void *context, const struct node_address *to)
{
    (void)context;
    (void)to;
    return true;
}

// Its /etc/hosts says that its name is 127.0.1.1.
static const struct gossip_record own_name = {
    .id = {{7}}, .n_addresses = 1, .addresses = {{.family = 4, .port = 7400, .ip = {127, 0, 1, 1}}}};

static void a_member_that_tells_loopback_is_called_where_it_was_linked_from(void **state)
{
    struct node_endpoints *endpoints;
    struct node_address out[LIMIT_ADDRESSES], to;
    const struct node_address source = at(10, 77, 0, 2, 51234), here = at(127, 0, 0, 1, 51234);
    (void)state;
    assert_int_equal(node_endpoints_create(&endpoints), BASE_OK);
    assert_int_equal(node_endpoints_of(endpoints, &own_name, out), 1);
    assert_true(is(&out[0], "127.0.1.1:7400")); // nothing else is known
    node_endpoints_linked(endpoints, &own_name.id, &here);
    assert_int_equal(node_endpoints_of(endpoints, &own_name, out), 1);
    assert_true(is(&out[0], "127.0.1.1:7400")); // all are on one host
    node_endpoints_linked(endpoints, &own_name.id, &source);
    assert_int_equal(node_endpoints_of(endpoints, &own_name, out), 1);
    assert_true(is(&out[0], "10.77.0.2:7400")); // not the port of that stream
    assert_true(node_endpoints_pick(endpoints, &own_name, SECOND, reaches, NULL, &to));
    assert_true(is(&to, "10.77.0.2:7400"));
    node_endpoints_forget(endpoints, &own_name.id);
    (void)node_endpoints_of(endpoints, &own_name, out);
    assert_true(is(&out[0], "127.0.1.1:7400"));
    node_endpoints_destroy(endpoints);
}

static void an_address_that_others_can_use_stays(void **state)
{
    struct node_endpoints *endpoints;
    struct node_address out[LIMIT_ADDRESSES];
    struct gossip_record record = {.id = {{8}}, .n_addresses = 3};
    const struct node_address gateway = at(192, 0, 2, 1, 40000);
    (void)state;
    record.addresses[0] = v4(10, 0, 0, 5, 7400);
    record.addresses[1] = v4(169, 254, 3, 4, 7400);
    record.addresses[2] = (struct gossip_address){.family = 6, .port = 7401, .ip = {[15] = 1}};
    assert_int_equal(node_endpoints_create(&endpoints), BASE_OK);
    node_endpoints_linked(endpoints, &record.id, &gateway);
    assert_int_equal(node_endpoints_of(endpoints, &record, out), 3);
    assert_true(is(&out[0], "10.0.0.5:7400"));
    assert_true(is(&out[1], "192.0.2.1:7400"));
    assert_true(is(&out[2], "192.0.2.1:7401"));
    node_endpoints_destroy(endpoints);
}

static void a_fresh_datagram_is_answered_where_it_came_from(void **state)
{
    struct node_endpoints *endpoints;
    struct node_address to;
    const struct node_address heard = at(10, 77, 0, 9, 7400), linked = at(10, 77, 0, 2, 51234);
    (void)state;
    assert_int_equal(node_endpoints_create(&endpoints), BASE_OK);
    node_endpoints_linked(endpoints, &own_name.id, &linked);
    node_endpoints_heard(endpoints, &own_name.id, &heard, SECOND);
    assert_true(node_endpoints_pick(endpoints, &own_name, 2 * SECOND, reaches, NULL, &to));
    assert_true(is(&to, "10.77.0.9:7400"));
    assert_true(
        node_endpoints_pick(endpoints, &own_name, SECOND + NODE_ENDPOINT_FRESH_NS, reaches, NULL, &to));
    assert_true(is(&to, "10.77.0.2:7400"));
    node_endpoints_destroy(endpoints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_tells_loopback_is_called_where_it_was_linked_from),
        cmocka_unit_test(an_address_that_others_can_use_stays),
        cmocka_unit_test(a_fresh_datagram_is_answered_where_it_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
