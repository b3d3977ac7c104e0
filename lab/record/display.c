#include "lab/record/display.h"

#include "node/queue/clock.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS       (200 * NODE_MILLISECOND_NS)
#define PLAIN_NS        (5 * NODE_SECOND_NS)
#define ROWS_UNKNOWN    24u
#define COLUMNS_UNKNOWN 80u

void lab_display_start(FILE *out, struct lab_display *display)
{
    const char *kind = getenv("TERM");
    *display = (struct lab_display){.out = out, .start_ns = node_clock_ns()};
    display->terminal = isatty(fileno(out)) && kind && strcmp(kind, "dumb") != 0;
    display->last_ns =
        display->terminal ? 0 : display->start_ns; // the first plain lines appear after the usual interval
}

static bool is_time(struct lab_display *display, bool now)
{
    uint64_t now_ns = node_clock_ns();
    if (!now && now_ns - display->last_ns < (display->terminal ? REDRAW_NS : PLAIN_NS))
        return false;
    display->last_ns = now_ns;
    return true;
}

static struct winsize size_of(const struct lab_display *display)
{
    struct winsize size = {0};
    if (ioctl(fileno(display->out), TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
        size = (struct winsize){.ws_row = ROWS_UNKNOWN, .ws_col = COLUMNS_UNKNOWN};
    return size;
}

// Cuts a line at the width of the window: a wrapped line would shift all lines below it.
static void draw(struct lab_display *display, const char *line, const struct winsize *size)
{
    fprintf(display->out, "%.*s\033[K\n", (int)size->ws_col - 1, line);
    display->drawn++;
}

static void move_up(struct lab_display *display)
{
    if (display->drawn)
        fprintf(display->out, "\033[%zuA", display->drawn);
    display->drawn = 0;
}

static void draw_table(struct lab_display *display, const struct lab_progress *nodes, size_t count)
{
    char line[LAB_LINE_BYTES];
    const struct winsize size = size_of(display);
    size_t room = size.ws_row > 4 ? size.ws_row - 3u : 1, shown = count > room ? room - 1 : count;
    move_up(display);
    lab_progress_heading(count > 0 && nodes[0].row.regression, line);
    draw(display, line, &size);
    for (size_t i = 0; i < shown; i++) {
        lab_progress_row(&nodes[i], line);
        draw(display, line, &size);
    }
    if (shown < count) {
        snprintf(line, sizeof line, "... and %zu more, which need a taller window", count - shown);
        draw(display, line, &size);
    }
    fprintf(display->out, "\033[J");
}

void lab_display_nodes(struct lab_display *display, const struct lab_progress *nodes, size_t count, bool now)
{
    char line[LAB_LINE_BYTES];
    if (!is_time(display, now))
        return;
    if (display->terminal)
        draw_table(display, nodes, count);
    else
        for (size_t i = 0; i < count; i++) {
            double seconds = (double)(display->last_ns - display->start_ns) / (double)NODE_SECOND_NS;
            lab_progress_plain(&nodes[i], seconds, line);
            fprintf(display->out, "%s\n", line);
        }
    fflush(display->out);
}

void lab_display_line(struct lab_display *display, const char *line, bool now)
{
    if (!is_time(display, now))
        return;
    if (display->terminal) {
        const struct winsize size = size_of(display);
        move_up(display);
        draw(display, line, &size);
        fprintf(display->out, "\033[J");
    } else
        fprintf(display->out, "%s\n", line);
    fflush(display->out);
}

void lab_display_say(struct lab_display *display, const char *format, ...)
{
    va_list arguments;
    if (display->terminal && display->drawn) {
        move_up(display);
        fprintf(display->out, "\033[J");
    }
    va_start(arguments, format);
    vfprintf(display->out, format, arguments);
    va_end(arguments);
    fflush(display->out);
}

void lab_display_keep(struct lab_display *display)
{
    display->drawn = 0;
}
