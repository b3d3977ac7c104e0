#include "base/plural.h"
#include "node/store/checkpoint.h"
#include "node/store/checkpoint_files.h"
#include "node/store/journal.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST_FILE ((size_t)1 << 40)

// The texts come from a file that anybody may have written: control characters must not reach the terminal.
static void print_text(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

// The short form of "edge.<id>": its first 8 digits.
static void print_name(const char *name, int width)
{
    char text[sizeof((struct node_tensor *)0)->name + 8];
    if (!strncmp(name, "edge.", 5) && strspn(name + 5, "0123456789abcdef") == 64)
        snprintf(text, sizeof text, "%.13s..%s", name, name + 5 + 64);
    else
        snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, name);
    printf("  ");
    print_text(text);
    printf("%*s", (int)strlen(text) < width ? width - (int)strlen(text) : 0, "");
}

struct statistics {
    double least, most, sum, squares; // over what is not NaN
    size_t count, nans, infinite;
};

static struct statistics measure(const struct node_tensor *tensor)
{
    struct statistics result = {.least = (double)INFINITY, .most = -(double)INFINITY};
    const size_t count = tensor->bytes / node_tensor_type_bytes(tensor->type);
    for (size_t i = 0; i < count; i++) {
        const double value = node_tensor_value(tensor, i);
        if (isnan(value)) {
            result.nans++;
            continue;
        }
        result.count++;
        result.infinite += isinf(value) != 0;
        result.least = value < result.least ? value : result.least;
        result.most = value > result.most ? value : result.most;
        result.sum += value;
        result.squares += value * value;
    }
    return result;
}

// Returns how many of its numbers are not finite.
static size_t print_tensor(const struct node_tensor *tensor, int width)
{
    char shape[8 * 24] = "";
    size_t used = 0;
    for (size_t i = 0; i < tensor->n_dims && used < sizeof shape; i++)
        used +=
            (size_t)snprintf(shape + used, sizeof shape - used, "%s%zu", i ? " x " : "", tensor->shape[i]);
    print_name(tensor->name, width);
    printf("  %-4s  %-12s", node_tensor_type_name(tensor->type), tensor->n_dims ? shape : "scalar");
    const struct statistics found = measure(tensor);
    if (found.count)
        printf("  %11.5g %11.4g %11.4g %11.4g", sqrt(found.squares), found.least,
               found.sum / (double)found.count, found.most);
    else
        printf("  %11s %11s %11s %11s", "-", "-", "-", "-");
    printf("  %zu\n", found.nans);
    return found.nans + found.infinite;
}

static enum base_error print_tensors(const struct node_safetensors *file, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    const size_t count = node_safetensors_count(file);
    int width = 8;
    for (size_t i = 0; i < count; i++) {
        const char *name = node_safetensors_at(file, i)->name;
        int length = strncmp(name, "edge.", 5) != 0 ? (int)strlen(name) : 28;
        width = length > width ? length : width;
    }
    printf("\ntensors  %zu\n  %-*s  %-4s  %-12s  %11s %11s %11s %11s  %s\n", count, width, "name", "type",
           "shape", "norm", "min", "mean", "max", "NaN");
    for (size_t i = 0; i < count; i++) {
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        const size_t bad = print_tensor(tensor, width);
        if (bad && !error)
            error = base_fail(why, BASE_EFORMAT,
                              "its tensor '%s' holds %zu number%s that %s: no training can continue from it",
                              tensor->name, bad, base_plural(bad),
                              bad == 1 ? "is NaN or infinite" : "are NaN or infinite");
    }
    return error;
}

// |a - b| over the model tensors in the order of the file, which is the order of the flat vector; negative
// where the vector has another length.
static double distance_to_model(const struct node_safetensors *file, const struct node_tensor *vector,
                                double *norm)
{
    double squares = 0, model_squares = 0;
    size_t at = 0;
    const size_t parameters = vector->bytes / node_tensor_type_bytes(vector->type);
    for (size_t i = 0; i < node_safetensors_count(file); i++) {
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        if (strncmp(tensor->name, "model.", 6) != 0 || tensor->type != NODE_TENSOR_F32)
            continue;
        for (size_t j = 0; j < tensor->bytes / sizeof(float); j++, at++) {
            if (at >= parameters)
                return -1;
            const double x = node_tensor_value(tensor, j), difference = x - node_tensor_value(vector, at);
            squares += difference * difference;
            model_squares += x * x;
        }
    }
    *norm = sqrt(model_squares);
    return at == parameters ? sqrt(squares) : -1;
}

static bool is_reference(const struct node_tensor *reference)
{
    return reference->type == NODE_TENSOR_F32 || reference->type == NODE_TENSOR_BF16;
}

static void print_edge(const struct node_safetensors *file, const char *key, const char *numbers)
{
    char name[160];
    uint64_t number[4];
    if (sscanf(numbers, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &number[0], &number[1], &number[2],
               &number[3]) != 4)
        return;
    printf("  %.64s  %7" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64, key + 5, number[0], number[1],
           number[2], number[3]);
    snprintf(name, sizeof name, "%.100s.transactions", key);
    const struct node_tensor *part = node_safetensors_find(file, name);
    printf(" %9zu", part ? part->bytes : 0);
    snprintf(name, sizeof name, "%.100s.reference", key);
    part = node_safetensors_find(file, name);
    double norm = 0, distance = part && is_reference(part) ? distance_to_model(file, part, &norm) : -1;
    if (distance >= 0 && norm > 0)
        printf("  %.3g\n", distance / norm);
    else
        printf("  -\n");
}

static void print_edges(const struct node_safetensors *file)
{
    const char *key, *value;
    bool any = false;
    for (size_t i = 0; (key = node_safetensors_metadata_at(file, i, &value)); i++) {
        if (strncmp(key, "edge.", 5) != 0 || strspn(key + 5, "0123456789abcdef") != 64 || key[5 + 64])
            continue;
        if (!any)
            printf("\nedges\n  %-64s  %7s %9s %9s %9s %9s  %s\n", "peer", "epoch", "sequence", "resync",
                   "clock", "open", "|x-r|/|x|");
        any = true;
        print_edge(file, key, value);
    }
}

static void print_metadata(const struct node_safetensors *file)
{
    const char *key, *value;
    for (size_t i = 0; (key = node_safetensors_metadata_at(file, i, &value)); i++) {
        if (!strncmp(key, "edge.", 5))
            continue;
        if (i == 0)
            printf("\nmetadata\n");
        print_name(key, 14);
        printf("  ");
        print_text(value);
        printf("\n");
    }
}

static void print_field(const struct node_safetensors *file, const char *key)
{
    const char *value = node_safetensors_metadata(file, key);
    if (!value)
        return;
    printf("%-7s  ", key);
    print_text(value);
    printf("\n");
}

static bool is_ours(const struct node_safetensors *file)
{
    const char *format = node_safetensors_metadata(file, "format");
    return format && !strcmp(format, NODE_CHECKPOINT_FORMAT);
}

static bool is_of_p2pml(const struct node_safetensors *file)
{
    return is_ours(file) || node_safetensors_metadata(file, "p2pml");
}

static bool has_unknown_digest(const struct node_safetensors *file)
{
    return !node_safetensors_has_digest(file) && node_safetensors_metadata(file, "digest");
}

static void print_head(const struct node_safetensors *file, const char *path)
{
    struct stat status;
    const bool ours = is_ours(file);
    printf("file     ");
    print_text(path);
    if (!stat(path, &status))
        printf("\nsize     %jd bytes", (intmax_t)status.st_size);
    printf("\nformat   ");
    if (ours) {
        const char *version = node_safetensors_metadata(file, "version");
        printf("%s, version ", NODE_CHECKPOINT_FORMAT);
        print_text(version ? version : "(missing)");
    } else {
        printf("safetensors, %s of p2pml",
               node_safetensors_metadata(file, "p2pml") ? "a model" : "not a checkpoint");
    }
    printf(", digest %s\n", node_safetensors_has_digest(file) ? "right"
                            : has_unknown_digest(file)        ? "of an unknown kind"
                                                              : "missing");
    static const char *const fields[] = {"node", "model", "step", "round"};
    for (size_t i = 0; ours && i < sizeof fields / sizeof fields[0]; i++)
        print_field(file, fields[i]);
}

enum base_error node_checkpoint_inspect(const char *path, struct base_reason *why)
{
    struct node_safetensors *file;
    if (node_journal_is(path))
        return node_journal_inspect(path, why);
    enum base_error error = node_safetensors_read(path, LARGEST_FILE, 0, &file, why);
    if (error)
        return error;
    print_head(file, path);
    print_metadata(file);
    error = print_tensors(file, why);
    if (!is_of_p2pml(file)) // the meaning of other programs' numbers and digests is not known
        error = BASE_OK;
    else if (!error && has_unknown_digest(file))
        error =
            base_fail(why, BASE_EFORMAT,
                      "its digest is of a kind that this version does not know, so nobody has checked it");
    print_edges(file);
    node_safetensors_free(file);
    if (fflush(stdout) || ferror(stdout))
        return base_fail(why, BASE_EIO, "cannot write to standard output");
    return error ? base_fail_context(why, error, "'%s'", path) : BASE_OK;
}
