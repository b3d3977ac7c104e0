// Which members count in the graph. The view in use is updated when the table has not changed for a moment,
// so that a burst of changes causes one change of the graph.
#include "gossip/member/state.h"

#include <stdlib.h>

static uint64_t due_ns(const struct gossip_membership *m)
{
    return earlier(m->candidate_ns + m->profile.view_still_ns, m->differs_ns + m->profile.view_most_ns);
}

static bool adopt(struct gossip_membership *m)
{
    BASE_ASSERT(m->candidate_hash != m->used_hash);
    struct gossip_record *view = malloc((m->count ? m->count : 1) * sizeof *view);
    if (!view)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++)
        if (member_counts(m, m->sorted[i]))
            view[count++] = m->sorted[i]->record;
    free(m->view);
    m->view = view;
    m->n_view = count;
    m->used_hash = m->candidate_hash;
    return true;
}

void member_view_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->differs_ns == UINT64_MAX || m->differs_ns <= m->now_ns);
    if (m->candidate_hash == m->used_hash) {
        m->differs_ns = UINT64_MAX;
        return;
    }
    if (m->differs_ns == UINT64_MAX)
        m->differs_ns = m->now_ns;
    if (m->now_ns < due_ns(m))
        return;
    if (!adopt(m)) {
        m->candidate_ns = m->differs_ns = m->now_ns; // tried again
        return;
    }
    m->differs_ns = UINT64_MAX;
    m->totals.view_changes++;
    struct gossip_membership_action action = {.kind = GOSSIP_MEMBERSHIP_VIEW};
    member_act(m, &action);
}

uint64_t member_view_deadline(const struct gossip_membership *m)
{
    if (m->candidate_hash == m->used_hash)
        return UINT64_MAX;
    return m->differs_ns == UINT64_MAX ? m->now_ns : due_ns(m);
}

const struct gossip_record *gossip_membership_view(const struct gossip_membership *m, size_t *count)
{
    *count = m->n_view;
    return m->view;
}
