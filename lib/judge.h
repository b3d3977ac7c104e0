// What the program's losses say about a model of others. The node asks about one (NODE_HOSTED_JUDGES); the
// program is asked for the losses of three models, one after another, and the answer is made of them.
#ifndef LIB_JUDGE_H
#define LIB_JUDGE_H

#include "lib/p2pml.h"
#include "node/learn/hosted.h"

struct lib_judge {
    p2pml_losses call; // NULL: lib_losses is called instead
    void *context;
    float *seed; // [parameters] the model that the program began with
    size_t at;   // how many of the models of this question are measured
    struct train_probe_losses of[TRAIN_PROBE_MODELS];
};

// The model that comes next: of the program's vector, or the one in question.
const float *lib_judge_model(const struct lib_judge *judge, const float *own,
                             const struct node_hosted *hosted);
// Its losses; 0: not known. The last ones are the answer to the node.
void lib_judge_take(struct lib_judge *judge, const double *losses, size_t count, struct node_hosted *hosted);
// Calls the program's function for all that are left. False: the program is asked another time.
bool lib_judge_ask(struct lib_judge *judge, const float *own, struct node_hosted *hosted);
int lib_judge_unknown(void *context, const float *model, double *losses, int most); // a p2pml_losses

#endif
