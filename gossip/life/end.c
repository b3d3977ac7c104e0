// From the last step to the end: who is left alone, lingers, stops and leaves; and who gives way.
#include "gossip/life/life_state.h"

#define TELL_NS  (400 * LIFE_MS) // how long others are told that this node leaves
#define FLUSH_NS (2 * LIFE_SECOND)

bool life_is_alone(const struct gossip_life *life)
{
    return life->options.alone_stops && life->census.finished > 0 && life->census.busy == 0;
}

// What one node would learn alone from here on, nobody averages: it would pull the model to its own data.
void life_consider_alone(struct gossip_life *life)
{
    const bool learns = life->state == GOSSIP_LIFE_TRAINING || life->state == GOSSIP_LIFE_PAUSED ||
                        life->state == GOSSIP_LIFE_FETCHING;

    if (!learns || life->alone || !life_is_alone(life))
        return;
    life->alone = true;
    life_act(life, GOSSIP_LIFE_ALONE);
}

void life_done(struct gossip_life *life, bool all)
{
    if (life->stopping || life->state >= GOSSIP_LIFE_FINISHED)
        return;
    life_tell(life, GOSSIP_LIFE_LAST_STEP, life->census.busy, !all);
    life_flags(life, GOSSIP_RECORD_FINISHED, 0);
    life_enter(life, GOSSIP_LIFE_FINISHED);
}

void life_consider_leave(struct gossip_life *life)
{
    const uint64_t linger_ns = life->options.linger_ns;

    if (life->state != GOSSIP_LIFE_FINISHED)
        return;
    if (linger_ns != LIFE_NEVER)
        life_wake(life, life->state_ns + linger_ns);
    if (life->census.busy > 0 && life_in_state_ns(life) < linger_ns)
        return;
    if (life->census.busy > 0)
        life_tell(life, GOSSIP_LIFE_LINGERED, life->census.busy, 0);
    life_act(life, GOSSIP_LIFE_LEAVE);
    life_enter(life, GOSSIP_LIFE_LEAVING);
}

void life_stop(struct gossip_life *life)
{
    if (life->stopping || life->state >= GOSSIP_LIFE_LEAVING)
        return;
    life->stopping = true;
    life->fetching = false;
    life_act(life, GOSSIP_LIFE_STOP_AT);
    life_enter(life, GOSSIP_LIFE_STOPPING);
}

void life_written(struct gossip_life *life, int status)
{
    if (life->state >= GOSSIP_LIFE_LEFT)
        return;
    life->status = status;
    life_enter(life, GOSSIP_LIFE_LEFT);
    life_act(life, GOSSIP_LIFE_DEPART);
}

static void end(struct gossip_life *life, int status)
{
    life_act(life, GOSSIP_LIFE_END)->status = status;
    life_enter(life, GOSSIP_LIFE_ENDED);
}

void life_consider_end(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_LEFT)
        return;
    const bool told = life->census.others == 0 || life_in_state_ns(life) >= TELL_NS;
    life_wake(life, life->state_ns + TELL_NS);
    life_wake(life, life->state_ns + FLUSH_NS);
    if ((told && life->self.links_ended) || life_in_state_ns(life) >= FLUSH_NS)
        end(life, life->status);
}

// On the word of a single peer only a process that has done nothing yet gives way. No record says that this
// node left: it is not the one whose place it is.
void life_twin(struct gossip_life *life, bool gives_way)
{
    const bool has_begun = life->state != GOSSIP_LIFE_JOINING && life->state != GOSSIP_LIFE_FETCHING &&
                           life->state != GOSSIP_LIFE_WAITING;

    if (!gives_way && has_begun)
        return;
    life_tell(life, GOSSIP_LIFE_GIVES_WAY, 0, 0);
    end(life, GOSSIP_LIFE_ABANDONED);
}
