#include "lab/report/page.h"

#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/report/report.h"
#include "lab/report/tex.h"

#include <stdlib.h>
#include <string.h>

// Larger pages are refused, because browsers cannot open them.
#define PAGE_BYTES_MAX ((size_t)48 << 20)

char *lab_page_embed(const json_t *json)
{
    static const char escaped[] = "\\u003c";
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)), *safe = NULL;
    if (!text)
        return NULL;
    size_t bytes = strlen(text) + 1;
    for (const char *at = text; (at = strchr(at, '<')); at++)
        bytes += sizeof escaped - 2;
    safe = malloc(bytes);
    if (safe) {
        char *to = safe;
        for (const char *at = text; *at; at++) {
            if (*at == '<')
                to = stpcpy(to, escaped);
            else
                *to++ = *at;
        }
        *to = 0;
    }
    free(text);
    return safe;
}

static enum base_error write_page(const char *directory, const char *data, struct base_reason *why)
{
    const struct base_span spans[] = {
        {lab_page_head, lab_page_head_bytes}, {data, strlen(data)}, {lab_page_tail, lab_page_tail_bytes}};
    if (spans[1].bytes > PAGE_BYTES_MAX)
        return base_fail(why, BASE_ELIMIT,
                         "the report of '%s' would have %zu MiB of data, more than the %zu MiB of one page; "
                         "results.csv holds the figures of all runs",
                         directory, spans[1].bytes >> 20, PAGE_BYTES_MAX >> 20);
    char *path = lab_path("%s/report.html", directory);
    enum base_error error = base_file_write(path, 0644, spans, sizeof spans / sizeof *spans, why);
    free(path);
    return error;
}

static enum base_error write_table(const char *directory, const struct lab_run_results *results,
                                   struct base_reason *why)
{
    char *text = NULL, *path = lab_path("%s/results.tex", directory);
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    enum base_error error = out ? lab_tex_write(results, out) : BASE_ENOMEM;
    if (out && fclose(out))
        error = BASE_ENOMEM;
    const struct base_span span = {text, bytes};
    error = error ? base_fail(why, error, "no memory to write '%s'", path)
                  : base_file_write(path, 0644, &span, 1, why);
    free(text);
    free(path);
    return error;
}

enum base_error lab_report_write(const char *directory, struct base_reason *why)
{
    struct lab_run_results results;
    enum base_error error = lab_run_results_read(directory, &results, why);
    if (error)
        return error;
    json_t *json = lab_page_json(&results);
    char *data = json ? lab_page_embed(json) : NULL;
    if (data)
        error = write_page(directory, data, why);
    else
        error = base_fail(why, BASE_ENOMEM, "no memory for the report of '%s'", directory);
    if (!error)
        error = write_table(directory, &results, why);
    free(data);
    json_decref(json);
    lab_run_results_free(&results);
    return error;
}
