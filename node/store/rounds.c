#include "node/store/rounds.h"
#include "base/error.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a round changed shows beside the line before it. So the oldest line is not told, once others were
// dropped. A last line, which repeats its round, has room, too.
#define LINES (NODE_ROUNDS_KEPT + 2u)

struct node_rounds {
    pthread_mutex_t lock;
    struct line {
        uint64_t round;
        double unix_s;
        char *text;
    } lines[LINES]; // a ring
    size_t first, count, bytes;
    bool dropped;
    double set_back_s;
};

struct node_rounds *node_rounds_create(void)
{
    struct node_rounds *rounds = calloc(1, sizeof *rounds);
    if (rounds && pthread_mutex_init(&rounds->lock, NULL) != 0) {
        free(rounds);
        return NULL;
    }
    return rounds;
}

static struct line *line_at(struct node_rounds *rounds, size_t i)
{
    return &rounds->lines[(rounds->first + i) % LINES];
}

static void drop_oldest(struct node_rounds *rounds)
{
    struct line *oldest = line_at(rounds, 0);
    BASE_ASSERT(rounds->count > 0 && rounds->bytes >= strlen(oldest->text));
    rounds->bytes -= strlen(oldest->text);
    free(oldest->text);
    rounds->first = (rounds->first + 1) % LINES;
    rounds->count--;
    rounds->dropped = true;
}

void node_rounds_destroy(struct node_rounds *rounds)
{
    if (!rounds)
        return;
    while (rounds->count > 0)
        drop_oldest(rounds);
    pthread_mutex_destroy(&rounds->lock);
    free(rounds);
}

void node_rounds_put(struct node_rounds *rounds, uint64_t round, double unix_s, const char *line)
{
    const size_t bytes = strlen(line);
    char *text = bytes <= NODE_ROUNDS_BYTES ? strdup(line) : NULL;
    if (!text)
        return;
    pthread_mutex_lock(&rounds->lock);
    if (rounds->count > 0)
        rounds->set_back_s = fmax(rounds->set_back_s, line_at(rounds, rounds->count - 1)->unix_s - unix_s);
    while (rounds->count == LINES || rounds->bytes + bytes > NODE_ROUNDS_BYTES)
        drop_oldest(rounds);
    *line_at(rounds, rounds->count++) = (struct line){round, unix_s, text};
    rounds->bytes += bytes;
    pthread_mutex_unlock(&rounds->lock);
}

// Of the lines from `from` to before `until`.
static char *array_of(struct node_rounds *rounds, size_t from, size_t until)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputc('[', out);
    for (size_t i = from; i < until; i++)
        fprintf(out, "%s%s", i > from ? "," : "", line_at(rounds, i)->text);
    fputc(']', out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

struct node_rounds_part node_rounds_about(struct node_rounds *rounds, uint64_t round)
{
    struct node_rounds_part part = {.after = -INFINITY, .until = INFINITY};
    pthread_mutex_lock(&rounds->lock);
    const size_t oldest = rounds->dropped ? 1 : 0, count = rounds->count;
    size_t from, until = count;
    if (count > oldest) {
        part.first = line_at(rounds, oldest)->round;
        part.last = line_at(rounds, count - 1)->round;
    }
    part.set_back_s = rounds->set_back_s;
    const uint64_t wanted = round > 0 ? round : part.last;
    while (until > oldest && line_at(rounds, until - 1)->round != wanted)
        until--;
    for (from = until; from > oldest && line_at(rounds, from - 1)->round == wanted;)
        from--;
    const bool known = until > from, is_first = from == 0, is_last = until == count;
    part.rows =
        known ? array_of(rounds, is_first ? from : from - 1, is_last ? until : until + 1) : strdup("[]");
    if (known && !is_first)
        part.after = line_at(rounds, from - 1)->unix_s;
    if (known && !is_last)
        part.until = line_at(rounds, until)->unix_s;
    pthread_mutex_unlock(&rounds->lock);
    return part;
}
