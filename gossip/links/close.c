// Why a link ends: its texts, which reasons are refusals, and which greetings do not fit.
#include "gossip/links/links.h"

#include <string.h>

static const struct {
    const char *text, *bye, *heard;
} closes[] = {
    [GOSSIP_CLOSE_IDLE] = {"idle", "idle", "idle"},
    [GOSSIP_CLOSE_LEAVING] = {"this node leaves", "leaving", "it left"},
    [GOSSIP_CLOSE_SILENT] = {"taken for dead", "silent", "it considers this node dead"},
    [GOSSIP_CLOSE_REPLACED] = {"a newer link took over", "replaced", "a newer link took over"},
    [GOSSIP_CLOSE_NO_GREETING] = {"no greeting in time", "no greeting in time", "it got no greeting in time"},
    [GOSSIP_CLOSE_OLD_SECRET] = {"it began with a secret that is no longer in cluster.secret_file",
                                 "the secret of this link was removed",
                                 "the secret of the link is no longer in its cluster.secret_file"},
    [GOSSIP_CLOSE_IMPLAUSIBLE] =
        {"its numbers are far larger than those of this node's model, so they are not averaged. The training "
         "of one of the two may have diverged: a smaller train.rate may help",
         "your numbers are far larger than those of my model",
         "it does not average the numbers of this node, which are far larger than those of its own model. The "
         "training of one of the two may have diverged: a smaller train.rate may help"},
    [GOSSIP_CLOSE_BANNED] =
        {"it has sent what no honest node sends, or several new nodes at its address have; it may come again, "
         "after a pause that grows each time",
         "refused for a while after what was sent",
         "it refuses this node for a while: this node, or new ones at its address, have sent what breaks the "
         "protocol, or numbers far larger than those of the model there"},
    [GOSSIP_CLOSE_CROWD] =
        {"more new nodes have called in a minute than cluster.join_rate lets in; it may come again",
         "too many new nodes at once",
         "more new nodes have called it in a minute than its cluster.join_rate lets in"},
    [GOSSIP_CLOSE_DUPLICATE_IDENTITY] = {"another process with this id has a link that works",
                                         "duplicate identity at ",
                                         "it has a link to another process with the id of this node"},
    [GOSSIP_CLOSE_NOT_ALLOWED] = {"not on the allow-list (cluster.allow_file)",
                                  "not on the allow-list of this node", NULL},
    [GOSSIP_CLOSE_OTHER_PROTOCOL] = {"no protocol that both ends speak", NULL, NULL},
    [GOSSIP_CLOSE_OTHER_MODEL] = {"another model", NULL, NULL},
    [GOSSIP_CLOSE_OTHER_RULES] = {"other settings", NULL, NULL},
    [GOSSIP_CLOSE_OTHER_SCALING] =
        {"trained with another scaling of its data (data.scale_from: cluster); one of "
         "the two must start without --resume, and takes the other's model",
         "trains with another scaling (data.scale_from: cluster)", NULL},
    [GOSSIP_CLOSE_BROKEN] = {"a message that breaks the protocol", "your messages break the protocol", NULL},
    [GOSSIP_CLOSE_TIMEOUT] = {"no handshake in time", NULL, NULL},
    [GOSSIP_CLOSE_CROWDED] = {"too many connections without a handshake, and this one was the oldest", NULL,
                              NULL},
    [GOSSIP_CLOSE_NOT_NEEDED] = {"another link to the same node is in use", NULL, NULL},
    [GOSSIP_CLOSE_SELF] = {"this node itself", NULL, NULL},
    [GOSSIP_CLOSE_HEARD] = {"it said goodbye", NULL, NULL},
    [GOSSIP_CLOSE_REFUSED_THERE] = {"refused there", NULL, "it refuses this node"},
};

const char *gossip_close_text(enum gossip_close why)
{
    return closes[why].text;
}

const char *gossip_close_bye(enum gossip_close why)
{
    return closes[why].bye;
}

const char *gossip_close_heard(enum gossip_close why)
{
    return closes[why].heard;
}

enum gossip_close gossip_close_of(const char *reason)
{
    for (unsigned why = GOSSIP_CLOSE_IDLE; why < GOSSIP_CLOSE_DUPLICATE_IDENTITY; why++)
        if (strcmp(reason, closes[why].bye) == 0)
            return (enum gossip_close)why;
    const char *duplicate = closes[GOSSIP_CLOSE_DUPLICATE_IDENTITY].bye;
    return strncmp(reason, duplicate, strlen(duplicate)) == 0 ? GOSSIP_CLOSE_DUPLICATE_IDENTITY
                                                              : GOSSIP_CLOSE_REFUSED_THERE;
}

bool gossip_close_in_order(enum gossip_close why)
{
    return why == GOSSIP_CLOSE_LEAVING || why == GOSSIP_CLOSE_OTHER_SCALING;
}

bool gossip_close_is_refusal(enum gossip_close why)
{
    return why >= GOSSIP_CLOSE_NOT_ALLOWED && why <= GOSSIP_CLOSE_OTHER_SCALING;
}

enum gossip_close gossip_links_compare(const struct gossip_greeting *ours,
                                       const struct gossip_greeting *theirs)
{
    if (theirs->schema != ours->schema || theirs->parameters != ours->parameters)
        return GOSSIP_CLOSE_OTHER_MODEL;
    return strcmp(theirs->rules, ours->rules) == 0 ? GOSSIP_CLOSE_NOT_NEEDED : GOSSIP_CLOSE_OTHER_RULES;
}

const char *gossip_entry_state_name(enum gossip_entry_state state)
{
    static const char *const names[] = {"unknown", "member", "self", "refused"};
    return names[state];
}
