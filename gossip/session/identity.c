#include "gossip/session/identity.h"
#include "base/file.h"
#include "base/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEED_BYTES        32u
#define SEED_HEX          (2u * SEED_BYTES)
#define SECRET_BYTES      32u   // length of a secret that we create
#define SECRET_MIN        16u   // minimum length of any secret
#define SECRET_FILE_BYTES 4096u // maximum size of a secret or identity file

static const char SIGN_LABEL[] = "p2pml sign";
static const char EXCHANGE_LABEL[] = "p2pml kex";
static const char BINDING_LABEL[] = "p2pml static key";
static const char NO_SECRET[] = "p2pml without a cluster secret";

#define BINDING_TEXT_BYTES (sizeof BINDING_LABEL - 1 + 32)

// Keys

// BLAKE2b-256 of a label, keyed by the seed: an independent key for each label.
static void derive(const uint8_t seed[SEED_BYTES], const char *label, uint8_t out[32])
{
    crypto_generichash_blake2b(out, 32, (const uint8_t *)label, strlen(label), seed, SEED_BYTES);
}

static void binding_text(const uint8_t exchange_public[32], uint8_t text[BINDING_TEXT_BYTES])
{
    memcpy(text, BINDING_LABEL, sizeof BINDING_LABEL - 1);
    memcpy(text + sizeof BINDING_LABEL - 1, exchange_public, 32);
}

void gossip_identity_from_seed(const uint8_t seed[32], struct gossip_identity *identity)
{
    uint8_t signing_seed[32], text[BINDING_TEXT_BYTES];
    BASE_ASSERT(sodium_init() >= 0); // selects fast implementations; further calls do nothing
    derive(seed, SIGN_LABEL, signing_seed);
    crypto_sign_ed25519_seed_keypair(identity->id.bytes, identity->signing_secret, signing_seed);
    derive(seed, EXCHANGE_LABEL, identity->exchange_secret);
    (void)crypto_scalarmult_curve25519_base(identity->exchange_public,
                                            identity->exchange_secret); // can't fail
    binding_text(identity->exchange_public, text);
    crypto_sign_ed25519_detached(identity->binding, NULL, text, sizeof text, identity->signing_secret);
    sodium_memzero(signing_seed, sizeof signing_seed);
}

void gossip_identity_wipe(struct gossip_identity *identity)
{
    sodium_memzero(identity, sizeof *identity);
}

void gossip_identity_sign(const struct gossip_identity *identity, const uint8_t *bytes, size_t count,
                          uint8_t signature[64])
{
    crypto_sign_ed25519_detached(signature, NULL, bytes, count, identity->signing_secret);
}

bool gossip_identity_verify(const struct gossip_id *id, const uint8_t *bytes, size_t count,
                            const uint8_t signature[64])
{
    return crypto_sign_ed25519_verify_detached(signature, bytes, count, id->bytes) == 0;
}

bool gossip_identity_binding_valid(const struct gossip_id *id, const uint8_t exchange_public[32],
                                   const uint8_t binding[64])
{
    uint8_t text[BINDING_TEXT_BYTES];
    binding_text(exchange_public, text);
    return crypto_sign_ed25519_verify_detached(binding, text, sizeof text, id->bytes) == 0;
}

// Exactly 64 hex digits, in constant time.
static bool hex_decode(const char *hex, size_t length, uint8_t out[32])
{
    size_t bytes = 0;
    return length == SEED_HEX && sodium_hex2bin(out, 32, hex, length, NULL, &bytes, NULL) == 0 && bytes == 32;
}

void gossip_id_hex(const struct gossip_id *id, char hex[GOSSIP_ID_HEX])
{
    sodium_bin2hex(hex, GOSSIP_ID_HEX, id->bytes, GOSSIP_ID_BYTES);
}

enum base_error gossip_id_parse(const char *hex, struct gossip_id *id)
{
    struct gossip_id parsed;
    if (!hex_decode(hex, strnlen(hex, GOSSIP_ID_HEX), parsed.bytes))
        return BASE_EFORMAT;
    *id = parsed;
    return BASE_OK;
}

// Files with secrets are read here, so that no buffer keeps a copy.

// Reads to the end of the file; `data` has room for SECRET_FILE_BYTES + 1.
static enum base_error read_descriptor(int file, const char *path, uint8_t *data, size_t *bytes,
                                       struct base_reason *why)
{
    size_t have = 0;
    while (have <= SECRET_FILE_BYTES) {
        const ssize_t got = read(file, data + have, SECRET_FILE_BYTES + 1 - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return base_fail(why, BASE_EIO, "could not read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        have += (size_t)got;
    }
    if (have > SECRET_FILE_BYTES)
        return base_fail(why, BASE_EFORMAT, "%s has more than %u bytes, the maximum of such a file", path,
                         SECRET_FILE_BYTES);
    *bytes = have;
    return BASE_OK;
}

// Group and others must have no access, with one exception: if the file belongs to root and this process does
// not run as root, the group may read it. Service managers provide secrets in this way, with an access list
// that appears as the group mode (systemd's credentials) or with a group (Kubernetes' fsGroup).
static bool is_open_to_others(const struct stat *status)
{
    const bool handed_out = status->st_uid == 0 && geteuid() != 0;
    return (status->st_mode & (handed_out ? 037 : 077)) != 0;
}

// Opens the file before it checks the mode, so that the file cannot be replaced in between.
static enum base_error read_secret_file(const char *path, uint8_t *data, size_t *bytes,
                                        struct base_reason *why)
{
    struct stat status;
    enum base_error error = BASE_OK;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // must not block on a fifo
    if (file < 0)
        return base_fail(why, errno == ENOENT ? BASE_ENOTFOUND : BASE_EIO, "could not open %s: %s", path,
                         strerror(errno));
    if (fstat(file, &status) != 0)
        error = base_fail(why, BASE_EIO, "could not read the mode of %s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        error = base_fail(why, BASE_EFORMAT, "%s is not a regular file", path);
    else if (is_open_to_others(&status))
        error = base_fail(why, BASE_EAUTH,
                          "%s holds a secret, but its mode %04o gives group or others access; expected 0600. "
                          "Type: chmod 600 '%s'",
                          path, (unsigned)status.st_mode & 07777u, path);
    else
        error = read_descriptor(file, path, data, bytes, why);
    close(file);
    return error;
}

// Identity

enum base_error gossip_identity_load(const char *path, struct gossip_identity *identity,
                                     struct base_reason *why)
{
    uint8_t text[SECRET_FILE_BYTES + 1], seed[SEED_BYTES];
    size_t bytes = 0;
    enum base_error error = read_secret_file(path, text, &bytes, why);
    if (error)
        goto out;
    if (bytes == SEED_HEX + 1 && text[SEED_HEX] == '\n')
        bytes = SEED_HEX;
    if (!hex_decode((const char *)text, bytes, seed)) {
        error = base_fail(
            why, BASE_EFORMAT,
            "%s is not an identity: found %zu bytes, expected %u hex digits and a newline. Restore it from "
            "a copy, or move it away, and the node makes a new one (with a new id)",
            path, bytes, SEED_HEX);
        goto out;
    }
    gossip_identity_from_seed(seed, identity);
out:
    sodium_memzero(text, sizeof text);
    sodium_memzero(seed, sizeof seed);
    return error;
}

enum base_error gossip_identity_create(const char *path, struct gossip_identity *identity,
                                       struct base_reason *why)
{
    uint8_t seed[SEED_BYTES];
    char text[SEED_HEX + 2];
    BASE_ASSERT(sodium_init() >= 0);
    randombytes_buf(seed, sizeof seed);
    sodium_bin2hex(text, SEED_HEX + 1, seed, sizeof seed);
    text[SEED_HEX] = '\n';
    enum base_error error = base_file_create(path, 0600, text, SEED_HEX + 1, why);
    if (!error)
        gossip_identity_from_seed(seed, identity);
    sodium_memzero(text, sizeof text);
    sodium_memzero(seed, sizeof seed);
    return error;
}

// Cluster secret

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static size_t without_space(const uint8_t *text, size_t bytes)
{
    while (bytes > 0 && is_space(text[bytes - 1]))
        bytes--;
    return bytes;
}

bool gossip_secrets_have(const struct gossip_secrets *secrets, const uint8_t psk[32])
{
    bool found = false;
    for (size_t i = 0; i < secrets->count; i++)
        found |= sodium_memcmp(secrets->psk[i], psk, 32) == 0;
    return found;
}

uint64_t gossip_secret_mark(const uint8_t psk[32])
{
    uint8_t digest[16];
    uint64_t mark;
    crypto_generichash_blake2b(digest, sizeof digest, psk, 32, NULL, 0);
    memcpy(&mark, digest, sizeof mark);
    return mark;
}

bool gossip_secrets_marked(const struct gossip_secrets *secrets, uint64_t mark)
{
    bool found = false;
    for (size_t i = 0; i < secrets->count; i++)
        found |= gossip_secret_mark(secrets->psk[i]) == mark;
    return found;
}

static enum base_error add_secret(const char *path, const uint8_t *line, size_t bytes,
                                  struct gossip_secrets *secrets, struct base_reason *why)
{
    const size_t number = secrets->count + 1;
    if (number > LIMIT_SECRETS)
        return base_fail(why, BASE_ELIMIT, "%s has more than %u lines, each of which is a secret", path,
                         LIMIT_SECRETS);
    if (bytes < SECRET_MIN)
        return base_fail(why, BASE_EAUTH,
                         "the cluster secret in line %zu of %s has %zu bytes; expected at least %u, from a "
                         "random source. Make one with: p2pml keygen --secret FILE",
                         number, path, bytes, SECRET_MIN);
    uint8_t *psk = secrets->psk[secrets->count];
    crypto_generichash_blake2b(psk, 32, line, bytes, NULL, 0);
    if (gossip_secrets_have(secrets, psk))
        return base_fail(why, BASE_EFORMAT, "line %zu of %s repeats the secret of an earlier line", number,
                         path);
    secrets->count++;
    return BASE_OK;
}

static enum base_error read_secrets(const char *path, const uint8_t *text, size_t bytes,
                                    struct gossip_secrets *secrets, struct base_reason *why)
{
    bytes = without_space(text, bytes);
    do {
        const uint8_t *end = memchr(text, '\n', bytes);
        const size_t line = end ? (size_t)(end - text) : bytes, passed = line + (end != NULL);
        enum base_error error = add_secret(path, text, without_space(text, line), secrets, why);
        if (error)
            return error;
        text += passed;
        bytes -= passed;
    } while (bytes > 0);
    return BASE_OK;
}

enum base_error gossip_secrets_load(const char *path, struct gossip_secrets *secrets, struct base_reason *why)
{
    uint8_t text[SECRET_FILE_BYTES + 1];
    struct gossip_secrets read = {.count = 0};
    size_t bytes = 0;
    BASE_ASSERT(sodium_init() >= 0);
    enum base_error error = BASE_OK;
    if (!path || path[0] == '\0')
        crypto_generichash_blake2b(read.psk[read.count++], 32, (const uint8_t *)NO_SECRET,
                                   sizeof NO_SECRET - 1, NULL, 0);
    else
        error = read_secret_file(path, text, &bytes, why);
    if (!error && read.count == 0)
        error = read_secrets(path, text, bytes, &read, why);
    if (!error)
        *secrets = read;
    sodium_memzero(text, sizeof text);
    sodium_memzero(&read, sizeof read);
    return error;
}

enum base_error gossip_secret_create(const char *path, struct base_reason *why)
{
    uint8_t secret[SECRET_BYTES];
    char text[sodium_base64_ENCODED_LEN(SECRET_BYTES, sodium_base64_VARIANT_ORIGINAL) + 1];
    BASE_ASSERT(sodium_init() >= 0);
    randombytes_buf(secret, sizeof secret);
    sodium_bin2base64(text, sizeof text - 1, secret, sizeof secret, sodium_base64_VARIANT_ORIGINAL);
    const size_t length = strlen(text);
    text[length] = '\n';
    enum base_error error = base_file_create(path, 0600, text, length + 1, why);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    return error;
}

// Allow-list

// The part of a line before a comment, without surrounding white space.
static void trim_line(const char **line, size_t *length)
{
    const char *comment = memchr(*line, '#', *length);
    if (comment)
        *length = (size_t)(comment - *line);
    while (*length > 0 && is_space((uint8_t)(*line)[*length - 1]))
        --*length;
    while (*length > 0 && is_space((uint8_t) * *line)) {
        ++*line;
        --*length;
    }
}

static enum base_error parse_allow_list(const char *path, const char *text, size_t bytes,
                                        struct gossip_allow_list *list, struct base_reason *why)
{
    BASE_ASSERT(list->count <= LIMIT_PEERS);
    const char *const end = text + bytes;
    unsigned number = 0;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *line = text, *const next = newline ? newline + 1 : end;
        size_t length = (size_t)((newline ? newline : end) - line);
        text = next;
        number++;
        trim_line(&line, &length);
        if (length == 0)
            continue;
        if (list->count == LIMIT_PEERS)
            return base_fail(why, BASE_ELIMIT, "%s:%u: more than %u ids", path, number, LIMIT_PEERS);
        if (!hex_decode(line, length, list->ids[list->count].bytes))
            return base_fail(
                why, BASE_EFORMAT,
                "%s:%u: expected one node id of %u hex digits, or a '#' comment; found %zu characters. "
                "A node prints its id when it starts",
                path, number, SEED_HEX, length);
        list->count++;
    }
    return BASE_OK;
}

enum base_error gossip_allow_list_load(const char *path, struct gossip_allow_list *list,
                                       struct base_reason *why)
{
    struct gossip_allow_list parsed = {0};
    uint8_t *text = NULL;
    size_t bytes = 0;
    enum base_error error = base_file_read_regular(path, LIMIT_CONFIG_BYTES, &text, &bytes, why);
    if (error)
        goto out;
    parsed.ids = calloc(LIMIT_PEERS, sizeof *parsed.ids);
    if (!parsed.ids) {
        error = base_fail(why, BASE_ENOMEM, "no memory for the allow-list %s", path);
        goto out;
    }
    error = parse_allow_list(path, (const char *)text, bytes, &parsed, why);
    if (error)
        goto out;
    *list = parsed;
    parsed.ids = NULL;
out:
    free(parsed.ids);
    free(text);
    return error;
}

static bool is_among(const struct gossip_id *ids, size_t count, const struct gossip_id *id)
{
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&ids[i], id) == 0)
            return true;
    return false;
}

bool gossip_allow_list_has(const struct gossip_allow_list *list, const struct gossip_id *id)
{
    return !is_among(list->removed.ids, list->removed.count, id) &&
           (list->all || is_among(list->ids, list->count, id));
}

void gossip_allow_list_destroy(struct gossip_allow_list *list)
{
    free(list->ids);
    *list = (struct gossip_allow_list){0};
}
