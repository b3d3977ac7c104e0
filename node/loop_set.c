// `p2pml set`: changes of settings that come in over HTTP.
// Who may read node.dir may change them: the token that a request needs is in a file there.
#include "base/file.h"
#include "base/log.h"
#include "base/plural.h"
#include "node/config/change.h"
#include "node/loop_private.h"
#include "node/queue/clock.h"
#include "node/store/place.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define REMOVED "cluster.removed=" // and the signed list

// -- the token

void node_loop_make_token(struct node_loop *loop)
{
    uint8_t chance[NODE_TOKEN_BYTES / 2];
    char path[NODE_PATH_BYTES];
    struct base_reason why = {""};
    loop->directory = realpath(loop->options.config->node.dir, NULL);
    if (node_place_path(loop->options.config->node.dir, "token", path, &why) ||
        getrandom(chance, sizeof chance, 0) != sizeof chance)
        return;
    for (size_t i = 0; i < sizeof chance; i++)
        snprintf(loop->token + 2 * i, 3, "%02x", chance[i]);
    const struct base_span text = {loop->token, strlen(loop->token)};
    if (!base_file_write(path, NODE_FILE_MODE, &text, 1, &why))
        return;
    base_log(BASE_LOG_WARN, "set", "'p2pml set' will not work here: %s", why.text);
    loop->token[0] = '\0';
}

// Takes as long for every wrong token of that length.
static bool is_token(const struct node_loop *loop, const char *found)
{
    unsigned differs = 0;
    if (loop->token[0] == '\0' || strlen(found) != NODE_TOKEN_BYTES)
        return false;
    for (size_t i = 0; i < NODE_TOKEN_BYTES; i++)
        differs |= (unsigned char)(found[i] ^ loop->token[i]);
    return differs == 0;
}

// -- what people read

static void tell(struct node_http_answer *answer, int status, const char *format, ...) BASE_PRINTF(3, 4);
static void tell(struct node_http_answer *answer, int status, const char *format, ...)
{
    va_list arguments;
    answer->status = status;
    va_start(arguments, format);
    if (vasprintf(&answer->text, format, arguments) < 0)
        answer->text = NULL; // answered as out of memory
    va_end(arguments);
}

static void tell_set(const struct node_loop *loop, enum gossip_setting_kind kind,
                     struct node_http_answer *answer)
{
    const struct gossip_setting *setting = gossip_life_setting(loop->life, kind);
    char value[32], before[32];
    node_loop_value_text(loop, kind, setting->value, value);
    node_loop_value_text(loop, kind, setting->before, before);
    tell(answer, 200,
         "%s: %s instead of %s from round %" PRIu64 " on, on all nodes; this one is at round %" PRIu64 "\n",
         node_change_key(kind), value, before, setting->round, loop->progress.round);
}

static void tell_answer(const struct node_loop *loop, enum gossip_setting_kind kind,
                        struct node_http_answer *answer)
{
    const char *key = node_change_key(kind);
    switch (gossip_life_answer(loop->life)) {
    case GOSSIP_LIFE_IS_SET:
        tell_set(loop, kind, answer);
        break;
    case GOSSIP_LIFE_TRAINS_NOT:
        tell(answer, 409, "this node is %s: set %s at one that trains\n",
             gossip_life_state_name(gossip_life_state(loop->life)), key);
        break;
    case GOSSIP_LIFE_HAS_JUST_BEGUN:
        tell(answer, 409, "this node has just begun to train: set %s in a moment, or at another one\n", key);
        break;
    case GOSSIP_LIFE_CHANGES:
        tell(answer, 409,
             "%s is being changed at round %" PRIu64 ", and this node is at round %" PRIu64
             ": try again some seconds after that round\n",
             key, gossip_life_setting(loop->life, kind)->round, loop->progress.round);
        break;
    case GOSSIP_LIFE_ENDS_BEFORE:
        tell(answer, 409, "the training ends before all nodes could have heard of it: %s stays\n", key);
        break;
    }
}

static void remove_members(struct node_loop *loop, const char *list, struct node_http_answer *answer)
{
    switch (node_loop_remove(loop, list)) {
    case NODE_REMOVED_TAKEN:
        tell(answer, 200,
             "cluster.removed: %zu id%s; this node passes the list on to all that know cluster.operator\n",
             loop->options.allow->removed.count, base_plural(loop->options.allow->removed.count));
        break;
    case NODE_REMOVED_NO_OPERATOR:
        tell(answer, 409, "cluster.operator is not set here, so nobody can remove members\n");
        break;
    case NODE_REMOVED_NOT_SIGNED:
        tell(answer, 409, "the list is not signed by cluster.operator for cluster '%s'\n",
             loop->options.config->cluster.name);
        break;
    case NODE_REMOVED_OLD:
        tell(answer, 409, "this node has a list with a number at least as high, %" PRIu64 "\n",
             loop->options.allow->removed.number);
        break;
    }
}

void node_loop_set(void *owner, const char *token, const char *assignment, struct node_http_answer *answer)
{
    struct node_loop *loop = owner;
    struct gossip_life_event event = {.kind = GOSSIP_LIFE_SET};
    struct base_reason why = {""};
    answer->type = "text/plain; charset=utf-8";
    if (!is_token(loop, token))
        tell(answer, 401, "the token is not the one in %s/token\n", loop->options.config->node.dir);
    else if (strncmp(assignment, REMOVED, strlen(REMOVED)) == 0)
        remove_members(loop, assignment + strlen(REMOVED), answer);
    else if (node_change_parse(assignment, &event.setting_kind, &event.value, &why))
        tell(answer, 400, "%s\n", why.text);
    else if (loop->options.program)
        tell(answer, 409, "a program of its own trains here and chooses %s: change it there\n",
             node_change_key(event.setting_kind));
    else {
        node_loop_live(loop, event);
        tell_answer(loop, event.setting_kind, answer);
    }
}
