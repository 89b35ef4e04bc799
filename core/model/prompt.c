// core/model/prompt.c -- prompt options: the model's chat template and the date.
#include <string.h>

#include "core/base/event.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/model/families/family.h"
#include "core/settings/settings.h"

int model_prompt(const struct model *m, const struct settings *s, bool generation_prompt,
                 struct prompt_options *options, struct err *err)
{
    const char *name = settings_text(s, "chat.template");
    const bool own = !strcmp(name, "auto");
    const struct layout *layout = own ? m->layout : layout_find(name);
    if (!layout) return err_set(err, "no chat template '%s' (see /help templates)", name);
    if (own && m->template_problem && layout == layout_find("plain"))
        return err_set(
            err,
            "the chat template of '%s' cannot be rendered (%s), and no built-in "
            "template matches it: choose one with /set chat.template (see /help templates)",
            m->name, m->template_problem);
    // A text model's tokenizer.apply_chat_template tokenizes a rendered prompt unchanged. A
    // processor (of a model with pictures) adds BOS if the template has not written it; llama.cpp
    // does the same if the file asks for BOS.
    const bool as_rendered = !model_has_vision(m) && !m->checkpoint->gguf_count;
    const struct vision_kind *encoder = m->vision.config.kind; // NULL: text only
    const bool marks = encoder && encoder->picture_mark;
    const char *after = marks ? encoder->picture_after : m->family->picture_after;
    *options = (struct prompt_options){
        .template = own ? m->template : NULL,
        .variables = s,
        .layout = layout,
        .chat_template = m->checkpoint->chat_template,
        .date = settings_text(s, "chat.date"),
        .picture_before = m->family->picture_before ? m->family->picture_before : "",
        .picture_after = after ? after : "",
        .picture_mark = marks ? encoder->picture_mark : m->family->picture_mark,
        .picture_numbers = m->picture.numbered,
        .placeholder = m->placeholder,
        .vocab = m->decoder.config.vocab,
        .plain_data = settings_is(s, "data.special_tokens", "text"),
        .written = own && m->template && as_rendered,
        .generation_prompt = generation_prompt,
    };
    return 0;
}

static const char *const word_auto[] = { "auto", NULL };
static const char *const word_today[] = { "today", NULL };
static const char *const word_default[] = { "default", NULL };

// --- variables of the template -------------------------------------------------------------------

static const char pattern[] = "chat.template.*";

void prompt_offer_variables(const struct model *m)
{
    const struct names *n = chat_template_variables(m->template);
    settings_offer(pattern, (const char *const *)n->list, n->count);
}

// Refuses a variable that the template does not take: it would have no effect.
static int check_variable(struct setting_env *env, struct err *err)
{
    const char *key = env->row->key, *name = key + strlen(pattern) - 1;
    struct buf b = { 0 };
    size_t number;
    if (!settings_changed(env->settings, key)) return 0;
    if (setting_is_pattern(env->row))
        return err_set(err, "%s is a pattern for variables of the chat template: name one variable",
                       key);
    if (!env->model) return 0;
    const struct names *n = chat_template_variables(env->model->template);
    if (names_find(n, name, &number)) return 0;
    names_put(&b, n, 20);
    err_set(err, "the chat template of '%s' takes no variable '%s'%s%s", env->model->name, name,
            n->count ? ": its variables are " : " (it takes none)", b.data ? b.data : "");
    buf_release(&b);
    return -1;
}

// Warns about variables that have no effect because a built-in template is used.
static enum setting_stale apply_template(const struct setting *row, const struct setting_env *env)
{
    const struct setting *one;
    const char *name = settings_text(env->settings, "chat.template");
    for (int i = 0; strcmp(name, "auto") != 0 && (one = settings_row(i)); i++)
        if (one->type == SETTING_VALUE && (row == one || row->type != SETTING_VALUE) &&
            settings_changed(env->settings, one->key))
            sinks_notice(env->sinks,
                         "%s has no effect: the built-in template '%s' takes no variables",
                         one->key, name);
    return row->stale;
}

static int check_template(struct setting_env *env, struct err *err)
{
    const char *name = settings_text(env->settings, "chat.template");
    struct buf b = { 0 };
    if (!strcmp(name, "auto") || layout_find(name)) return 0;
    for (int i = 0; layout_name(i); i++) buf_printf(&b, ", %s", layout_name(i));
    err_set(err, "no chat template '%s': use auto%s", name, b.data ? b.data : "");
    buf_release(&b);
    return -1;
}

// Resolves the date, if the template writes one.
static char *effective_date(const struct model *m, const struct backend *b,
                            const struct settings *s)
{
    struct prompt_options o;
    if (!m || model_prompt(m, s, true, &o, NULL) < 0 || !prompt_dated(&o)) return xstrdup("today");
    return prompt_date(&o);
}

static char *replay_date(const char *date, const char *arithmetic, int64_t began)
{
    return began || strcmp(date, "today") != 0 ? prompt_date_at(date, began) : NULL;
}

struct settings *prompt_undated(const struct settings *s)
{
    struct settings *copy = settings_copy(s);
    if (settings_is(s, "chat.date", "today")) settings_set(copy, "chat.date", "any day", NULL);
    return copy;
}

const struct setting chat_settings[] = {
    { .key = "chat.template",
      .type = SETTING_TEXT,
      .def = "auto",
      .choices = word_auto,
      .stale = STALE_PROMPT,
      .help = "Chat template: auto (the model folder's own) or a built-in one (/help templates).",
      .also = "prompt format",
      .check = check_template,
      .apply = apply_template },
    { .key = pattern,
      .type = SETTING_VALUE,
      .def = "default",
      .choices = word_default,
      .stale = STALE_PROMPT,
      .help = "Variable of the model's chat template, such as enable_thinking; default leaves it "
              "undefined.",
      .also = "thinking reasoning enable_thinking",
      .check = check_variable,
      .apply = apply_template },
    { .key = "chat.date",
      .type = SETTING_TEXT,
      .def = "today",
      .choices = word_today,
      .stale = STALE_PROMPT,
      .help = "Date for chat templates that print one (Llama-3.2): today, or a text such as \"26 "
              "Jul 2024\".",
      .effective = effective_date,
      .replay = replay_date },
    { 0 },
};
