// The data and the scripts for gnuplot, as text.
#include "lab/report/plot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNKNOWN                                                                                              \
    {                                                                                                        \
        NAN, NAN, NAN, NAN, 0                                                                                \
    }

static struct lab_curve_point points[] = {
    {{0, 0, 0, 0}, {{0.1, 0.1, 0.1, 0, 2}, UNKNOWN, UNKNOWN, {0, 0, 0, 0, 2}, UNKNOWN, UNKNOWN}},
    {{10, 20, 1000, 0.5},
     {{0.9, 0.88, 0.92, 0.25, 2}, UNKNOWN, UNKNOWN, {0.25, 0.2, 0.3, 0.125, 2}, UNKNOWN, UNKNOWN}},
};
static struct lab_target far = {0.9, 2, {{9000, 8500, 9500, 1000, 2}, {3, 2.5, 3.5, 1, 2}}};
static struct lab_target near_by = {0.9, 1, {{1000, 1000, 1000, NAN, 1}, {1, 1, 1, NAN, 1}}};
static struct lab_target lucky = {0.9, 5, {{10, 10, 10, NAN, 1}, {0.1, 0.1, 0.1, NAN, 1}}};
static struct lab_target never = {0.9, 2, {UNKNOWN, UNKNOWN}};
static char odd[] = "it's `date` \"so\"\n\\n", plain[] = "plain", silent[] = "silent", title[] = "tiny";

static void make_answer(struct lab_case cases[3], struct lab_run_results *results)
{
    cases[0] = (struct lab_case){
        .label = odd, .n_records = 2, .targets = &far, .n_targets = 1, .curve = {points, 2}};
    cases[1] = (struct lab_case){
        .label = plain, .n_records = 1, .targets = &near_by, .n_targets = 1, .curve = {points, 2}};
    cases[2] = (struct lab_case){.label = silent, .n_records = 1, .targets = &never, .n_targets = 1};
    *results = (struct lab_run_results){.title = title, .cases = cases, .n_cases = 3};
}

enum what { CURVES, TARGETS, SCRIPT };

static char *text_of(enum what what, const struct lab_run_results *results, const struct lab_plot *plot)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (what == CURVES)
        lab_plot_curves(results, out);
    else if (what == TARGETS)
        assert_int_equal(lab_plot_targets(results, out), BASE_OK);
    else
        lab_plot_script(results, plot, LAB_PLOT_SVG, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void expect(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("expected\n%s\nin\n%s", words, text);
}

static void every_case_has_one_block(void **state)
{
    (void)state;
    struct lab_case cases[3];
    struct lab_run_results results;
    make_answer(cases, &results);
    char *text = text_of(CURVES, &results, NULL);
    expect(text,
           "\n 10 20 1000 0.5 0.9 0.65 1.15 NaN NaN NaN NaN NaN NaN 0.25 0.125 0.375 NaN NaN NaN NaN NaN "
           "NaN\n\n\n# \"plain\"\n");
    size_t blocks = 1;
    for (const char *at = text; (at = strstr(at, "\n\n\n")); at++)
        blocks++;
    assert_int_equal(blocks, 3); // also for a case without samples, so that numbers in scripts are right
    free(text);
}

static void bars_are_sorted_by_bytes_with_unknown_ones_last(void **state)
{
    (void)state;
    struct lab_case cases[3];
    struct lab_run_results results;
    make_answer(cases, &results);
    char *text = text_of(TARGETS, &results, NULL);
    expect(text, "\n\"plain\" 1000 1000 1000 1 1 1 all\n\"it's `date`  so   n\" 9000 8000 10000 3 2 4 all\n"
                 "\"silent\" NaN NaN NaN NaN NaN NaN \"never\"\n");
    free(text);
    cases[1].targets = &lucky; // one of five seeds reached it, with the fewest bytes of all
    text = text_of(TARGETS, &results, NULL);
    expect(text, "3 2 4 all\n\"plain\" NaN NaN NaN NaN NaN NaN \"1 of 5 seeds\"\n");
    free(text);
}

static void no_label_can_be_a_command(void **state)
{
    (void)state;
    struct lab_case cases[3];
    struct lab_run_results results;
    const struct lab_plot plot = {
        "accuracy-over-bytes", LAB_PLOT_LINES, LAB_AXIS_BYTES, LAB_LINE_ACCURACY, 0, 0};
    make_answer(cases, &results);
    char *text = text_of(SCRIPT, &results, &plot);
    expect(text, "set terminal svg");
    expect(text, "set output 'accuracy-over-bytes.svg'");
    expect(text, "title 'it''s `date` \"so\" \\n'");
    expect(text, "'curves.dat' index 0 using (seen($3)):(percent($6)):(percent($7)) with filledcurves");
    assert_null(strstr(text, "index 1 using (seen($3)):(percent($6))")); // one seed has no band
    expect(text, "'curves.dat' index 1 using (seen($3)):(percent($5)) with lines linetype 2 title 'plain'");
    free(text);
}

static void only_plots_with_data_are_written(void **state)
{
    (void)state;
    struct lab_case cases[3];
    struct lab_run_results results;
    struct lab_plot plots[16];
    make_answer(cases, &results);
    size_t count = lab_plots_of(&results, plots, 16);
    assert_int_equal(count, 5); // no worst node
    assert_string_equal(plots[count - 1].name, "bytes-to-90");
    char *text = text_of(SCRIPT, &results, &plots[count - 1]);
    expect(text, "until the averaged model reaches 90%");
    free(text);
    results.cases += 2; // only cases that never get there
    results.n_cases = 1;
    assert_int_equal(lab_plots_of(&results, plots, 16), 0);
    make_answer(cases, &results);
    for (size_t i = 0; i < 2; i++)
        points[i].value[LAB_LINE_MEAN] = points[i].value[LAB_LINE_ACCURACY];
    points[0].value[LAB_LINE_ACCURACY] = (struct lab_band)UNKNOWN; // as for real processes
    assert_int_equal(lab_plots_of(&results, plots, 16), 5);
    assert_int_equal(plots[0].line, LAB_LINE_MEAN);
    assert_int_equal(plots[3].line, LAB_LINE_CONSENSUS);
    results.n_cases = 0;
    assert_int_equal(lab_plots_of(&results, plots, 16), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_has_one_block),
        cmocka_unit_test(bars_are_sorted_by_bytes_with_unknown_ones_last),
        cmocka_unit_test(no_label_can_be_a_command),
        cmocka_unit_test(only_plots_with_data_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
