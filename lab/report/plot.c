#include "lab/report/plot.h"

#include "base/file.h"
#include "lab/record/directory.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PLOTS_MAX 24u
#define NOT_FOUND 127 // env's exit status for a missing program

extern char **environ;

enum content { CURVES, TARGETS, SCRIPT };

struct wanted {
    const struct lab_run_results *results;
    const struct lab_plot *plot; // of SCRIPT
    enum lab_plot_format format;
};

static enum base_error write_file(const struct wanted *wanted, enum content content, const char *directory,
                                  const char *name, struct base_reason *why)
{
    char *text = NULL;
    size_t bytes = 0;
    enum base_error error = BASE_OK;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return base_fail(why, BASE_ENOMEM, "no memory for '%s'", name);
    if (content == CURVES)
        lab_plot_curves(wanted->results, out);
    else if (content == TARGETS)
        error = lab_plot_targets(wanted->results, out);
    else
        lab_plot_script(wanted->results, wanted->plot, wanted->format, out);
    if (fclose(out) || error)
        error = base_fail(why, BASE_ENOMEM, "no memory for '%s'", name);
    if (!error) {
        const struct base_span span = {text, bytes};
        char *path = lab_path("%s/%s", directory, name);
        error = base_file_write(path, 0644, &span, 1, why);
        free(path);
    }
    free(text);
    return error;
}

static enum base_error no_gnuplot(const char *directory, struct base_reason *why)
{
    return base_fail(why, BASE_ENOTFOUND,
                     "gnuplot is not installed (on Debian and Ubuntu: apt-get install gnuplot-nox); data and "
                     "scripts are in '%s'",
                     directory);
}

static enum base_error finish(pid_t child, const char *directory, const char *script, struct base_reason *why)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return base_fail(why, BASE_EIO, "cannot wait for gnuplot: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return BASE_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return no_gnuplot(directory, why);
    return base_fail(why, BASE_EIO, "gnuplot could not draw %s/%s (%s %d); its message is above", directory,
                     script, WIFEXITED(status) ? "exit status" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

// gnuplot runs in the directory of the data. env changes to it: posix_spawn cannot before glibc 2.29.
static enum base_error draw(const char *directory, const char *script, struct base_reason *why)
{
    pid_t child;
    char env[] = "env", gnuplot[] = "gnuplot", *name = lab_path("%s", script),
         *chdir = lab_path("--chdir=%s", directory);
    char *const arguments[] = {env, chdir, gnuplot, name, NULL};
    int failed = posix_spawnp(&child, env, NULL, NULL, arguments, environ);
    free(chdir);
    free(name);
    if (failed == ENOENT)
        return no_gnuplot(directory, why);
    if (failed)
        return base_fail(why, BASE_EIO, "cannot start gnuplot: %s", strerror(failed));
    return finish(child, directory, script, why);
}

static enum base_error write_all(const struct lab_run_results *results, const char *out,
                                 enum lab_plot_format format, unsigned *pictures, struct base_reason *why)
{
    struct lab_plot plots[PLOTS_MAX];
    char script[80];
    struct wanted wanted = {results, NULL, format};
    size_t count = lab_plots_of(results, plots, PLOTS_MAX);
    enum base_error error = base_directory_make(out, 0777, why);
    if (!error)
        error = write_file(&wanted, CURVES, out, "curves.dat", why);
    if (!error)
        error = write_file(&wanted, TARGETS, out, "targets.dat", why);
    for (size_t i = 0; i < count && !error; i++) {
        wanted.plot = &plots[i];
        snprintf(script, sizeof script, "%.63s.gp", plots[i].name);
        error = write_file(&wanted, SCRIPT, out, script, why);
    }
    for (size_t i = 0; i < count && !error; i++) {
        snprintf(script, sizeof script, "%.63s.gp", plots[i].name);
        error = draw(out, script, why);
        *pictures += !error;
    }
    return error;
}

enum base_error lab_plot_write(const char *directory, const char *out, enum lab_plot_format format,
                               unsigned *pictures, struct base_reason *why)
{
    struct lab_run_results results;
    *pictures = 0;
    enum base_error error = lab_run_results_read(directory, &results, why);
    if (error)
        return error;
    char *to = out ? lab_path("%s", out) : lab_path("%s/plots", directory);
    error = write_all(&results, to, format, pictures, why);
    free(to);
    lab_run_results_free(&results);
    return error;
}
