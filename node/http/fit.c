#include "node/http/fit.h"
#include "base/array.h"
#include "node/queue/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_LATE 0.5                        // of a period of probing: later answers fail a probe
#define FAR          4.0                        // times: the steps of a round, the exchanges with others
#define WAITS        0.5                        // of the time, before waiting is worth a word
#define EXCHANGE_NS  (20 * NODE_MILLISECOND_NS) // a shorter one hurts nobody

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NODE_SECOND_NS;
}

static double milliseconds(double ns)
{
    return ns / (double)NODE_MILLISECOND_NS;
}

static void say(struct node_unfit *unfit, enum node_fit what, const char *key, const char *format, ...)
    BASE_PRINTF(4, 5);

static void say(struct node_unfit *unfit, enum node_fit what, const char *key, const char *format, ...)
{
    va_list arguments;
    unfit->what = what;
    unfit->key = key;
    va_start(arguments, format);
    vsnprintf(unfit->text, sizeof unfit->text, format, arguments);
    va_end(arguments);
}

static bool profile_is_short(const struct node_status *s, struct node_unfit *unfit)
{
    const struct gossip_membership_totals *m = &s->membership;
    if ((double)m->answer_ns <= ANSWERS_LATE * (double)m->period_ns)
        return false;
    say(unfit, NODE_FIT_PROFILE, "cluster.profile",
        "%s asks a member every %.1f s, and members take %.2f s to answer. The node waits longer by itself, but "
        "was impatient at first. %s",
        s->settings.profile, seconds(m->period_ns), seconds(m->answer_ns),
        strcmp(s->settings.profile, "wan") == 0 ? "A link is full, or a host has no time for its node."
                                                : "wan begins with longer times.");
    return true;
}

struct answers { // of the live edges
    size_t count;
    double usual_ns; // the lower median
    const struct node_status_edge *slowest;
};

static void find_answers(const struct node_status *s, struct answers *answers)
{
    double times[LIMIT_NEIGHBOURS];
    *answers = (struct answers){.count = 0};
    for (size_t i = 0; i < s->n_edges && answers->count < LIMIT_NEIGHBOURS; i++) {
        const struct gossip_edge_info *edge = &s->edges[i].edge;
        if (edge->state != GOSSIP_EDGE_LIVE || edge->answer_median_ns == 0)
            continue;
        times[answers->count++] = (double)edge->answer_median_ns;
        if (!answers->slowest || edge->answer_median_ns > answers->slowest->edge.answer_median_ns)
            answers->slowest = &s->edges[i];
    }
    if (answers->count == 0)
        return;
    qsort(times, answers->count, sizeof *times, base_order_f64);
    answers->usual_ns = times[(answers->count - 1) / 2];
}

static bool ceiling_is_short(const struct node_status *s, const struct answers *a, struct node_unfit *unfit)
{
    const uint64_t ceiling_ns = s->settings.ceiling_ns;
    if (ceiling_ns == 0 || !a->slowest || a->slowest->edge.answer_median_ns <= ceiling_ns)
        return false;
    say(unfit, NODE_FIT_CEILING, "average.deadline_ceiling",
        "An exchange with %s takes %.2f s, and a boundary waits for one neighbour %.2f s at most: rounds go on "
        "without it. Raise average.deadline_ceiling, or lower average.ratio.",
        a->slowest->name, seconds(a->slowest->edge.answer_median_ns), seconds(ceiling_ns));
    return true;
}

static double part_waited(const struct node_status *s)
{
    const double all_ns = (double)(s->now_ns - s->started_ns);
    const struct gossip_pace_waits *waits = &s->totals.waits;
    return all_ns > 0
               ? (double)(waits->ns[GOSSIP_PACE_FOR_ANSWER] + waits->ns[GOSSIP_PACE_FOR_PARTNER]) / all_ns
               : 0;
}

static bool waits_for_one(const struct node_status *s, const struct answers *a, struct node_unfit *unfit)
{
    if (!s->settings.sync || a->count < 2 || a->slowest->edge.answer_median_ns < EXCHANGE_NS)
        return false;
    if ((double)a->slowest->edge.answer_median_ns <= FAR * a->usual_ns)
        return false;
    say(unfit, NODE_FIT_MODE, "average.mode",
        "sync waits for every exchange. With %s one takes %.0f ms, usually %.3g ms, and %.0f%% of the time is "
        "waiting: its link, or that of a node which it waits for, is slow. In async a slow node is met as often "
        "as its link allows, and delays nobody.",
        a->slowest->name, 1e3 * seconds(a->slowest->edge.answer_median_ns), milliseconds(a->usual_ns),
        100 * part_waited(s));
    return true;
}

static bool rounds_are_short(const struct node_status *s, const struct answers *a, struct node_unfit *unfit)
{
    const double steps_ns = (double)s->progress.step_ns * (double)s->settings.local_steps;
    if (a->count == 0 || steps_ns <= 0 || a->usual_ns < (double)EXCHANGE_NS || a->usual_ns <= FAR * steps_ns)
        return false;
    say(unfit, NODE_FIT_ROUND, "average.local_steps",
        "An exchange takes %.0f ms, the steps between two of them %.2g ms: %.0f%% of the time is waiting. Raise "
        "average.local_steps, or lower average.ratio.",
        milliseconds(a->usual_ns), milliseconds(steps_ns), 100 * part_waited(s));
    return true;
}

size_t node_fit_of(const struct node_status *s, struct node_unfit unfit[NODE_FITS])
{
    size_t count = 0;
    struct answers answers;
    if (strcmp(s->progress.state, "training") != 0)
        return 0;
    BASE_ASSERT(s->settings.profile && s->now_ns >= s->started_ns);
    find_answers(s, &answers);
    count += profile_is_short(s, &unfit[count]);
    count += ceiling_is_short(s, &answers, &unfit[count]);
    if (part_waited(s) < WAITS)
        return count;
    if (waits_for_one(s, &answers, &unfit[count]))
        return count + 1;
    return count + rounds_are_short(s, &answers, &unfit[count]);
}
