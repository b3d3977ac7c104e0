// The words of p2pml doctor: what a call of a peer meant, what kind of router two sightings show, what
// /status of a node says about its links. And the findings as text and JSON.
#include "lab/doctor/live.h"
#include "lab/doctor/words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct lab_findings found;

static int begin(void **state)
{
    (void)state;
    lab_findings_free(&found);
    return 0;
}

static void finds(const char *about, enum lab_finding_level level, const char *part)
{
    for (size_t i = 0; i < found.count; i++)
        if (strcmp(found.items[i].about, about) == 0 && found.items[i].level == level &&
            strstr(found.items[i].text, part))
            return;
    lab_findings_print(&found, false, stderr);
    fail_msg("%s: '%s' is not there", about, part);
}

// -- calls

static void asked(enum lab_ask_end end, enum lab_ask_large large, const char *text)
{
    struct lab_asked a = {.end = end, .large = large, .greets_first = true, .path = {.mtu = 1500}};
    snprintf(a.text, sizeof a.text, "%s", text);
    a.protocols = (struct gossip_protocols){.least = 1, .most = 2};
    snprintf(a.greeting.name, sizeof a.greeting.name, "ada");
    lab_words_asked("b.example:7400", "10.0.0.1:7400", &a, &found);
}

static void each_end_of_a_call_has_words_and_advice(void **state)
{
    (void)state;
    asked(LAB_ASK_GREETED, LAB_ASK_ARRIVES, "");
    finds("b.example:7400", LAB_FINDING_OK, "ada (10.0.0.1:7400) answers");
    assert_int_equal(found.problems, 0);
    asked(LAB_ASK_MUTE, LAB_ASK_UNKNOWN, "");
    finds("b.example:7400", LAB_FINDING_NOTE, "its greeting has not arrived");
    asked(LAB_ASK_TURNED_AWAY, LAB_ASK_UNKNOWN, "not on the allow-list of this node");
    finds("b.example:7400", LAB_FINDING_NOTE, "lets in only listed nodes");
    static const enum lab_ask_end bad[] = {LAB_ASK_PROTOCOL, LAB_ASK_STRANGER,   LAB_ASK_SILENT,
                                           LAB_ASK_REFUSED,  LAB_ASK_UNANSWERED, LAB_ASK_FAILED};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        asked(bad[i], LAB_ASK_UNKNOWN, "No route to host");
        assert_int_equal(found.problems, i + 1);
        assert_non_null(found.items[found.count - 1].advice);
    }
    finds("b.example:7400", LAB_FINDING_PROBLEM, "No route to host");
    asked(LAB_ASK_GREETED, LAB_ASK_VANISHES, "");
    finds("b.example:7400", LAB_FINDING_PROBLEM, "full ones of 1500 bytes vanish");
}

static void router(const struct lab_sighting *sightings, size_t count)
{
    begin(NULL);
    lab_words_router(sightings, count, 7400, &found);
}

static void two_sightings_show_the_kind_of_router(void **state)
{
    (void)state;
    struct lab_sighting s[2] = {{"ada", "192.168.0.2:7400", "192.168.0.2:7400", true},
                                {"bob", "192.168.0.2:7400", "203.0.113.7:7400", true}};
    router(s, 0);
    assert_int_equal(found.count, 0);
    router(s, 1);
    finds("router", LAB_FINDING_OK, "no router changes the address");
    router(s, 2); // ada is inside, too
    finds("router", LAB_FINDING_NOTE, "bob sees it at 203.0.113.7:7400. What kind");
    snprintf(s[0].seen, sizeof s[0].seen, "203.0.113.7:7400");
    router(s, 2);
    finds("router", LAB_FINDING_NOTE, "2 peers see it at 203.0.113.7:7400");
    snprintf(s[0].seen, sizeof s[0].seen, "203.0.113.7:40001");
    router(s, 2);
    finds("router", LAB_FINDING_NOTE, "symmetric NAT");
    s[0].listen_port = false; // another port of this host has another one outside with any router
    router(s, 2);
    finds("router", LAB_FINDING_NOTE, "What kind");
}

static void a_router_offers_a_port_or_stands_behind_another(void **state)
{
    (void)state;
    lab_words_offer("9.9.9.9:0", "UPnP", "9.9.9.9:50001", true, 7400, &found);
    finds("port mapping", LAB_FINDING_OK, "offers ports (UPnP); its address outside is 9.9.9.9.");
    begin(NULL);
    lab_words_offer("10.7.1.2:0", "NAT-PMP", "10.7.1.2:50001", false, 7400, &found); // a network of its own
    finds("port mapping", LAB_FINDING_OK, "offers ports (NAT-PMP)");
    begin(NULL);
    lab_words_offer("9.9.9.9:0", "UPnP", "", true, 7400, &found);
    finds("port mapping", LAB_FINDING_OK, "offers ports");
    lab_words_offer("10.0.0.2:0", "UPnP", "", false, 7400, &found);
    finds("port mapping", LAB_FINDING_NOTE, "stands behind another router");
    begin(NULL);
    lab_words_offer("9.9.9.9:0", "UPnP", "9.9.9.1:7400", true, 7400, &found);
    finds("port mapping", LAB_FINDING_NOTE, "stands behind another router");
    begin(NULL);
    lab_words_offer("", NULL, "", false, 7400, &found); // is there a router?
    assert_int_equal(found.count, 0);
    lab_words_offer("", NULL, "9.9.9.1:7400", false, 7400, &found);
    finds("port mapping", LAB_FINDING_NOTE, "answers neither");
}

// -- a running node

static json_t *status_of(const char *reach, const char *rest)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"name\":\"ada\",\"cluster\":\"herd\",\"version\":\"1\",\"uptime_s\":100,\"time\":1000.0,"
             "\"reach\":\"%s\",\"outside\":\"203.0.113.7:7400\",\"relay\":1e9,\"forwarded_streams\":0,"
             "\"forwarded_bytes\":0,\"membership\":{\"datagrams\":{\"received\":0}},%s}",
             reach, rest);
    json_t *status = json_loads(text, 0, NULL);
    assert_non_null(status);
    return status;
}

#define SELF                                                                                                 \
    "{\"name\":\"ada\",\"id\":\"a\",\"self\":true,\"state\":\"alive\",\"addresses\":[\"192.168.0.2:7400\"],\"relays\":["

static void live(const char *reach, const char *rest, double now_s)
{
    json_t *status = status_of(reach, rest);
    begin(NULL);
    lab_doctor_live(status, now_s, &found);
    json_decref(status);
}

static void mapping(const char *reach, const char *state, const char *by, const char *address)
{
    char rest[1024];
    snprintf(rest, sizeof rest,
             "\"port_mapping\":{\"state\":\"%s\",\"by\":%s,\"address\":%s},\"peers\":[],\"members\":[" SELF
             "]},{\"name\":\"bob\",\"id\":\"b\",\"state\":\"alive\",\"linked\":true,\"path\":\"mapped\"}]",
             state, by, address);
    live(reach, rest, 1000.5);
}

static void the_port_of_a_router_is_told_if_it_matters(void **state)
{
    (void)state;
    mapping("reachable", "mapped", "\"UPnP\"", "\"9.9.9.9:7400\"");
    finds("port mapping", LAB_FINDING_OK, "forwards 9.9.9.9:7400 to this node (UPnP)");
    finds("bob", LAB_FINDING_OK, "direct link over the port that the router forwards");
    mapping("private", "not told", "\"UPnP\"", "\"10.0.0.2:7400\"");
    finds("port mapping", LAB_FINDING_NOTE, "stands behind another router");
    mapping("private", "no answer", "null", "null");
    finds("port mapping", LAB_FINDING_NOTE, "neither to NAT-PMP nor to UPnP");
    mapping("private", "refused", "\"NAT-PMP\"", "null");
    finds("port mapping", LAB_FINDING_NOTE, "answers (NAT-PMP), but forwards no port");
    mapping("private", "not built", "null", "null");
    finds("port mapping", LAB_FINDING_NOTE, "without libminiupnpc");
    mapping("reachable", "no answer", "null", "null");
    for (size_t i = 0; i < found.count; i++)
        assert_string_not_equal(found.items[i].about, "port mapping");
}

static void links_are_direct_or_relayed(void **state)
{
    (void)state;
    live(
        "private",
        "\"peers\":[],\"missing_links\":[],\"members\":[" SELF "\"bob\"]},"
        "{\"name\":\"bob\",\"id\":\"b\",\"state\":\"alive\",\"linked\":true,\"path\":\"direct\","
        "\"round_trip_ms\":12.3,\"rate\":250000},"
        "{\"name\":\"cyd\",\"id\":\"c\",\"state\":\"alive\",\"linked\":true,\"path\":\"relayed\",\"via\":\"bob\"},"
        "{\"name\":\"dan\",\"id\":\"d\",\"state\":\"dead\",\"since\":7},"
        "{\"name\":\"eve\",\"id\":\"e\",\"state\":\"alive\"}]",
        1000.5);
    finds("reach", LAB_FINDING_NOTE, "which others see at 203.0.113.7:7400");
    finds("reach", LAB_FINDING_NOTE, "else over bob");
    finds("bob", LAB_FINDING_OK, "direct link: round trip 12 ms, at least 250 kB/s");
    finds("cyd", LAB_FINDING_NOTE, "linked over bob");
    finds("dan", LAB_FINDING_NOTE, "dead since 7 s");
    finds("others", LAB_FINDING_OK, "1 member is no neighbour");
    finds("udp", LAB_FINDING_NOTE, "no datagram has arrived");
    finds("clock", LAB_FINDING_OK, "agrees");
    assert_int_equal(found.problems, 0);
}

static void a_missing_link_has_a_reason(void **state)
{
    (void)state;
#define MISSING(more)                                                                                            \
    "\"peers\":[],\"missing_links\":[{\"id\":\"b\",\"name\":\"bob\"}],\"members\":[" SELF "]},"                  \
    "{\"name\":\"bob\",\"id\":\"b\",\"state\":\"alive\",\"neighbour\":true,\"addresses\":[\"10.0.0.1:1\"]," more \
    "}]"
    live("private", MISSING("\"relays\":[]"), 970);
    finds("reach", LAB_FINDING_PROBLEM, "no member relays for it");
    finds("bob", LAB_FINDING_PROBLEM, "no member relays for bob");
    finds("clock", LAB_FINDING_NOTE, "30 s ahead of");
    live("private", MISSING("\"relays\":[\"cyd\"]"), 1000);
    finds("bob", LAB_FINDING_PROBLEM, "over cyd, to which this node has no link");
    live("reachable", MISSING("\"reachable\":true,\"relays\":[]"), 1000);
    finds("bob", LAB_FINDING_PROBLEM, "other members can call it at 10.0.0.1:1");
    finds("reach", LAB_FINDING_OK, "reachable");
}

static void a_node_alone_says_which_entries_do_not_answer(void **state)
{
    (void)state;
    live("unknown",
         "\"members\":[" SELF "]}],\"missing_links\":[],\"peers\":[{\"entry\":\"b:1\",\"state\":\"unknown\","
         "\"since\":44},{\"entry\":\"c:1\",\"state\":\"refused\"}]",
         NAN);
    finds("b:1", LAB_FINDING_PROBLEM, "for 44 s");
    finds("c:1", LAB_FINDING_PROBLEM, "cannot train together");
    finds("peers", LAB_FINDING_PROBLEM, "no other member is known");
    finds("reach", LAB_FINDING_NOTE, "it has no link");
}

static void findings_are_text_and_json(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    lab_finding_add(&found, LAB_FINDING_PROBLEM, "a\x1b[2J", "%s", "one\ntwo");
    lab_finding_advise(&found, "do %d", 3);
    lab_finding_add(&found, LAB_FINDING_OK, "longer", "fine");
    FILE *out = open_memstream(&text, &bytes);
    assert_true(lab_findings_print(&found, false, out));
    fclose(out);
    assert_string_equal(text, "problem  a?[2J   one?two\n                 -> do 3\nok       longer  fine\n"
                              "1 problem was found.\n");
    free(text);
    out = open_memstream(&text, &bytes);
    assert_true(lab_findings_print(&found, true, out));
    fclose(out);
    json_t *root = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(root, "problems")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "findings")), 2);
    json_decref(root);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_end_of_a_call_has_words_and_advice, begin, begin),
        cmocka_unit_test_setup_teardown(two_sightings_show_the_kind_of_router, begin, begin),
        cmocka_unit_test_setup_teardown(a_router_offers_a_port_or_stands_behind_another, begin, begin),
        cmocka_unit_test_setup_teardown(the_port_of_a_router_is_told_if_it_matters, begin, begin),
        cmocka_unit_test_setup_teardown(links_are_direct_or_relayed, begin, begin),
        cmocka_unit_test_setup_teardown(a_missing_link_has_a_reason, begin, begin),
        cmocka_unit_test_setup_teardown(a_node_alone_says_which_entries_do_not_answer, begin, begin),
        cmocka_unit_test_setup_teardown(findings_are_text_and_json, begin, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
