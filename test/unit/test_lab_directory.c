// The directory of a run, the ports of its nodes and their environment.
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/term/environment.h"
#include "lab/term/ports.h"
#include "test/support/temporary.h"

// Nodes listen only later, so it is not enough that a port is free: it belongs to one run until that run
// releases it.
static void a_port_belongs_to_one_run(void **state)
{
    (void)state;
    struct lab_ports mine, others;
    struct base_reason why = {""};
    assert_int_equal(lab_ports_claim(128, &mine, &why), BASE_OK);
    assert_int_equal(lab_ports_claim(128, &others, &why), BASE_OK); // begins at the same place
    for (size_t i = 0; i < 128; i++) {
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(mine.port[i], mine.port[k]);
        for (size_t k = 0; k < 128; k++)
            assert_int_not_equal(mine.port[i], others.port[k]);
    }
    lab_ports_release(&mine);
    lab_ports_release(&others);
}

static void variables_of_the_experiment_are_removed_from_the_environment(void **state)
{
    (void)state;
    char path[] = "PATH=/bin", steps[] = "P2PML_TRAIN_STEPS=3", cpu[] = "P2PML_CPU=scalar",
         node[] = "P2PML_NODE=x";
    char *all[] = {steps, path, cpu, node, NULL}, **kept = lab_environment(all, false);
    assert_non_null(kept);
    assert_string_equal(kept[0], path);
    assert_string_equal(kept[1], cpu);
    assert_null(kept[2]);
    free(kept);
}

static bool is_there(const char *directory, const char *name)
{
    char *path = lab_path("%s/%s", directory, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void put(const char *directory, const char *name)
{
    char *path = lab_path("%s/%s", directory, name);
    temporary_write(path, "x");
    free(path);
}

static void a_finished_result_is_kept(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/run", base), *summary = lab_path("%s/summary.json", path);
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_OK);
    lab_directory_close(&directory);
    temporary_write(summary, "{\"status\": \"failed\"}");
    // may be called again
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_OK);
    lab_directory_close(&directory);
    temporary_write(summary, "{\"status\": \"complete\"}");
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "holds a finished result"));
    assert_true(is_there(path, "summary.json"));
    assert_int_equal(lab_directory_open(path, true, false, &directory, &why), BASE_OK);
    assert_false(is_there(path, "summary.json"));
    lab_directory_close(&directory);
    temporary_remove(base);
    free(summary);
    free(path);
}

static void a_directory_must_be_of_a_run_or_empty(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory, second;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/some/where", base), *node = lab_path("%s/node-63", path);
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_OK); // made by it
    assert_int_equal(lab_directory_open(path, false, false, &second, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "another 'p2pml run' is using"));
    lab_directory_close(&directory);
    // A directory of a run: the files of a run are removed, other files stay.
    assert_int_equal(base_directory_make(node, 0777, &why), BASE_OK);
    put(node, "checkpoint");
    put(path, "summary.json");
    put(path, "notes");
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_OK);
    assert_true(!is_there(path, "node-63") && !is_there(path, "summary.json") && is_there(path, "notes"));
    lab_directory_close(&directory);
    // Not a directory of a run.
    char *command = lab_path("rm %s/%s", path, LAB_MARK);
    assert_int_equal(system(command), 0);
    put(path, "summary.json");
    assert_int_equal(lab_directory_open(path, false, false, &directory, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "--fresh"));
    assert_true(is_there(path, "summary.json") && !is_there(path, LAB_MARK));
    assert_int_equal(lab_directory_open(path, true, false, &directory, &why), BASE_OK);
    assert_true(!is_there(path, "summary.json") && is_there(path, "notes"));
    lab_directory_close(&directory);
    free(command);
    temporary_remove(base);
    free(node);
    free(path);
}

static void links_are_removed_and_not_followed(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/run", base), *other = lab_path("%s/other", base),
         *link = lab_path("%s/node-00", path);
    assert_int_equal(base_directory_make(path, 0777, &why), BASE_OK);
    assert_int_equal(base_directory_make(other, 0777, &why), BASE_OK);
    put(other, "precious");
    assert_int_equal(symlink(other, link), 0);
    assert_int_equal(lab_directory_open(path, true, false, &directory, &why), BASE_OK);
    assert_true(is_there(other, "precious") && !is_there(path, "node-00"));
    lab_directory_close(&directory);
    temporary_remove(base);
    free(path);
    free(other);
    free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_belongs_to_one_run),
        cmocka_unit_test(variables_of_the_experiment_are_removed_from_the_environment),
        cmocka_unit_test(a_directory_must_be_of_a_run_or_empty),
        cmocka_unit_test(a_finished_result_is_kept),
        cmocka_unit_test(links_are_removed_and_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
