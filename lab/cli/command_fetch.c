// p2pml data fetch: data sets by name, and any file whose SHA-256 is known.
#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/fetch/fetch.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct wanted {
    const char *what, *digest; // a name, or an address and its SHA-256
    char directory[LAB_FETCH_PATH];
    struct lab_fetch_options options;
    uint64_t wait_s;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("dir", TEXT, options.directory),
    LAB_ARGUMENT("from", TEXT, options.from),
    LAB_ARGUMENT("ca", TEXT, options.authority),
    LAB_ARGUMENT("sha256", TEXT, digest),
    LAB_ARGUMENT("timeout", COUNT, wait_s, .expected = "seconds from 1 to 86400", .least = 1,
                 .most = LAB_FETCH_WAITS),
};
static const struct lab_arguments arguments = {"data fetch", table, sizeof table / sizeof *table};

static int list(void)
{
    fputs("p2pml data fetch: expected one of\n", stderr);
    for (size_t i = 0; i < lab_fetch_n_sets; i++)
        fprintf(stderr, "  %-18s%s\n", lab_fetch_sets[i].name, lab_fetch_sets[i].about);
    fputs("or an address https://... and --sha256 DIGEST; see 'p2pml help data'\n", stderr);
    return LAB_EXIT_USAGE;
}

static int get(const struct lab_fetch_file *file, const struct lab_fetch_options *options)
{
    struct base_reason why = {""};
    bool there = false;
    fprintf(stderr, "%s: from %s\n", file->name, options->from ? options->from : file->url);
    enum base_error error = lab_fetch(file, options, &there, &why);
    if (!error)
        error = lab_fetch_unpack(file->name, options->directory, &why);
    if (error)
        fprintf(stderr, "p2pml data fetch: %s\n", why.text);
    else
        fprintf(stderr, "%s: %s\n", file->name, there ? "exists already" : "done");
    return error ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
}

static int get_set(const struct lab_fetch_set *set, struct wanted *wanted)
{
    int status = LAB_EXIT_DONE;
    snprintf(wanted->directory, sizeof wanted->directory, "data/%s", set->name);
    if (!wanted->options.directory)
        wanted->options.directory = wanted->directory;
    for (size_t i = 0; i < set->n_files && status == LAB_EXIT_DONE; i++)
        status = get(&set->files[i], &wanted->options);
    if (status == LAB_EXIT_DONE)
        printf("Next: p2pml data info %s/%s\n", wanted->options.directory, set->look);
    return status;
}

// The file's name is the part of the address after the last '/'.
static int get_address(struct wanted *wanted)
{
    const char *last = strrchr(wanted->what, '/') + 1;
    char digest[LAB_FETCH_DIGEST + 1] = "";
    for (size_t i = 0; wanted->digest && wanted->digest[i] && i < LAB_FETCH_DIGEST; i++) {
        const char c = wanted->digest[i];
        digest[i] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    }
    if (!wanted->digest || strlen(wanted->digest) != LAB_FETCH_DIGEST ||
        strspn(digest, "0123456789abcdef") != LAB_FETCH_DIGEST) {
        fprintf(stderr,
                "p2pml data fetch: --sha256: found %s, expected the %d hexadecimal digits of the file\n",
                wanted->digest ? wanted->digest : "nothing", LAB_FETCH_DIGEST);
        return LAB_EXIT_USAGE;
    }
    if (!*last || *last == '.' || strpbrk(last, "?#")) {
        fprintf(stderr,
                "p2pml data fetch: found the address %s, expected one that ends with the name of a file\n",
                wanted->what);
        return LAB_EXIT_USAGE;
    }
    const struct lab_fetch_file file = {.name = last, .url = wanted->what, .sha256 = digest};
    if (!wanted->options.directory)
        wanted->options.directory = "data";
    const int status = get(&file, &wanted->options);
    if (status == LAB_EXIT_DONE)
        printf("Next: p2pml data info %s/%s\n", wanted->options.directory, last);
    return status;
}

int lab_command_fetch(int argc, char **argv)
{
    struct wanted wanted = {0};
    const enum lab_arguments_end end = lab_arguments_read(&arguments, argc, argv, &wanted);
    if (end == LAB_ARGUMENTS_HELP)
        return lab_command_about("data");
    if (end == LAB_ARGUMENTS_WRONG || argc - optind != 1)
        return list();
    wanted.what = argv[optind];
    wanted.options.wait_s = (unsigned)wanted.wait_s;
    if (strncmp(wanted.what, "https://", 8) == 0)
        return get_address(&wanted);
    const struct lab_fetch_set *set = lab_fetch_find(wanted.what);
    if (set)
        return get_set(set, &wanted);
    fprintf(stderr, "p2pml data fetch: found '%s', which is no known data set\n", wanted.what);
    return list();
}
