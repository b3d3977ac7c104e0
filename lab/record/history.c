#include "lab/record/history.h"

#include "base/array.h"
#include "lab/record/tail.h"

#include <math.h>
#include <stdlib.h>

static bool take_line(void *context, const char *line, size_t bytes)
{
    struct lab_history *history = context;
    struct lab_row row = lab_row_empty();
    if (!lab_row_parse(line, bytes, &row) || isnan(row.time))
        return false;
    const struct lab_mark mark = {row.round, row.time, row.measured ? row.accuracy : NAN};
    return history->count < LAB_MARKS_MAX &&
           base_array_add(&history->marks, &history->count, &mark, sizeof mark);
}

void lab_history_read(const char *path, struct lab_history *history)
{
    struct lab_lines lines;
    *history = (struct lab_history){0};
    lab_lines_start(path, &lines);
    lab_lines_read(&lines, take_line, history);
    lab_lines_close(&lines);
}

void lab_history_free(struct lab_history *history)
{
    free(history->marks);
    *history = (struct lab_history){0};
}
