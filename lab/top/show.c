// The rows of p2pml top as text.
#include "lab/top/table.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL 40

// The widths hold usual values, and all of them fit into 80 characters: columns that grow and shrink are hard
// to read.
static const struct column {
    const char *title;
    int least; // characters
    bool left;
} columns[LAB_TOP_COLUMNS] = {
    [LAB_TOP_NODE] = {"NODE", 8, true},          [LAB_TOP_STATE] = {"STATE", 8, true},
    [LAB_TOP_STEP] = {"STEP", 6, false},         [LAB_TOP_RATE] = {"STEPS/S", 7, false},
    [LAB_TOP_LOSS] = {"LOSS", 6, false},         [LAB_TOP_SCORE] = {"ACCURACY", 8, false},
    [LAB_TOP_ROUND] = {"ROUND", 6, false},       [LAB_TOP_SENT] = {"SENT", 8, false},
    [LAB_TOP_RECEIVED] = {"RECEIVED", 8, false}, [LAB_TOP_NEIGHBOURS] = {"NEIGHB", 6, false},
    [LAB_TOP_PATH] = {"PATH", 6, true},
};

static bool answers(const struct lab_top_node *n)
{
    return n->answered_ns > 0 && !n->silent;
}

static bool is_gone(const struct lab_top_node *n)
{
    return !answers(n) && (strcmp(n->seen, "dead") == 0 || strcmp(n->seen, "left") == 0);
}

// What others report of a node that is gone; otherwise that it does not answer, its own problem, or its
// state.
static const char *state_of(const struct lab_top_node *n)
{
    if (is_gone(n))
        return n->seen;
    if (strcmp(n->seen, "banned") == 0 || (!answers(n) && strcmp(n->seen, "unproven") == 0))
        return n->seen;
    if (!answers(n))
        return n->address[0] ? "no answer" : "no page";
    if (strcmp(n->condition, "fine") != 0 && strcmp(n->condition, "finished") != 0 &&
        strcmp(n->condition, "waiting") != 0)
        return n->condition;
    return n->state;
}

static bool is_bad(const struct lab_top_node *n)
{
    return !answers(n) || strcmp(state_of(n), n->state) != 0;
}

static uint64_t step_of(const struct lab_top_node *n)
{
    return answers(n) || n->seen_step < n->step ? n->step : n->seen_step;
}

static double rate_of(const struct lab_top_node *n)
{
    return answers(n) ? n->rate : is_gone(n) ? (double)NAN : n->seen_rate;
}

static void put_number(char cell[CELL], const char *format, double value, const char *unit)
{
    char text[24];
    snprintf(text, sizeof text, format, value);
    snprintf(cell, CELL, "%s%s", isfinite(value) ? text : "-", isfinite(value) ? unit : "");
}

static void put_bytes(char cell[CELL], double value)
{
    static const char *const units[] = {" B/s", " kB/s", " MB/s", " GB/s"};
    size_t unit = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1000;
    put_number(cell, value < 9.95 && unit > 0 ? "%.1f" : "%.0f", value, units[unit]);
}

static void put_step(char cell[CELL], const struct lab_top_node *n)
{
    uint64_t step = step_of(n);
    if (n->steps > 0)
        snprintf(cell, CELL, "%" PRIu64 " %5.1f%%", step, 100 * fmin(1, (double)step / (double)n->steps));
    else
        snprintf(cell, CELL, "%" PRIu64, step);
}

static void put_cell(char cell[CELL], const struct lab_top_node *n, enum lab_top_column column)
{
    const double none = (double)NAN;
    switch (column) {
    case LAB_TOP_NODE:
        snprintf(cell, CELL, "%.39s", n->name);
        break;
    case LAB_TOP_STATE:
        snprintf(cell, CELL, "%s", state_of(n));
        break;
    case LAB_TOP_STEP:
        put_step(cell, n);
        break;
    case LAB_TOP_RATE:
        put_number(cell, "%.1f", rate_of(n), "");
        break;
    case LAB_TOP_LOSS:
        put_number(cell, "%.4f", n->loss, "");
        break;
    case LAB_TOP_SCORE:
        if (n->regression)
            put_number(cell, "%.4f", n->score, "");
        else
            put_number(cell, "%.2f", 100 * n->score, "%");
        break;
    case LAB_TOP_ROUND:
        snprintf(cell, CELL, "%" PRIu64, n->round);
        break;
    case LAB_TOP_SENT:
        put_bytes(cell, answers(n) ? n->sent : none);
        break;
    case LAB_TOP_RECEIVED:
        put_bytes(cell, answers(n) ? n->received : none);
        break;
    case LAB_TOP_NEIGHBOURS:
        snprintf(cell, CELL, answers(n) ? "%" PRIu64 "/%" PRIu64 : "-", n->linked, n->neighbours);
        break;
    case LAB_TOP_PATH:
        snprintf(cell, CELL, "%.39s", n->path);
        break;
    case LAB_TOP_COLUMNS:
        break;
    }
}

// -- order

static double key_of(const struct lab_top_node *n, enum lab_top_column column)
{
    const double keys[LAB_TOP_COLUMNS] = {[LAB_TOP_STEP] = (double)step_of(n),
                                          [LAB_TOP_RATE] = rate_of(n),
                                          [LAB_TOP_LOSS] = n->loss,
                                          [LAB_TOP_SCORE] = n->score,
                                          [LAB_TOP_ROUND] = (double)n->round,
                                          [LAB_TOP_SENT] = n->sent,
                                          [LAB_TOP_RECEIVED] = n->received,
                                          [LAB_TOP_NEIGHBOURS] = (double)n->linked};
    return keys[column];
}

// > 0: a is after b. Numbers descend, words ascend; unknown values are last, and names break ties.
static int compare(const struct lab_top_node *a, const struct lab_top_node *b,
                   const struct lab_top_view *view)
{
    double x = key_of(a, view->sort), y = key_of(b, view->sort);
    int order;
    if (view->sort == LAB_TOP_NODE)
        order = 0;
    else if (view->sort == LAB_TOP_STATE)
        order = strcmp(state_of(a), state_of(b));
    else if (view->sort == LAB_TOP_PATH)
        order = strcmp(a->path, b->path);
    else if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y) ? isnan(x) - isnan(y) : strcmp(a->name, b->name);
    else
        order = (x < y) - (x > y);
    if (order == 0 && view->sort != LAB_TOP_NODE)
        return strcmp(a->name, b->name);
    if (order == 0)
        order = strcmp(a->name, b->name);
    return view->reverse ? -order : order;
}

// Insertion sort: the table has a few hundred rows and is nearly in order.
static void sort(const struct lab_top_node **rows, size_t count, const struct lab_top_view *view)
{
    for (size_t i = 1; i < count; i++) {
        const struct lab_top_node *row = rows[i];
        size_t at = i;
        for (; at > 0 && compare(rows[at - 1], row, view) > 0; at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

// -- lines

struct page {
    FILE *out;
    const struct lab_top_view *view;
    size_t lines;
    size_t shown;                // columns that fit whole
    int widths[LAB_TOP_COLUMNS]; // characters
};

static void put_line(struct page *page, const char *colour, const char *text)
{
    const struct lab_top_view *view = page->view;
    size_t width = view->width ? view->width : strlen(text);
    if (view->height && page->lines >= view->height)
        return;
    size_t end = strlen(text) < width ? strlen(text) : width;
    while (end > 0 && text[end - 1] == ' ')
        end--;
    if (view->colours) // no newline after the last line of a screen: it would scroll
        fprintf(page->out, "%s\x1b[%sm%.*s\x1b[0m\x1b[K", page->lines ? "\r\n" : "", colour, (int)end, text);
    else
        fprintf(page->out, "%.*s\n", (int)end, text);
    page->lines++;
}

static void put_title(char cell[CELL], const struct page *page, const struct lab_top_table *table,
                      enum lab_top_column column)
{
    const char *name = columns[column].title, *mark = "";
    for (size_t n = 0; column == LAB_TOP_SCORE && n < table->count; n++)
        name = table->nodes[n].regression ? "R2" : name;
    if (page->view->colours && column == page->view->sort)
        mark = page->view->reverse ? "^" : "v";
    snprintf(cell, CELL, "%s%s", mark, name);
}

// A column is as wide as its widest cell. One that does not fit into the screen is left out: half a number
// misleads.
static void lay_out(struct page *page, const struct lab_top_table *table)
{
    char cell[CELL];
    size_t used = 0;
    for (size_t i = 0; i < LAB_TOP_COLUMNS; i++) {
        put_title(cell, page, table, (enum lab_top_column)i);
        size_t width = strlen(cell) > (size_t)columns[i].least ? strlen(cell) : (size_t)columns[i].least;
        for (size_t n = 0; n < table->count; n++) {
            put_cell(cell, &table->nodes[n], (enum lab_top_column)i);
            width = strlen(cell) > width ? strlen(cell) : width;
        }
        used += (i > 0) + width;
        if (i > 0 && page->view->width && used > page->view->width)
            return;
        page->widths[i] = (int)width;
        page->shown = i + 1;
    }
}

static void put_cells(struct page *page, const char *colour, char cells[LAB_TOP_COLUMNS][CELL])
{
    char line[512];
    size_t used = 0;
    for (size_t i = 0; i < page->shown; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, columns[i].left ? "%-*s " : "%*s ",
                                 page->widths[i], cells[i]);
    put_line(page, colour, line);
}

static void put_head(struct page *page, const struct lab_top_table *table)
{
    char cells[LAB_TOP_COLUMNS][CELL];
    for (size_t i = 0; i < page->shown; i++)
        put_title(cells[i], page, table, (enum lab_top_column)i);
    put_cells(page, "7", cells);
}

static void put_row(struct page *page, const struct lab_top_node *node)
{
    char cells[LAB_TOP_COLUMNS][CELL];
    for (size_t i = 0; i < page->shown; i++)
        put_cell(cells[i], node, (enum lab_top_column)i);
    put_cells(page, is_gone(node) ? "2" : is_bad(node) ? "33" : "0", cells);
}

static void put_adopted(struct page *page, const struct lab_top_node *node)
{
    char line[LIMIT_NODE_NAME_BYTES + sizeof node->adopted + 2];
    if (!node->adopted[0])
        return;
    snprintf(line, sizeof line, "%s %s", node->name, node->adopted);
    put_line(page, "2", line);
}

static void put_summary(struct page *page, const struct lab_top_table *table)
{
    char line[256];
    size_t here = 0, scored = 0;
    double scores = 0, sent = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct lab_top_node *n = &table->nodes[i];
        here += answers(n);
        if (answers(n) && isfinite(n->score)) {
            scores += n->score;
            scored++;
        }
        if (answers(n) && isfinite(n->sent))
            sent += n->sent;
    }
    char rate[CELL], score[CELL] = "";
    put_bytes(rate, sent);
    if (scored > 0 && !table->nodes[0].regression)
        snprintf(score, sizeof score, ", mean accuracy %.2f%%", 100 * scores / (double)scored);
    snprintf(line, sizeof line, "cluster %s: %zu of %zu nodes answer%s, %s sent in all", table->cluster, here,
             table->count, score, rate);
    put_line(page, "1", line);
}

static void write_page(struct page *page, const struct lab_top_table *table, const struct lab_top_node **rows)
{
    const struct lab_top_view *view = page->view;
    for (size_t i = 0; i < table->count; i++)
        rows[i] = &table->nodes[i];
    sort(rows, table->count, view);
    put_summary(page, table);
    if (view->colours)
        put_line(page, "2", "q quits, < > choose the column to sort by, r reverses, arrows scroll");
    lay_out(page, table);
    put_head(page, table);
    for (size_t i = view->first < table->count ? view->first : 0; i < table->count; i++)
        put_row(page, rows[i]);
    for (size_t i = 0; i < table->count; i++)
        put_adopted(page, rows[i]);
}

char *lab_top_text(const struct lab_top_table *table, const struct lab_top_view *view)
{
    char *text = NULL;
    size_t bytes = 0;
    const struct lab_top_node **rows = calloc(table->count + 1, sizeof *rows);
    FILE *out = rows ? open_memstream(&text, &bytes) : NULL;
    struct page page = {.out = out, .view = view};
    if (out)
        write_page(&page, table, rows);
    free(rows);
    return out ? base_text_close(out, &text) : NULL;
}
