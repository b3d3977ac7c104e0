#include "lab/top/top.h"

#include "lab/term/screen.h"
#include "lab/term/signals.h"
#include "lab/top/fetch.h"
#include "lab/top/table.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FETCHES_MAX 64u
#define ASK_NS      1000000000ull
#define LOOK_MS     200 // between two checks of the terminal's size

struct top {
    struct lab_top_options options;
    struct lab_top_table table;
    struct lab_top_view view;
    struct lab_top_fetch fetches[FETCHES_MAX];
    size_t n_fetches;
    uint64_t ask_ns;
    struct lab_signals signals;
    struct lab_screen screen;
    bool quit, changed;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct lab_top_node *node_at(struct top *t, const char *address)
{
    for (size_t i = 0; i < t->table.count; i++)
        if (strcmp(t->table.nodes[i].address, address) == 0)
            return &t->table.nodes[i];
    return NULL;
}

static bool is_asked(const struct top *t, const char *address)
{
    for (size_t i = 0; i < t->n_fetches; i++)
        if (strcmp(t->fetches[i].address, address) == 0)
            return true;
    return false;
}

// Asks all nodes; with `once`, those not asked yet.
static void ask(struct top *t, uint64_t now_ns)
{
    for (size_t i = 0; i < t->table.count; i++) {
        struct lab_top_node *node = &t->table.nodes[i];
        bool done = t->options.once && (node->silent || node->answered_ns > 0);
        if (!node->address[0] || done || is_asked(t, node->address) || t->n_fetches == FETCHES_MAX)
            continue;
        if (lab_top_fetch_begin(&t->fetches[t->n_fetches], node->address, "/status", now_ns))
            t->n_fetches++;
        else
            node->silent = true;
    }
    t->ask_ns = now_ns + ASK_NS;
}

static void end_fetch(struct top *t, size_t at)
{
    lab_top_fetch_end(&t->fetches[at]);
    t->fetches[at] = t->fetches[--t->n_fetches];
}

// The address that was asked may belong to another node now, or to none.
static void take_answer(struct top *t, const struct lab_top_fetch *fetch, const char *body, uint64_t now_ns)
{
    struct lab_top_node *node = node_at(t, fetch->address);
    t->changed = true;
    if (!node)
        return;
    if (!body || lab_top_take(&t->table, (size_t)(node - t->table.nodes), body, now_ns)) {
        node = node_at(t, fetch->address);
        if (node)
            node->silent = true;
    }
}

static void step_fetches(struct top *t, const struct pollfd *polled, size_t count)
{
    uint64_t now_ns = clock_ns();
    for (size_t i = count; i-- > 0;) {
        const char *body = NULL;
        enum lab_top_outcome outcome = lab_top_fetch_step(&t->fetches[i], polled[i].revents, now_ns, &body);
        if (outcome == LAB_TOP_UNDER_WAY)
            continue;
        take_answer(t, &t->fetches[i], outcome == LAB_TOP_ANSWERED ? body : NULL, now_ns);
        end_fetch(t, i);
    }
}

// -- keys

static void choose(struct top *t, int by)
{
    t->view.sort = (enum lab_top_column)(((int)t->view.sort + by + LAB_TOP_COLUMNS) % LAB_TOP_COLUMNS);
    t->view.reverse = false;
}

static void scroll(struct top *t, int by)
{
    size_t most = t->table.count > 0 ? t->table.count - 1 : 0;
    if (by < 0 && t->view.first > 0)
        t->view.first--;
    else if (by > 0 && t->view.first < most)
        t->view.first++;
}

static void take_key(struct top *t, enum lab_key key)
{
    t->changed = true;
    if (key == 'q' || key == 'Q' || key == LAB_KEY_INTERRUPT)
        t->quit = true;
    else if (key == '<' || key == ',' || key == LAB_KEY_LEFT)
        choose(t, -1);
    else if (key == '>' || key == '.' || key == LAB_KEY_RIGHT)
        choose(t, 1);
    else if (key == 'r')
        t->view.reverse = !t->view.reverse;
    else if (key == LAB_KEY_UP || key == LAB_KEY_DOWN)
        scroll(t, key == LAB_KEY_UP ? -1 : 1);
}

static void take_keys(struct top *t)
{
    enum lab_key keys[32];
    int count = lab_screen_keys(&t->screen, keys, sizeof keys / sizeof *keys);
    t->quit |= count < 0; // the terminal is gone
    for (int i = 0; i < count; i++)
        take_key(t, keys[i]);
}

// -- the loop

static void draw(struct top *t)
{
    size_t width = t->view.width, height = t->view.height;
    if (!lab_screen_size(&t->screen, &t->view.width, &t->view.height))
        return;
    if (!t->changed && width == t->view.width && height == t->view.height)
        return;
    char *text = lab_top_text(&t->table, &t->view);
    if (text && !lab_screen_show(&t->screen, text))
        t->quit = true;
    free(text);
    t->changed = false;
}

static void turn(struct top *t)
{
    struct pollfd polled[FETCHES_MAX + 2];
    size_t count = t->n_fetches;
    for (size_t i = 0; i < count; i++)
        polled[i] =
            (struct pollfd){.fd = t->fetches[i].socket, .events = lab_top_fetch_events(&t->fetches[i])};
    polled[count] = (struct pollfd){.fd = t->signals.file, .events = POLLIN};
    polled[count + 1] = (struct pollfd){.fd = t->options.once ? -1 : STDIN_FILENO, .events = POLLIN};
    if (poll(polled, count + 2, LOOK_MS) < 0)
        for (size_t i = 0; i < count + 2; i++)
            polled[i].revents = 0;
    if (polled[count].revents && lab_signals_wait(&t->signals, 0) > 0)
        t->quit = true;
    if (polled[count + 1].revents)
        take_keys(t);
    step_fetches(t, polled, count);
}

static enum base_error print_once(struct top *t, struct base_reason *why)
{
    while (!t->quit) {
        ask(t, clock_ns());
        if (t->n_fetches == 0)
            break;
        turn(t);
    }
    bool found = false;
    for (size_t i = 0; i < t->table.count; i++)
        found |= t->table.nodes[i].answered_ns > 0;
    if (!found)
        return base_fail(why, BASE_EIO,
                         "no p2pml-node answers at %s; expected the address of the page of a running node "
                         "(node.http, 127.0.0.1:7480 unless set)",
                         t->options.address);
    char *text = lab_top_text(&t->table, &t->view);
    bool printed = text && fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    free(text);
    return printed ? BASE_OK : base_fail(why, BASE_EIO, "cannot write to stdout");
}

static enum base_error show(struct top *t, struct base_reason *why)
{
    enum base_error error = lab_screen_open(&t->screen, why);
    if (error)
        return error;
    t->view.colours = t->changed = true;
    while (!t->quit) {
        if (clock_ns() >= t->ask_ns)
            ask(t, clock_ns());
        draw(t);
        turn(t);
    }
    lab_screen_close(&t->screen);
    return BASE_OK;
}

enum base_error lab_top(const struct lab_top_options *options, struct base_reason *why)
{
    struct top *t = calloc(1, sizeof *t);
    if (!t)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    t->options = *options;
    enum base_error error = lab_signals_open(&t->signals, why);
    if (!error) {
        error = lab_top_add(&t->table, options->address);
        if (!error)
            error = options->once ? print_once(t, why) : show(t, why);
        lab_signals_close(&t->signals);
    }
    while (t->n_fetches > 0)
        end_fetch(t, 0);
    lab_top_table_free(&t->table);
    free(t);
    return error;
}
