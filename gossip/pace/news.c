#include "gossip/pace/news.h"

#include "base/array.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

uint64_t gossip_news_rank(const struct gossip_id *id)
{
    uint64_t word;

    memcpy(&word, id->bytes, sizeof word);
    return base_hash_mix(word);
}

static uint16_t tag_of(const struct gossip_id *id)
{
    return (uint16_t)(gossip_news_rank(id) >> 48);
}

static uint64_t known(const struct gossip_news *news, const struct gossip_id *id)
{
    for (size_t i = 0; i < news->count; i++)
        if (gossip_id_compare(&news->report[i].id, id) == 0)
            return news->report[i].round;
    return 0;
}

void gossip_news_members(struct gossip_news *news, const struct gossip_report *reports, size_t count,
                         size_t members)
{
    struct gossip_news fresh = {.count = count, .members = members};

    BASE_ASSERT(count <= GOSSIP_NEWS_MEMBERS && count <= members);
    for (size_t i = 0; i < count; i++) {
        fresh.report[i] = reports[i];
        fresh.report[i].round = base_max(reports[i].round, known(news, &reports[i].id));
    }
    *news = fresh;
}

void gossip_news_hear(struct gossip_news *news, const struct gossip_id *id, uint64_t round)
{
    for (size_t i = 0; i < news->count; i++)
        if (gossip_id_compare(&news->report[i].id, id) == 0)
            news->report[i].round = base_max(news->report[i].round, round);
}

size_t gossip_news_write(const struct gossip_news *news, uint64_t clock, uint8_t bytes[GOSSIP_NEWS_BYTES])
{
    struct base_writer writer = base_writer_of(bytes, GOSSIP_NEWS_BYTES);

    for (size_t i = 0; i < news->count; i++) {
        const int64_t apart = (int64_t)(news->report[i].round - clock);
        if (apart < INT16_MIN || apart > INT16_MAX)
            continue;
        base_write_u16(&writer, tag_of(&news->report[i].id));
        base_write_u16(&writer, (uint16_t)apart);
    }
    BASE_ASSERT(!writer.failed);
    return base_writer_used(&writer);
}

static void read_entry(struct gossip_news *news, uint16_t tag, uint64_t round)
{
    for (size_t i = 0; i < news->count; i++)
        if (tag_of(&news->report[i].id) == tag)
            news->report[i].round = base_max(news->report[i].round, round);
}

void gossip_news_read(struct gossip_news *news, uint64_t clock, const uint8_t *bytes, size_t count)
{
    struct base_reader reader = base_reader_of(bytes, count);

    while (base_reader_left(&reader) >= 4) {
        const uint16_t tag = base_read_u16(&reader);
        const int64_t round = (int64_t)clock + (int16_t)base_read_u16(&reader);
        if (round > 0)
            read_entry(news, tag, (uint64_t)round);
    }
}

uint64_t gossip_news_furthest(const struct gossip_news *news)
{
    uint64_t furthest = 0;

    for (size_t i = 0; i < news->count; i++)
        if (news->report[i].round < GOSSIP_NEWS_DONE)
            furthest = base_max(furthest, news->report[i].round);
    return furthest;
}

uint64_t gossip_news_cluster(const struct gossip_news *news, uint64_t own)
{
    uint64_t rounds[GOSSIP_NEWS_MEMBERS + 1] = {own};

    for (size_t i = 0; i < news->count; i++)
        rounds[i + 1] = news->report[i].round;
    qsort(rounds, news->count + 1, sizeof *rounds, base_order_u64);
    return rounds[news->count / 2];
}
