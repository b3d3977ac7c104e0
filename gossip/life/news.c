// What the exchange is told of the others' rounds: the reports of members that train (gossip/pace/news.h).
#include "gossip/life/life_state.h"
#include <stdlib.h>
#include <string.h>

#define EVERY_NS  (100 * LIFE_MS)
#define MEMBER_NS LIFE_MS // more for each member: the scan of a large cluster takes time

struct sample {
    struct gossip_report *reports; // [GOSSIP_NEWS_MEMBERS], by gossip_news_rank
    size_t count, members;
};

static void insert(struct sample *sample, const struct gossip_report *report)
{
    const uint64_t rank = gossip_news_rank(&report->id);
    size_t at = sample->count < GOSSIP_NEWS_MEMBERS ? sample->count++ : GOSSIP_NEWS_MEMBERS;

    BASE_ASSERT(sample->count <= GOSSIP_NEWS_MEMBERS);
    for (; at > 0 && gossip_news_rank(&sample->reports[at - 1].id) > rank; at--)
        if (at < GOSSIP_NEWS_MEMBERS)
            sample->reports[at] = sample->reports[at - 1];
    if (at < GOSSIP_NEWS_MEMBERS)
        sample->reports[at] = *report;
}

// One that pauses is in no round; one that has not reported yet is in its first.
static bool is_in_a_round(const struct gossip_member_info *info)
{
    const uint8_t flags = info->record->flags;

    return gossip_life_believes(info) && (flags & GOSSIP_RECORD_TRAINING) && !(flags & GOSSIP_RECORD_PAUSED);
}

// One that was told to stop trains up to its stop round.
static bool goes_on(const struct gossip_life *life)
{
    return (life->state >= GOSSIP_LIFE_TRAINING && life->state < GOSSIP_LIFE_FINISHED) ||
           life->state == GOSSIP_LIFE_STOPPING;
}

void life_consider_news(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    const uint64_t due_ns = life->news_ns + EVERY_NS + members * MEMBER_NS;
    struct gossip_report reports[GOSSIP_NEWS_MEMBERS];
    struct sample sample = {.reports = reports};

    if (!goes_on(life) || life->options.local)
        return;
    life_wake(life, due_ns);
    if (life->news_ns > 0 && life->now_ns < due_ns)
        return;
    life->news_ns = life->now_ns;
    life_wake(life, life->news_ns + EVERY_NS + members * MEMBER_NS);
    for (size_t i = 1; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (!is_in_a_round(&info))
            continue;
        sample.members++;
        const bool done = info.record->flags & GOSSIP_RECORD_FINISHED;
        insert(&sample, &(struct gossip_report){info.record->id, done ? GOSSIP_NEWS_DONE : info.round});
    }
    memcpy(life->reports, reports, sample.count * sizeof *reports);
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_NEWS);
    action->reports = life->reports;
    action->count = sample.count;
    action->members = sample.members;
    action->on = life->census.company > 0;
}
