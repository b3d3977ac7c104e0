// Donors of a snapshot, for a node that comes late or gives way after a partition; and what a partition
// means.
#include "base/log.h"
#include "node/clock.h"
#include "node/loop_private.h"
#include <stdlib.h>
#include <string.h>

#define REMIND_NS (10 * NODE_SECOND_NS)

static bool was_on_the_other_side(const struct node_loop *loop, const struct gossip_id *id)
{
    for (size_t i = 0; i < loop->n_other_side; i++)
        if (gossip_id_compare(&loop->other_side[i], id) == 0)
            return true;
    return false;
}

// Nearer to this node's id, bit by bit: so that joiners do not all ask the same.
static bool is_nearer(const struct gossip_id *self, const struct gossip_id *a, const struct gossip_id *b)
{
    for (size_t i = 0; i < sizeof self->bytes; i++) {
        uint8_t x = self->bytes[i] ^ a->bytes[i], y = self->bytes[i] ^ b->bytes[i];
        if (x != y)
            return x < y;
    }
    return false;
}

static bool can_give(const struct node_loop *loop, const struct gossip_member_info *info)
{
    bool here = info->state == GOSSIP_MEMBER_ALIVE || info->state == GOSSIP_MEMBER_SUSPECT;
    uint8_t flags = info->record->flags;
    if (loop->again)
        return here && (flags & GOSSIP_RECORD_ELIGIBLE) && was_on_the_other_side(loop, &info->record->id);
    return here &&
           (flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING)); // who is held out has a model, too
}

// The nearest who can give; returns how many.
static size_t choose(const struct node_loop *loop, struct gossip_id chosen[DONORS_MOST])
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    const struct gossip_id *self = &loop->options.identity->id;
    size_t count = 0;
    for (size_t i = 1; i < gossip_membership_count(m); i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        if (!can_give(loop, &info))
            continue;
        size_t at = count < DONORS_MOST ? count++ : DONORS_MOST;
        for (; at > 0 && is_nearer(self, &info.record->id, &chosen[at - 1]); at--)
            if (at < DONORS_MOST)
                chosen[at] = chosen[at - 1];
        if (at < DONORS_MOST)
            chosen[at] = info.record->id;
    }
    return count;
}

static void tell_worker(struct node_loop *loop, const struct gossip_id *linked, size_t count)
{
    if (count == loop->n_donors && memcmp(linked, loop->donors, count * sizeof *linked) == 0)
        return;
    memcpy(loop->donors, linked, count * sizeof *linked);
    loop->n_donors = count;
    struct node_mail *mail = node_loop_bytes_mail(NODE_MAIL_DONORS, linked, count * sizeof *linked);
    BASE_ASSERT(mail != NULL); // at most 128 bytes
    node_outbox_post(loop->worker, mail);
}

// A restarted node wanted the model of those who had finished. Half of it is none, but the checkpoint is
// whole.
static void give_up(struct node_loop *loop)
{
    base_log(BASE_LOG_ERROR, "fetch",
             "those who have finished are gone before their model was here; --resume goes on from the "
             "checkpoint");
    node_loop_post(loop->worker, NODE_MAIL_FETCH, 0);
    loop->fetching = false;
}

void node_loop_consider_donors(struct node_loop *loop)
{
    struct gossip_id chosen[DONORS_MOST], linked[DONORS_MOST];
    size_t n_linked = 0, count = 0;
    if (!loop->fetching)
        return;
    count = choose(loop, chosen);
    if (count == 0 && loop->again) { // they are gone again: any will do
        loop->again = false;
        count = choose(loop, chosen);
    }
    if (count == 0 && loop->eligible) { // else it has no model at all, and waits
        give_up(loop);
        return;
    }
    node_cluster_want(loop->cluster, chosen, count);
    for (size_t i = 0; i < count; i++)
        if (node_peers_has(node_cluster_peers(loop->cluster), &chosen[i]))
            linked[n_linked++] = chosen[i];
    tell_worker(loop, linked, n_linked);
    uint64_t now_ns = node_clock_ns();
    if (count > 0)
        loop->donors_ns = now_ns;
    else if (now_ns - loop->donors_ns > REMIND_NS) {
        loop->donors_ns = now_ns;
        base_log(BASE_LOG_WARN, "fetch", "nobody with a model is there to fetch it from; waiting");
    }
}

void node_loop_fetch(struct node_loop *loop, bool begins)
{
    loop->fetching = begins;
    loop->n_donors = 0;
    loop->donors_ns = node_clock_ns();
    if (begins) {
        node_loop_consider(loop);
        return;
    }
    loop->again = false;
    node_cluster_want(loop->cluster, loop->donors, 0);
    if (loop->stopping)
        return;
    if (loop->phase == PHASE_FETCHING)
        node_loop_enter(loop, PHASE_TRAINING);
    node_loop_set_eligible(loop);
    node_cluster_tell(loop->cluster, "fetched", "the model is complete: this node counts in the graph");
}

static void remember_the_dead(struct node_loop *loop)
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    size_t count = gossip_membership_count(m);
    struct gossip_id *dead = calloc(count, sizeof *dead);
    if (!dead)
        return;
    free(loop->other_side);
    loop->other_side = dead;
    loop->n_other_side = 0;
    for (size_t i = 1; i < count; i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        if (info.state == GOSSIP_MEMBER_DEAD)
            dead[loop->n_other_side++] = info.record->id;
    }
}

// The other side is here again. Who of it has a model gives it to this node.
static void give_way(struct node_loop *loop)
{
    struct gossip_id chosen[DONORS_MOST];
    loop->again = true;
    if (choose(loop, chosen) == 0) {
        loop->again = false;
        return;
    }
    loop->eligible = false;
    node_cluster_flags(loop->cluster, 0, GOSSIP_RECORD_ELIGIBLE);
    node_cluster_tell(loop->cluster, "partition",
                      "the partition is over; this node takes the larger side's model");
    node_loop_post(loop->learner, NODE_MAIL_FETCH_AGAIN, 0);
}

void node_loop_consider_partition(struct node_loop *loop)
{
    struct gossip_membership_totals totals;
    int mode = loop->options.config->cluster.partition;
    // While this node itself is not counted the balance says nothing.
    bool trains = loop->phase == PHASE_TRAINING && !loop->stopping && loop->eligible;
    gossip_membership_totals(node_cluster_membership(loop->cluster), &totals);
    if (totals.minority && mode == NODE_MAJORITY)
        remember_the_dead(loop); // more may follow
    if (!trains || totals.minority == loop->minority)
        return;
    loop->minority = totals.minority;
    if (totals.minority)
        node_cluster_tell(loop->cluster, "partition", "half of the members or more are dead");
    if (mode == NODE_PAUSE_MINORITY) {
        node_loop_post(loop->learner, NODE_MAIL_PAUSE, totals.minority);
        node_cluster_tell(loop->cluster, totals.minority ? "paused" : "resumed",
                          totals.minority ? "this side of the partition is the smaller one: it waits"
                                          : "enough members are back: training goes on");
    } else if (mode == NODE_MAJORITY && !totals.minority) {
        give_way(loop);
    }
}
