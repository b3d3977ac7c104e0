// Identity, secret and allow-list files: what is created, and what is refused with which message.
#include "base/limits.h"
#include "gossip/session/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])

static const char *const SEED_TEXT = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

struct place {
    char directory[64];
    char path[128];
};

static int setup(void **state)
{
    static struct place place;
    snprintf(place.directory, sizeof place.directory, "/tmp/p2pml-identity-XXXXXX");
    if (!mkdtemp(place.directory))
        return -1;
    snprintf(place.path, sizeof place.path, "%s/file", place.directory);
    *state = &place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    return rmdir(place->directory);
}

static void write_file(const char *path, const char *text, size_t bytes, mode_t mode)
{
    unlink(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static size_t read_file(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, capacity, file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

// The keys of the seed 00 01 ... 1f, computed with Python's hashlib and implementations of Ed25519 and X25519
// written from RFC 8032 and 7748.
static void test_seed_gives_fixed_keys(void **state)
{
    (void)state;
    uint8_t seed[32];
    struct gossip_identity identity;
    char hex[GOSSIP_ID_HEX];
    struct gossip_id exchange;
    for (unsigned i = 0; i < 32; i++)
        seed[i] = (uint8_t)i;
    gossip_identity_from_seed(seed, &identity);
    gossip_id_hex(&identity.id, hex);
    assert_string_equal(hex, "7b0b05242309c710f926829561f240f01ef1d608b1e6da4a2c324a6d06d472e3");
    memcpy(exchange.bytes, identity.exchange_public, 32);
    gossip_id_hex(&exchange, hex);
    assert_string_equal(hex, "6b8502cd9f66bc2671dcbb75aca9822ee377612b06ec99c000eef5ae04c15629");
}

static void test_the_binding_ties_the_exchange_key_to_the_id(void **state)
{
    (void)state;
    struct gossip_identity a, b;
    static const uint8_t seeds[2][32] = {{1}, {2}};
    gossip_identity_from_seed(seeds[0], &a);
    gossip_identity_from_seed(seeds[1], &b);
    assert_true(gossip_identity_binding_valid(&a.id, a.exchange_public, a.binding));
    assert_false(gossip_identity_binding_valid(&b.id, a.exchange_public, a.binding));
    assert_false(gossip_identity_binding_valid(&a.id, b.exchange_public, a.binding));
    for (size_t i = 0; i < sizeof a.binding; i++) {
        a.binding[i] ^= 4;
        assert_false(gossip_identity_binding_valid(&a.id, a.exchange_public, a.binding));
        a.binding[i] ^= 4;
    }
    static const struct gossip_identity zero;
    gossip_identity_wipe(&a);
    assert_memory_equal(&a, &zero, sizeof zero);
}

static void test_a_created_identity_loads_again(void **state)
{
    const struct place *place = *state;
    struct gossip_identity made, loaded, again;
    struct base_reason why = {0};
    struct stat status;
    static const mode_t umasks[] = {0000, 0022, 0077, 0777};
    for (size_t i = 0; i < LENGTH_OF(umasks); i++) {
        unlink(place->path);
        const mode_t before = umask(umasks[i]);
        const enum base_error error = gossip_identity_create(place->path, &made, &why);
        umask(before);
        assert_int_equal(error, BASE_OK);
        assert_int_equal(stat(place->path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_int_equal(status.st_size, 65);
        assert_int_equal(gossip_identity_load(place->path, &loaded, &why), BASE_OK);
        assert_memory_equal(&made, &loaded, sizeof made);
        if (i > 0)
            assert_memory_not_equal(&made.id, &again.id, sizeof made.id);
        again = made;
    }
    assert_int_equal(gossip_identity_create(place->path, &made, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, place->path));
    assert_memory_equal(&made, &loaded, sizeof made);
    assert_int_equal(gossip_identity_load(place->path, &again, &why), BASE_OK);
    assert_memory_equal(&again, &loaded, sizeof again);
}

static void test_create_needs_a_directory(void **state)
{
    const struct place *place = *state;
    struct gossip_identity identity;
    struct base_reason why = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/missing/file", place->directory);
    assert_int_equal(gossip_identity_create(path, &identity, &why), BASE_EIO);
    assert_non_null(strstr(why.text, path));
}

static void test_a_file_that_others_can_read_is_refused(void **state)
{
    const struct place *place = *state;
    struct gossip_identity identity;
    struct gossip_secrets secrets;
    char command[200];
    snprintf(command, sizeof command, "chmod 600 '%s'", place->path);
    static const mode_t refused[] = {0644, 0640, 0604, 0620, 0602, 0610, 0601, 0777};
    for (size_t i = 0; i < LENGTH_OF(refused); i++) {
        struct base_reason why = {0};
        write_file(place->path, SEED_TEXT, strlen(SEED_TEXT), refused[i]);
        assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_EAUTH);
        assert_non_null(strstr(why.text, command));
        why.text[0] = '\0';
        assert_int_equal(gossip_secrets_load(place->path, &secrets, &why), BASE_EAUTH);
        assert_non_null(strstr(why.text, command));
    }
    write_file(place->path, SEED_TEXT, strlen(SEED_TEXT), 0400);
    assert_int_equal(gossip_identity_load(place->path, &identity, NULL), BASE_OK);
}

// In a process of another user: whether it accepts the secret.
static bool is_taken_by_another_user(const char *path)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct gossip_secrets secrets;
        const bool taken =
            setgid(65534) == 0 && setuid(65534) == 0 && !gossip_secrets_load(path, &secrets, NULL);
        _exit(taken ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void test_a_secret_of_root_may_be_readable_by_a_group(void **state)
{
    const struct place *place = *state;
    static const mode_t refused[] = {0644, 0660, 0444, 0650, 0400};
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(place->directory, 0755), 0);
    for (size_t i = 0; i < LENGTH_OF(refused); i++) {
        write_file(place->path, SEED_TEXT, strlen(SEED_TEXT), refused[i]);
        assert_int_equal(chown(place->path, 0, 65534), 0);
        assert_false(is_taken_by_another_user(place->path));
    }
    assert_int_equal(chmod(place->path, 0440), 0);
    assert_true(is_taken_by_another_user(place->path));
    assert_int_equal(chown(place->path, 65534, 65534), 0); // its own file: it can correct the mode
    assert_false(is_taken_by_another_user(place->path));
    assert_int_equal(chmod(place->path, 0400), 0);
    assert_true(is_taken_by_another_user(place->path));
}

static void test_a_damaged_identity_is_refused(void **state)
{
    const struct place *place = *state;
    const size_t whole = strlen(SEED_TEXT);
    struct gossip_identity identity, before;
    struct base_reason why = {0};
    char text[5000];
    memset(&identity, 7, sizeof identity);
    before = identity;
    for (size_t cut = 0; cut < whole - 1; cut++) { // only the newline may be missing
        write_file(place->path, SEED_TEXT, cut, 0600);
        assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_EFORMAT);
    }
    for (size_t i = 0; i < whole; i++) {
        memcpy(text, SEED_TEXT, whole);
        text[i] = i % 2 == 0 ? 'g' : '\0';
        write_file(place->path, text, whole, 0600);
        assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_EFORMAT);
    }
    memset(text, 'a', sizeof text);
    write_file(place->path, text, 66, 0600);
    assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_EFORMAT);
    write_file(place->path, text, sizeof text, 0600);
    assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_EFORMAT);
    assert_int_equal(gossip_identity_load(place->directory, &identity, &why), BASE_EFORMAT);
    unlink(place->path);
    assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_ENOTFOUND);
    assert_memory_equal(&identity, &before, sizeof identity);
    write_file(place->path, SEED_TEXT, whole - 1, 0600);
    assert_int_equal(gossip_identity_load(place->path, &identity, &why), BASE_OK);
}

static void test_an_id_has_one_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "00",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f0",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g",
        " 00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    };
    struct gossip_id id, same;
    char hex[GOSSIP_ID_HEX];
    memset(&id, 0xa5, sizeof id);
    same = id;
    for (size_t i = 0; i < LENGTH_OF(bad); i++)
        assert_int_equal(gossip_id_parse(bad[i], &id), BASE_EFORMAT);
    assert_memory_equal(&id, &same, sizeof id);
    gossip_id_hex(&id, hex);
    memset(&same, 0, sizeof same);
    assert_int_equal(gossip_id_parse(hex, &same), BASE_OK);
    assert_memory_equal(&id, &same, sizeof id);
}

static void test_a_secret_has_at_least_sixteen_bytes(void **state)
{
    const struct place *place = *state;
    struct gossip_secrets secrets[4] = {0};
    struct base_reason why = {0};
    struct stat status;
    char first[100], second[100];
    write_file(place->path, "sixteen letters!", 16, 0600);
    assert_int_equal(gossip_secrets_load(place->path, &secrets[0], &why), BASE_OK);
    write_file(place->path, "sixteen letters! \t\r\n\n", 21, 0600);
    assert_int_equal(gossip_secrets_load(place->path, &secrets[1], &why), BASE_OK);
    assert_memory_equal(&secrets[0], &secrets[1], sizeof secrets[0]);
    write_file(place->path, "fifteen letters\n\n\n", 18, 0600);
    assert_int_equal(gossip_secrets_load(place->path, &secrets[1], &why), BASE_EAUTH);
    assert_non_null(strstr(why.text, "15 bytes"));
    unlink(place->path);
    assert_int_equal(gossip_secrets_load(place->path, &secrets[1], &why), BASE_ENOTFOUND);
    assert_memory_equal(&secrets[0], &secrets[1], sizeof secrets[0]);

    assert_int_equal(gossip_secrets_load(NULL, &secrets[1], &why), BASE_OK); // no secret: a public constant
    assert_int_equal(gossip_secrets_load("", &secrets[2], &why), BASE_OK);
    assert_memory_equal(&secrets[1], &secrets[2], sizeof secrets[0]);
    assert_memory_not_equal(&secrets[0], &secrets[1], sizeof secrets[0]);

    assert_int_equal(gossip_secret_create(place->path, &why), BASE_OK);
    assert_int_equal(stat(place->path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(read_file(place->path, first, sizeof first), 45); // 44 of base64 and a newline
    assert_int_equal(first[44], '\n');
    assert_int_equal(gossip_secrets_load(place->path, &secrets[3], &why), BASE_OK);
    assert_int_equal(gossip_secret_create(place->path, &why), BASE_ESTATE);
    unlink(place->path);
    assert_int_equal(gossip_secret_create(place->path, &why), BASE_OK);
    assert_int_equal(read_file(place->path, second, sizeof second), 45);
    assert_memory_not_equal(first, second, 45);
}

// The psk of a line is that of a file with only that line.
static void test_a_secret_file_may_have_several_lines(void **state)
{
    const struct place *place = *state;
    static const char *const lines[] = {"the first of the secrets", "the second of the secrets",
                                        "the third of the secrets", "the fourth of the secrets"};
    struct gossip_secrets alone[4] = {0}, all = {0};
    struct base_reason why = {0};
    for (size_t i = 0; i < 4; i++) {
        write_file(place->path, lines[i], strlen(lines[i]), 0600);
        assert_int_equal(gossip_secrets_load(place->path, &alone[i], &why), BASE_OK);
        assert_int_equal(alone[i].count, 1);
    }
    for (size_t count = 1; count <= 4; count++)
        for (int style = 0; style < 3; style++) {
            static const char *const between[] = {"\n", "\r\n", " \t\n"}, *const last[] = {"", "\r\n",
                                                                                           "\n\n \n"};
            char text[400] = "";
            for (size_t i = 0; i < count; i++) {
                strcat(text, lines[i]);
                strcat(text, i + 1 < count ? between[style] : last[style]);
            }
            write_file(place->path, text, strlen(text), 0600);
            assert_int_equal(gossip_secrets_load(place->path, &all, &why), BASE_OK);
            assert_int_equal(all.count, count);
            for (size_t i = 0; i < 4; i++) {
                assert_int_equal(gossip_secrets_have(&all, alone[i].psk[0]), i < count);
                if (i < count)
                    assert_memory_equal(all.psk[i], alone[i].psk[0], 32);
            }
        }
}

static void test_a_wrong_secret_file_changes_nothing(void **state)
{
    const struct place *place = *state;
    static const struct {
        const char *text;
        enum base_error error;
        const char *why;
    } wrong[] = {
        {"", BASE_EAUTH, "line 1 of"},
        {"\nthe second of the secrets\n", BASE_EAUTH, "line 1 of"},
        {"the first of the secrets\n\nthe second of the secrets\n", BASE_EAUTH, "line 2 of"},
        {"the first of the secrets\nfifteen letters\n", BASE_EAUTH, "15 bytes"},
        {"the first of the secrets\nthe first of the secrets\n", BASE_EFORMAT, "line 2 of"},
        {"the first of the secrets\nthe second of the secrets\nthe first of the secrets \n", BASE_EFORMAT,
         "repeats"},
        {"aaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbb\ncccccccccccccccc\ndddddddddddddddd\neeeeeeeeeeeeeeee\n",
         BASE_ELIMIT, "more than 4 lines"},
    };
    for (size_t i = 0; i < LENGTH_OF(wrong); i++) {
        struct gossip_secrets secrets, before;
        struct base_reason why = {0};
        memset(&secrets, 0x5a, sizeof secrets);
        memcpy(&before, &secrets, sizeof before);
        write_file(place->path, wrong[i].text, strlen(wrong[i].text), 0600);
        assert_int_equal(gossip_secrets_load(place->path, &secrets, &why), wrong[i].error);
        assert_non_null(strstr(why.text, wrong[i].why));
        assert_non_null(strstr(why.text, place->path));
        assert_null(strstr(why.text, "of the secrets")); // no secret is printed
        assert_memory_equal(&secrets, &before, sizeof before);
    }
}

static void test_an_allow_list_allows_the_ids_in_it(void **state)
{
    const struct place *place = *state;
    static const char text[] = "# who may train\n"
                               "\n"
                               "  000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\t\r\n"
                               "ff0102030405060708090A0B0C0D0E0F101112131415161718191a1b1c1d1e1f # node-03\n"
                               "   # nobody else";
    struct gossip_allow_list list = {0};
    struct base_reason why = {0};
    struct gossip_id id;
    write_file(place->path, text, sizeof text - 1, 0644);
    assert_int_equal(gossip_allow_list_load(place->path, &list, &why), BASE_OK);
    assert_int_equal(list.count, 2);
    for (unsigned i = 0; i < 32; i++)
        id.bytes[i] = (uint8_t)i;
    assert_true(gossip_allow_list_has(&list, &id));
    id.bytes[0] = 0xff;
    assert_true(gossip_allow_list_has(&list, &id));
    id.bytes[31] ^= 1;
    assert_false(gossip_allow_list_has(&list, &id));
    gossip_allow_list_destroy(&list);
    assert_int_equal(list.count, 0);

    write_file(place->path, "", 0, 0644);
    assert_int_equal(gossip_allow_list_load(place->path, &list, &why), BASE_OK);
    assert_false(gossip_allow_list_has(&list, &id));
    gossip_allow_list_destroy(&list);
}

static void test_the_error_of_an_allow_list_names_file_and_line(void **state)
{
    const struct place *place = *state;
    static const char *const bad[] = {
        "# one\n\n000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1\n",
        "#\n#\n000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f node-03\n",
        "\n\nnode-03\n# x\n",
    };
    struct gossip_id one = {.bytes = {1}};
    struct gossip_allow_list list = {.ids = &one, .count = 1};
    char place_text[200];
    snprintf(place_text, sizeof place_text, "%s:3:", place->path);
    for (size_t i = 0; i < LENGTH_OF(bad); i++) {
        struct base_reason why = {0};
        write_file(place->path, bad[i], strlen(bad[i]), 0644);
        assert_int_equal(gossip_allow_list_load(place->path, &list, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, place_text));
        assert_ptr_equal(list.ids, &one); // the old list is kept
    }
    struct base_reason why = {0};
    unlink(place->path);
    assert_int_equal(gossip_allow_list_load(place->path, &list, &why), BASE_ENOTFOUND);

    FILE *file = fopen(place->path, "wb");
    assert_non_null(file);
    for (unsigned i = 0; i <= LIMIT_PEERS; i++)
        fprintf(file, "%064x\n", i);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(gossip_allow_list_load(place->path, &list, &why), BASE_ELIMIT);
    snprintf(place_text, sizeof place_text, "%s:%u:", place->path, LIMIT_PEERS + 1);
    assert_non_null(strstr(why.text, place_text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed_gives_fixed_keys),
        cmocka_unit_test(test_the_binding_ties_the_exchange_key_to_the_id),
        cmocka_unit_test_setup_teardown(test_a_created_identity_loads_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_create_needs_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_others_can_read_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_secret_of_root_may_be_readable_by_a_group, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_identity_is_refused, setup, teardown),
        cmocka_unit_test(test_an_id_has_one_text),
        cmocka_unit_test_setup_teardown(test_a_secret_has_at_least_sixteen_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_secret_file_may_have_several_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wrong_secret_file_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_allow_list_allows_the_ids_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_error_of_an_allow_list_names_file_and_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
