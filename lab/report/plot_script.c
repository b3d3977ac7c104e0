// Writes the scripts: plain gnuplot (5.2 or later), for users to read and change.
#include "lab/report/plot.h"

#include <math.h>
#include <string.h>

void lab_plot_quote(const char *text, FILE *out)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('\'', out);
}

static const char *extension(enum lab_plot_format format)
{
    static const char *const extensions[] = {
        [LAB_PLOT_PNG] = "png", [LAB_PLOT_SVG] = "svg", [LAB_PLOT_PDF] = "pdf"};
    return extensions[format];
}

// Colours that are distinguishable with red-green colour blindness (Okabe and Ito), then the same dashed.
static void put_head(const struct lab_run_results *results, const struct lab_plot *plot,
                     enum lab_plot_format format, FILE *out)
{
    static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#B1528B",
                                          "#E69F00", "#3B9FDD", "#5C6168"};
    fprintf(out, "# gnuplot %s.gp draws %s.%s\n", plot->name, plot->name, extension(format));
    if (format == LAB_PLOT_PDF)
        fputs("set terminal pdfcairo size 6.4in,4in noenhanced font 'sans,10' background 'white'\n", out);
    else if (format == LAB_PLOT_SVG)
        fputs("set terminal svg size 960,600 dynamic noenhanced font 'sans,14' background 'white'\n", out);
    else
        fputs(
            "set terminal pngcairo size 1600,1000 noenhanced font 'sans,21' linewidth 1.6 background 'white'\n",
            out);
    fprintf(out, "set output '%s.%s'\nset encoding utf8\n", plot->name, extension(format));
    for (unsigned i = 0; i < LAB_PLOT_CURVES_MAX; i++)
        fprintf(out, "set linetype %u linecolor '%s' linewidth 2 dashtype %u\n", i + 1, colours[i % 7],
                i / 7 + 1);
    fputs("set title ", out);
    lab_plot_quote(results->title, out);
    fputs(" textcolor '#1d2024'\n"
          "set border 3 linecolor '#9aa0a6'\nset tics nomirror textcolor '#61676e'\n"
          "set grid linecolor '#e6e8ea' linewidth 0.7 linetype 1 dashtype 1\nset style fill solid\n",
          out);
}

static double final_of(const struct lab_case *c, enum lab_axis axis)
{
    return c->curve.count ? c->curve.points[c->curve.count - 1].at[axis] : NAN;
}

// Curves that end at very different values need a logarithmic axis.
static bool is_wide(const struct lab_run_results *results, enum lab_axis axis)
{
    double least = NAN, most = NAN;
    for (size_t i = 0; i < results->n_cases; i++) {
        least = fmin(least, final_of(&results->cases[i], axis));
        most = fmax(most, final_of(&results->cases[i], axis));
    }
    return least > 0 && most >= 8 * least;
}

static void find_range(const struct lab_run_results *results, enum lab_line line, double *low, double *high)
{
    *low = *high = NAN;
    for (size_t i = 0; i < results->n_cases && i < LAB_PLOT_CURVES_MAX; i++) {
        for (size_t p = 0; p < results->cases[i].curve.count; p++) {
            *low = fmin(*low, results->cases[i].curve.points[p].value[line].low);
            *high = fmax(*high, results->cases[i].curve.points[p].value[line].high);
        }
    }
}

static void put_accuracy_axis(const struct lab_run_results *results, enum lab_line line, FILE *out)
{
    double low, high;
    find_range(results, line, &low, &high);
    const char *of = line == LAB_LINE_WORST  ? "the worst node"
                     : line == LAB_LINE_MEAN ? "the nodes, mean"
                                             : "the averaged model";
    if (results->regression) {
        fprintf(out, "set ylabel 'R2 of %s' textcolor '#61676e'\npercent(y) = y\n", of);
        return;
    }
    fprintf(out, "set ylabel 'accuracy of %s, %%' textcolor '#61676e'\npercent(y) = 100 * y\n", of);
    if (!(high > 0.8))
        return;
    fprintf(out,
            "# Logarithmic in the error: 90, 99 and 99.9%% are equally far apart.\n"
            "# Without these three lines the axis is linear.\n"
            "set nonlinear y via -log10(1 - y/100) inverse 100*(1 - 10**(-y))\n"
            "set yrange [%.4g:%.4g]\n"
            "set ytics (0, 20, 50, 70, 80, 90, 93, 95, 97, 98, 99, 99.5, 99.8)\n",
            100 * fmax(low, 0), 100 * fmin(1 - 0.8 * (1 - high), 0.9995));
}

static void put_axes(const struct lab_run_results *results, const struct lab_plot *plot, FILE *out)
{
    static const char *const labels[] = {"rounds", "local steps of a node", "sent by all nodes",
                                         "seconds since training began"};
    fprintf(out, "set xlabel '%s' textcolor '#61676e'\n", labels[plot->axis]);
    if (plot->axis == LAB_AXIS_BYTES)
        fputs("set format x '%.0s %cB'\n", out);
    if (plot->axis != LAB_AXIS_ROUND && is_wide(results, plot->axis))
        fputs("set logscale x\nseen(x) = x > 0 ? x : NaN\n", out);
    else
        fputs("set autoscale xfix\nseen(x) = x\n", out);
    if (plot->line == LAB_LINE_CONSENSUS)
        fputs("set ylabel 'consensus distance' textcolor '#61676e'\nset logscale y\nset format y '%g'\n"
              "above(y) = y > 0 ? y : NaN\n",
              out);
    else
        put_accuracy_axis(results, plot->line, out);
}

// One block of curves.dat. Values without a logarithm (0 bytes) are left out.
static void put_curve(const struct lab_plot *plot, size_t block, const char *style, unsigned last, FILE *out)
{
    unsigned x = (unsigned)plot->axis + 1, y = LAB_AXES + 3 * (unsigned)plot->line + 1;
    const char *shown = plot->line == LAB_LINE_CONSENSUS ? "above" : "percent";
    fprintf(out, "  'curves.dat' index %zu using (seen($%u)):(%s($%u))", block, x, shown, last ? y + 1 : y);
    if (last)
        fprintf(out, ":(%s($%u))", shown, y + last);
    fprintf(out, " with %s linetype %zu ", style, block + 1);
}

static void put_lines(const struct lab_run_results *results, const struct lab_plot *plot, FILE *out)
{
    size_t shown = results->n_cases < LAB_PLOT_CURVES_MAX ? results->n_cases : LAB_PLOT_CURVES_MAX;
    put_axes(results, plot, out);
    fputs(shown > 1 ? "set key outside right top vertical Left reverse textcolor '#1d2024'\n" : "unset key\n",
          out);
    if (shown < results->n_cases)
        fprintf(out, "# The first %zu of %zu; the others are further blocks of curves.dat.\n", shown,
                results->n_cases);
    fputs("plot \\\n", out);
    for (size_t i = 0; i < shown; i++) {
        if (results->cases[i].n_records < 2)
            continue;
        put_curve(plot, i, "filledcurves", 2, out);
        fputs("fillstyle transparent solid 0.15 noborder notitle, \\\n", out);
    }
    for (size_t i = 0; i < shown; i++) {
        put_curve(plot, i, "lines", 0, out);
        fputs("title ", out);
        lab_plot_quote(results->cases[i].label, out);
        fputs(i + 1 < shown ? ", \\\n" : "\n", out);
    }
}

static size_t cases_with(const struct lab_run_results *results, double accuracy)
{
    size_t count = 0;
    for (size_t i = 0; i < results->n_cases; i++)
        for (size_t t = 0; t < results->cases[i].n_targets; t++)
            count += results->cases[i].targets[t].accuracy == accuracy && results->cases[i].targets[t].of;
    return count;
}

static void put_bars(const struct lab_run_results *results, const struct lab_plot *plot, FILE *out)
{
    size_t rows = cases_with(results, plot->accuracy);
    fprintf(out,
            "set xlabel 'sent by all nodes until the averaged model reaches %s%g%s' textcolor '#61676e'\n"
            "set format x '%%.0s %%cB'\nset xrange [0:*]\nset yrange [%zu.5:-0.5]\nunset key\nunset grid\n"
            "set grid x linecolor '#e6e8ea' linewidth 0.7 linetype 1 dashtype 1\n"
            "never(text) = text eq 'all' ? '' : text\n"
            "amount(x) = x == x ? gprintf(' %%.1s %%cB', x) : ''\n"
            "set rmargin 12\nplot \\\n"
            "  'targets.dat' index %zu using (0):0:(0):2:($0 - 0.36):($0 + 0.36):yticlabels(1) with "
            "boxxyerror linetype 1, \\\n"
            "  '' index %zu using ($4 > $3 ? $2 : NaN):0:3:4 with xerrorbars linecolor '#1d2024' linewidth "
            "1.2 pointtype 0, \\\n"
            "  '' index %zu using 4:0:(amount($2)) with labels left offset 0.3,0 textcolor '#1d2024', \\\n"
            "  '' index %zu using (0):0:(never(strcol(8))) with labels left offset 1,0 textcolor '#61676e'\n",
            results->regression ? "R2 " : "", (results->regression ? 1 : 100) * plot->accuracy,
            results->regression ? "" : "%", rows > 4 ? rows - 1 : 3, plot->target, plot->target, plot->target,
            plot->target);
}

void lab_plot_script(const struct lab_run_results *results, const struct lab_plot *plot,
                     enum lab_plot_format format, FILE *out)
{
    put_head(results, plot, format, out);
    if (plot->kind == LAB_PLOT_LINES)
        put_lines(results, plot, out);
    else
        put_bars(results, plot, out);
}

static size_t points_with(const struct lab_run_results *results, enum lab_axis axis, enum lab_line line)
{
    size_t count = 0;
    for (size_t i = 0; i < results->n_cases; i++)
        for (size_t p = 0; p < results->cases[i].curve.count; p++)
            count += isfinite(results->cases[i].curve.points[p].at[axis]) &&
                     results->cases[i].curve.points[p].value[line].seen;
    return count;
}

// Runs of real processes measure the averaged model only at the end; before, they know the accuracy of the
// nodes.
static enum lab_line known_better(const struct lab_run_results *results, enum lab_axis axis,
                                  enum lab_line line)
{
    if (line != LAB_LINE_ACCURACY ||
        points_with(results, axis, LAB_LINE_ACCURACY) >= points_with(results, axis, LAB_LINE_MEAN))
        return line;
    return LAB_LINE_MEAN;
}

// Whether any case reached it with all its seeds: gnuplot cannot draw an empty plot.
static bool is_reached(const struct lab_run_results *results, double accuracy)
{
    for (size_t i = 0; i < results->n_cases; i++)
        for (size_t t = 0; t < results->cases[i].n_targets; t++)
            if (results->cases[i].targets[t].accuracy == accuracy &&
                lab_target_is_reached(&results->cases[i].targets[t], LAB_REACH_BYTES))
                return true;
    return false;
}

size_t lab_plots_of(const struct lab_run_results *results, struct lab_plot *plots, size_t most)
{
    static const struct lab_plot lines[] = {
        {"accuracy-over-bytes", LAB_PLOT_LINES, LAB_AXIS_BYTES, LAB_LINE_ACCURACY, 0, 0},
        {"accuracy-over-rounds", LAB_PLOT_LINES, LAB_AXIS_ROUND, LAB_LINE_ACCURACY, 0, 0},
        {"accuracy-over-time", LAB_PLOT_LINES, LAB_AXIS_TIME, LAB_LINE_ACCURACY, 0, 0},
        {"worst-over-bytes", LAB_PLOT_LINES, LAB_AXIS_BYTES, LAB_LINE_WORST, 0, 0},
        {"consensus-over-rounds", LAB_PLOT_LINES, LAB_AXIS_ROUND, LAB_LINE_CONSENSUS, 0, 0},
    };
    double accuracies[16];
    size_t count = 0, targets = lab_targets_of(results, accuracies, 16);
    for (size_t i = 0; i < sizeof lines / sizeof *lines && count < most; i++) {
        plots[count] = lines[i];
        plots[count].line = known_better(results, lines[i].axis, lines[i].line);
        count += points_with(results, plots[count].axis, plots[count].line) > 1;
    }
    for (size_t i = 0; i < targets && count < most; i++) {
        if (!is_reached(results, accuracies[i]))
            continue;
        plots[count] = (struct lab_plot){"", LAB_PLOT_TARGET, 0, 0, i, accuracies[i]};
        snprintf(plots[count].name, sizeof plots->name, "bytes-to-%g", 100 * accuracies[i]);
        count++;
    }
    return count;
}
