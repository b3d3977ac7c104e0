// The meaning of a table from what the first pass has found: columns, categories and classes in their fixed
// order.
#include "train/table_private.h"
#include <stdlib.h>
#include <string.h>

static int order_items(const void *a, const void *b)
{
    return train_table_order(*(char *const *)a, *(char *const *)b);
}

static bool copy_sorted(const struct train_names *set, struct train_names *names)
{
    bool done = true;
    for (size_t i = 0; done && i < set->count; i++)
        done = train_names_add(names, set->items[i], strlen(set->items[i]));
    if (done && names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, order_items);
    return done;
}

static bool mean_column(const struct train_table_column *column, bool regression,
                        struct train_meaning *meaning)
{
    if (!train_names_add(&meaning->layout, column->name, strlen(column->name)))
        return false;
    if (column->role == TRAIN_COLUMN_IGNORED)
        return true;
    if (column->role == TRAIN_COLUMN_TARGET && !regression && !(meaning->label = strdup(column->name)))
        return false;
    if (column->role == TRAIN_COLUMN_TARGET)
        return regression ? train_names_add(&meaning->targets, column->name, strlen(column->name))
                          : copy_sorted(&column->set, &meaning->classes);
    struct train_column *made = &meaning->columns[meaning->n_columns++];
    made->name = strdup(column->name);
    const bool done = made->name && copy_sorted(&column->set, &made->categories);
    meaning->features += made->categories.count ? made->categories.count : 1;
    return done;
}

enum base_error train_table_mean(const struct train_table *table, struct train_meaning **out,
                                 struct base_reason *why)
{
    const bool regression = table->options->regression;
    struct train_meaning *meaning = train_meaning_create(0);
    bool done = meaning && (meaning->columns = calloc(table->count, sizeof *meaning->columns));
    for (size_t i = 0; done && i < table->count; i++)
        done = mean_column(&table->columns[i], regression, meaning);
    if (done)
        meaning->delimiter = table->options->delimiter;
    if (done && table->point != '.')
        meaning->decimal = table->point;
    enum base_error error = BASE_OK;
    if (!done)
        error = base_fail(why, BASE_ENOMEM, "%s: no memory for its columns", table->name);
    else if (!regression && meaning->classes.count < 2)
        error = base_fail(
            why, BASE_EFORMAT,
            "%s: data.target: found the class \"%.64s\" in all %zu rows, expected at least 2 classes",
            table->name, meaning->classes.items[0], table->rows);
    if (error)
        train_meaning_release(meaning);
    else
        *out = meaning;
    return error;
}
