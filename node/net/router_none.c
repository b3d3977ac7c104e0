// A build without libminiupnpc and libnatpmp.
#include "node/net/router.h"

bool node_router_is_built(void)
{
    return false;
}

struct node_router *node_router_create(void)
{
    return NULL;
}

void node_router_map(struct node_router *router, const struct gossip_mapping_request *request,
                     struct gossip_mapping_answer *answer)
{
    (void)router;
    (void)request;
    *answer = (struct gossip_mapping_answer){.end = GOSSIP_MAPPING_NOBODY};
}

void node_router_look(struct node_router *router, struct gossip_mapping_answer *answer)
{
    (void)router;
    *answer = (struct gossip_mapping_answer){.end = GOSSIP_MAPPING_NOBODY};
}

void node_router_destroy(struct node_router *router)
{
    (void)router;
}
