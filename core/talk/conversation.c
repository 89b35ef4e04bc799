// core/talk/conversation.c -- messages and pictures of a conversation, and their token ids.
#include "core/talk/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/data/dataset.h"
#include "core/model/families/family.h"
#include "core/picture/boxes.h"
#include "core/picture/source.h"
#include "core/settings/settings.h"

static const char *const word_auto[] = { "auto", NULL };

// Returns the longest sequence that the model was trained for; 0: no model.
static int64_t model_limit(const struct model *m)
{
    return m ? m->decoder.config.max_positions : 0;
}

static enum setting_stale apply_context(const struct setting *row, const struct setting_env *env)
{
    const int64_t most = model_limit(env->model);
    if (!settings_is(env->settings, row->key, "auto") && most > 0 &&
        settings_integer(env->settings, row->key) > most)
        sinks_notice(env->sinks, "ctx.max is above the model's limit of %lld tokens: %s",
                     (long long)most,
                     rope_bounded(&env->model->decoder.config.rope)
                         ? "its rotary scaling is supported no further"
                         : "answers beyond it may be worse, because the model was not trained on "
                           "such positions");
    return row->stale;
}

const struct setting ctx_settings[] = {
    { .key = "ctx.max",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e8,
      .def = "auto",
      .unit = "tokens",
      .choices = word_auto,
      .stale = STALE_NEXT,
      .help = "Context size of a conversation; auto is the model's limit, at most 8192.",
      .also = "context window memory",
      .apply = apply_context },
    { 0 },
};

void conversation_init(struct conversation *c, const struct backend *backend)
{
    *c = (struct conversation){ .backend = backend, .step = { .backend = backend } };
}

void conversation_clear(struct conversation *c)
{
    for (size_t i = 0; i < c->message_count; i++) message_release(&c->messages[i]);
    free(c->messages);
    for (size_t i = 0; i < c->picture_count; i++) {
        conversation_drop_visual(c, (int)i);
        picture_release(&c->pictures[i]);
    }
    free(c->pictures);
    free(c->waiting);
    c->messages = NULL;
    c->pictures = NULL;
    c->waiting = NULL;
    c->message_count = c->picture_count = c->waiting_count = 0;
    conversation_trim(c, 0);
}

void conversation_release(struct conversation *c)
{
    conversation_clear(c);
    conversation_reset_methods(c);
    kv_release(&c->kv);
    sequence_release(&c->cached);
    arena_release(&c->step);
}

bool conversation_has_ids(const struct conversation *c)
{
    for (size_t i = 0; i < c->message_count; i++)
        if (c->messages[i].ids.count) return true;
    return false;
}

static bool shows(const struct message *m, int picture)
{
    for (size_t i = 0; i < m->content_count; i++)
        if (!m->content[i].text && m->content[i].picture == picture) return true;
    return false;
}

static bool any_shows(const struct message *messages, size_t count, int picture)
{
    for (size_t i = 0; i < count; i++)
        if (shows(&messages[i], picture)) return true;
    return false;
}

static size_t pictures_shown(const struct message *messages, size_t count)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < messages[i].content_count; k++)
            shown += !messages[i].content[k].text;
    return shown;
}

// Counts the visual tokens of picture i as one of `shown` pictures. If that changes its shape,
// drops its visual tokens and its cached rows.
static void size_picture(struct conversation *c, size_t i, size_t shown)
{
    struct picture *p = &c->pictures[i];
    const struct picture_shape was = p->shape;
    if (!c->model || !p->bytes) return;
    model_size_picture(c->model, p, p->image.width, p->image.height, shown, c->limit);
    if (p->shape.several == was.several && p->shape.most_tokens == was.most_tokens &&
        p->shape.budget == was.budget && p->shape.mode == was.mode && p->shape.share == was.share)
        return;
    conversation_drop_visual(c, (int)i);
    conversation_drop_rows(c, (int)i);
}

void conversation_size_pictures(struct conversation *c, const struct message *messages,
                                size_t count)
{
    const size_t shown = pictures_shown(messages, count);
    for (size_t p = 0; p < c->picture_count; p++)
        if (any_shows(messages, count, (int)p)) size_picture(c, p, shown);
}

// Sizes pending pictures, counted together with the messages' pictures.
static void size_waiting_pictures(struct conversation *c)
{
    const size_t shown = pictures_shown(c->messages, c->message_count) + c->waiting_count;
    for (size_t i = 0; i < c->waiting_count; i++) size_picture(c, (size_t)c->waiting[i], shown);
}

void conversation_limit_pictures(struct conversation *c, const struct settings *s)
{
    const struct picture_limit limit = preprocess_limit(s);
    if (limit.most == c->limit.most && limit.share == c->limit.share &&
        limit.budget == c->limit.budget && limit.mode == c->limit.mode)
        return;
    c->limit = limit;
    conversation_size_pictures(c, c->messages, c->message_count);
    size_waiting_pictures(c);
}

static const char *const budgets[] = { "auto", "70", "140", "280", "560", "1120", NULL };
static const char *const modes[] = { "auto", "4x", "16x", NULL };
static const char *const resize_orders[] = { "pillow13", "pillow12", NULL };

// Refuses a limit below the visual tokens of the smallest picture.
static int check_max_tokens(struct setting_env *env, struct err *err)
{
    const int64_t most = preprocess_limit(env->settings).most;
    struct picture alone = { 0 }, beside = { 0 };
    if (!most || !env->model || !model_has_vision(env->model)) return 0;
    model_size_picture(env->model, &alone, 1, 1, 1, (struct picture_limit){ .most = most });
    model_size_picture(env->model, &beside, 1, 1, 2, (struct picture_limit){ .most = most });
    const int64_t least = alone.tokens < beside.tokens ? alone.tokens : beside.tokens;
    if (least <= most) return 0;
    return err_set(err,
                   "image.max_tokens: a picture costs at least %lld visual tokens with this model",
                   (long long)least);
}

static int check_budget(struct setting_env *env, struct err *err)
{
    const struct model *m = env->model;
    if (!m || !model_has_vision(m) || m->picture.fit == FIT_BUDGET ||
        !preprocess_limit(env->settings).budget)
        return 0;
    return err_set(err, "image.token_budget: only Gemma 4 has budgets of visual tokens; for this "
                        "model set image.max_tokens");
}

static int check_mode(struct setting_env *env, struct err *err)
{
    const struct model *m = env->model;
    const int64_t mode = preprocess_limit(env->settings).mode;
    if (!m || !model_has_vision(m) || !mode) return 0;
    if (m->picture.fit != FIT_SLICES)
        return err_set(err, "image.downsample_mode: only MiniCPM-V 4.6 has these modes; for this "
                            "model set image.downsample");
    if (mode == 4 || m->vision.config.join >= 0) return 0;
    return err_set(err, "image.downsample_mode: this model's encoder lacks the layer that joins "
                        "patches, so it has only the mode 4x");
}

static enum setting_stale apply_limit(const struct setting *row, const struct setting_env *env)
{
    conversation_limit_pictures(env->conversation, env->settings);
    if (env->stashed) conversation_limit_pictures(env->stashed, env->settings);
    return row->stale;
}

const struct setting image_settings[] = {
    { .key = "image.resize_order",
      .type = SETTING_CHOICE,
      .def = "pillow13",
      .choices = resize_orders,
      .stale = STALE_VISUAL,
      .help = "Order in which the two axes of a picture are resized: Pillow 13's, or that of "
              "Pillow 12 and older." },
    { .key = "image.max_tokens",
      .type = SETTING_INTEGER,
      .max = 1e6,
      .def = "0",
      .unit = "tokens",
      .stale = STALE_VISUAL,
      .help = "Maximum number of visual tokens per picture: larger pictures are shrunk or cut into "
              "fewer tiles; 0 uses the model's own limit.",
      .check = check_max_tokens,
      .apply = apply_limit },
    { .key = "image.token_budget",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = budgets,
      .stale = STALE_VISUAL,
      .help = "Visual tokens per picture for Gemma 4, which resizes every picture to nearly this "
              "many tokens; auto uses the model's default.",
      .also = "soft tokens resolution",
      .check = check_budget,
      .apply = apply_limit },
    { .key = "image.downsample_mode",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = modes,
      .stale = STALE_VISUAL,
      .help = "Patches per visual token for MiniCPM-V 4.6: 16x, or 4x, with about four times as "
              "many tokens; auto uses the model's default.",
      .also = "compression merge visual tokens",
      .check = check_mode,
      .apply = apply_limit },
    { .key = "image.downsample",
      .type = SETTING_REAL,
      .min = 0.001,
      .max = 1,
      .def = "1",
      .stale = STALE_VISUAL,
      .help = "Visual token downsampling: fraction of a picture's tokens to keep. "
              "Native-resolution encoders read a smaller picture; for other encoders, tokens are "
              "averaged over grid cells.",
      .apply = apply_limit },
    { .key = "image.boxes",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = box_choices,
      .stale = STALE_NOTHING,
      .help = "Coordinate convention of boxes in answers (shares of the picture, thousandths, "
              "pixels ...); auto is the model family's.",
      .also = "bounding box bbox grounding points coordinates" },
    { 0 },
};

// Returns "" while the fingerprint is unknown.
static const char *fingerprint(const struct model *m)
{
    return checkpoint_identified(m->checkpoint) ? m->checkpoint->fingerprint : "";
}

void conversation_set_model(struct conversation *c, const struct model *m)
{
    if (c->model) snprintf(c->ids_model, sizeof c->ids_model, "%s", fingerprint(c->model));
    // Token ids are meaningless to another model's tokenizer. Raw messages stay, so that undo
    // removes the same messages here and in the stored session.
    if (m && m != c->model && (!*fingerprint(m) || strcmp(fingerprint(m), c->ids_model) != 0))
        for (size_t i = 0; i < c->message_count; i++) message_drop_ids(&c->messages[i]);
    conversation_stale(c, STALE_VISUAL);
    conversation_reset_methods(c);
    kv_release(&c->kv);
    c->model = m;
    if (m) decoder_cache(&m->decoder, c->backend, &c->kv);
    for (size_t i = 0; i < c->picture_count; i++) c->pictures[i].tokens = 0;
    conversation_size_pictures(c, c->messages, c->message_count);
    size_waiting_pictures(c);
}

static const char *name_of(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

int picture_decode(struct picture *p, struct image_decoder *d, const char *path, const void *bytes,
                   size_t size, struct err *err)
{
    char *title = picture_source_title(path);
    *p = (struct picture){ 0 };
    const int status = d ? image_decoder_run(d, &p->image, bytes, size, name_of(title), err)
                         : image_decode(&p->image, bytes, size, name_of(title), err);
    if (status < 0) {
        free(title);
        return -1;
    }
    p->path = title;
    hash_hex(bytes, size, p->sha256);
    p->bytes = xmalloc(size);
    memcpy(p->bytes, bytes, size);
    p->size = size;
    return 0;
}

int conversation_attach_decoded(struct conversation *c, struct picture *p, struct err *err)
{
    const struct model *m = c->model;
    if (m && !model_has_vision(m))
        return err_set(err, "the model '%s' is text-only: it cannot see '%s'", m->name,
                       name_of(p->path));
    if (m) model_size_picture(m, p, p->image.width, p->image.height, 1, c->limit);
    if (m && model_check_picture(m, p, err) < 0) return err_in(err, "'%s'", name_of(p->path));
    c->pictures = xreallocarray(c->pictures, c->picture_count + 1, sizeof *c->pictures);
    c->pictures[c->picture_count] = *p;
    *p = (struct picture){ 0 };
    c->waiting = xreallocarray(c->waiting, c->waiting_count + 1, sizeof *c->waiting);
    c->waiting[c->waiting_count++] = (int)c->picture_count++;
    size_waiting_pictures(c);
    return (int)c->picture_count - 1;
}

int conversation_attach(struct conversation *c, const char *path, const void *bytes, size_t size,
                        struct err *err)
{
    struct picture p;
    if (picture_decode(&p, NULL, path, bytes, size, err) < 0) return -1;
    const int index = conversation_attach_decoded(c, &p, err);
    if (index < 0) picture_release(&p);
    return index;
}

void conversation_adopt_pictures(struct conversation *c, struct conversation *from)
{
    const size_t count = c->picture_count + from->picture_count;
    c->pictures = xreallocarray(c->pictures, count + 1, sizeof *c->pictures);
    for (size_t i = 0; i < from->picture_count; i++) {
        c->pictures[c->picture_count] = from->pictures[i];
        size_picture(c, c->picture_count++, from->picture_count);
    }
    from->picture_count = from->waiting_count = 0;
}

const struct message *conversation_last(const struct conversation *c)
{
    return c->message_count ? &c->messages[c->message_count - 1] : NULL;
}

struct message *conversation_add(struct conversation *c, enum role role)
{
    c->messages = xreallocarray(c->messages, c->message_count + 1, sizeof *c->messages);
    struct message *m = &c->messages[c->message_count++];
    *m = (struct message){ .role = role };
    return m;
}

void conversation_append(struct conversation *c, const struct message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        message_copy(conversation_add(c, messages[i].role), &messages[i]);
}

void conversation_unwait(struct conversation *c, const struct message *m)
{
    size_t count = 0;
    for (size_t i = 0; i < c->waiting_count; i++)
        if (!shows(m, c->waiting[i])) c->waiting[count++] = c->waiting[i];
    c->waiting_count = count;
}

void conversation_detach(struct conversation *c, size_t count)
{
    c->waiting_count = count;
    conversation_drop(c, 0);
}

void conversation_detach_one(struct conversation *c, int picture)
{
    size_t count = 0;
    for (size_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i] != picture) c->waiting[count++] = c->waiting[i];
    c->waiting_count = count;
    conversation_drop(c, 0);
    size_waiting_pictures(c);
}

static void set_waiting(struct conversation *c, const int *waiting, size_t count)
{
    c->waiting = xreallocarray(c->waiting, count + 1, sizeof *c->waiting);
    for (size_t i = 0; i < count; i++) c->waiting[i] = waiting[i];
    c->waiting_count = count;
}

int conversation_copy(struct conversation *c, const struct conversation *from, size_t messages,
                      struct err *err)
{
    c->limit = from->limit;
    for (size_t i = 0; i < from->picture_count; i++) {
        const struct picture *p = &from->pictures[i];
        // A picture of a removed message has no bytes: only its index is needed.
        if (!p->bytes) {
            c->pictures = xreallocarray(c->pictures, c->picture_count + 1, sizeof *c->pictures);
            c->pictures[c->picture_count++] = (struct picture){ 0 };
        } else if (conversation_attach(c, p->path, p->bytes, p->size, err) < 0) {
            return -1;
        }
    }
    set_waiting(c, from->waiting, from->waiting_count);
    conversation_append(c, from->messages, messages);
    return 0;
}

// Compares the texts of all tokens.
static bool same_tokens(const struct tokenizer *a, const struct tokenizer *b)
{
    bool same = tokenizer_size(a) == tokenizer_size(b);
    for (int32_t id = 0; a != b && same && id < tokenizer_size(a); id++) {
        const char *x = tokenizer_token(a, id), *y = tokenizer_token(b, id);
        same = x && y ? !strcmp(x, y) : x == y;
    }
    return same;
}

int conversation_copy_for(struct conversation *c, const struct conversation *from, size_t messages,
                          const struct model *model, bool *same, struct err *err)
{
    const struct model *before = from->model;
    *same = model->decoder.config.vocab == before->decoder.config.vocab &&
            same_tokens(model->tokenizer, before->tokenizer);
    if (*same) conversation_set_model(c, model);
    if (conversation_copy(c, from, messages, err) < 0) return -1;
    if (!*same) conversation_set_model(c, model);
    return 0;
}

int conversation_show(struct conversation *c, const struct dataset *data, const struct sample *s,
                      size_t count, struct err *err)
{
    const struct dialogue *d = &s->dialogue;
    conversation_clear(c);
    if (!count) return err_set(err, "it contains no question");
    if (s->blind) return err_set(err, "no picture is given with the question");
    for (size_t i = 0; i < d->path_count; i++) {
        size_t size;
        char *bytes = dataset_picture(data, d->paths[i], IMAGE_MAX_FILE, &size, err);
        const int index = bytes ? conversation_attach(c, d->paths[i], bytes, size, err) : -1;
        free(bytes);
        if (index < 0) return -1;
    }
    conversation_append(c, d->messages, count);
    for (size_t i = 0; i < count; i++) conversation_unwait(c, &d->messages[i]);
    return 0;
}

void conversation_drop(struct conversation *c, size_t count)
{
    while (count-- && c->message_count) message_release(&c->messages[--c->message_count]);
    for (size_t i = 0; i < c->picture_count; i++) {
        bool used = any_shows(c->messages, c->message_count, (int)i);
        for (size_t k = 0; k < c->waiting_count; k++) used |= c->waiting[k] == (int)i;
        if (used) continue;
        conversation_drop_visual(c, (int)i);
        picture_release(&c->pictures[i]);
    }
}

struct message conversation_take(struct conversation *c)
{
    if (!c->message_count) BUG("there is no message to take");
    return c->messages[--c->message_count];
}

void conversation_put(struct conversation *c, struct message m)
{
    *conversation_add(c, m.role) = m;
}

void conversation_set_system(struct conversation *c, const char *text)
{
    struct message system = { .role = ROLE_SYSTEM };
    if (c->message_count && c->messages[0].role == ROLE_SYSTEM) {
        message_release(&c->messages[0]);
        memmove(c->messages, c->messages + 1, --c->message_count * sizeof *c->messages);
    }
    if (!*text) return;
    message_add_text(&system, text);
    conversation_add(c, ROLE_SYSTEM);
    memmove(c->messages + 1, c->messages, (c->message_count - 1) * sizeof *c->messages);
    c->messages[0] = system;
}

// --- the user's messages, and undoing them -------------------------------------------------------

void conversation_say(struct conversation *c, enum role role, const char *text, const int32_t *ids,
                      size_t count, struct said *said)
{
    const struct message *last = conversation_last(c);
    const bool joins = last && last->role == role && role != ROLE_RAW;
    if (said) {
        *said = (struct said){ .message_count = c->message_count,
                               .joined = joins,
                               .waiting_count = c->waiting_count };
        if (joins) message_copy(&said->former, last);
        said->waiting = xreallocarray(NULL, c->waiting_count + 1, sizeof *said->waiting);
        for (size_t i = 0; i < c->waiting_count; i++) said->waiting[i] = c->waiting[i];
    }
    struct message *m = joins ? &c->messages[c->message_count - 1] : conversation_add(c, role);
    for (size_t i = 0; role == ROLE_USER && i < c->waiting_count; i++)
        message_add_picture(m, c->waiting[i]);
    if (role == ROLE_USER) c->waiting_count = 0;
    m->from_data = false; // typed text, and a question that it extends, is never parsed as data
    if (text) message_add_text(m, text);
    ids_append(&m->ids, ids, count);
}

void conversation_unsay(struct conversation *c, const struct said *said)
{
    // Restore pending pictures first: conversation_drop frees pictures that are no longer used.
    set_waiting(c, said->waiting, said->waiting_count);
    if (said->joined) {
        struct message *m = &c->messages[said->message_count - 1];
        message_release(m);
        message_copy(m, &said->former);
    }
    conversation_drop(c, c->message_count - said->message_count);
}

void said_release(struct said *said)
{
    message_release(&said->former);
    free(said->waiting);
}

// --- ids -----------------------------------------------------------------------------------------

int64_t conversation_limit(const struct model *m, const struct settings *s)
{
    if (!settings_is(s, "ctx.max", "auto")) return settings_integer(s, "ctx.max");
    const int64_t limit = model_limit(m);
    return limit > 0 && limit < 8192 ? limit : 8192;
}

const char *conversation_raise(const struct model *m, const struct settings *s, char *text,
                               size_t size)
{
    const int64_t most = model_limit(m);
    snprintf(text, size, ", or raise ctx.max (the model's limit is %lld)", (long long)most);
    return conversation_limit(m, s) < most ? text : "";
}

int conversation_sequence(struct conversation *c, size_t messages, const struct settings *s,
                          bool generation_prompt, struct sequence *sequence, struct err *err)
{
    const struct model *m = c->model;
    if (!m) return err_set(err, "no model is loaded: /load MODEL");
    if (messages && c->messages[messages - 1].role == ROLE_RAW &&
        !c->messages[messages - 1].ids.count)
        return err_set(err,
                       "the last question was token ids of another model, which '%s' cannot "
                       "read: /undo removes it",
                       m->name);
    conversation_limit_pictures(c, s);
    conversation_size_pictures(c, c->messages, messages);
    // A model loaded later may be unable to read the pictures.
    for (size_t i = 0; i < c->picture_count; i++) {
        if (!any_shows(c->messages, messages, (int)i)) continue;
        if (!model_has_vision(m))
            return err_set(err,
                           "the conversation has pictures, but the model '%s' is text-only: "
                           "/clear, or /load a vision model",
                           m->name);
        if (model_check_picture(m, &c->pictures[i], err) < 0)
            return err_in(err, "'%s'", name_of(c->pictures[i].path));
    }
    struct prompt_options options;
    bool raw = messages && c->messages[messages - 1].role == ROLE_RAW;
    if (model_prompt(m, s, generation_prompt && !raw, &options, err) < 0) return -1;
    options.context = conversation_limit(m, s);
    if (prompt_sequence(c->messages, messages, c->pictures, c->picture_count, m->tokenizer,
                        &options, sequence, err) < 0)
        return -1;
    if (m->family->positions) m->family->positions(m, c->pictures, sequence);
    return 0;
}

int conversation_texts(const struct conversation *c, size_t messages, const struct settings *s,
                       bool generation_prompt, struct prompt_text **texts, size_t *count,
                       struct err *err)
{
    struct prompt_options options;
    const bool raw = messages && c->messages[messages - 1].role == ROLE_RAW;
    if (model_prompt(c->model, s, generation_prompt && !raw, &options, err) < 0) return -1;
    return prompt_texts(c->messages, messages, c->pictures, c->picture_count, c->model->tokenizer,
                        &options, texts, count, err);
}

int conversation_closing(const struct conversation *c, const struct settings *s, int64_t prompt,
                         int64_t *tokens, struct err *err)
{
    const struct model *m = c->model;
    int32_t id = 0; // any token: tokenization never merges an answer with the text around it
    struct prompt_options options;
    struct sequence all = { 0 };
    if (model_prompt(m, s, false, &options, err) < 0) return -1;
    struct message *list = xreallocarray(NULL, c->message_count + 1, sizeof *list);
    for (size_t i = 0; i < c->message_count; i++) list[i] = c->messages[i];
    list[c->message_count] = (struct message){ .role = ROLE_ASSISTANT,
                                               .generated = true,
                                               .ids = { .data = &id, .count = 1 } };
    const int status = prompt_sequence(list, c->message_count + 1, c->pictures, c->picture_count,
                                       m->tokenizer, &options, &all, err);
    *tokens = all.n - prompt - 1;
    sequence_release(&all);
    free(list);
    return status;
}
