// The local steps of simulated trainers and their measurements, in the threads of the pool.
#include "lab/virtual/simulate_private.h"

static void work(void *argument)
{
    struct sim_trainer *p = argument;
    if (p->measuring && lab_score_model(p->simulation->bench, p->model, p->measuring, &p->score))
        p->score = lab_score_unknown(); // no memory
    p->measuring = NULL;
    if (p->steps)
        node_built_in_steps(&p->trainee, p->steps, p->pace);
}

void simulate_trainer_submit(struct sim_trainer *p, uint64_t steps, const float *measuring)
{
    p->steps = steps;
    p->measuring = measuring;
    p->under_way = true;
    p->job = (struct lab_job){.run = work, .argument = p};
    lab_pool_submit(p->simulation->pool, &p->job);
}

void simulate_trainer_finish(struct sim_trainer *p)
{
    if (p->under_way)
        lab_pool_wait(p->simulation->pool, &p->job);
    p->under_way = false;
    if (p->row_waits)
        simulate_row_write(p);
}
