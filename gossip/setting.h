// A setting that is changed while the cluster trains (`p2pml set`). Every member repeats the latest change of
// each that it knows of in its signed record. Pure; any thread.
#ifndef GOSSIP_SETTING_H
#define GOSSIP_SETTING_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// Their numbers are part of the protocol; what they mean says node/config/change.c.
enum gossip_setting_kind { GOSSIP_SETTING_RATE, GOSSIP_SETTING_DECAY, GOSSIP_SETTINGS };

struct gossip_setting {
    uint64_t round;       // the first one with `value`; 0: never changed, and all fields are 0
    uint64_t by;          // the beginning of the id of the node where it was entered
    double value, before; // `before`: up to that round; NAN: as the cluster was started
};

// > 0: a replaces b. The later round counts, whoever hears of which first.
static inline int gossip_setting_compare(const struct gossip_setting *a, const struct gossip_setting *b)
{
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    if (a->by != b->by)
        return a->by < b->by ? -1 : 1;
    return memcmp(a, b, sizeof *a); // a node enters one change for a round: only a liar comes here
}

// In the steps of a round. NAN: as the cluster was started.
static inline double gossip_setting_at(const struct gossip_setting *setting, uint64_t round)
{
    if (setting->round == 0)
        return (double)NAN;
    return round >= setting->round ? setting->value : setting->before;
}

#endif
