// Checks of several keys together. Every message starts with the origin of the value and the key.
#include "base/limits.h"
#include "node/config/private.h"
#include "node/schema/private.h"
#include "train/model.h"

#include <inttypes.h>
#include <string.h>

static bool is_name(const char *name)
{
    for (; *name; name++)
        if (!((*name >= '0' && *name <= '9') || (*name >= 'a' && *name <= 'z') ||
              (*name >= 'A' && *name <= 'Z') || strchr("._-", *name)))
            return false;
    return true;
}

static enum base_error check_name(const struct node_config *config, const char *key, const char *name,
                                  struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    size_t length = strlen(name);
    node_schema_found(name, length, found);
    if (length >= LIMIT_NODE_NAME_BYTES)
        return node_config_refuse(config, key, why, "found %s with %zu characters, expected at most %u",
                                  found, length, LIMIT_NODE_NAME_BYTES - 1);
    if (!is_name(name))
        return node_config_refuse(config, key, why,
                                  "found %s, expected only letters, digits, '.', '_' and '-'", found);
    return BASE_OK;
}

static enum base_error check_names(const struct node_config *config, struct base_reason *why)
{
    enum base_error error = check_name(config, "node.name", config->node.name, why);
    if (!error)
        error = check_name(config, "node.group", config->node.group, why);
    if (!error)
        error = check_name(config, "cluster.name", config->cluster.name, why);
    if (!error && !config->cluster.name[0])
        error = node_config_refuse(config, "cluster.name", why, "found \"\", expected a name");
    if (!error && !config->node.dir[0])
        error = node_config_refuse(config, "node.dir", why, "found \"\", expected a directory");
    return error;
}

static enum base_error check_addresses(const struct node_config *config, struct base_reason *why)
{
    char host[LIMIT_HOST_BYTES], http_host[LIMIT_HOST_BYTES], found[SCHEMA_FOUND_BYTES];
    uint16_t port = 0, http_port = 0;
    enum base_error error = node_address_parse(config->node.listen, host, &port, why);
    if (error)
        return node_config_at(config, "node.listen", why, error);
    node_schema_found(config->node.listen, strlen(config->node.listen), found);
    if (!node_address_is_loopback(host) && !config->cluster.secret_file[0] && !config->cluster.allow_file[0])
        return node_config_refuse(
            config, "node.listen", why,
            "found %s, which other hosts can reach, with neither cluster.secret_file nor cluster.allow_file, "
            "expected one of them: make a secret with 'p2pml keygen --secret FILE', copy it to every node "
            "and name it in cluster.secret_file",
            found);
    if (!config->node.http[0])
        return BASE_OK;
    error = node_address_parse(config->node.http, http_host, &http_port, why);
    if (error)
        return node_config_at(config, "node.http", why, error);
    if (port && port == http_port && strcasecmp(host, http_host) == 0)
        return node_config_refuse(config, "node.http", why,
                                  "found %s, which is also node.listen, expected another port", found);
    if (!node_address_is_loopback(http_host))
        node_config_say(BASE_LOG_WARN, config, "node.http",
                        "every host that can reach %s can read the status of this node: there is no password",
                        config->node.http);
    return BASE_OK;
}

static enum base_error check_secrets(const struct node_config *config, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    if (config->cluster.secret_file[0])
        error = node_config_check_file(config, "cluster.secret_file", config->cluster.secret_file,
                                       "the cluster's secret", why);
    if (!error && config->cluster.allow_file[0])
        error = node_config_check_file(config, "cluster.allow_file", config->cluster.allow_file,
                                       "ids of nodes", why);
    return error;
}

static bool is_repeated(const struct node_config *config, size_t peer)
{
    for (size_t i = 0; i < peer; i++)
        if (strcasecmp(config->peers.items[i], config->peers.items[peer]) == 0)
            return true;
    return false;
}

static enum base_error check_peers(const struct node_config *config, struct base_reason *why)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port = 0;
    bool far = false;
    if (config->peers.count > LIMIT_PEERS)
        return node_config_fail(config, "peers", BASE_ELIMIT, why, "found %zu peers, expected at most %u",
                                config->peers.count, LIMIT_PEERS);
    for (size_t i = 0; i < config->peers.count; i++) {
        const char *peer = config->peers.items[i];
        enum base_error error = node_address_parse(peer, host, &port, why);
        if (!error && !port)
            error = base_fail(why, BASE_EINVAL, "found \"%s:0\", expected the port where that node listens",
                              host);
        if (error)
            return node_config_at(config, "peers", why, error);
        far = far || !node_address_is_loopback(host);
        if (is_repeated(config, i))
            node_config_say(BASE_LOG_WARN, config, "peers", "%s is listed more than once; it counts once",
                            peer);
    }
    if (far && !node_address_parse(config->node.listen, host, &port, NULL) && node_address_is_loopback(host))
        node_config_say(BASE_LOG_WARN, config, "node.listen",
                        "peers on other hosts cannot connect to %s; they wait until this node connects to "
                        "them",
                        config->node.listen);
    if (far && config->node.advertise[0] && !node_address_parse(config->node.advertise, host, &port, NULL) &&
        node_address_is_loopback(host))
        node_config_say(
            BASE_LOG_WARN, config, "node.advertise",
            "peers on other hosts that are told %s reach themselves there; they call this node only at the "
            "address of a link that it opens to them",
            config->node.advertise);
    return BASE_OK;
}

static enum base_error check_decoder(const struct node_config *config, struct base_reason *why)
{
    static const char *const keys[] = {"model.layers", "model.width", "model.heads", "model.context",
                                       "model.dropout"};
    const bool decodes = config->model.kind == TRAIN_GPT2;
    if (decodes != node_config_is_text(config))
        return node_config_refuse(
            config, "model.kind", why,
            decodes ? "found gpt2, which learns from text, expected data.kind text or tokens with it"
                    : "found a model for numbers, expected gpt2 with data.kind text or tokens");
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !decodes; i++)
        node_config_warn_unused(config, keys[i], "model.kind is gpt2");
    if (decodes && config->model.width % config->model.heads)
        return node_config_refuse(config, "model.heads", why,
                                  "found %" PRIu64 ", expected a number that divides model.width, %" PRIu64,
                                  config->model.heads, config->model.width);
    return BASE_OK;
}

static enum base_error check_model(const struct node_config *config, struct base_reason *why)
{
    const struct node_integers *hidden = &config->model.hidden;
    if (config->model.init[0]) {
        enum base_error error =
            node_config_check_file(config, "model.init", config->model.init, "the weights of a model", why);
        if (error)
            return error;
    }
    const enum base_error error = check_decoder(config, why);
    if (error)
        return error;
    if (config->model.kind != TRAIN_MLP) {
        node_config_warn_unused(config, "model.hidden", "model.kind is mlp");
        return BASE_OK;
    }
    if (!hidden->count)
        return node_config_refuse(config, "model.hidden", why,
                                  "found an empty list, expected the units of at least one layer, such as "
                                  "[256]; without hidden layers it is model.kind softmax");
    if (hidden->count > LIMIT_LAYERS)
        return node_config_fail(config, "model.hidden", BASE_ELIMIT, why,
                                "found %zu layers, expected at most %u", hidden->count, LIMIT_LAYERS);
    // Widths are at most 65,536 and layers 32, so the sum cannot overflow. The inputs, and for some kinds of
    // data the classes, are known only from the files: at least one each.
    bool digits = config->data.kind == NODE_DATA_DIGITS;
    uint64_t inputs = digits                  ? NODE_DIGITS_FEATURES
                      : config->data.features ? config->data.features
                                              : 1,
             parameters = 0;
    uint64_t last = digits                              ? NODE_DIGITS_CLASSES
                    : node_config_finds_classes(config) ? 1
                                                        : config->data.classes;
    for (size_t i = 0; i <= hidden->count; i++) {
        uint64_t outputs = i < hidden->count ? hidden->items[i] : last;
        parameters += (inputs + 1) * outputs;
        inputs = outputs;
    }
    if (parameters > LIMIT_PARAMETERS)
        return node_config_fail(config, "model.hidden", BASE_ELIMIT, why,
                                "found layers with %" PRIu64 " parameters, expected at most %u", parameters,
                                LIMIT_PARAMETERS);
    return BASE_OK;
}

static enum base_error check_device(const struct node_config *config, struct base_reason *why)
{
    if (config->device.precision == 1 && config->device.kind == NODE_DEVICE_CPU)
        return node_config_refuse(config, "device.precision", why,
                                  "found bf16, expected fp32: device.kind is cpu, and bf16 is for cuda");
    const char *needs = config->device.kind == NODE_DEVICE_CPU             ? "device.kind cpu"
                        : config->average.outer_momentum > 0               ? "average.outer_momentum"
                        : config->average.reference == NODE_REFERENCE_BF16 ? "average.reference bf16"
                                                                           : NULL;
    if (config->device.exchange != NODE_EXCHANGE_DEVICE || !needs)
        return BASE_OK;
    return node_config_refuse(
        config, "device.exchange", why,
        "found device, expected auto or host beside %s: it works in the host's memory only", needs);
}

enum base_error node_config_check(const struct node_config *config, struct base_reason *why)
{
    enum base_error (*const checks[])(const struct node_config *, struct base_reason *) = {
        check_names,
        check_addresses,
        check_secrets,
        check_peers,
        node_config_check_data,
        check_model,
        check_device,
        node_config_check_train,
        node_config_check_average,
        node_config_check_method,
        node_config_check_topology,
        check_device,
    };
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !error; i++)
        error = checks[i](config, why);
    return error;
}
