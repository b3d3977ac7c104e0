// Whether the data of a checkpoint are the data that are here.
#include "base/log.h"
#include "node/setup.h"
#include "train/meaning.h"
#include <string.h>

static bool same_split(const struct train_split *a, const struct train_split *b)
{
    return a->examples == b->examples && a->digest == b->digest && a->tests_digest == b->tests_digest;
}

// Nothing is held out. Files that are too large have no digest, and the one of another seed says nothing.
static void check_whole(const struct train_split *then, const struct train_split *now)
{
    if (then->examples == 0 || now->examples == 0 || then->seed != now->seed || same_split(then, now))
        return;
    base_log(
        BASE_LOG_WARN, "other_data",
        "the training file is another one (%zu examples) than that of the checkpoint (%zu); the training "
        "continues with it",
        now->examples, then->examples);
}

// Held-out examples must not have been trained on. Each example keeps its side while part and seed are the
// same; the windows of a text move with its length.
static enum base_error check_split(const struct node_setup *s, const struct train_split *then,
                                   struct base_reason *why)
{
    const struct train_split *now = &s->train.split;
    if (then->tests == 0 && now->tests == 0) {
        check_whole(then, now);
        return BASE_OK;
    }
    if (then->tests == 0 || now->tests == 0)
        return base_fail(why, BASE_EMISMATCH,
                         "the checkpoint was trained %s data.test_file, this configuration says otherwise: "
                         "examples that were trained on would be tested on; make it the same",
                         then->tests ? "without" : "with");
    if (then->part < now->part || then->part > now->part || then->seed != now->seed)
        return base_fail(
            why, BASE_EMISMATCH,
            "the checkpoint was trained with data.test_part %g and data.seed %llu, here they are %g "
            "and %llu: examples that were trained on would be tested on; make them the same",
            then->part, (unsigned long long)then->seed, now->part, (unsigned long long)now->seed);
    if (same_split(then, now))
        return BASE_OK;
    if (s->train.tokens)
        return base_fail(
            why, BASE_EMISMATCH,
            "the text is another one (%zu windows, the checkpoint had %zu): its end, which is tested "
            "on, was trained on in part; name a data.test_file, or train from the start",
            now->examples, then->examples);
    base_log(
        BASE_LOG_WARN, "other_data",
        "the training file is another one: %zu examples, %zu of them held out; the checkpoint had %zu and "
        "%zu. Examples that are in both stay on their side",
        now->examples, now->tests, then->examples, then->tests);
    return BASE_OK;
}

enum base_error node_setup_check_resumed(const struct node_setup *s, const struct node_safetensors *file,
                                         struct base_reason *why)
{
    struct node_model_about about = {0};
    if (!s->train.examples) // the data are those of another program
        return BASE_OK;
    enum base_error error = node_model_read_about(file, train_model_spec(s->model), &about, why);
    if (error)
        return error;
    const bool agreed = s->scaling != NULL; // statistics come with the checkpoint
    if (!agreed && about.meaning &&
        train_meaning_digest(about.meaning) != train_meaning_digest(s->train.meaning))
        error =
            base_fail(why, BASE_EMISMATCH,
                      "the data mean something else than in the checkpoint: columns, categories, classes or "
                      "the statistics of data.scale; train from the start, or use the earlier file");
    if (!error && (about.text != s->about.text || strcmp(about.characters, s->about.characters) != 0))
        error = base_fail(
            why, BASE_EMISMATCH,
            "the text has other characters than that of the checkpoint; train from the start, or use "
            "the earlier file");
    if (!error)
        error = check_split(s, &about.split, why);
    train_meaning_release(about.meaning);
    return error;
}
