// Shared by the files of gossip/life: the object itself, and what each file offers to those above it. Private
// to this folder. No file calls one that calls it (lint.circles):
//
//     life -> begin, isolation, away, shard, settings
//             begin, isolation -> end -> unite -> fetch -> pause -> count, alone -> donors, progress -> doubt
//             -> look, state; settings -> progress
#ifndef GOSSIP_LIFE_STATE_H
#define GOSSIP_LIFE_STATE_H

#include "gossip/life/life.h"

#define LIFE_MS         1000000ull
#define LIFE_SECOND     (1000 * LIFE_MS)
#define LIFE_ACTIONS    32u // of one step, not counting those generated one by one (FORGET)
#define LIFE_NEVER      UINT64_MAX
#define LIFE_EDGES_NS   (5 * LIFE_SECOND)   // how long to wait for edges if others already train
#define LIFE_NOTHING_NS (300 * LIFE_SECOND) // how long a node without a model waits for one
#define LIFE_SERVES_NS  (60 * LIFE_SECOND)  // a block of a model takes 33 s at 64 kbit/s
#define LIFE_PASSED     16u
#define LIFE_UNFIT      64u

struct life_progress {
    uint64_t round, step;
};

struct life_away { // a member that is dead or has left, until its edge is forgotten
    struct gossip_id id;
    uint64_t since_ns;
};

struct life_way { // of a member, when it was first seen on its way
    struct gossip_id id;
    uint64_t left;     // its steps to go
    uint64_t own_step; // of this node
};

struct life_ids {
    struct gossip_id *id;
    size_t count, capacity;
};

enum life_course { // how far it has come; each includes those before it
    LIFE_BARE,     // no model to go on with: others have trained, or may have
    LIFE_COMPLETE, // a useful model
    LIFE_LATE,     // ... the seed model, with which it counted before it knew of members that train
    LIFE_BEGUN,    // it has trained, or has a model of members that do
    LIFE_TRAINED,  // it has taken a step, or was about to
};

enum life_end { // what it was told about its end
    LIFE_GOES_ON,
    LIFE_ALONE,  // all others that count have finished
    LIFE_STOPS,  // to stop at the next boundary, or at a round that is settled
    LIFE_AGREES, // to stop at one round with the others
    LIFE_STANDS, // ... where its learner waits
};

enum life_checkpoint { // the last one
    LIFE_UNWRITTEN,
    LIFE_WRITTEN,
    LIFE_FAILED, // written or not, this node has failed
};

enum life_yield { // to the node with the first model
    LIFE_YIELDS_NOT,
    LIFE_YIELDS,  // this was reported
    LIFE_GATHERS, // ... and the latest request for links was GATHER
};

enum life_givers { // of a model: which members may be donors
    LIFE_ANY,
    LIFE_FINISHED,
    LIFE_OTHER_SIDE, // of a partition
};

enum life_hearing { // of its neighbours
    LIFE_HEARS,
    LIFE_LONELY,   // no edge is live
    LIFE_ISOLATED, // ... for so long that it was reported
};

enum life_kept { // settings that an earlier process knew of
    LIFE_KEPT_OPEN,
    LIFE_KEPT_COUNT,
    LIFE_KEPT_LOST,
};

enum life_pull { // what brings the model of a node that was away to those of its neighbours
    LIFE_PULL_NONE,
    LIFE_PULL_EDGES,   // its edges are live again: they have compared states, or have averaged whole models
    LIFE_PULL_FETCHED, // its model is a donor's; its edges begin anew
};

struct gossip_life {
    struct gossip_life_options options;
    enum gossip_life_state state;
    uint64_t begun_ns, now_ns, state_ns;   // when made; of this step; when the state was entered
    uint64_t next_ns;                      // when to look again
    const struct gossip_life_world *world; // while a step runs
    struct gossip_life_self self;          // read at the beginning of a look
    struct gossip_life_census census;

    // count.c, begin.c
    bool counts; // in the graph: its state is complete
    enum life_course course;
    enum life_yield yield;
    uint64_t resumed_ns; // since when there is a resumed member that does not train; 0: there is none
    struct gossip_id
        gave; // the node that goes first, and when the statistics were last sent to it; 0: not yet
    uint64_t gave_ns;

    // fetch.c, donors.c
    uint64_t fetch_ns, donor_ns; // since when the learner waits for a model, 0: it does not; when there was
                                 // a donor
    enum life_givers givers;
    uint64_t least_round;                        // ... of those that have not reported less
    struct gossip_id wanted[GOSSIP_LIFE_DONORS]; // links to these
    struct gossip_id asked[GOSSIP_LIFE_DONORS];  // as told
    struct life_progress furthest; // the highest progress that they may report, as last told to the owner
    uint64_t wanted_ns[GOSSIP_LIFE_DONORS]; // since when there is no link to each
    size_t n_wanted, n_asked;
    struct life_away passed[LIFE_PASSED]; // skipped for a while: no link comes up
    size_t n_passed;
    struct gossip_id unfit[LIFE_UNFIT]; // whose models the learner has refused: the latest
    size_t n_unfit;
    bool refused; // in this fetch: a model was, or no donor gave one

    // doubt.c
    struct life_way *ways; // [n_ways] by id
    size_t n_ways, ways_capacity;

    // pause.c
    unsigned pauses;     // as ordered
    uint64_t late_ns;    // since when it waits for its edges, because it has fetched; 0: it does not
    enum life_pull pull; // without a step since then
    uint64_t cut_off_ns; // cut off until then, while there were still other members; 0: it was not
    bool minority;
    enum life_hearing hearing;
    uint64_t lonely_ns;  // since when no edge is live
    uint64_t scaling[2]; // if all neighbours that were last there have another: ours, and one of theirs
    uint64_t away_ns;    // it was away until then, and later reports show whether it is far from the cluster;
                         // 0: no
    struct life_ids other_side; // the dead members of a partition in which this node is the minority

    // away.c
    struct life_away *away;
    size_t n_away, away_capacity;
    uint64_t unknown_ns; // when edges of a checkpoint whose peers are unknown are forgotten
    uint64_t shards_ns;
    uint8_t orphan[LIMIT_PEERS]; // shards without a living node, as told
    uint32_t living[LIMIT_PEERS], orphans[LIMIT_PEERS];

    // end.c
    enum life_end end;
    uint64_t met_ns;     // when another member was first here, or an edge to one; 0: never
    uint64_t stirred_ns; // when an unfinished member was last seen to advance, or has the block it asked for
    uint64_t way;        // sum of the rounds of unfinished members then
    uint64_t least_stop; // as last reported by the learner
    uint64_t stop_round; // as announced; 0: none yet
    enum life_checkpoint checkpoint;

    // unite.c
    struct gossip_merge_member merging[GOSSIP_MERGE_MOST + 1]; // as told
    size_t n_merging;
    struct gossip_id mates[GOSSIP_LIFE_LINKS_MOST]; // links to these

    // progress.c
    uint64_t round, step;         // of the learner, as last reported
    uint64_t round_ns;            // time of one, the shortest recently; 0: not known
    uint64_t pace_round, pace_ns; // when that was last measured
    uint64_t *told;               // [2 * told_capacity] rounds, then steps of others
    size_t told_capacity;

    // settings.c
    struct gossip_setting settings[GOSSIP_SETTINGS]; // as announced and ordered
    enum gossip_life_answer answer;
    enum life_kept kept;

    // news.c
    uint64_t news_ns; // when the exchange was last told
    struct gossip_report reports[GOSSIP_NEWS_MEMBERS];

    struct gossip_life_action queue[LIFE_ACTIONS];
    size_t n_queued, taken;
};

// state.c
static inline bool life_fetches(const struct gossip_life *life) // the learner waits for a model
{
    BASE_ASSERT(life->fetch_ns == 0 || life->state == GOSSIP_LIFE_FETCHING);
    return life->fetch_ns > 0;
}
void life_reach(struct gossip_life *life, enum life_course course); // at least that
void life_enter(struct gossip_life *life, enum gossip_life_state state);
struct gossip_life_action *life_act(struct gossip_life *life, enum gossip_life_action_kind kind);
void life_flags(struct gossip_life *life, uint8_t set, uint8_t clear);
void life_tell(struct gossip_life *life, enum gossip_life_notice notice, uint64_t a, uint64_t b);
void life_wake(struct gossip_life *life, uint64_t at_ns); // look again then
static inline uint64_t life_in_state_ns(const struct gossip_life *life)
{
    return life->now_ns - life->state_ns;
}

// look.c
bool life_is_here(const struct gossip_member_info *info); // alive or suspected
// It exchanges, or will with the first round, and the peer answers.
bool life_is_live(const struct gossip_edge_info *edge);

// doubt.c
void life_mark_unfit(struct gossip_life *life, const struct gossip_id *id); // its model is of no use
bool life_is_unfit(const struct gossip_life *life, const struct gossip_id *id);
void life_consider_doubts(struct gossip_life *life); // takes those that are not believed out of the census

// count.c
void life_count(struct gossip_life *life); // its state is complete from now on
void life_uncount(struct gossip_life *life);

// begin.c
void life_consider_joining(struct gossip_life *life);
void life_consider_waiting(struct gossip_life *life);

// progress.c. Of the members that train. False: too few of them have reported.
bool life_cluster(struct gossip_life *life, struct life_progress *progress);
// The same for a node that was away: of the members that are ahead of it, if there are at least two, and by
// reports since `since_ns`.
bool life_cluster_ahead(struct gossip_life *life, uint64_t since_ns, struct life_progress *progress);
bool life_newest(struct gossip_life *life, struct life_progress *progress); // of all, where no member trains
uint64_t life_gap(const struct gossip_life *life, const struct life_progress *progress);
bool life_is_near(uint64_t gap); // within the normal spread of rounds
// The others have done all steps, and this node has not.
bool life_are_done(const struct gossip_life *life, const struct life_progress *others);
// Too far for its own model, or the others have done all steps, so no exchange would pull it to them.
bool life_is_far(const struct gossip_life *life, const struct life_progress *others);
struct life_progress
life_furthest(struct gossip_life *life); // the highest progress that a member may have; 0: not known
struct gossip_life_action *life_tell_progress(struct gossip_life *life, const struct life_progress *progress,
                                              bool fetch, bool away);

// settings.c
void life_set(struct gossip_life *life, const struct gossip_life_event *event);
void life_consider_settings(struct gossip_life *life);

// news.c
void life_consider_news(struct gossip_life *life);

// donors.c
bool life_is_among(const struct gossip_id *ids, size_t count, const struct gossip_id *id);
bool life_has_donor(struct gossip_life *life);
bool life_came_too_late(struct gossip_life *life); // all that had a model have finished and are gone
void life_pass_over(struct gossip_life *life, const struct gossip_id *id); // for a while
// The nearest ones; those passed over only if there are no others. Returns their number.
size_t life_choose_donors(struct gossip_life *life, struct gossip_id chosen[GOSSIP_LIFE_DONORS]);

// fetch.c
void life_wants(struct gossip_life *life);
void life_end_fetch(struct gossip_life *life); // it no longer needs a model
void life_linked(struct gossip_life *life, const struct gossip_id *peer);
void life_starved(struct gossip_life *life, uint64_t silent_ns);
void life_unfit(struct gossip_life *life, const struct gossip_id *peer);
void life_fetched(struct gossip_life *life, const struct gossip_life_event *event);
void life_consider_donors(struct gossip_life *life);

// pause.c
void life_consider_pause(struct gossip_life *life);
void life_consider_isolation(struct gossip_life *life); // isolation.c
void life_go_on(struct gossip_life *life);              // continues with training, or waits first
void life_was_away(struct gossip_life *life);           // until now
bool life_is_held_up(const struct gossip_life *life);   // held out or cut off: it takes no step

// unite.c
bool life_unites(struct gossip_life *life); // it begins to merge
void life_consider_merge(struct gossip_life *life);
void life_merged(struct gossip_life *life);

// away.c
void life_member(struct gossip_life *life, const struct gossip_life_event *event);
bool life_forget_next(struct gossip_life *life, struct gossip_id *peer);
void life_consider_unknown(struct gossip_life *life);
void life_consider_shards(struct gossip_life *life);

// shard.c
void life_consider_shard(struct gossip_life *life);

// alone.c
bool life_is_alone(const struct gossip_life *life); // all others that count have finished
void life_consider_alone(struct gossip_life *life);

// end.c
void life_consider_leave(struct gossip_life *life);
void life_consider_end(struct gossip_life *life);
void life_done(struct gossip_life *life);
void life_frozen(struct gossip_life *life);
void life_written(struct gossip_life *life, int status);
void life_stop(struct gossip_life *life);
void life_consider_stop(struct gossip_life *life);
void life_duplicate(struct gossip_life *life, bool gives_way);
void life_abandon(struct gossip_life *life, enum gossip_life_notice why, uint64_t a,
                  uint64_t b); // ends at once

#endif
