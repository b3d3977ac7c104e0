#include "node/learn/takeover.h"
#include "base/limits.h"
#include "base/log.h"
#include "node/learn/data.h"
#include "node/queue/condition.h"
#include <stdlib.h>
#include <string.h>

struct choice { // what to train on while exactly these shards live
    bool living[LIMIT_PEERS];
    struct train_dataset loaded; // {0}: the own shard
};

struct node_shards {
    struct node_config config; // only what loading reads, and train.weight; owns its texts
    uint64_t meaning;          // digest of what the data meant at the start
    size_t own_shard, shards;
    const struct train_dataset *own; // borrowed; not for the thread, which may outlive it
    struct train_dataset like;       // its numbers, without examples

    pthread_mutex_t lock; // guards all below
    pthread_cond_t ended; // on CLOCK_MONOTONIC: loading became false
    bool requested[LIMIT_PEERS];
    struct choice choices[2];
    unsigned used;     // choices[used] is in use; the other one is ready where has_next
    bool has_next;     // for `requested`
    bool failed;       // the latest request failed
    uint64_t retry_ns; // when to try again; 0: not known yet
    bool loading;      // the thread is at work
    bool abandoned;    // the owner is gone: the thread frees this
    bool has_thread;
    pthread_t thread;
};

static bool same(const bool *a, const bool *b)
{
    return memcmp(a, b, LIMIT_PEERS * sizeof *a) == 0;
}

static size_t count_living(const struct node_shards *s, const bool *living)
{
    size_t count = 0;
    for (size_t i = 0; i < s->shards; i++)
        count += living[i];
    return count;
}

static bool satisfied(const struct node_shards *s)
{
    return s->has_next || same(s->requested, s->choices[s->used].living);
}

static void drop_next(struct node_shards *s)
{
    BASE_ASSERT(s->used < 2);
    train_dataset_destroy(&s->choices[!s->used].loaded);
    s->has_next = false;
}

#define TEXTS 9u
#define LISTS 4u

static void list_texts(struct node_config *config, char **texts[TEXTS], struct node_texts *lists[LISTS])
{
    char **all[] = {&config->data.train_images, &config->data.train_labels, &config->data.test_images,
                    &config->data.test_labels,  &config->data.train_file,   &config->data.test_file,
                    &config->data.delimiter,    &config->data.image_size,   &config->data.scale_from};
    struct node_texts *columns[] = {&config->data.target, &config->data.categorical, &config->data.ignore,
                                    &config->data.labels};
    _Static_assert(sizeof all / sizeof *all == TEXTS && sizeof columns / sizeof *columns == LISTS,
                   "all of data.*");
    memcpy(texts, all, sizeof all);
    memcpy(lists, columns, sizeof columns);
}

static bool copy_text(char **text)
{
    *text = *text ? strdup(*text) : NULL;
    return *text != NULL;
}

static bool copy_list(struct node_texts *list)
{
    const struct node_texts from = *list;
    bool done = true;
    *list = (struct node_texts){calloc(from.count + 1, sizeof *from.items), 0};
    for (; list->items && done && list->count < from.count; list->count++) {
        list->items[list->count] = from.items[list->count];
        done = copy_text(&list->items[list->count]);
    }
    return list->items && done;
}

static void free_config(struct node_config *config)
{
    char **texts[TEXTS];
    struct node_texts *lists[LISTS];
    list_texts(config, texts, lists);
    for (size_t i = 0; i < TEXTS; i++)
        free(*texts[i]);
    for (size_t i = 0; i < LISTS; i++) {
        for (size_t k = 0; k < lists[i]->count; k++)
            free(lists[i]->items[k]);
        free(lists[i]->items);
    }
}

// Copies all that loading reads: the thread may outlive the configuration.
static bool copy_config(const struct node_config *config, struct node_config *copy)
{
    char **texts[TEXTS];
    struct node_texts *lists[LISTS];
    bool done = true;
    *copy = (struct node_config){
        .data = config->data,
        .model = {.kind = config->model.kind, .loss = config->model.loss, .context = config->model.context},
        .train = {.weight = config->train.weight}};
    list_texts(copy, texts, lists);
    for (size_t i = 0; i < TEXTS; i++)
        if (*texts[i])
            done = copy_text(texts[i]) && done;
    for (size_t i = 0; i < LISTS; i++)
        done = copy_list(lists[i]) && done;
    return done;
}

static void release(struct node_shards *s)
{
    free_config(&s->config);
    train_dataset_destroy(&s->choices[0].loaded);
    train_dataset_destroy(&s->choices[1].loaded);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

enum base_error node_shards_create(const struct node_config *config, const struct train_dataset *own,
                                   struct node_shards **out)
{
    struct node_shards *s = calloc(1, sizeof *s);
    if (!s)
        return BASE_ENOMEM;
    BASE_ASSERT(config->data.shards <= LIMIT_PEERS && config->data.shard < config->data.shards);
    s->own_shard = config->data.shard;
    s->shards = config->data.shards;
    s->own = own;
    s->like = (struct train_dataset){.features = own->features, .classes = own->classes, .whole = own->whole};
    s->meaning = train_meaning_digest(own->meaning);
    for (size_t i = 0; i < s->shards; i++)
        s->requested[i] = s->choices[0].living[i] = true;
    node_condition_init(&s->lock, &s->ended);
    if (!copy_config(config, &s->config)) {
        release(s);
        return BASE_ENOMEM;
    }
    *out = s;
    return BASE_OK;
}

// The files may have changed since the start; then the other shards would not be those of their nodes.
static enum base_error load(struct node_shards *s, const bool *living, struct train_dataset *data,
                            struct base_reason *why)
{
    struct train_dataset loaded = {0};
    enum base_error error = node_data_load_living(&s->config, s->own_shard, living, &loaded, why);
    if (error)
        return error;
    if (loaded.whole != s->like.whole || loaded.features != s->like.features ||
        loaded.classes != s->like.classes) {
        error = base_fail(why, BASE_EMISMATCH,
                          "the data set now has %zu examples of %zu features and %zu classes, at the start "
                          "it had %zu of %zu and %zu",
                          loaded.whole, loaded.features, loaded.classes, s->like.whole, s->like.features,
                          s->like.classes);
        train_dataset_destroy(&loaded);
        return error;
    }
    if (train_meaning_digest(loaded.meaning) != s->meaning) {
        train_dataset_destroy(&loaded);
        return base_fail(
            why, BASE_EMISMATCH,
            "columns, categories, classes or the statistics of data.scale are not those of the start");
    }
    *data = loaded;
    return BASE_OK;
}

// Loads until the latest request is met or has failed. Called and left with the lock held.
static void load_newest(struct node_shards *s)
{
    BASE_ASSERT(s->loading);
    while (!s->abandoned && !s->failed && !satisfied(s)) {
        bool living[LIMIT_PEERS];
        struct train_dataset data = {0};
        struct base_reason why = {""};
        memcpy(living, s->requested, sizeof living);
        pthread_mutex_unlock(&s->lock);
        enum base_error error = load(s, living, &data, &why);
        pthread_mutex_lock(&s->lock);
        const bool wanted = !s->abandoned && same(living, s->requested) && !satisfied(s);
        if (wanted && !error) {
            struct choice *next = &s->choices[!s->used];
            memcpy(next->living, living, sizeof living);
            next->loaded = data;
            s->has_next = true;
            continue;
        }
        train_dataset_destroy(&data);
        s->failed = s->failed || wanted;
        if (wanted)
            base_log(BASE_LOG_ERROR, "takeover",
                     "the examples of shards without a node cannot be loaded: %s; training continues with "
                     "those at hand",
                     why.text);
    }
}

static void *loader(void *argument)
{
    struct node_shards *s = argument;
    (void)pthread_setname_np(pthread_self(), "shards");
    pthread_mutex_lock(&s->lock);
    BASE_ASSERT(s->loading && !s->failed); // as start_loading left it
    load_newest(s);
    s->loading = false;
    const bool abandoned = s->abandoned;
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->lock);
    if (abandoned)
        release(s);
    return NULL;
}

// With the lock held.
static void start_loading(struct node_shards *s)
{
    BASE_ASSERT(!s->loading && !s->abandoned);
    if (s->has_thread)
        pthread_join(s->thread, NULL); // it has ended, except for its return
    s->has_thread = pthread_create(&s->thread, NULL, loader, s) == 0;
    s->loading = s->has_thread;
    s->failed = !s->has_thread;
    if (s->failed)
        base_log(BASE_LOG_ERROR, "takeover", "no thread to load the examples of shards without a node");
}

// With the lock held.
static void pursue_requested(struct node_shards *s)
{
    BASE_ASSERT(s->requested[s->own_shard]);
    s->failed = false;
    s->retry_ns = 0;
    drop_next(s);
    if (!satisfied(s) && count_living(s, s->requested) == s->shards) {
        memcpy(s->choices[!s->used].living, s->requested, sizeof s->requested);
        s->has_next = true; // the own shard
    }
    if (!satisfied(s) && !s->loading)
        start_loading(s);
}

void node_shards_want(struct node_shards *s, const uint32_t *living, size_t count)
{
    bool requested[LIMIT_PEERS] = {false};
    for (size_t i = 0; i < count; i++)
        if (living[i] < s->shards)
            requested[living[i]] = true;
    requested[s->own_shard] = true;
    pthread_mutex_lock(&s->lock);
    BASE_ASSERT(!s->abandoned);
    if (!same(requested, s->requested) || s->failed) {
        memcpy(s->requested, requested, sizeof requested);
        pursue_requested(s);
    }
    pthread_mutex_unlock(&s->lock);
}

bool node_shards_ready(struct node_shards *s, uint64_t now_ns, struct node_shards_set *set)
{
    pthread_mutex_lock(&s->lock);
    if (s->failed && s->retry_ns == 0)
        s->retry_ns = now_ns + NODE_SHARDS_RETRY_NS;
    else if (s->failed && now_ns >= s->retry_ns)
        pursue_requested(s);
    const bool ready = s->has_next;
    if (ready) {
        const struct choice *next = &s->choices[!s->used];
        const size_t living = count_living(s, next->living);
        set->data = next->loaded.examples > 0 ? &next->loaded : s->own;
        set->weight = node_data_weight(&s->config, set->data, living);
        BASE_ASSERT(living > 0 && living <= s->shards && set->data->examples >= s->own->examples);
        set->orphans = s->shards - living;
        set->taken = set->data->examples - s->own->examples;
    }
    pthread_mutex_unlock(&s->lock);
    return ready;
}

void node_shards_commit(struct node_shards *s, bool taken)
{
    pthread_mutex_lock(&s->lock);
    BASE_ASSERT(s->has_next);
    if (taken)
        s->used = !s->used;
    else
        s->failed = true;
    drop_next(s);
    pthread_mutex_unlock(&s->lock);
}

bool node_shards_wait(struct node_shards *s, uint64_t deadline_ns)
{
    pthread_mutex_lock(&s->lock);
    while (s->loading && node_condition_wait(&s->lock, &s->ended, deadline_ns))
        ;
    const bool idle = !s->loading;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

void node_shards_destroy(struct node_shards *s, uint64_t deadline_ns)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    memcpy(s->requested, s->choices[s->used].living, sizeof s->requested); // so that no other load follows
    pthread_mutex_unlock(&s->lock);
    const bool idle = node_shards_wait(s, deadline_ns);
    pthread_mutex_lock(&s->lock);
    s->abandoned = s->loading; // it may have ended just now
    const bool abandoned = s->abandoned;
    const pthread_t thread = s->thread;
    pthread_mutex_unlock(&s->lock);
    if (abandoned) {
        pthread_detach(thread);
        return;
    }
    BASE_ASSERT(idle || !s->loading);
    if (s->has_thread)
        pthread_join(thread, NULL);
    release(s);
}
