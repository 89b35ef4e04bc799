// sessions/resume.c -- restores a stored session into the engine.
//
// First reads the session, decodes its pictures and loads its model, all of which can fail; then
// replaces the conversation, which a failure therefore leaves unchanged.
#include <stdlib.h>
#include <string.h>

#include "core/files/checkpoint.h"
#include "core/model/model.h"
#include "core/settings/changes.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"
#include "sessions/internal.h"

// Bytes of the pixels of pictures that occur before: a small file may show one a million times.
static const size_t again_most = (size_t)4 << 30;

// Decodes a picture into a separate conversation. *again: grows if `known`.
static int attach_picture(struct store *s, const struct saved_picture *p, struct image_decoder *d,
                          bool known, size_t *again, struct conversation *pictures, struct err *err)
{
    struct picture picture;
    char *bytes;
    size_t size;
    if (saved_bytes(s, p, &bytes, &size, err) < 0) return -1;
    int status = picture_decode(&picture, d, p->path, bytes, size, err);
    free(bytes);
    if (status < 0) return -1;
    const struct image *image = &picture.image;
    if (known) *again += (size_t)(image->width * image->height * image->channels);
    if (*again > again_most)
        status = err_set(err, "the session shows the same pictures again and again, which would "
                              "need more than 4 GB of memory: its database is damaged");
    else
        status = conversation_attach_decoded(pictures, &picture, err);
    picture_release(&picture);
    return status < 0 ? -1 : 0;
}

static int read_pictures(struct store *s, const struct saved *saved, struct conversation *pictures,
                         struct err *err)
{
    struct image_decoder *decoder = image_decoder_new();
    struct names hashes = { 0 };
    size_t again = 0;
    int status = 0;
    for (size_t i = 0; i < saved->picture_count && status == 0; i++) {
        bool known;
        names_add(&hashes, saved->pictures[i].sha256, &known);
        status = attach_picture(s, &saved->pictures[i], decoder, known, &again, pictures, err);
    }
    names_release(&hashes);
    image_decoder_free(decoder);
    return status;
}

static const struct saved_entry *last_model(const struct saved *saved)
{
    const struct saved_entry *model = NULL;
    for (size_t i = 0; i < saved->count; i++)
        if (saved->list[i].kind == SAVED_MODEL) model = &saved->list[i];
    return model;
}

// Returns whether `identity` is the loaded model's, computed by this or an earlier version of
// vlmsh. *why: the difference.
static bool is_loaded(struct engine *e, const char *identity, struct err *why)
{
    bool earlier;
    return engine_model(e) &&
           checkpoint_check_identity(engine_model(e)->checkpoint, identity, &earlier, why) == 0;
}

// Loads the session's model unless it is already loaded (its folder may have moved).
static int restore_model(struct store *s, struct engine *e, const struct saved *saved,
                         struct err *err)
{
    const struct saved_entry *model = last_model(saved);
    if (!model) return 0;
    const struct model *now = engine_model(e);
    struct err why;
    // A loaded model whose files are no longer readable may be replaced.
    const int known = engine_identify(e, err);
    if (known < 0 && engine_cancelled(e)) return -1;
    if (known == 0 && is_loaded(e, model->value, NULL)) return 0;
    bool loaded = known == 0 && now && s->folder && !strcmp(s->folder, model->key);
    if (!loaded && engine_load(e, model->key, err) < 0)
        return err_in(
            err, "the model of session '%s' (if it has moved, /load it from its new path first)",
            saved->name);
    if (engine_identify(e, err) < 0) return -1;
    if (checkpoint_identity_unknown(model->value))
        sinks_notice(
            engine_sinks(e),
            "session '%s' ended before the files of '%s' had been hashed: whether they have "
            "changed since is unknown",
            saved->name, model->key);
    else if (!is_loaded(e, model->value, &why))
        sinks_notice(engine_sinks(e), "session '%s': %s; answers will differ", saved->name,
                     why.text);
    return 0;
}

// Returns the value that a setting had at the session's end; NULL: the default.
static const char *saved_value(const struct saved *saved, const char *key)
{
    for (size_t i = saved->count; i-- > 0;)
        if (saved->list[i].kind == SAVED_SETTING && !strcmp(saved->list[i].key, key))
            return saved->list[i].value;
    return NULL;
}

// Restores the session's precision; replaces `auto` with the precision that it resolved to then.
static void restore_arithmetic(struct engine *e, const struct saved *saved)
{
    const struct saved_entry *model = last_model(saved);
    const struct setting *row = settings_used(USE_ARITHMETIC);
    const char *matmul = saved_value(saved, row->key);
    if (!model || !engine_model(e)) return;
    const char *was = model_arithmetic_then(matmul ? matmul : row->def, model->arithmetic);
    if (!strcmp(was, engine_arithmetic(e))) return;
    if (strcmp(was, settings_text(engine_settings(e), row->key)) != 0 &&
        engine_set(e, row->key, was, NULL) == 0 && !strcmp(was, engine_arithmetic(e)))
        sinks_notice(engine_sinks(e), "%s = %s: session '%s' was computed with it", row->key, was,
                     saved->name);
    if (strcmp(was, engine_arithmetic(e)) != 0)
        sinks_notice(engine_sinks(e),
                     "session '%s' was computed in %s, which this device does not support: answers "
                     "may differ",
                     saved->name, was);
}

static const char *arithmetic_now(const struct engine *e)
{
    return settings_text(engine_settings(e), settings_used(USE_ARITHMETIC)->key);
}

static bool still_as_resumed(const struct store *s, const struct engine *e)
{
    return s->resumed_matmul && !strcmp(s->resumed_matmul, arithmetic_now(e));
}

// Remembers the precision from before the first of several resumed sessions.
static void remember_arithmetic(struct store *s, const struct engine *e)
{
    if (still_as_resumed(s, e)) return;
    free(s->former_matmul);
    s->former_matmul = xstrdup(arithmetic_now(e));
}

void store_restore_arithmetic(struct store *s, struct engine *e)
{
    const char *key = settings_used(USE_ARITHMETIC)->key;
    if (still_as_resumed(s, e) && strcmp(s->former_matmul, s->resumed_matmul) != 0 &&
        engine_set(e, key, s->former_matmul, NULL) == 0)
        sinks_notice(engine_sinks(e), "%s = %s restored; the resumed session used %s", key,
                     s->former_matmul, s->resumed_matmul);
    free(s->resumed_matmul);
    s->resumed_matmul = NULL;
}

// --- messages ------------------------------------------------------------------------------------

static bool ids_fit(const struct ids *ids, int64_t vocab)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->data[i] >= vocab) return false;
    return true;
}

static int resume(struct store *s, struct engine *e, const struct saved *saved,
                  struct conversation *pictures, struct err *err)
{
    if (restore_model(s, e, saved, err) < 0) return -1;
    remember_arithmetic(s, e);
    for (size_t i = 0; i < saved->count; i++)
        if (saved->list[i].kind == SAVED_SETTING) settings_make(saved->list[i].key);
    // Changes all differing values together, since their order has no meaning.
    struct change *list = xcalloc((size_t)settings_count(), sizeof *list);
    const struct setting *row;
    size_t count = 0;
    for (int i = 0; (row = settings_row(i)); i++) {
        const char *value = saved_value(saved, row->key);
        if (!value) value = row->def;
        if (strcmp(settings_text(engine_settings(e), row->key), value) != 0)
            list[count++] = (struct change){ row->key, value };
    }
    engine_restore(e, list, count);
    free(list);
    for (size_t i = 0; i < saved->count; i++)
        if (saved->list[i].kind == SAVED_SETTING && settings_make(saved->list[i].key) < 0)
            sinks_notice(engine_sinks(e), "this vlmsh has no setting %s (it was %s)",
                         saved->list[i].key, saved->list[i].value);
    restore_arithmetic(e, saved);
    free(s->resumed_matmul);
    s->resumed_matmul = xstrdup(arithmetic_now(e));
    engine_report_unsent(e);
    engine_clear(e);

    // Token ids of another model are meaningless to the loaded one: drops the ids of all messages
    // before entry `same`, from which on the session used the loaded model.
    size_t from = 0;
    bool other = false;
    for (size_t i = 0; i < saved->count; i++) {
        if (saved->list[i].kind != SAVED_MODEL) continue;
        bool same = is_loaded(e, saved->list[i].value, NULL);
        if (other && same) from = i;
        other = !same;
    }
    const size_t same = other ? saved->count : from;
    engine_adopt_pictures(e, pictures);
    // The last system message applies.
    const struct saved_entry *last = NULL;
    for (size_t i = 0; i < saved->count; i++)
        if (saved->list[i].kind == SAVED_MESSAGE && saved->list[i].message.role == ROLE_SYSTEM)
            last = &saved->list[i];
    free(s->system);
    s->system = last ? message_text(&last->message) : NULL;
    if (s->system && *s->system) engine_system(e, s->system, NULL);
    for (size_t i = 0; i < saved->count; i++) {
        const struct saved_entry *entry = &saved->list[i];
        if (entry->kind != SAVED_MESSAGE || entry->message.role == ROLE_SYSTEM) continue;
        struct message m = { 0 };
        message_copy(&m, &entry->message);
        int64_t vocab = engine_model(e) ? engine_model(e)->decoder.config.vocab : INT32_MAX;
        if (i < same || !ids_fit(&m.ids, vocab)) message_drop_ids(&m);
        engine_add_message(e, &m, NULL); // cannot fail: its pictures are loaded
        message_release(&m);
    }
    return 0;
}

int store_resume(struct store *s, struct engine *e, const char *name, struct err *err)
{
    struct saved saved;
    struct conversation pictures;
    if (store_flush(s, err) < 0) return err_in(err, "the current session is not saved yet");
    if (saved_read(s, name, &saved, err) < 0) return -1;
    conversation_init(&pictures, engine_backend(e));
    int status = read_pictures(s, &saved, &pictures, err);
    if (status == 0) {
        s->resuming = true;
        status = resume(s, e, &saved, &pictures, err);
        s->resuming = false;
    }
    if (status == 0) {
        position_set(&s->current, saved.id, saved.entries, saved.name);
        s->begun = true;
        free(s->next_name);
        s->next_name = NULL;
        // Records differences between the current state and the session's.
        const struct saved_entry *model = last_model(&saved);
        if (engine_model(e) && s->folder &&
            (!model || strcmp(s->folder, model->key) || !is_loaded(e, model->value, NULL) ||
             strcmp(s->arithmetic, model->arithmetic)))
            store_note_model(s);
        for (int i = 0; i < settings_count(); i++) {
            const struct setting *row = settings_row(i);
            const char *value = saved_value(&saved, row->key);
            const char *set = settings_text(engine_settings(e), row->key);
            if (strcmp(set, value ? value : row->def)) store_note_setting(s, row->key, set, 0);
        }
        const struct conversation *c = engine_conversation(e);
        const struct model *now = engine_model(e);
        if (now && c->picture_count && !model_has_vision(now))
            sinks_notice(
                engine_sinks(e),
                "the session has pictures, but its last model, '%s', is text-only: /load a "
                "vision model",
                now->name);
        if (c->message_count && c->messages[c->message_count - 1].role == ROLE_USER)
            sinks_notice(engine_sinks(e),
                         "the last question has no answer yet: /answer generates one");
    }
    conversation_release(&pictures);
    saved_release(&saved);
    return status;
}

int store_use(struct store *s, struct engine *e, const char *name, struct err *err)
{
    int64_t id;
    if (name_check(name, err) < 0 ||
        store_number(s, err, 0, &id, "SELECT id FROM sessions WHERE name = ?", "t", name) < 0)
        return -1;
    if (id) return store_resume(s, e, name, err);
    if (store_begin(s, name, err) < 0) return -1;
    sinks_notice(engine_sinks(e), "session '%s' is new: it starts with the first message", name);
    return 0;
}
