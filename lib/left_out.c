// Stubs for functions that only the built-in trainer needs. libp2pml is linked with them and never calls
// them, because the program trains. OpenBLAS would start threads in every program that loads the library, and
// the program may configure it itself; takeover of shards would link all data loaders.
#include "base/error.h"
#include "node/learn/takeover.h"

void cblas_sgemm(void);
void cblas_sgemm(void)
{
    base_assert_failed("the library multiplies no matrices", __FILE__, __LINE__);
}

void openblas_set_num_threads(int threads);
void openblas_set_num_threads(int threads)
{
    (void)threads;
}

int openblas_get_num_threads(void);
int openblas_get_num_threads(void)
{
    return 1;
}

const char *openblas_get_config(void);
const char *openblas_get_config(void)
{
    return "no BLAS";
}

const char *openblas_get_corename(void);
const char *openblas_get_corename(void)
{
    return "none";
}

enum base_error node_shards_create(const struct node_config *config, const struct train_dataset *own,
                                   struct node_shards **shards)
{
    (void)config, (void)own, (void)shards;
    return BASE_ESTATE;
}

void node_shards_destroy(struct node_shards *shards, uint64_t deadline_ns)
{
    (void)shards, (void)deadline_ns;
}

void node_shards_want(struct node_shards *shards, const uint32_t *living, size_t count)
{
    (void)shards, (void)living, (void)count;
}

bool node_shards_ready(struct node_shards *shards, uint64_t now_ns, struct node_shards_set *set)
{
    (void)shards, (void)now_ns, (void)set;
    return false;
}

void node_shards_commit(struct node_shards *shards, bool taken)
{
    (void)shards, (void)taken;
}
