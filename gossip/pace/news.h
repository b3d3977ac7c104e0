// What this node knows of the rounds of the members that train, and the cluster's round that follows from it:
// the lower median. The owner names the members (of a large cluster a sample, the same on all nodes that have
// the same view) and the rounds that they last reported; packets of exchanges carry what their sender knows,
// so that the news are as fresh as the exchanges are frequent. Rounds only grow, so the larger of two reports
// is the newer one. Pure; the owner's thread.
#ifndef GOSSIP_PACE_NEWS_H
#define GOSSIP_PACE_NEWS_H

#include "gossip/id.h"
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_NEWS_MEMBERS 16u // of the sample. Its lower median is within 27% and 73% of all, in 19 of 20
#define GOSSIP_NEWS_BYTES   64u // of a message: 4 for each member

#define GOSSIP_NEWS_DONE (1ull << 62) // the round of a member that has done its last step

struct gossip_report { // of a member other than this node
    struct gossip_id id;
    uint64_t round;
};

struct gossip_news {
    struct gossip_report report[GOSSIP_NEWS_MEMBERS];
    size_t count;
    size_t members; // of the cluster that train, this node not counted
};

// Replaces the members. A round known from packets stays if it is higher than the report's.
void gossip_news_members(struct gossip_news *news, const struct gossip_report *reports, size_t count,
                         size_t members);
// A member has named its own round.
void gossip_news_hear(struct gossip_news *news, const struct gossip_id *id, uint64_t round);
// The bytes of a message whose sender is in round `clock`; returns their number. An entry is a u16 of the id
// and an i16, the round less `clock`, little-endian. A member too far from `clock` for 16 bits is left out.
// Bytes that are not whole entries are ignored.
size_t gossip_news_write(const struct gossip_news *news, uint64_t clock, uint8_t bytes[GOSSIP_NEWS_BYTES]);
void gossip_news_read(struct gossip_news *news, uint64_t clock, const uint8_t *bytes, size_t count);
// The highest round of a member that still trains; 0: none is known.
uint64_t gossip_news_furthest(const struct gossip_news *news);
// The lower median of all rounds, with this node's own.
uint64_t gossip_news_cluster(const struct gossip_news *news, uint64_t own);

// A sample of members: keep the reports for which this is smallest.
uint64_t gossip_news_rank(const struct gossip_id *id);

#endif
