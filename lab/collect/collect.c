#include "lab/collect/collect.h"

#include "base/file.h"
#include "lab/collect/gather.h"
#include "lab/record/directory.h"
#include "lab/record/results.h"
#include "lab/report/report.h"
#include "lab/top/fetch.h"
#include "lab/top/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static json_t *parse(char *text)
{
    json_t *object = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    free(text);
    return object;
}

// Its /status leads to further members. A node that has ended meanwhile, or whose answer is no status, is
// silent. The history is asked first, so that no point of it is later than the status.
static enum base_error ask(struct lab_top_table *table, size_t index, struct lab_answers *answers)
{
    char address[LAB_TOP_ADDRESS_BYTES];
    memcpy(address, table->nodes[index].address, sizeof address);
    struct lab_answer answer = {.history = parse(lab_top_get(address, "/history")),
                                .at = 1e-9 * (double)clock_ns()};
    char *text = lab_top_get(address, "/status");
    enum base_error error = text ? lab_top_take(table, index, text, clock_ns()) : BASE_EFORMAT;
    if (error == BASE_EFORMAT && index < table->count)
        table->nodes[index].silent = true;
    if (error) {
        json_decref(answer.history);
        free(text);
        return error == BASE_EFORMAT ? BASE_OK : error;
    }
    answer.status = parse(text);
    return lab_answers_add(answers, &answer);
}

static bool is_here(const struct lab_top_node *node)
{
    return strcmp(node->seen, "dead") != 0 && strcmp(node->seen, "left") != 0;
}

static bool is_open(const struct lab_top_node *node)
{
    return node->address[0] && !node->silent && node->answered_ns == 0 && is_here(node);
}

static enum base_error ask_all(struct lab_top_table *table, struct lab_answers *answers)
{
    for (;;) {
        size_t i = 0;
        while (i < table->count && !is_open(&table->nodes[i]))
            i++;
        if (i == table->count)
            break;
        enum base_error error = ask(table, i, answers);
        if (error)
            return error;
    }
    answers->silent = json_array();
    for (size_t i = 0; i < table->count; i++)
        if (table->nodes[i].answered_ns == 0 && is_here(&table->nodes[i]))
            json_array_append_new(answers->silent, json_string(table->nodes[i].name));
    return answers->silent ? BASE_OK : BASE_ENOMEM;
}

static enum base_error write_nodes(const char *path, const struct lab_answers *answers,
                                   struct base_reason *why)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (size_t i = 0; out && i < answers->count; i++) {
        const struct lab_answer *a = &answers->items[i];
        json_t *row = json_pack("{s:O, s:O?}", "status", a->status, "history", a->history);
        json_dumpf(row, out, JSON_COMPACT | JSON_REAL_PRECISION(13));
        fputc('\n', out);
        json_decref(row);
    }
    if (!out || !(text = base_text_close(out, &text)))
        return base_fail(why, BASE_ENOMEM, "no memory for '%s'", path);
    const struct base_span span = {text, bytes};
    enum base_error error = base_file_write(path, 0644, &span, 1, why);
    free(text);
    return error;
}

static enum base_error write_samples(const char *path, const struct lab_sample *samples, size_t count,
                                     struct base_reason *why)
{
    struct lab_recorder recorder;
    enum base_error error = lab_recorder_open(path, &recorder, why);
    if (error)
        return error;
    for (size_t i = 0; i < count && !error; i++)
        error = lab_recorder_add(&recorder, &samples[i], why);
    if (error) {
        struct base_reason ignored;
        (void)!lab_recorder_close(&recorder, &ignored);
        return error;
    }
    return lab_recorder_close(&recorder, why);
}

static enum base_error write_summary(const char *path, const struct lab_answers *answers, const char *version,
                                     double seconds, struct base_reason *why)
{
    json_t *summary = lab_answers_summary(answers, seconds);
    json_object_set_new(summary, "version", json_string(version));
    json_object_set_new(summary, "time", json_integer((json_int_t)time(NULL)));
    char *text = summary ? json_dumps(summary, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(summary);
    if (!text)
        return base_fail(why, BASE_ENOMEM, "no memory for '%s'", path);
    const struct base_span span[] = {{text, strlen(text)}, {"\n", 1}};
    enum base_error error = base_file_write(path, 0644, span, 2, why);
    free(text);
    return error;
}

// The summary comes last: it says that the rest is there.
static enum base_error write_all(const char *directory, const struct lab_answers *answers,
                                 const char *version, struct base_reason *why)
{
    struct lab_sample *samples = NULL;
    size_t count = 0;
    enum base_error error = lab_answers_samples(answers, &samples, &count);
    if (error)
        return base_fail(why, error, "no memory for %zu nodes", answers->count);
    char *nodes = lab_path("%s/nodes.jsonl", directory), *rounds = lab_path("%s/rounds.jsonl", directory),
         *summary = lab_path("%s/summary.json", directory);
    error = write_nodes(nodes, answers, why);
    if (!error)
        error = write_samples(rounds, samples, count, why);
    if (!error)
        error = write_summary(summary, answers, version, samples[count - 1].time, why);
    free(nodes);
    free(rounds);
    free(summary);
    free(samples);
    if (!error)
        error = lab_results_write(directory, NULL, why);
    return error ? error : lab_report_write(directory, why);
}

static enum base_error collect(const struct lab_collect_options *options, struct lab_top_table *table,
                               struct lab_answers *answers, struct base_reason *why)
{
    struct lab_directory directory;
    enum base_error error = lab_top_add(table, options->address);
    if (!error)
        error = ask_all(table, answers);
    if (error)
        return base_fail(why, error, "no memory for the nodes of the cluster");
    if (answers->count == 0)
        return base_fail(why, BASE_EIO,
                         "no p2pml-node answers at %s; expected the address of the page of a running node "
                         "(node.http; a program with p2pml.join prints it)",
                         options->address);
    error = lab_directory_open(options->out, options->fresh, false, &directory, why);
    if (error)
        return error;
    error = write_all(directory.path, answers, options->version, why);
    lab_directory_close(&directory);
    return error;
}

enum base_error lab_collect(const struct lab_collect_options *options, size_t *answered,
                            struct base_reason *why)
{
    struct lab_top_table table = {0};
    struct lab_answers answers = {0};
    enum base_error error = collect(options, &table, &answers, why);
    *answered = answers.count;
    lab_answers_free(&answers);
    lab_top_table_free(&table);
    return error;
}
