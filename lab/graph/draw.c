#include "lab/graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAID_OUT_MAX 200u // nodes drawn by graphviz
#define COLOURED_MAX 64u  // rounds of a period with distinguishable colours

// The first round in which the two meet, as a share of the period; below 0: no colour.
static double hue(const struct lab_topology *t, size_t a, size_t b)
{
    uint64_t period = topology_plan_period(t->plan);
    for (uint64_t round = 0; period <= COLOURED_MAX && round < period; round++)
        if (topology_plan_partner(t->plan, a, round) == b)
            return (double)round / (double)period;
    return -1;
}

static const char *label(const struct lab_topology *t, size_t i)
{
    return strncmp(t->members[i].name, "node-", 5) == 0 ? t->members[i].name + 5 : t->members[i].name;
}

enum base_error lab_topology_each_edge(const struct lab_topology *t,
                                       void (*take)(const struct lab_topology *t, size_t a, size_t b,
                                                    void *context),
                                       void *context)
{
    size_t *peers = malloc((t->n + 1) * sizeof *peers);
    if (!peers)
        return BASE_ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        size_t count = topology_plan_neighbours(t->plan, i, peers, t->n);
        for (size_t p = 0; p < count; p++)
            if (i < peers[p])
                take(t, i, peers[p], context);
    }
    free(peers);
    return BASE_OK;
}

static void print_escaped(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void dot_edge(const struct lab_topology *t, size_t a, size_t b, void *context)
{
    FILE *out = context;
    double h = hue(t, a, b);
    fprintf(out, "  n%zu -- n%zu", a, b);
    if (h >= 0)
        fprintf(out, " [color=\"%.3f 0.75 0.8\"]", h);
    fputs(";\n", out);
}

enum base_error lab_topology_dot(const struct lab_topology *t, FILE *out)
{
    bool grouped = t->options.kind == TOPOLOGY_HIERARCHICAL;
    size_t groups = t->n / t->group_size + 1;
    fprintf(
        out,
        "graph p2pml {\n  label=\"%s of %zu nodes; a colour is a round\";\n  overlap=false; splines=true; "
        "outputorder=edgesfirst;\n"
        "  node [shape=circle, style=filled, fillcolor=white, fixedsize=true, width=0.45, "
        "fontname=Helvetica, "
        "fontsize=11];\n"
        "  edge [color=\"#888888\", penwidth=1.4];\n",
        topology_kind_name(t->options.kind), t->n);
    for (size_t i = 0; i < t->n; i++) {
        fprintf(out, "  n%zu [label=\"", i);
        print_escaped(label(t, i), out);
        fputs("\"", out);
        if (grouped)
            fprintf(out, ", fillcolor=\"%.3f 0.25 1\"", (double)t->members[i].group / (double)groups);
        fputs("];\n", out);
    }
    enum base_error error = lab_topology_each_edge(t, dot_edge, out);
    fputs("}\n", out);
    return error ? error : ferror(out) ? BASE_EIO : BASE_OK;
}

// Places node i on a circle of radius 100 around the origin, in the order by hash, so that a ring is drawn as
// a ring.
static void place(const struct lab_topology *t, size_t i, double *x, double *y)
{
    double angle = 2 * 3.14159265358979323846 * (double)topology_plan_place(t->plan, i) / (double)t->n;
    *x = 100 * sin(angle);
    *y = -100 * cos(angle);
}

static void svg_edge(const struct lab_topology *t, size_t a, size_t b, void *context)
{
    FILE *out = context;
    double x1, y1, x2, y2, h = hue(t, a, b);
    place(t, a, &x1, &y1);
    place(t, b, &x2, &y2);
    fprintf(out, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"", x1, y1, x2, y2);
    if (h >= 0)
        fprintf(out, "hsl(%.0f,75%%,45%%)\"/>\n", 360 * h);
    else
        fputs("#888888\"/>\n", out);
}

static void print_markup(const char *text, FILE *out)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
}

static enum base_error draw_circle(const struct lab_topology *t, FILE *out)
{
    double radius = fmin(7, 250 / (double)(t->n + 1));
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-112 -112 224 224\" width=\"800\" "
          "height=\"800\">\n<rect x=\"-112\" y=\"-112\" width=\"224\" height=\"224\" fill=\"white\"/>\n"
          "<g stroke-width=\"0.6\">\n",
          out);
    enum base_error error = lab_topology_each_edge(t, svg_edge, out);
    fprintf(out, "</g>\n<g font-family=\"Helvetica,sans-serif\" font-size=\"%.2f\" text-anchor=\"middle\">\n",
            radius);
    for (size_t i = 0; i < t->n; i++) {
        double x, y;
        place(t, i, &x, &y);
        fprintf(out,
                "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"white\" stroke=\"black\" "
                "stroke-width=\"0.4\"/>",
                x, y, radius);
        fprintf(out, "<text x=\"%.2f\" y=\"%.2f\">", x, y + radius / 3);
        print_markup(label(t, i), out);
        fputs("</text>\n", out);
    }
    fputs("</g>\n</svg>\n", out);
    return error ? error : ferror(out) ? BASE_EIO : BASE_OK;
}

// Spring layouts draw a torus as a grid; for many nodes they take minutes.
static const char *layout_program(const struct lab_topology *t)
{
    const char *program = t->options.kind == TOPOLOGY_RING ? "circo" : "neato";
    char command[64];
    if (t->n > LAID_OUT_MAX)
        return NULL;
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0 ? program : NULL;
}

enum base_error lab_topology_svg(const struct lab_topology *t, struct base_reason *why)
{
    const char *program = layout_program(t);
    char command[64];
    if (!program)
        return draw_circle(t, stdout);
    snprintf(command, sizeof command, "%s -Tsvg", program);
    fflush(stdout);
    FILE *pipe = popen(command, "w");
    if (!pipe)
        return base_fail(why, BASE_EIO, "cannot start %s", program);
    enum base_error error = lab_topology_dot(t, pipe);
    int status = pclose(pipe);
    if (error || status)
        return base_fail(why, error ? error : BASE_EIO, "%s failed; --dot prints its input", program);
    return BASE_OK;
}
