#include "test/support/life_any.h"

#include "base/error.h"
#include "test/support/life_world.h"
#include <string.h>

struct reader {
    const uint8_t *bytes;
    size_t count, at;
};

static uint8_t next(struct reader *reader)
{
    return reader->at < reader->count ? reader->bytes[reader->at++] : 0;
}

static void configure(struct life_world *world, struct reader *reader)
{
    const uint8_t bits = next(reader), more = next(reader);

    life_world_init(world);
    world->options.trains = (bits & 15) != 15;
    world->options.resumed = bits & 16;
    world->options.sync = bits & 32;
    world->options.alone_stops = bits & 64;
    world->options.local = (more & 15) == 15;
    world->options.merges = more & 2;
    world->options.partition = (enum gossip_life_partition)(more >> 4 & 3 ? (more >> 4 & 3) - 1 : 0);
    world->options.start_members = more >> 6;
    world->options.round = world->options.resumed ? 3u * next(reader) : 0;
    world->options.step = 8 * world->options.round;
    world->options.shards = bits & 128 ? LIFE_MEMBERS : 0;
    world->options.told_shard = world->options.shards > 0 && !world->options.resumed && (more & 8);
    world->options.takeover_after_ns = bits & 128 ? LIFE_TEST_SECOND : UINT64_MAX;
    world->member[0].record.first_model = bits & 3;
    life_world_begin(world);
}

static void change_member(struct life_world *world, struct reader *reader)
{
    const uint8_t what = next(reader), value = next(reader);
    const size_t at = what % LIFE_MEMBERS;

    if (at == 0 || at >= world->count) {
        if (world->count < LIFE_MEMBERS)
            life_world_join(world);
        return;
    }
    struct life_member *member = &world->member[at];
    switch (what >> 4 & 7) {
    case 0:
    case 1:
        life_world_flags(world, at, value & (GOSSIP_RECORD_FLAGS & ~GOSSIP_RECORD_LEFT));
        break;
    case 2:
        life_world_progress(world, at, value == 255 ? UINT64_MAX : 8u * value);
        break;
    case 3:
        member->linked = value & 1;
        member->record.shard = (uint32_t)(value >> 1) % (LIFE_MEMBERS + 1);
        member->record.first_model = value >> 6;
        break;
    case 4:
        member->info.answered = value & 1;
        break;
    case 5:
        member->record.stop_round = 8u * value;
        member->record.settings[value % GOSSIP_SETTINGS] = (struct gossip_setting){
            .round = 1 + 8u * value, .by = at, .value = value / 8.0 - 1, .before = value % 2 ? NAN : value};
        break;
    default:
        life_world_state(world, at, (enum gossip_member_state)(value % 4));
        break;
    }
}

static void change_self(struct life_world *world, struct reader *reader)
{
    const uint8_t bits = next(reader), value = next(reader);

    world->self.in_view = bits & 1;
    world->self.edges_live = bits & 2;
    world->self.edge_live = bits & 4;
    world->self.links_ended = bits & 8;
    world->self.minority = bits & 16;
    world->self.cut_off = bits & 32;
    world->self.n_neighbours = bits >> 6;
    world->self.n_view = value % (LIFE_MEMBERS + 1);
    world->self.missing = value >> 4 & 3;
    world->self.listed = world->self.missing + (value >> 6);
    world->self.refused = value % 8 == 3 ? world->self.listed : 0;
    world->self.held_until_ns = value == 77 ? world->now_ns + 5 * LIFE_TEST_SECOND : 0;
}

// Events of learners and owners, valid or not.
static void tell(struct life_world *world, struct reader *reader)
{
    static const enum gossip_life_event_kind kinds[] = {
        GOSSIP_LIFE_LOOK,     GOSSIP_LIFE_LOOK,   GOSSIP_LIFE_LINKED, GOSSIP_LIFE_REMOVED,
        GOSSIP_LIFE_PROGRESS, GOSSIP_LIFE_WANTS,  GOSSIP_LIFE_WANTS,  GOSSIP_LIFE_FETCHED,
        GOSSIP_LIFE_FETCHED,  GOSSIP_LIFE_DONE,   GOSSIP_LIFE_STOP,   GOSSIP_LIFE_DUPLICATE,
        GOSSIP_LIFE_STARVED,  GOSSIP_LIFE_FROZEN, GOSSIP_LIFE_MERGED, GOSSIP_LIFE_SET};
    const uint8_t what = next(reader), value = next(reader);
    struct gossip_life_event event = {.kind = kinds[what % (sizeof kinds / sizeof *kinds)],
                                      .still = value & 1,
                                      .ok = value & 2,
                                      .round = 8u * value,
                                      .step = 31u * value,
                                      .setting_kind = (enum gossip_setting_kind)(value % GOSSIP_SETTINGS),
                                      .value = value % 10,
                                      .silent_ns = 2u * value * LIFE_TEST_SECOND,
                                      .peer = {{(uint8_t)(1 + value % LIFE_MEMBERS)}}};

    if (event.kind == GOSSIP_LIFE_DUPLICATE && value > 8)
        event.kind = GOSSIP_LIFE_LOOK;
    if ((event.kind == GOSSIP_LIFE_STOP || event.kind == GOSSIP_LIFE_FROZEN) && value > 64)
        event.kind = GOSSIP_LIFE_LOOK;
    if (event.kind == GOSSIP_LIFE_DONE && value % 4)
        event.kind = GOSSIP_LIFE_LOOK;
    life_world_tell(world, event);
}

static bool knows(const struct life_world *world, const struct gossip_id *id)
{
    for (size_t i = 1; i < world->count; i++)
        if (gossip_id_compare(&world->member[i].record.id, id) == 0)
            return true;
    return false;
}

// Checks that the contents of an action are valid.
static void check_action(const struct life_world *world, const struct gossip_life_action *action)
{
    if (action->kind == GOSSIP_LIFE_START || action->kind == GOSSIP_LIFE_FETCH_AGAIN)
        BASE_ASSERT(world->options.trains);
    if (action->kind == GOSSIP_LIFE_START)
        BASE_ASSERT(action->step <= world->options.steps); // no node is sent beyond the last step
    if (action->kind == GOSSIP_LIFE_ANNOUNCE)
        BASE_ASSERT(world->options.sync && action->round > 0);
    if (action->kind == GOSSIP_LIFE_UNITE || action->kind == GOSSIP_LIFE_AMONG)
        BASE_ASSERT(world->options.merges && !world->options.local && world->options.linger_ns > 0);
    if (action->kind == GOSSIP_LIFE_MOVE)
        BASE_ASSERT(world->options.told_shard && action->shard < world->options.shards &&
                    action->shard != world->member[0].record.shard);
    BASE_ASSERT(!(action->set & action->clear));
}

// The learner of a node that stops leaves; in sync, the node may first measure the duration of a round, for
// half a second.
static void check_stop(struct life_world *world)
{
    if (world->stopping_ns == 0)
        world->stopping_ns = world->now_ns;
    const bool measures = world->options.sync && world->now_ns - world->stopping_ns < LIFE_TEST_SECOND / 2;

    BASE_ASSERT(world->learner_leaves || measures);
}

// Whether the node may wait for the first model of another one, and not count meanwhile. While it is cut off
// or held out, it does not compare first models.
static bool may_yield(const struct life_world *world)
{
    const uint64_t own = world->member[0].record.first_model;

    if (world->options.resumed || world->options.local)
        return false;
    if (world->self.cut_off || world->self.held_until_ns > world->now_ns)
        return true;
    for (size_t i = 1; own && i < world->count; i++)
        if (world->member[i].record.first_model && world->member[i].record.first_model != own)
            return true;
    return false;
}

// looked: the life has seen the world as it is.
static void check(struct life_world *world, bool looked)
{
    const enum gossip_life_state state = gossip_life_state(world->life);
    const bool counts = gossip_life_counts(world->life);

    for (size_t i = 0; i < world->n_actions; i++)
        check_action(world, &world->action[i]);
    life_world_clear(world);
    BASE_ASSERT(counts == ((world->flags & GOSSIP_RECORD_ELIGIBLE) != 0));
    BASE_ASSERT(world->ended == (state == GOSSIP_LIFE_ENDED));
    if (state == GOSSIP_LIFE_WAITING)
        BASE_ASSERT((counts || !looked || may_yield(world)) && !world->learner_started);
    if (state == GOSSIP_LIFE_JOINING)
        BASE_ASSERT(!counts && !world->learner_started);
    if (state == GOSSIP_LIFE_TRAINING || state == GOSSIP_LIFE_PAUSED || state == GOSSIP_LIFE_FINISHED)
        BASE_ASSERT(world->learner_started);
    // The flags of a finished node say so, and the learner is paused exactly while the node is.
    if (state == GOSSIP_LIFE_FINISHED || state == GOSSIP_LIFE_MERGING)
        BASE_ASSERT(world->flags & GOSSIP_RECORD_FINISHED);
    if (state == GOSSIP_LIFE_PAUSED || state == GOSSIP_LIFE_TRAINING)
        BASE_ASSERT(world->learner_paused == (state == GOSSIP_LIFE_PAUSED));
    if (state == GOSSIP_LIFE_STOPPING)
        check_stop(world);
    for (size_t i = 0; i < world->n_asked && state == GOSSIP_LIFE_FETCHING; i++)
        BASE_ASSERT(knows(world, &world->asked[i]));
}

// A node that is told to stop ends, whatever the others do.
static void stop(struct life_world *world)
{
    life_world_tell(world, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    check(world, true);
    if (!world->ended)
        life_world_tell(world, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
    world->self.links_ended = false;
    life_world_pass(world, 3 * LIFE_TEST_SECOND);
    BASE_ASSERT(world->ended);
}

unsigned life_any_run(const uint8_t *bytes, size_t count)
{
    struct reader reader = {bytes, count, 0};
    struct life_world world;
    unsigned states = 0;

    configure(&world, &reader);
    while (reader.at < reader.count && !world.ended) {
        const uint8_t what = next(&reader);
        if (what < 80)
            change_member(&world, &reader);
        else if (what < 130)
            change_self(&world, &reader);
        else if (what < 200)
            tell(&world, &reader);
        else
            world.now_ns += (what - 199u) * (LIFE_TEST_SECOND / 20);
        const bool looks = what >= 130 || what % 2;
        if (looks)
            life_world_look(&world);
        check(&world, looks);
        states |= 1u << gossip_life_state(world.life);
    }
    if (!world.ended)
        stop(&world);
    life_world_end(&world);
    return states;
}
