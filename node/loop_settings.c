// The settings that this node takes from the cluster: log lines, and the file for the next process.
#include "base/log.h"
#include "node/config/change.h"
#include "node/loop_private.h"
#include "node/store/settings.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096u

void node_loop_value_text(const struct node_loop *loop, enum gossip_setting_kind kind, double value,
                          char out[32])
{
    const double initial = node_change_initial(loop->options.config, kind);
    snprintf(out, 32, "%g", isnan(value) ? initial : value);
}

static void keep(const struct node_loop *loop)
{
    struct gossip_setting settings[GOSSIP_SETTINGS];
    struct base_reason why = {""};
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        settings[kind] = *gossip_life_setting(loop->life, (enum gossip_setting_kind)kind);
    if (node_settings_write(loop->options.config->node.dir, settings, &why))
        base_log(BASE_LOG_ERROR, "set", "a resumed node will have to hear of it again: %s", why.text);
}

void node_loop_take_setting(struct node_loop *loop, const struct gossip_life_action *action)
{
    const struct gossip_setting *setting = &action->setting;
    const uint64_t now = loop->progress.round;
    const bool late = now >= setting->round && loop->progress.own_rounds > 0; // else it has not begun
    const char *key = node_change_key(action->setting_kind);
    char value[32], before[32];
    keep(loop);
    node_loop_value_text(loop, action->setting_kind, setting->value, value);
    node_loop_value_text(loop, action->setting_kind, setting->before, before);
    if (loop->options.program)
        base_log(BASE_LOG_WARN, "set",
                 "the cluster changes %s to %s at round %" PRIu64
                 ": the program that trains here chooses it itself; change it there",
                 key, value, setting->round);
    else if (!late)
        base_log(BASE_LOG_INFO, "set", "%s: %s instead of %s from round %" PRIu64 " on", key, value, before,
                 setting->round);
    else
        base_log(BASE_LOG_WARN, "set",
                 "%s: %s instead of %s from round %" PRIu64 " on; this node hears of it at round %" PRIu64
                 ", too late, and takes it at once",
                 key, value, before, setting->round, now);
}

enum base_error node_loop_read_settings(const struct node_loop *loop, struct gossip_life_options *options,
                                        struct base_reason *why)
{
    const char *directory = loop->options.config->node.dir;
    if (options->resumed)
        return node_settings_read(directory, options->settings, why);
    memset(options->settings, 0, sizeof options->settings); // those of an earlier training do not count
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/settings", directory);
    if (unlink(path) && errno != ENOENT && errno != ENOTDIR)
        return base_fail(why, BASE_EIO, "%s: %s", path, strerror(errno));
    return BASE_OK;
}
