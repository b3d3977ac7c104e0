// The events of a simulation: a running hash over all of them, the last lines as text, and every line as
// it happens if requested. Two runs of one seed have one hash. One owner.
#ifndef LAB_SIM_TRACE_H
#define LAB_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_TRACE_LINES = 48 };

struct sim_line {
    uint64_t time_ns;
    uint32_t node;
    const char *what; // constant
    const char *text; // constant, or NULL
    uint64_t a, b;
};

struct sim_trace {
    uint64_t hash, count;
    bool verbose;
    struct sim_line last[SIM_TRACE_LINES];
};

// `what` and `text` are constant strings.
void sim_trace_add(struct sim_trace *trace, const struct sim_line *line);
// What an exchange does (gossip/exchange/tell.h). Only if verbose; not part of the hash.
void sim_trace_tell(const struct sim_trace *trace, uint64_t time_ns, uint32_t node, const char *line);
void sim_trace_dump(const struct sim_trace *trace, FILE *file);

#endif
