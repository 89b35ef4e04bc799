// commands/reference.c -- writes the manual page's lists of commands and settings.
#include "commands/reference.h"

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/help_text.h"

static void add_choices(struct buf *b, const char *const *choices, const char *between)
{
    for (int i = 0; choices && choices[i]; i++) {
        if (b->length) buf_puts(b, between);
        buf_puts(b, choices[i]);
    }
}

// Bounds beyond this mean "unlimited" and are not shown.
static const double far = 1e9;

static void add_range(struct buf *b, const struct setting *row)
{
    const bool from = row->min > -far, to = row->max < far;
    if (from && to)
        buf_printf(b, "%.10g..%.10g", row->min, row->max);
    else if (from)
        buf_printf(b, "%.10g or more", row->min);
    else if (to)
        buf_printf(b, "%.10g or less", row->max);
    else
        buf_puts(b, row->type == SETTING_INTEGER ? "whole number" : "number");
    if (row->unit) buf_printf(b, " %s", row->unit);
    add_choices(b, row->choices, " | ");
}

char *setting_allowed(const struct setting *row)
{
    struct buf b = { 0 };
    switch (row->type) {
    case SETTING_FLAG: buf_puts(&b, "on | off"); break;
    case SETTING_INTEGER:
    case SETTING_REAL: add_range(&b, row); break;
    case SETTING_LIST:
        buf_puts(&b, "numbers such as 3, 2-5,22-29 or 60%-80%");
        add_choices(&b, row->choices, " | ");
        break;
    case SETTING_REALS:
        add_range(&b, row);
        buf_puts(&b, ", or several separated by commas");
        break;
    case SETTING_FACTORS:
        buf_puts(&b, "FILE=NUMBER, or several separated by commas");
        add_choices(&b, row->choices, " | ");
        break;
    case SETTING_CHOICE: add_choices(&b, row->choices, " | "); break;
    case SETTING_VALUE:
        buf_puts(&b, "true | false | number | text | JSON");
        add_choices(&b, row->choices, " | ");
        break;
    case SETTING_TEXT:
    case SETTING_PATH:
        buf_puts(&b, "text");
        add_choices(&b, row->choices, " | ");
        break;
    }
    return buf_take(&b);
}

// --- the manual page -----------------------------------------------------------------------------

static void add_roff(struct buf *out, const char *text)
{
    bool start = true; // at the start of a line, . and ' would begin a request
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) buf_puts(out, "\\&");
        if (*text == '\\')
            buf_puts(out, "\\e");
        else if (*text == '-')
            buf_puts(out, "\\-");
        else
            buf_putc(out, *text);
        start = *text == '\n';
    }
}

static void man_entry(struct buf *out, const char *head, const char *values, const char *help)
{
    buf_puts(out, ".TP\n.B ");
    add_roff(out, head);
    buf_putc(out, '\n');
    add_roff(out, help);
    buf_putc(out, '\n');
    if (!values) return;
    add_roff(out, values);
    buf_putc(out, '\n');
}

// Writes a paragraph, an item or an example; an example stays on its own line.
static void man_part(struct buf *out, const struct help_part *part)
{
    static const char *const before[] = { ".PP\n", ".TP\n", ".PP\n.nf\n" };
    buf_puts(out, before[part->kind]);
    if (part->term) {
        add_roff(out, part->term);
        buf_putc(out, '\n');
    }
    add_roff(out, part->text);
    buf_puts(out, part->kind == HELP_EXAMPLE ? "\n.fi\n" : "\n");
}

static void man_command(struct buf *out, const struct command *c)
{
    struct help_part part;
    man_entry(out, c->usage, NULL, c->help);
    if (c->alias) {
        buf_puts(out, "Also: ");
        add_roff(out, c->alias);
        buf_puts(out, ".\n");
    }
    char *details = command_details(c);
    if (*details) buf_puts(out, ".RS\n");
    for (const char *at = details; help_part_next(&at, &part); help_part_release(&part))
        man_part(out, &part);
    if (*details) buf_puts(out, ".RE\n");
    free(details);
}

static void man_setting(struct buf *out, const struct setting *row, const char *allowed)
{
    char *values = xasprintf("(%s; default: %s)", allowed, row->def[0] ? row->def : "empty");
    man_entry(out, row->key, values, row->help);
    free(values);
}

void reference_write(struct buf *out)
{
    const struct command *c;
    const struct setting *row;
    buf_puts(out, ".SH COMMANDS\n");
    for (int i = 0; (c = command_at(i)); i++) man_command(out, c);
    buf_puts(out, ".SH SETTINGS\n");
    for (int i = 0; (row = settings_row(i)); i++) {
        char *allowed = setting_allowed(row);
        man_setting(out, row, allowed);
        free(allowed);
    }
}
