// The name of a choice, from the table of keys.
#include "lab/summary/summary.h"
#include <stdio.h>
#include <string.h>

const char *lab_choice_name(const char *key, int index, char *text, size_t capacity)
{
    const char *choices = "";
    for (size_t i = 0; i < node_config_schema.count; i++)
        if (strcmp(node_config_schema.keys[i].name, key) == 0)
            choices = node_config_schema.keys[i].choices;
    for (; index > 0; index--) {
        choices += strcspn(choices, "|");
        choices += *choices ? 1 : 0;
    }
    snprintf(text, capacity, "%.*s", (int)strcspn(choices, "|"), choices);
    return text;
}
