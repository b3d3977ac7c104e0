#include "node/store/meaning_text.h"
#include "base/limits.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT 1

static const char *const scale_names[] = {"none", "standard", "minmax"};
static const char *const text_names[] = {"none", "bytes", "characters", "ids"}; // enum train_text
_Static_assert(sizeof scale_names / sizeof *scale_names == TRAIN_SCALES &&
                   sizeof text_names / sizeof *text_names == TRAIN_TEXTS,
               "every scale and every kind of text has a name");

// -- writing

static json_t *names_json(const struct train_names *names)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < names->count; i++)
        if (json_array_append_new(list, json_string(names->items[i]))) { // not UTF-8
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *floats_json(const float *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && values && i < count; i++)
        json_array_append_new(list, json_real((double)values[i]));
    return list;
}

static json_t *doubles_json(const double *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && values && i < count; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *columns_json(const struct train_meaning *m)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < m->n_columns; i++)
        json_array_append_new(list, json_pack("{s:s, s:o}", "name", m->columns[i].name, "categories",
                                              names_json(&m->columns[i].categories)));
    return list;
}

// Of a table: the layout of its file.
static int add_table(json_t *root, const struct train_meaning *m)
{
    int failed = 0;
    if (m->layout.count)
        failed |= json_object_set_new(root, "layout", names_json(&m->layout));
    if (m->label)
        failed |= json_object_set_new(root, "label", json_string(m->label));
    if (m->delimiter)
        failed |= json_object_set_new(root, "delimiter", json_stringn(&m->delimiter, 1));
    if (m->decimal)
        failed |= json_object_set_new(root, "decimal", json_stringn(&m->decimal, 1));
    return failed;
}

enum base_error node_meaning_text(const struct train_meaning *m, size_t indent, char **text,
                                  struct base_reason *why)
{
    json_t *root = json_pack(
        "{s:i, s:s, s:I, s:o, s:o, s:o, s:[I,I,I], s:s, s:o, s:o, s:o, s:o}", "p2pml_data", FORMAT, "text",
        text_names[m->text], "features", (json_int_t)m->features, "columns", columns_json(m), "classes",
        names_json(&m->classes), "targets", names_json(&m->targets), "image", (json_int_t)m->height,
        (json_int_t)m->width, (json_int_t)m->channels, "scale", scale_names[m->scale], "shift",
        doubles_json(m->shift, m->features), "factor", floats_json(m->factor, m->features), "target_shift",
        doubles_json(m->target_shift, m->targets.count), "target_factor",
        floats_json(m->target_factor, m->targets.count));
    const size_t form = indent ? JSON_INDENT(indent) : JSON_COMPACT;
    // Seventeen digits are enough for a double to read back to the same bits.
    *text = root && !add_table(root, m)
                ? json_dumps(root, form | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17))
                : NULL;
    json_decref(root);
    return *text ? BASE_OK
                 : base_fail(why, BASE_EINVAL,
                             "a name of a column, category or class is not UTF-8, or memory ran out");
}

enum base_error node_meaning_check(const struct train_meaning *meaning, struct base_reason *why)
{
    char *text = NULL;
    enum base_error error = meaning ? node_meaning_text(meaning, 0, &text, why) : BASE_OK;
    if (!error && text && strlen(text) > LIMIT_MEANING_BYTES)
        error =
            base_fail(why, BASE_ELIMIT,
                      "names and statistics of %zu features take %zu bytes, at most %u fit beside a model; "
                      "leave out data.scale, or categories",
                      meaning->features, strlen(text), LIMIT_MEANING_BYTES);
    free(text);
    return error;
}

// -- reading

static bool take_names(const json_t *list, size_t most, struct train_names *names)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(list) || json_array_size(list) > most)
        return false;
    json_array_foreach(list, i, item)
        if (!json_is_string(item) ||
            !train_names_add(names, json_string_value(item), json_string_length(item)))
            return false;
    return true;
}

static bool take_doubles(const json_t *list, size_t count, double **values)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(list) || (json_array_size(list) != count && json_array_size(list) != 0))
        return false;
    if (json_array_size(list) == 0)
        return true;
    if (!(*values = calloc(count, sizeof **values)))
        return false;
    json_array_foreach(list, i, item) {
        (*values)[i] = json_number_value(item);
        if (!json_is_number(item) || !isfinite((*values)[i]))
            return false;
    }
    return true;
}

// The factors of a scale: they divide, so each is above 0.
static bool take_factors(const json_t *list, size_t count, float **values)
{
    double *read = NULL;
    bool taken = take_doubles(list, count, &read);

    if (taken && read)
        taken = (*values = calloc(count, sizeof **values)) != NULL;
    for (size_t i = 0; taken && read && i < count; i++) {
        (*values)[i] = (float)read[i];
        taken = isfinite((*values)[i]) && (*values)[i] > 0;
    }
    free(read);
    return taken;
}

static bool take_columns(const json_t *list, struct train_meaning *m)
{
    size_t i, features = 0;
    const json_t *item;
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > LIMIT_COLUMNS)
        return false;
    m->columns = calloc(count + 1, sizeof *m->columns);
    if (!m->columns)
        return false;
    json_array_foreach(list, i, item) {
        struct train_column *column = &m->columns[m->n_columns++];
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || !(column->name = strdup(name)) ||
            !take_names(json_object_get(item, "categories"), LIMIT_CATEGORIES, &column->categories))
            return false;
        features += column->categories.count ? column->categories.count : 1;
    }
    return count == 0 || features == m->features;
}

// One without the other is not a scaling.
static bool are_both(bool there, const double *shift, const float *factor)
{
    return there == (shift != NULL) && there == (factor != NULL);
}

static bool take_scale(const json_t *root, struct train_meaning *m)
{
    const char *scale = json_string_value(json_object_get(root, "scale"));
    for (int i = 0; scale && i < TRAIN_SCALES; i++)
        if (strcmp(scale, scale_names[i]) == 0) {
            const bool scaled = i != TRAIN_SCALE_NONE;
            m->scale = (enum train_scale)i;
            return take_doubles(json_object_get(root, "shift"), m->features, &m->shift) &&
                   take_factors(json_object_get(root, "factor"), m->features, &m->factor) &&
                   take_doubles(json_object_get(root, "target_shift"), m->targets.count, &m->target_shift) &&
                   take_factors(json_object_get(root, "target_factor"), m->targets.count,
                                &m->target_factor) &&
                   are_both(scaled, m->shift, m->factor) &&
                   are_both(scaled && m->targets.count > 0, m->target_shift, m->target_factor);
        }
    return false;
}

static bool take_image(const json_t *list, struct train_meaning *m)
{
    size_t *const into[] = {&m->height, &m->width, &m->channels};
    for (size_t i = 0; i < 3; i++) {
        const json_int_t value = json_integer_value(json_array_get(list, i));
        if (value < 0 || value > LIMIT_IMAGE_SIDE)
            return false;
        *into[i] = (size_t)value;
    }
    if (m->height == 0 && m->width == 0 && m->channels == 0)
        return true;
    return (m->channels == 1 || m->channels == 3) && m->height * m->width * m->channels == m->features;
}

// Missing: none.
static bool take_text(const json_t *root, struct train_meaning *m)
{
    const json_t *item = json_object_get(root, "text");
    for (int i = 0; json_is_string(item) && i < TRAIN_TEXTS; i++)
        if (strcmp(json_string_value(item), text_names[i]) == 0) {
            m->text = (enum train_text)i;
            return true;
        }
    return !item;
}

// Without an entry, as in older files, the layout is that of the columns. It must contain every column.
static bool take_layout(const json_t *root, struct train_meaning *m)
{
    const json_t *list = json_object_get(root, "layout"), *label = json_object_get(root, "label");
    const char *delimiter = json_string_value(json_object_get(root, "delimiter")),
               *decimal = json_string_value(json_object_get(root, "decimal"));
    size_t next = 0;
    if (decimal && strcmp(decimal, ",") != 0 && strcmp(decimal, ".") != 0)
        return false;
    m->decimal = decimal ? decimal[0] : 0;
    if (delimiter && (strlen(delimiter) != 1 || strchr("\"\r\n", delimiter[0])))
        return false;
    m->delimiter = delimiter ? delimiter[0] : 0;
    if (label && (!json_is_string(label) || !(m->label = strdup(json_string_value(label)))))
        return false;
    for (size_t i = 0; !list && i < m->n_columns; i++)
        if (!train_names_add(&m->layout, m->columns[i].name, strlen(m->columns[i].name)))
            return false;
    if (list && !take_names(list, LIMIT_COLUMNS, &m->layout))
        return false;
    for (size_t i = 0; i < m->layout.count && next < m->n_columns; i++)
        next += strcmp(m->layout.items[i], m->columns[next].name) == 0;
    return next == m->n_columns;
}

static const char *take_all(const json_t *root, struct train_meaning *m)
{
    const json_int_t features = json_integer_value(json_object_get(root, "features"));
    if (json_integer_value(json_object_get(root, "p2pml_data")) != FORMAT)
        return "p2pml_data";
    if (features < 1 || (unsigned long long)features > LIMIT_DATASET_VALUES)
        return "features";
    m->features = (size_t)features;
    if (!take_text(root, m))
        return "text";
    if (!take_columns(json_object_get(root, "columns"), m))
        return "columns";
    if (!take_names(json_object_get(root, "classes"), LIMIT_CLASSES, &m->classes) || m->classes.count == 1)
        return "classes";
    if (!take_names(json_object_get(root, "targets"), LIMIT_COLUMNS, &m->targets))
        return "targets";
    if (!take_layout(root, m))
        return "layout";
    if (!take_image(json_object_get(root, "image"), m))
        return "image";
    return take_scale(root, m) ? NULL : "scale";
}

enum base_error node_meaning_parse(const char *name, const char *text, size_t bytes,
                                   struct train_meaning **out, struct base_reason *why)
{
    json_error_t where;
    enum base_error error = BASE_OK;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    struct train_meaning *meaning = train_meaning_create(1);
    const char *broken = NULL;
    if (!root)
        error = base_fail(why, BASE_EFORMAT,
                          "%s:%d: found %s, expected the JSON that 'p2pml data info --stats' writes", name,
                          where.line, where.text);
    else if (!meaning)
        error = base_fail(why, BASE_ENOMEM, "no memory for %s", name);
    else if ((broken = take_all(root, meaning)))
        error =
            base_fail(why, BASE_EFORMAT,
                      "%s: \"%s\" is missing or not valid, expected what 'p2pml data info --stats' writes",
                      name, broken);
    json_decref(root);
    if (error)
        train_meaning_release(meaning);
    else
        *out = meaning;
    return error;
}
