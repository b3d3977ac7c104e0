#include "lib/judge.h"

#include "base/error.h"
#include <string.h>

const float *lib_judge_model(const struct lib_judge *judge, const float *own,
                             const struct node_hosted *hosted)
{
    switch ((enum train_probe_model)judge->at) {
    case TRAIN_PROBE_NOTHING:
        return judge->seed;
    case TRAIN_PROBE_OWN:
        return own;
    case TRAIN_PROBE_OTHER:
        return node_hosted_offered(hosted);
    case TRAIN_PROBE_MODELS:
        break;
    }
    BASE_ASSERT(false); // the answer is given
    return NULL;
}

// Where one is not known, the others say nothing.
void lib_judge_take(struct lib_judge *judge, const double *losses, size_t count, struct node_hosted *hosted)
{
    struct train_probe_losses *of = &judge->of[judge->at];
    BASE_ASSERT(count <= TRAIN_PROBE_EXAMPLES && judge->at < TRAIN_PROBE_MODELS);
    of->count = count;
    if (count > 0)
        memcpy(of->loss, losses, count * sizeof *losses);
    judge->at++;
    if (count > 0 && judge->at < TRAIN_PROBE_MODELS)
        return;
    for (size_t i = judge->at; i < TRAIN_PROBE_MODELS; i++)
        judge->of[i].count = 0;
    judge->at = 0;
    const struct train_probe probe =
        train_probe_of(judge->of, node_hosted_steps_done(hosted) >= TRAIN_PROBE_TRAINED);
    node_hosted_judge(hosted, &probe);
}

bool lib_judge_ask(struct lib_judge *judge, const float *own, struct node_hosted *hosted)
{
    double losses[TRAIN_PROBE_EXAMPLES];
    if (!judge->call)
        return false;
    do {
        const float *model = lib_judge_model(judge, own, hosted);
        const int count = judge->call(judge->context, model, losses, (int)TRAIN_PROBE_EXAMPLES);
        if (count < 0)
            return false;
        const size_t most = (size_t)count < TRAIN_PROBE_EXAMPLES ? (size_t)count : TRAIN_PROBE_EXAMPLES;
        lib_judge_take(judge, losses, most, hosted);
    } while (judge->at > 0);
    return true;
}

int lib_judge_unknown(void *context, const float *model, double *losses, int most)
{
    (void)context, (void)model, (void)losses, (void)most;
    return 0;
}
