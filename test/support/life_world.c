#include "test/support/life_world.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

void life_world_init(struct life_world *world)
{
    *world = (struct life_world){.now_ns = 1000 * LIFE_TEST_SECOND};
    world->options = (struct gossip_life_options){.trains = true,
                                                  .alone_stops = true,
                                                  .steps = 8000,
                                                  .local_steps = 8,
                                                  .reach = 100,
                                                  .start_members = 4,
                                                  .start_timeout_ns = 30 * LIFE_TEST_SECOND,
                                                  .linger_ns = 10 * LIFE_TEST_SECOND,
                                                  .forget_after_ns = 60 * LIFE_TEST_SECOND,
                                                  .most = {1000, 10},
                                                  .takeover_after_ns = UINT64_MAX};
    world->self = (struct gossip_life_self){.edges_live = true, .links_ended = true, .listed = 3};
    life_world_join(world);
}

size_t life_world_join(struct life_world *world)
{
    const size_t at = world->count++;
    struct life_member *member = &world->member[at];

    BASE_ASSERT(at < LIFE_MEMBERS);
    member->there = true;
    member->record = (struct gossip_record){.id = {{(uint8_t)(at + 1)}}, .shard = (uint32_t)at};
    member->info =
        (struct gossip_member_info){.record = &member->record, .since_ns = world->now_ns, .answered = true};
    return at;
}

static size_t members(const void *owner)
{
    return ((const struct life_world *)owner)->count;
}

static void member(const void *owner, size_t index, struct gossip_member_info *info)
{
    *info = ((const struct life_world *)owner)->member[index].info;
}

static bool linked(const void *owner, const struct gossip_id *peer)
{
    return ((const struct life_world *)owner)->member[peer->bytes[0] - 1].linked;
}

static bool gathered(const void *owner, const struct gossip_id *peer)
{
    return ((const struct life_world *)owner)->member[peer->bytes[0] - 1].gathered;
}

static void self(const void *owner, struct gossip_life_self *self)
{
    *self = ((const struct life_world *)owner)->self;
}

static bool listed(const void *owner, const struct gossip_id *peer)
{
    return !((const struct life_world *)owner)->member[peer->bytes[0] - 1].unlisted;
}

static size_t edges(const void *owner)
{
    return ((const struct life_world *)owner)->n_edges;
}

static void edge(const void *owner, size_t index, struct gossip_edge_info *info)
{
    *info = (struct gossip_edge_info){.peer = ((const struct life_world *)owner)->edge[index],
                                      .state = GOSSIP_EDGE_LIVE};
}

const struct gossip_life_world *life_world_table(const struct life_world *world)
{
    static struct gossip_life_edges of;
    static struct gossip_life_world table;

    of = (struct gossip_life_edges){.owner = world, .count = edges, .at = edge};
    table = (struct gossip_life_world){.owner = world,
                                       .edges = &of,
                                       .members = members,
                                       .member = member,
                                       .linked = linked,
                                       .listed = listed,
                                       .self = self,
                                       .gathered = gathered};
    return &table;
}

void life_world_begin(struct life_world *world)
{
    world->options.self = world->member[0].record.id;
    world->options.now_ns = world->now_ns;
    BASE_ASSERT(!gossip_life_create(&world->options, &world->life));
}

void life_world_end(struct life_world *world)
{
    gossip_life_destroy(world->life);
    world->life = NULL;
}

// A member that counts and has not begun is ready.
void life_world_flags(struct life_world *world, size_t index, uint8_t flags)
{
    const bool waits =
        (flags & GOSSIP_RECORD_ELIGIBLE) && !(flags & (GOSSIP_RECORD_TRAINING | GOSSIP_RECORD_FINISHED));

    world->member[index].record.flags = flags | (waits ? GOSSIP_RECORD_READY : 0u);
}

void life_world_progress(struct life_world *world, size_t index, uint64_t round)
{
    world->member[index].info.round = round;
    world->member[index].info.step = 8 * round;
    world->member[index].info.progress_ns = world->now_ns;
}

void life_world_state(struct life_world *world, size_t index, enum gossip_member_state state)
{
    world->member[index].info.state = state;
    world->member[index].info.since_ns = world->now_ns;
    life_world_tell(world, (struct gossip_life_event){.kind = GOSSIP_LIFE_MEMBER,
                                                      .peer = world->member[index].record.id,
                                                      .state = state});
}

// How a learner and links react.
static void follow(struct life_world *world, const struct gossip_life_action *action)
{
    switch (action->kind) {
    case GOSSIP_LIFE_FLAGS:
        world->flags = (uint8_t)((world->flags | action->set) & ~action->clear);
        world->member[0].record.flags = world->flags;
        break;
    case GOSSIP_LIFE_START:
        BASE_ASSERT(!world->learner_started || !action->fetch); // later ones only report progress
        world->learner_fetches |= action->fetch;
        world->learner_started = true;
        world->started_round = action->round;
        world->started_away = action->away;
        break;
    case GOSSIP_LIFE_FETCH_AGAIN:
        world->learner_fetches = true;
        break;
    case GOSSIP_LIFE_PAUSE:
        BASE_ASSERT(world->learner_paused != action->on);
        world->learner_paused = action->on;
        break;
    case GOSSIP_LIFE_ALONE:
        world->learner_fetches |= action->fetch;
        break;
    case GOSSIP_LIFE_STOP_AT:
        world->stop_at = action->round;
        world->learner_leaves = true;
        break;
    case GOSSIP_LIFE_LEAVE:
        world->learner_leaves = true;
        break;
    case GOSSIP_LIFE_GATHER:
        break;
    case GOSSIP_LIFE_DEPART:
        world->departed = true;
        break;
    case GOSSIP_LIFE_LINKS:
        world->n_links = action->count;
        break;
    case GOSSIP_LIFE_ASK:
        world->n_asked = action->count;
        memcpy(world->asked, action->ids, action->count * sizeof *world->asked);
        break;
    case GOSSIP_LIFE_SHARDS:
        world->n_living = action->count;
        memcpy(world->living, action->numbers, action->count * sizeof *world->living);
        break;
    case GOSSIP_LIFE_END:
    case GOSSIP_LIFE_MOVE:
        world->ended = true;
        break;
    default:
        break;
    }
}

void life_world_tell(struct life_world *world, struct gossip_life_event event)
{
    struct gossip_life_action action;

    event.now_ns = world->now_ns;
    gossip_life_step(world->life, &event, life_world_table(world));
    while (gossip_life_next(world->life, &action)) {
        BASE_ASSERT(!world->ended); // no action follows END
        follow(world, &action);
        if (action.kind == GOSSIP_LIFE_NEWS) // several times a second
            world->news = action;
        else if (world->n_actions < LIFE_ACTIONS_KEPT)
            world->action[world->n_actions++] = action;
    }
}

void life_world_look(struct life_world *world)
{
    life_world_tell(world, (struct gossip_life_event){.kind = GOSSIP_LIFE_LOOK});
}

void life_world_pass(struct life_world *world, uint64_t ns)
{
    const uint64_t until_ns = world->now_ns + ns;

    while (world->now_ns < until_ns) {
        world->now_ns += LIFE_TEST_SECOND / 10;
        life_world_look(world);
    }
}

void life_world_clear(struct life_world *world)
{
    world->n_actions = 0;
}

size_t life_world_actions(const struct life_world *world, enum gossip_life_action_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < world->n_actions; i++)
        count += world->action[i].kind == kind;
    return count;
}

size_t life_world_notices(const struct life_world *world, enum gossip_life_notice notice)
{
    size_t count = 0;

    for (size_t i = 0; i < world->n_actions; i++)
        count += world->action[i].kind == GOSSIP_LIFE_TELL && world->action[i].notice == notice;
    return count;
}

const struct gossip_life_action *life_world_last(const struct life_world *world,
                                                 enum gossip_life_action_kind kind)
{
    for (size_t i = world->n_actions; i-- > 0;)
        if (world->action[i].kind == kind)
            return &world->action[i];
    return NULL;
}

void life_world_train(struct life_world *world)
{
    life_world_begin(world);
    while (world->count < 4)
        life_world_flags(world, life_world_join(world), GOSSIP_RECORD_ELIGIBLE);
    life_world_look(world);
    life_world_pass(world, LIFE_TEST_SECOND);
    world->self.in_view = world->self.edge_live = true;
    world->self.n_view = world->count;
    world->self.n_neighbours = 2;
    life_world_look(world);
    BASE_ASSERT(gossip_life_state(world->life) == GOSSIP_LIFE_TRAINING);
    for (size_t i = 1; i < world->count; i++)
        life_world_flags(world, i, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING);
    life_world_look(world);
    life_world_clear(world);
}
