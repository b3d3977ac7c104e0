// The header of a .npy file (numpy.lib.format): magic, version, length, and a Python dictionary with exactly
// three keys.
#include "base/cursor.h"
#include "base/limits.h"
#include "train/npy_private.h"
#include <string.h>

#define HEADER_MAX 65536u

struct words { // the rest of the dictionary
    const char *at, *end;
};

static void skip_blanks(struct words *w)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\n'))
        w->at++;
}

static bool take(struct words *w, const char *text)
{
    const size_t length = strlen(text);
    skip_blanks(w);
    if ((size_t)(w->end - w->at) < length || memcmp(w->at, text, length) != 0)
        return false;
    w->at += length;
    return true;
}

static enum base_error fail_header(const struct train_bytes *file, const char *found, struct base_reason *why)
{
    return base_fail(why, BASE_EFORMAT, "%s: %s in its header, expected what numpy.save writes", file->name,
                     found);
}

// '<f4', '|u1', ...
static enum base_error take_type(const struct train_bytes *file, struct words *w,
                                 struct train_npy_array *array, struct base_reason *why)
{
    static const char *const known[] = {"<f4", "<f8", "|i1", "<i2", "<i4", "<i8",
                                        "|u1", "<u2", "<u4", "<u8", "|b1"};
    skip_blanks(w);
    if (w->at < w->end && *w->at == '[')
        return base_fail(why, BASE_EFORMAT, "%s: found a structured array, expected one of numbers",
                         file->name);
    if (!take(w, "'"))
        return fail_header(file, "no type", why);
    const char *begin = w->at, *quote = memchr(begin, '\'', (size_t)(w->end - begin));
    const size_t length = quote ? (size_t)(quote - begin) : 0;
    for (size_t i = 0; quote && i < sizeof known / sizeof *known; i++)
        if (length == 3 && memcmp(begin, known[i], 3) == 0) {
            array->kind = known[i][1];
            array->item_bytes = (size_t)(known[i][2] - '0');
            w->at = quote + 1;
            return BASE_OK;
        }
    char shown[9] = "";
    for (size_t i = 0; i < length && i < sizeof shown - 1; i++)
        shown[i] = begin[i] > ' ' && begin[i] <= '~' ? begin[i] : '?';
    const char *hint = shown[0] == '>' ? "; it is big-endian: x.astype(x.dtype.newbyteorder('<'))"
                       : shown[0] == '|' && shown[1] == 'O' ? "; Python objects are never read"
                                                            : "";
    return base_fail(why, BASE_EFORMAT,
                     "%s: found the type '%s', expected float32, float64, an integer or bool%s", file->name,
                     shown, hint);
}

static bool take_number(struct words *w, size_t *value)
{
    size_t sum = 0, digits = 0;
    skip_blanks(w);
    for (; w->at < w->end && *w->at >= '0' && *w->at <= '9' && digits < 12; w->at++, digits++)
        sum = 10 * sum + (size_t)(*w->at - '0');
    *value = sum;
    return digits > 0;
}

static enum base_error take_shape(const struct train_bytes *file, struct words *w,
                                  struct train_npy_array *array, struct base_reason *why)
{
    array->axes = 0;
    array->count = 1;
    if (!take(w, "("))
        return fail_header(file, "no shape", why);
    while (!take(w, ")")) {
        if (array->axes == TRAIN_NPY_AXES)
            return base_fail(why, BASE_ELIMIT, "%s: found more than %u axes", file->name, TRAIN_NPY_AXES);
        size_t *axis = &array->shape[array->axes++];
        if (!take_number(w, axis))
            return fail_header(file, "an invalid shape", why);
        if (*axis == 0)
            return base_fail(why, BASE_EFORMAT, "%s: found an empty array (axis %zu is 0), expected numbers",
                             file->name, array->axes);
        if (*axis > LIMIT_DATASET_VALUES / array->count)
            return base_fail(why, BASE_ELIMIT, "%s: the header states more than the limit of %llu values",
                             file->name, LIMIT_DATASET_VALUES);
        array->count *= *axis;
        if (!take(w, ",") && !(w->at < w->end && *w->at == ')'))
            return fail_header(file, "an invalid shape", why);
    }
    return BASE_OK;
}

static enum base_error take_entry(const struct train_bytes *file, struct words *w, unsigned *seen,
                                  struct train_npy_array *array, struct base_reason *why)
{
    static const char *const keys[] = {"'descr':", "'fortran_order':", "'shape':"};
    unsigned key = 0;
    while (key < 3 && !take(w, keys[key]))
        key++;
    if (key == 3 || *seen & 1u << key)
        return fail_header(file, "an unknown or repeated key", why);
    *seen |= 1u << key;
    if (key == 0)
        return take_type(file, w, array, why);
    if (key == 2)
        return take_shape(file, w, array, why);
    if (take(w, "True"))
        return base_fail(
            why, BASE_EFORMAT,
            "%s: found Fortran order, expected C order: numpy.ascontiguousarray(x) before saving",
            file->name);
    return take(w, "False") ? BASE_OK
                            : fail_header(file, "a fortran_order that is neither True nor False", why);
}

static enum base_error take_dictionary(const struct train_bytes *file, struct words *w,
                                       struct train_npy_array *array, struct base_reason *why)
{
    unsigned seen = 0;
    enum base_error error = take(w, "{") ? BASE_OK : fail_header(file, "no dictionary", why);
    while (!error && !take(w, "}")) {
        error = take_entry(file, w, &seen, array, why);
        if (!error && !take(w, ",")) {
            skip_blanks(w);
            if (w->at == w->end || *w->at != '}')
                error = fail_header(file, "a dictionary that does not end", why);
        }
    }
    skip_blanks(w);
    if (!error && (seen != 7 || w->at != w->end))
        error = fail_header(file, "a missing key or text after the dictionary", why);
    return error;
}

enum base_error train_npy_open(const struct train_bytes *file, struct train_npy_array *array,
                               struct base_reason *why)
{
    struct base_reader r = base_reader_of(file->data, file->bytes);
    struct train_npy_array found = {.name = file->name};
    const uint8_t *magic = base_read_bytes(&r, 6);
    if (!magic || memcmp(magic, "\x93NUMPY", 6) != 0)
        return base_fail(why, BASE_EFORMAT, "%s: does not begin like a .npy file, expected one (numpy.save)",
                         file->name);
    const unsigned major = base_read_u8(&r), minor = base_read_u8(&r);
    const size_t length = major == 1 ? base_read_u16(&r) : base_read_u32(&r);
    if (r.failed || major < 1 || major > 3 || minor != 0)
        return base_fail(why, BASE_EFORMAT, "%s: found version %u.%u of the format, expected 1.0 to 3.0",
                         file->name, major, minor);
    const uint8_t *text = length <= HEADER_MAX ? base_read_bytes(&r, length) : NULL;
    if (!text)
        return base_fail(why, BASE_EFORMAT, "%s: the file ends inside its header", file->name);
    struct words words = {(const char *)text, (const char *)text + length};
    enum base_error error = take_dictionary(file, &words, &found, why);
    if (error)
        return error;
    const size_t bytes = base_reader_left(&r);
    if (bytes != found.count * found.item_bytes)
        return base_fail(why, BASE_EFORMAT, "%s: found %zu bytes of values, expected %zu (%zu of %zu bytes)",
                         file->name, bytes, found.count * found.item_bytes, found.count, found.item_bytes);
    found.values = r.at;
    *array = found;
    return BASE_OK;
}

double train_npy_value(const struct train_npy_array *array, size_t index)
{
    const uint8_t *at = array->values + index * array->item_bytes;
    uint64_t bits = 0;
    for (size_t i = array->item_bytes; i-- > 0;)
        bits = bits << 8 | at[i];
    if (array->kind == 'f' && array->item_bytes == 8) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (array->kind == 'f') {
        const uint32_t half = (uint32_t)bits;
        float value;
        memcpy(&value, &half, sizeof value);
        return (double)value;
    }
    if (array->kind != 'i')
        return (double)bits;
    const unsigned spare = 64u - 8u * (unsigned)array->item_bytes; // the sign bit is extended over all upper
                                                                   // bits
    return (double)((int64_t)(bits << spare) >> spare);
}
