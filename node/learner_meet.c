// The learner between two rounds: mail of the loop, rendezvous with the worker, and the wait for a snapshot.
#include "base/log.h"
#include "node/clock.h"
#include "node/learner_private.h"
#include <string.h>

#define PROGRESS_EVERY_NS (100 * NODE_MILLISECOND_NS)

bool node_learner_stopped(const struct node_learner *l)
{
    return atomic_load_explicit(&l->options.counters->stop, memory_order_relaxed);
}

// Loop and worker drain their boxes until they have heard of the learner's end.
static void post(struct node_mailbox *box, struct node_mail *mail)
{
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    while (node_mailbox_post(box, mail) != BASE_OK)
        nanosleep(&moment, NULL);
}

void node_learner_post(struct node_learner *l, struct node_mail *mail)
{
    post(l->options.loop, mail);
}

void node_learner_tell(struct node_learner *l, const char *state, bool always)
{
    uint64_t now_ns = node_clock_ns();
    if (!always && state == l->state && now_ns - l->progress_ns < PROGRESS_EVERY_NS)
        return;
    l->state = state;
    l->progress_ns = now_ns;
    struct node_mail *mail = node_mail_new(NODE_MAIL_PROGRESS);
    mail->progress = (struct node_progress){.round = l->round,
                                            .step = train_trainer_steps_done(l->options.trainer),
                                            .exchanges = l->totals.exchanges,
                                            .loss = l->loss,
                                            .accuracy = l->accuracy,
                                            .consensus = l->totals.consensus,
                                            .rate = train_trainer_rate(l->options.trainer),
                                            .state = state};
    node_learner_post(l, mail);
}

// Who has done the last step needs no other examples.
static void want_shards(struct node_learner *l, const struct node_mail *mail)
{
    const uint32_t *living = (const void *)mail->bytes; // malloc'ed, so it is aligned
    if (l->shards && train_trainer_steps_done(l->options.trainer) < l->options.config->train.steps)
        node_shards_want(l->shards, living, mail->n_bytes / sizeof *living);
}

static void note(struct node_learner *l, const struct node_mail *mail)
{
    switch (mail->kind) {
    case NODE_MAIL_START:
        l->orders.start = true;
        l->orders.fetch |= mail->status == 1;
        break;
    case NODE_MAIL_LEAVE:
        l->orders.leave = true;
        break;
    case NODE_MAIL_FETCH_AGAIN:
        l->orders.fetch = true;
        break;
    case NODE_MAIL_PAUSE:
        l->orders.paused = mail->status == 1;
        break;
    case NODE_MAIL_ALONE:
        l->orders.alone = true;
        break;
    case NODE_MAIL_SHARDS:
        want_shards(l, mail);
        break;
    default:
        break;
    }
}

void node_learner_listen(struct node_learner *l, bool wait)
{
    struct node_mail *mail;
    do {
        mail = node_mailbox_take(l->options.inbox, wait ? UINT64_MAX : 0);
        if (mail)
            note(l, mail);
        node_mail_free(mail);
    } while (mail && !wait);
}

static struct node_round round_of(struct node_learner *l)
{
    struct train_trainer *trainer = l->options.trainer;
    bool corrects = l->options.config->average.drift_correction;
    return (struct node_round){.round = l->round + 1,
                               .step = train_trainer_steps_done(trainer),
                               .model = train_trainer_model(trainer),
                               .second_moment = train_trainer_second_moment(trainer),
                               .correction = corrects ? train_trainer_correction(trainer) : NULL,
                               .outer = l->options.outer};
}

// A stop ends a fetch, which else lasts until somebody gives; any other rendezvous ends by itself.
static void settle(struct node_learner *l, struct node_round *round)
{
    struct node_mail *mail = node_mail_new(NODE_MAIL_ROUND);
    bool ended = !round->fetch;
    mail->round = round;
    post(l->options.worker, mail);
    for (bool done = false; !done;) {
        if (!ended && node_learner_stopped(l)) {
            post(l->options.worker, node_mail_new(NODE_MAIL_FETCH));
            ended = true;
        }
        mail = node_mailbox_take(l->options.inbox, UINT64_MAX);
        done = mail && mail->kind == NODE_MAIL_ROUND_DONE;
        if (mail && !done)
            note(l, mail);
        node_mail_free(mail);
    }
    l->totals = round->totals;
}

// A node that takes longer for its steps takes larger ones, so that its data count as much (DESIGN: rounds).
static void scale_rate(struct node_learner *l, double pace)
{
    if (l->options.config->train.scale_rate)
        train_trainer_scale(l->options.trainer, pace);
}

enum base_error node_learner_meet(struct node_learner *l, bool meets, float step_scale, bool checkpoint)
{
    train_trainer_fetch(l->options.trainer);
    struct node_round round = round_of(l);
    round.meets = meets;
    round.step_scale = step_scale;
    round.checkpoint = checkpoint;
    round.pace_ns = node_pace_ns(&l->pace);
    round.pace = 1;
    settle(l, &round);
    if (meets)
        scale_rate(l, round.pace);
    train_trainer_store(l->options.trainer);
    return round.checkpoint_error;
}

// Trainer, round and step go on where the donor was. What only this node knew of the way (momentum) is
// dropped: it belongs to another model. The schedule counts on from the donor's step, so that all end
// together.
static void go_on_from(struct node_learner *l, const struct node_round *round)
{
    struct train_trainer *trainer = l->options.trainer;
    size_t bytes = train_model_parameters(l->options.model) * sizeof(float);
    struct train_state_vector vectors[4];
    size_t n = train_trainer_state_vectors(trainer, vectors);
    for (size_t i = 0; i < n; i++)
        if (vectors[i].values != round->second_moment)
            memset(vectors[i].values, 0, bytes);
    struct train_cursor cursor = train_trainer_cursor(trainer);
    uint64_t steps = l->options.config->train.steps;
    cursor.step = round->step < steps ? round->step : steps;
    BASE_ASSERT(train_trainer_seek(trainer, &cursor) == BASE_OK); // it is its own cursor
    l->round = round->round;
    if (l->before)
        memcpy(l->before, round->model, bytes);
}

static void fetch(struct node_learner *l)
{
    l->orders.fetch = false;
    node_learner_tell(l, "fetching", true);
    train_trainer_fetch(l->options.trainer);
    struct node_round round = round_of(l);
    round.fetch = true;
    settle(l, &round);
    if (round.fetched)
        go_on_from(l, &round);
    l->incomplete = !round.fetched;
}

// The rendezvous leaves with the worker what donors need, and takes in what has come until now.
static void pause_here(struct node_learner *l)
{
    (void)node_learner_meet(l, false, 0, false);
    node_learner_tell(l, "paused", true);
    while (l->orders.paused && !l->orders.fetch && !node_learner_stopped(l))
        node_learner_listen(l, true);
}

static void tell_takeover(const struct node_shards_set *set)
{
    if (set->orphans > 0)
        base_log(BASE_LOG_INFO, "takeover",
                 "shards without a node: %zu; training on %zu examples, %zu of them from there", set->orphans,
                 set->data->examples, set->taken);
    else
        base_log(BASE_LOG_INFO, "takeover", "all shards have a node again; training on the own %zu examples",
                 set->data->examples);
}

static void take_shards(struct node_learner *l)
{
    struct node_shards_set set;
    struct base_reason why = {""};
    if (!l->shards || !node_shards_ready(l->shards, node_clock_ns(), &set))
        return;
    enum base_error code = train_trainer_replace(l->options.trainer, set.data, set.weight, &why);
    if (code == BASE_OK)
        tell_takeover(&set);
    else
        base_log(BASE_LOG_ERROR, "takeover", "training goes on with the examples at hand: %s", why.text);
    node_shards_settle(l->shards, code == BASE_OK);
}

void node_learner_obey(struct node_learner *l)
{
    node_learner_listen(l, false);
    while ((l->orders.fetch || l->orders.paused) && !l->incomplete && !node_learner_stopped(l)) {
        if (l->orders.fetch)
            fetch(l);
        else
            pause_here(l);
    }
    take_shards(l);
}
