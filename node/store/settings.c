#include "node/store/settings.h"

#include "base/file.h"
#include "node/store/place.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SETTINGS_MAX 4096u

// One line, "nan" before a first change. False: it is not one.
static bool take_line(const char *line, struct gossip_setting settings[GOSSIP_SETTINGS])
{
    struct gossip_setting setting;
    unsigned kind = 0;
    if (sscanf(line, "%u %" SCNu64 " %" SCNu64 " %lf %lf", &kind, &setting.round, &setting.by, &setting.value,
               &setting.before) != 5 ||
        kind >= GOSSIP_SETTINGS || setting.round == 0 || !isfinite(setting.value) || isinf(setting.before))
        return false;
    if (isnan(setting.before))
        setting.before = (double)NAN; // the one that is sent
    settings[kind] = setting;
    return true;
}

enum base_error node_settings_read(const char *directory, struct gossip_setting settings[GOSSIP_SETTINGS],
                                   struct base_reason *why)
{
    char path[NODE_PATH_BYTES], text[SETTINGS_MAX + 1], *rest = text;
    uint8_t *data = NULL;
    size_t bytes = 0;
    memset(settings, 0, GOSSIP_SETTINGS * sizeof *settings);
    enum base_error error = node_place_path(directory, "settings", path, why);
    if (!error)
        error = base_file_read_regular(path, SETTINGS_MAX, &data, &bytes, why);
    if (error)
        return error == BASE_ENOTFOUND ? BASE_OK : error;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    free(data);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (line[0] && !take_line(line, settings))
            return base_fail(why, BASE_EFORMAT,
                             "%s: found \"%.40s\", expected a setting as this program writes it; without the "
                             "file the node takes the settings of the cluster",
                             path, line);
    return BASE_OK;
}

enum base_error node_settings_write(const char *directory,
                                    const struct gossip_setting settings[GOSSIP_SETTINGS],
                                    struct base_reason *why)
{
    char path[NODE_PATH_BYTES], text[SETTINGS_MAX];
    size_t used = 0;
    enum base_error error = node_place_path(directory, "settings", path, why);
    if (error)
        return error;
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        if (settings[kind].round > 0)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%u %" PRIu64 " %" PRIu64 " %.17g %.17g\n", kind, settings[kind].round,
                                     settings[kind].by, settings[kind].value, settings[kind].before);
    BASE_ASSERT(used < sizeof text);
    return base_file_write(path, NODE_FILE_MODE, &(struct base_span){text, used}, 1, why);
}
