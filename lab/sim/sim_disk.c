#include "lab/sim/sim_process.h"
#include <stdlib.h>

static void clear(struct sim_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        free((void *)(uintptr_t)checkpoint->record[i].reference);
        free((void *)(uintptr_t)checkpoint->record[i].correction);
        free((void *)(uintptr_t)checkpoint->record[i].reference_bf16);
        free((void *)(uintptr_t)checkpoint->record[i].correction_bf16);
        free((void *)(uintptr_t)checkpoint->record[i].transactions);
    }
    for (size_t i = 0; i < checkpoint->n_orphans; i++)
        free((void *)(uintptr_t)checkpoint->kept[i].correction);
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        free(checkpoint->part[p]);
    free(checkpoint->round_start);
    free(checkpoint->kept);
    free(checkpoint->record);
    free(checkpoint->learner);
    base_buffer_free(&checkpoint->journal);
    *checkpoint = (struct sim_checkpoint){0};
}

static float *vector(const struct sim_checkpoint *checkpoint, const float *values)
{
    return values ? sim_copy(values, checkpoint->parameters * sizeof *values) : NULL;
}

static uint16_t *halves(const struct sim_checkpoint *checkpoint, const uint16_t *values)
{
    return values ? sim_copy(values, checkpoint->parameters * sizeof *values) : NULL;
}

static void own(const struct sim_checkpoint *checkpoint, struct gossip_edge_record *record)
{
    record->reference = vector(checkpoint, record->reference);
    record->correction = vector(checkpoint, record->correction);
    record->reference_bf16 = halves(checkpoint, record->reference_bf16);
    record->correction_bf16 = halves(checkpoint, record->correction_bf16);
    record->transactions = sim_copy(record->transactions, record->transactions_bytes);
}

static bool save_edges(struct sim_node *node, struct sim_checkpoint *latest)
{
    size_t count = gossip_exchange_edges(node->train.exchange);

    latest->record = sim_must(calloc(count + 1, sizeof *latest->record));
    for (; latest->count < count; latest->count++) {
        struct gossip_edge_record *record = &latest->record[latest->count];
        if (gossip_exchange_export(node->train.exchange, latest->count, record))
            return false;
        own(latest, record);
    }
    return true;
}

static void save_orphans(struct sim_node *node, struct sim_checkpoint *latest)
{
    latest->n_orphans = gossip_exchange_orphans(node->train.exchange);
    latest->kept = sim_must(calloc(latest->n_orphans + 1, sizeof *latest->kept));
    for (size_t i = 0; i < latest->n_orphans; i++) {
        latest->kept[i] = gossip_exchange_orphan_at(node->train.exchange, i);
        latest->kept[i].correction = vector(latest, latest->kept[i].correction);
    }
}

void sim_disk_save(struct sim_node *node)
{
    const struct gossip_learner *learner = &node->world->options.learner->learner;
    const struct gossip_rounds *rounds = &node->train.rounds;
    struct sim_checkpoint *latest = &node->disk.latest;

    if (node->world->options.diskless)
        return;
    clear(&node->disk.older);
    node->disk.older = *latest;
    *latest = (struct sim_checkpoint){.there = true,
                                      .parameters = learner->parameters,
                                      .round = rounds->round,
                                      .step = rounds->step,
                                      .open = rounds->progress == GOSSIP_ROUNDS_OPEN,
                                      .open_scale = rounds->step_scale};
    latest->part[GOSSIP_PART_MODEL] = vector(latest, gossip_exchange_model(node->train.exchange));
    latest->part[GOSSIP_PART_OUTER] = vector(latest, node->train.vectors.outer);
    latest->part[GOSSIP_PART_SECOND] = vector(latest, node->train.vectors.second_moment);
    if (latest->open)
        latest->round_start = vector(latest, node->train.vectors.round_start);
    if (learner->freeze)
        latest->learner_bytes = learner->freeze(learner->owner, node->host, &latest->learner);
    if (!save_edges(node, latest))
        sim_world_break(node->world, node->host, "an edge could not be exported");
    save_orphans(node, latest);
    gossip_exchange_journal_begin(node->train.exchange);
    node->world->counts.checkpoints++;
}

void sim_disk_log(struct sim_node *node, const uint8_t *records, size_t bytes)
{
    struct sim_checkpoint *latest = &node->disk.latest;

    if (latest->there)
        BASE_ASSERT(!base_buffer_append(&latest->journal, records, bytes, SIZE_MAX / 2));
}

// What follows a damaged record is useless.
static uint64_t replay(struct sim_node *node, struct base_buffer *journal)
{
    struct gossip_exchange_replayed replayed;

    BASE_ASSERT(!gossip_exchange_replay(node->train.exchange, base_buffer_head(journal),
                                        base_buffer_length(journal), true, &replayed));
    journal->end = journal->start + replayed.bytes;
    node->world->counts.replayed += replayed.records;
    return replayed.round;
}

uint64_t sim_disk_replay(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    struct sim_disk *disk = &node->disk;
    uint64_t round = checkpoint->round;

    if (checkpoint == &disk->older)
        round = replay(node, &disk->older.journal);
    if (disk->latest.there)
        round = replay(node, &disk->latest.journal);
    gossip_exchange_journal_begin(node->train.exchange);
    return round > checkpoint->round ? round : checkpoint->round;
}

void sim_disk_power_fails(struct sim_disk *disk)
{
    struct base_buffer *journal = &disk->latest.journal;

    journal->end = journal->start + base_buffer_length(journal) / 2;
}

const struct sim_checkpoint *sim_disk_load(const struct sim_disk *disk)
{
    if (disk->latest.there && !disk->latest.torn)
        return &disk->latest;
    return disk->older.there && !disk->older.torn ? &disk->older : NULL;
}

static void twin(struct sim_checkpoint *checkpoint)
{
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        checkpoint->part[p] = vector(checkpoint, checkpoint->part[p]);
    checkpoint->round_start = vector(checkpoint, checkpoint->round_start);
    if (checkpoint->learner)
        checkpoint->learner = sim_copy(checkpoint->learner, checkpoint->learner_bytes);
    if (checkpoint->record)
        checkpoint->record =
            sim_copy(checkpoint->record, (checkpoint->count + 1) * sizeof *checkpoint->record);
    for (size_t i = 0; i < checkpoint->count; i++)
        own(checkpoint, &checkpoint->record[i]);
    if (checkpoint->kept)
        checkpoint->kept = sim_copy(checkpoint->kept, (checkpoint->n_orphans + 1) * sizeof *checkpoint->kept);
    for (size_t i = 0; i < checkpoint->n_orphans; i++)
        checkpoint->kept[i].correction = vector(checkpoint, checkpoint->kept[i].correction);
    const struct base_buffer journal = checkpoint->journal;
    checkpoint->journal = (struct base_buffer){0};
    if (base_buffer_length(&journal) > 0)
        BASE_ASSERT(!base_buffer_append(&checkpoint->journal, base_buffer_head(&journal),
                                        base_buffer_length(&journal), SIZE_MAX / 2));
}

void sim_disk_copy(const struct sim_disk *disk, struct sim_disk *copy)
{
    sim_disk_free(copy);
    *copy = *disk;
    twin(&copy->latest);
    twin(&copy->older);
}

void sim_disk_free(struct sim_disk *disk)
{
    clear(&disk->latest);
    clear(&disk->older);
    *disk = (struct sim_disk){0};
}
