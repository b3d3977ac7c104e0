#include "lab/sim/sim_trace.h"

#include "base/error.h"
#include "base/hash.h"
#include <string.h>

static void print(const struct sim_line *line, FILE *file)
{
    fprintf(file, "%12.6f  node %-3u %-14s %s %llu %llu\n", (double)line->time_ns * 1e-9,
            (unsigned)line->node, line->what, line->text ? line->text : "-", (unsigned long long)line->a,
            (unsigned long long)line->b);
}

void sim_trace_add(struct sim_trace *trace, const struct sim_line *line)
{
    const uint64_t numbers[] = {line->time_ns, line->node, line->a, line->b};

    trace->hash = base_hash_bytes(trace->hash, numbers, sizeof numbers);
    trace->hash = base_hash_bytes(trace->hash, line->what, strlen(line->what));
    trace->last[trace->count++ % SIM_TRACE_LINES] = *line;
    if (trace->verbose)
        print(line, stdout);
}

void sim_trace_tell(const struct sim_trace *trace, uint64_t time_ns, uint32_t node, const char *line)
{
    BASE_ASSERT(trace->verbose);
    printf("%12.6f  node %-3u   %s\n", (double)time_ns * 1e-9, (unsigned)node, line);
}

void sim_trace_dump(const struct sim_trace *trace, FILE *file)
{
    uint64_t first = trace->count > SIM_TRACE_LINES ? trace->count - SIM_TRACE_LINES : 0;

    for (uint64_t i = first; i < trace->count; i++)
        print(&trace->last[i % SIM_TRACE_LINES], file);
}
