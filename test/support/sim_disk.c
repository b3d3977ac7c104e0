#include "test/support/sim_node.h"
#include <stdlib.h>
#include <string.h>

static void clear(struct sim_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        free((void *)(uintptr_t)checkpoint->record[i].reference);
        free((void *)(uintptr_t)checkpoint->record[i].correction);
        free((void *)(uintptr_t)checkpoint->record[i].transactions);
    }
    free(checkpoint->model);
    *checkpoint = (struct sim_checkpoint){0};
}

static void own(struct gossip_edge_record *record)
{
    record->reference = sim_copy(record->reference, SIM_PARAMETERS * sizeof(float));
    if (record->correction)
        record->correction = sim_copy(record->correction, SIM_PARAMETERS * sizeof(float));
    record->transactions = sim_copy(record->transactions, record->transactions_bytes);
}

void sim_disk_save(struct sim_node *node)
{
    struct sim_checkpoint *latest = &node->disk.latest;
    size_t count = gossip_exchange_edges(node->exchange);

    clear(&node->disk.older);
    node->disk.older = *latest;
    *latest = (struct sim_checkpoint){.there = true, .round = node->round};
    latest->model = sim_copy(gossip_exchange_model(node->exchange), SIM_PARAMETERS * sizeof(float));
    for (size_t i = 0; i < count && latest->count < SIM_RECORDS; i++) {
        struct gossip_edge_record *record = &latest->record[latest->count];
        if (gossip_exchange_export(node->exchange, i, record) != BASE_OK) {
            sim_world_break(node->world, node->host, "an edge could not be exported");
            return;
        }
        own(record);
        latest->count++;
    }
    node->world->counts.checkpoints++;
}

const struct sim_checkpoint *sim_disk_load(const struct sim_disk *disk)
{
    if (disk->latest.there && !disk->latest.torn)
        return &disk->latest;
    return disk->older.there && !disk->older.torn ? &disk->older : NULL;
}

static void twin(struct sim_checkpoint *checkpoint)
{
    if (checkpoint->model)
        checkpoint->model = sim_copy(checkpoint->model, SIM_PARAMETERS * sizeof(float));
    for (size_t i = 0; i < checkpoint->count; i++)
        own(&checkpoint->record[i]);
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
