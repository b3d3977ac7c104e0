// p2pml why over recorded files: the sentences of a round, the choice of its lines, names of ids, what is
// refused.
#include "lab/why/story.h"
#include "lab/why/why.h"
#include "test/support/temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BOB "0b0b0b0b0b0b0b0b"
#define CYD "0c0c0c0c0c0c0c0c"
#define ADA "0a0a0a0a0a0a0a0a"

struct row { // a line of metrics.jsonl
    const char *time;
    unsigned round, step, own_steps, exchanges;
    const char *partner, *missed; // JSON; NULL: the line has no account of its exchanges
    const char *met;              // list
    unsigned met_count;
    const char *more;
};

static const struct row rows[] = {
    {"1000.0", 1, 4, 4, 1, "\"" BOB "\"", "null", "\"" BOB "\",\"" CYD "\"", 2, "\"waits\":{}"},
    {"1000.5", 2, 8, 8, 1, "\"" CYD "\"", "\"link\"", "", 0,
     "\"waits\":{\"link\":2.0,\"answer\":0.25},\"waited_for\":\"" CYD
     "\",\"waited_why\":\"link\",\"waited\":2.0"},
    {"1003.0", 3, 12, 12, 2, "null", "null", "", 0, "\"waits\":{\"answer\":0.0001}"},
    {"1004.0", 9, 36, 12, 2, "\"" BOB "\"", "\"behind\"", "", 0,
     "\"waits\":{\"partner\":0.5,\"cluster\":0.1},\"waited_for\":\"" BOB
     "\",\"waited_why\":\"partner\",\"waited\":0.5"},
};
static const char last_row[] =
    "half a line that is no JSON\n"
    "{\"time\":1009.0,\"node\":\"ada\",\"round\":9,\"step\":36,\"own_steps\":12,\"accuracy\":0.875,"
    "\"own_accuracy\":0.75,\"own_test_loss\":0.6,\"state\":\"finished\"}\n";

static const char events[] =
    "{\"time\":999.0,\"event\":\"join\",\"member\":\"bob\",\"id\":\"" BOB BOB BOB BOB
    "\",\"text\":\"bob has joined\"}\n"
    "{\"time\":999.1,\"event\":\"join\",\"member\":\"cyd\",\"id\":\"" CYD CYD CYD CYD "\"}\n"
    "{\"time\":1000.2,\"event\":\"dead\",\"member\":\"cyd\",\"id\":\"" CYD CYD CYD CYD
    "\",\"text\":\"cyd is dead (its process has ended)\"}\n"
    "{\"time\":1003.5,\"event\":\"fetched\",\"text\":\"a model was fetched\"}\n"
    "{\"time\":1008.0,\"event\":\"left\",\"member\":\"bob\",\"text\":\"bob \\u001b[2J has left\"}\n";

static char directory[TEMPORARY_BYTES];

static void print_row(const struct row *row, FILE *out)
{
    fprintf(out,
            "{\"time\":%s,\"node\":\"ada\",\"round\":%u,\"step\":%u,\"own_steps\":%u,\"loss\":0.5,"
            "\"exchanges\":%u,\"returns\":0,\"state\":\"training\"",
            row->time, row->round, row->step, row->own_steps, row->exchanges);
    if (row->missed)
        fprintf(out,
                ",\"partner\":%s,\"missed\":%s,\"met_count\":%u,\"met\":[%s],\"asked\":1,\"refused\":0,"
                "\"answered\":2,%s",
                row->partner, row->missed, row->met_count, row->met, row->more);
    fputs("}\n", out);
}

static void put_file(const char *name, const struct row *list, size_t count, const char *rest)
{
    char path[TEMPORARY_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++)
        print_row(&list[i], file);
    assert_true(fputs(rest, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    temporary_make(directory, "why");
    put_file("metrics.jsonl", rows, sizeof rows / sizeof *rows, last_row);
    put_file("events.jsonl", NULL, 0, events);
    return 0;
}

static int end(void **state)
{
    (void)state;
    temporary_remove(directory);
    return 0;
}

static char *told(uint64_t round)
{
    struct lab_why_options options = {.source = directory, .latest = round == 0, .round = round};
    struct base_reason why = {""};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (lab_why(&options, out, &why))
        fail_msg("%s", why.text);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void has(const char *text, const char *sentence)
{
    if (!strstr(text, sentence))
        fail_msg("'%s' is missing in\n%s", sentence, text);
}

static void lacks(const char *text, const char *words)
{
    if (strstr(text, words))
        fail_msg("'%s' is in\n%s", words, text);
}

static void a_round_with_exchanges(void **state)
{
    (void)state;
    char *text = told(1);
    has(text, "ada: round 1 (step 4) ended at 1970-01-01 00:16:40.000 UTC.\n");
    has(text, "It met bob (as the plan says) and cyd.\n");
    has(text, "It waited for nobody.\n");
    has(text, "It sent 1 request, and answered 2.\n");
    has(text, "It has computed 4 steps so far, loss 0.5.\n");
    has(text, "00:16:39.000 bob has joined\n");
    has(text, "join: cyd\n"); // an event without a text
    lacks(text, "is dead");   // of the next round
    lacks(text, "was to meet");
    free(text);
}

static void a_missed_exchange_and_its_wait(void **state)
{
    (void)state;
    char *text = told(2);
    has(text, ", 0.500 s after round 1.\n");
    has(text, "It was to meet cyd, but did not: there was no link to it.\n");
    has(text, "It waited 2.250 s: 2.000 s for the link to cyd, 0.250 s for answers.\n");
    has(text, "cyd is dead (its process has ended)\n");
    has(text, "It computed 4 steps, loss 0.5.\n");
    lacks(text, "It met");
    free(text);
}

static void a_round_that_meets_nobody(void **state)
{
    (void)state;
    char *text = told(3);
    has(text, "The plan names nobody for this round.\n");
    has(text, "It waited for less than half a millisecond.\n");
    has(text, "Nothing changed in the graph.\n");
    free(text);
}

static void the_latest_round_with_its_end(void **state)
{
    (void)state;
    char *text = told(0);
    has(text, "ada: round 9 (step 36)");
    has(text, "1.000 s after round 3.\n");
    has(text, "It was to meet bob, but did not: it was behind this round");
    has(text, "0.500 s for bob, which was behind, 0.100 s for the others, because it was too far ahead.\n");
    has(text, "It computed 0 steps");
    has(text, "The step grew by 24: it took the progress of the others.\n");
    has(text, "It took the model of another node.\n");
    has(text, "After this round:\n  00:16:48.000 bob ?[2J has left\n"); // no control character
    has(text, "This was its last round: it has finished.\n");
    has(text, "(merged): accuracy 87.50%, of its own model 75.00%.\n");
    free(text);
}

static void a_restarted_process_counts_from_zero(void **state)
{
    (void)state;
    static const struct row again[] = {
        {.time = "2000.0", .round = 4, .step = 16, .own_steps = 16, .exchanges = 7},
        {.time = "2100.0", .round = 5, .step = 20, .own_steps = 4, .exchanges = 1}};
    put_file("metrics.jsonl", again, 2, "");
    char *text = told(0);
    has(text, "Its process was started again before this round.\n");
    has(text, "It computed 4 steps, loss 0.5.\n");
    has(text, "Its exchanges are not recorded");
    free(text);
}

static void refused(const char *source, uint64_t round, const char *reason)
{
    struct lab_why_options options = {.source = source, .latest = round == 0, .round = round};
    struct base_reason why = {""};
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(lab_why(&options, out, &why), BASE_ENOTFOUND);
    assert_int_equal(ftell(out), 0);
    fclose(out);
    has(why.text, reason);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    refused(directory, 5, "no line of round 5: its lines are of rounds 1 to 9");
    refused("/no/such/node", 0, "neither the directory of a node nor HOST:PORT");
    put_file("metrics.jsonl", NULL, 0, "");
    refused(directory, 0, "no line of a round");
}

static void a_clock_that_was_set_back(void **state)
{
    (void)state;
    static const struct row back[] = {
        {.time = "1000.0", .round = 1, .step = 4, .own_steps = 4, .exchanges = 1},
        {.time = "1001.0", .round = 2, .step = 8, .own_steps = 8, .exchanges = 2},
        {.time = "400.5", .round = 3, .step = 12, .own_steps = 12, .exchanges = 3}};
    put_file("metrics.jsonl", back, 3, "");
    for (uint64_t round = 2; round <= 3; round++) {
        char *text = told(round);
        has(text,
            "The clock of its host was set back by 600 s: which changes of the graph belong to this round");
        lacks(text, "After this round");
        lacks(text, "Nothing changed");
        lacks(text, " -");
        free(text);
    }
}

// The answer of a page about rows [from, until).
static char *page_of(size_t from, size_t until, const char *list, const char *events_from)
{
    char *page = NULL;
    size_t bytes;
    FILE *out = open_memstream(&page, &bytes);
    assert_non_null(out);
    fputs("{\"first\":1,\"last\":9,\"rows\":[", out);
    for (size_t i = from; i < until; i++) {
        fputs(i > from ? "," : "", out);
        print_row(&rows[i], out);
    }
    fprintf(out,
            "],\"events\":[%s],\"events_from\":%s,\"names\":{\"" BOB "\":\"bob\"},"
            "\"wait\":{\"reason\":\"partner\",\"for\":\"bob\"}}",
            list, events_from);
    assert_int_equal(fclose(out), 0);
    return page;
}

static char *told_of_page(char *page, uint64_t round)
{
    struct why_story story;
    struct base_reason why = {""};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (why_story_of_page("host:1", page, round, &story, &why))
        fail_msg("%s", why.text);
    why_tell(&story, out);
    assert_int_equal(fclose(out), 0);
    why_story_free(&story);
    free(page);
    return text;
}

static void a_running_node(void **state)
{
    (void)state;
    static const char join[] = "{\"time\":1000.1,\"event\":\"join\",\"text\":\"dan has joined\"}";
    char *text = told_of_page(page_of(3, 4, join, "null"), 0);
    has(text, "It was to meet bob, but did not");
    has(text, "It has computed 12 steps so far, loss 0.5.\n");
    has(text, "dan has joined\n");
    has(text, "Now it waits for bob, which was behind.\n");
    free(text);
    text = told_of_page(page_of(0, 2, join, "null"), 1);
    has(text, "It met bob (as the plan says) and the node with the id " CYD ".\n");
    has(text, "Nothing changed in the graph.\n"); // it joined after that round
    lacks(text, "Now it waits");
    free(text);
}

// The directory has more lines than the page sends.
static void a_page_says_what_the_directory_says(void **state)
{
    (void)state;
    static const char events_of_2[] =
        "{\"time\":999.1,\"event\":\"join\",\"member\":\"cyd\",\"id\":\"" CYD CYD CYD CYD "\"},"
        "{\"time\":1000.2,\"event\":\"dead\",\"member\":\"cyd\",\"text\":\"cyd is dead (its process has "
        "ended)\"}";
    char *here = told(2), *there = told_of_page(page_of(0, 3, events_of_2, "null"), 2);
    assert_string_equal(here, there);
    free(here);
    free(there);
}

static void events_that_are_gone_are_not_called_none(void **state)
{
    (void)state;
    char *text = told_of_page(page_of(0, 3, "", "1000.2"), 2);
    has(text, "Events before 00:16:40.200 are not kept.\n");
    lacks(text, "Nothing changed");
    free(text);
    text = told_of_page(page_of(0, 3, "", "1,\"set_back\":3600.2"), 2);
    has(text, "was set back by 3600 s");
    lacks(text, "Nothing changed");
    free(text);
    text = told_of_page(page_of(0, 3, "", "999"), 2);
    has(text, "Nothing changed in the graph.\n");
    free(text);
}

static void refused_page(const char *page, uint64_t round, enum base_error error, const char *reason)
{
    struct why_story story;
    struct base_reason why = {""};
    assert_int_equal(why_story_of_page("host:1", page, round, &story, &why), error);
    has(why.text, reason);
    why_story_free(&story);
}

static void wrong_answers_of_a_page(void **state)
{
    (void)state;
    refused_page("", 1, BASE_EFORMAT, "no answer of a p2pml-node about its rounds");
    refused_page("[1,2]", 1, BASE_EFORMAT, "no answer of a p2pml-node");
    refused_page("{\"rows\":{\"round\":1}}", 1, BASE_EFORMAT, "no answer of a p2pml-node");
    refused_page("{\"rows\":[]}", 0, BASE_ENOTFOUND, "'host:1' has no line of a round yet");
    refused_page("{\"first\":40,\"last\":1063,\"rows\":[],\"wait\":{}}", 7, BASE_ENOTFOUND,
                 "no line of round 7: its lines are of rounds 40 to 1063");
    refused_page("{\"first\":40,\"last\":1063,\"rows\":[],\"wait\":{}}", 7, BASE_ENOTFOUND, "(node.dir)");
    refused_page("{\"first\":1,\"last\":9,\"rows\":[3,null,{\"round\":-1},{\"round\":\"7\"}]}", 7,
                 BASE_ENOTFOUND, "no line of round 7");
    char *text =
        told_of_page(strdup("{\"rows\":[{\"round\":7,\"state\":\"training\",\"met\":\"x\",\"waits\":4,"
                            "\"met_count\":{},\"partner\":1}],\"events\":{},\"names\":[],\"wait\":[],"
                            "\"events_from\":\"x\"}"),
                     7);
    has(text, "round 7 (step 0) ended at an unknown time");
    free(text);
    text = told_of_page(
        strdup("{\"rows\":[{\"round\":7,\"state\":\"training\",\"time\":1e300}],\"wait\":{}}"), 7);
    has(text, "an unknown time");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_round_with_exchanges, begin, end),
        cmocka_unit_test_setup_teardown(a_missed_exchange_and_its_wait, begin, end),
        cmocka_unit_test_setup_teardown(a_round_that_meets_nobody, begin, end),
        cmocka_unit_test_setup_teardown(the_latest_round_with_its_end, begin, end),
        cmocka_unit_test_setup_teardown(a_restarted_process_counts_from_zero, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_said, begin, end),
        cmocka_unit_test_setup_teardown(a_clock_that_was_set_back, begin, end),
        cmocka_unit_test(a_running_node),
        cmocka_unit_test_setup_teardown(a_page_says_what_the_directory_says, begin, end),
        cmocka_unit_test(events_that_are_gone_are_not_called_none),
        cmocka_unit_test(wrong_answers_of_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
