#include "lab/doctor/findings.h"

#include "base/array.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 110 // of a line of text

static const char *const levels[] = {
    [LAB_FINDING_OK] = "ok", [LAB_FINDING_NOTE] = "note", [LAB_FINDING_PROBLEM] = "problem"};

static char *printable(char *text)
{
    for (char *c = text; c && *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

void lab_finding_add(struct lab_findings *findings, enum lab_finding_level level, const char *about,
                     const char *format, ...)
{
    struct lab_finding finding = {.level = level};
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&finding.text, format, arguments) < 0)
        finding.text = NULL;
    va_end(arguments);
    snprintf(finding.about, sizeof finding.about, "%s", about);
    printable(finding.about);
    findings->problems += level == LAB_FINDING_PROBLEM;
    if (printable(finding.text) &&
        base_array_add(&findings->items, &findings->count, &finding, sizeof finding))
        return;
    free(finding.text);
    findings->incomplete = true;
}

void lab_finding_advise(struct lab_findings *findings, const char *format, ...)
{
    struct lab_finding *latest = findings->count > 0 ? &findings->items[findings->count - 1] : NULL;
    va_list arguments;
    if (!latest || findings->incomplete)
        return;
    BASE_ASSERT(!latest->advice);
    va_start(arguments, format);
    if (vasprintf(&latest->advice, format, arguments) < 0) {
        latest->advice = NULL;
        findings->incomplete = true;
    }
    va_end(arguments);
    printable(latest->advice);
}

void lab_findings_free(struct lab_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->items[i].text);
        free(findings->items[i].advice);
    }
    free(findings->items);
    *findings = (struct lab_findings){0};
}

// Words, in lines that begin at column `indent`; the cursor is there already.
static void put_wrapped(FILE *out, int indent, const char *text)
{
    int column = indent;
    while (*text) {
        const int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static int width_of(const struct lab_findings *findings)
{
    int width = 0;
    for (size_t i = 0; i < findings->count; i++)
        if ((int)strlen(findings->items[i].about) > width)
            width = (int)strlen(findings->items[i].about);
    return width < 28 ? width : 28;
}

static void print_text(const struct lab_findings *findings, FILE *out)
{
    const int width = width_of(findings), indent = 8 + 1 + width + 2;
    for (size_t i = 0; i < findings->count; i++) {
        const struct lab_finding *f = &findings->items[i];
        fprintf(out, "%-8s %-*s  ", levels[f->level], width, f->about);
        if ((int)strlen(f->about) > width)
            fprintf(out, "\n%*s", indent, "");
        put_wrapped(out, indent, f->text);
        if (!f->advice)
            continue;
        fprintf(out, "%*s-> ", indent, "");
        put_wrapped(out, indent + 3, f->advice);
    }
    if (findings->problems == 0)
        fputs("No problem was found.\n", out);
    else
        fprintf(out, "%zu %s found.\n", findings->problems,
                findings->problems == 1 ? "problem was" : "problems were");
}

static void print_json(const struct lab_findings *findings, FILE *out)
{
    json_t *root = json_object(), *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const struct lab_finding *f = &findings->items[i];
        json_t *row = json_object();
        json_object_set_new(row, "level", json_string(levels[f->level]));
        json_object_set_new(row, "about", json_string(f->about));
        json_object_set_new(row, "text", json_string(f->text));
        json_object_set_new(row, "advice", f->advice ? json_string(f->advice) : json_null());
        json_array_append_new(list, row);
    }
    json_object_set_new(root, "problems", json_integer((json_int_t)findings->problems));
    json_object_set_new(root, "findings", list);
    json_dumpf(root, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    fputc('\n', out);
    json_decref(root);
}

bool lab_findings_print(const struct lab_findings *findings, bool json, FILE *out)
{
    if (findings->incomplete)
        return false;
    if (json)
        print_json(findings, out);
    else
        print_text(findings, out);
    return fflush(out) == 0 && !ferror(out);
}
