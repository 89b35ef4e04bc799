// core/adapter/provenance.c -- records the origin of answers and numbers.
#include "core/adapter/provenance.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_config.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/graph/graph.h"
#include "core/methods/method.h"
#include "core/model/families/family.h"
#include "core/model/kv.h"
#include "core/template/template.h"

void provenance_add(struct provenance *p, const char *key, const char *value)
{
    p->list = xreallocarray(p->list, p->count + 1, sizeof *p->list);
    p->list[p->count++] = (struct provenance_fact){ xstrdup(key), xstrdup(value) };
}

void provenance_release(struct provenance *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->list[i].key);
        free(p->list[i].value);
    }
    free(p->list);
    *p = (struct provenance){ 0 };
}

const char *provenance_value(const struct provenance *p, const char *key)
{
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->list[i].key, key)) return p->list[i].value;
    return NULL;
}

// --- settings ------------------------------------------------------------------------------------

// Returns "NAME@HASH" for a file or folder.
static char *named_hash(const char *path, const char *hash)
{
    char *name = folder_name(path), *text = xasprintf("%s@%s", name, hash);
    free(name);
    return text;
}

// Returns "NAME@HASH=FACTOR,..." for files with factors.
static char *factors_hash(const char *value)
{
    struct buf b = { 0 };
    size_t count;
    struct file_factor *list = file_factors(value, &count);
    for (size_t i = 0; i < count; i++) {
        char hex[HASH_HEX] = "unreadable";
        hash_file_always(list[i].path, hex, NULL);
        char *file = named_hash(list[i].path, hex);
        buf_printf(&b, "%s%s=%.15g", i ? "," : "", file, list[i].factor);
        free(file);
    }
    file_factors_free(list, count);
    return buf_take(&b);
}

// Adds the effective value of a setting if it differs from the default; for files, their names and
// hashes.
static void add_changed(struct provenance *p, const struct provenance_env *env,
                        const struct setting *row)
{
    char *value = setting_effective(row, env->model, env->backend, env->settings);
    if (value && strcmp(value, row->def) != 0) {
        char hex[HASH_HEX] = "unreadable", *file = NULL;
        if (row->type == SETTING_PATH) {
            hash_file_always(value, hex, NULL);
            file = named_hash(value, hex);
        } else if (row->type == SETTING_FACTORS) {
            file = factors_hash(value);
        }
        provenance_add(p, row->key, file ? file : value);
        free(file);
    }
    free(value);
}

void provenance_of(struct provenance *p, const struct provenance_env *env, enum setting_stale from)
{
    const struct setting *row;
    *p = (struct provenance){ 0 };
    if (env->model) {
        p->checkpoint = env->model->checkpoint;
        provenance_add(p, "model", p->checkpoint->fingerprint);
        provenance_add(p, "model files", p->checkpoint->files);
    }
    if (env->adapter) {
        char *value = named_hash(env->adapter->folder, adapter_hash(env->adapter));
        provenance_add(p, "adapter", value);
        free(value);
    }
    for (int i = 0; (row = settings_row(i)); i++) {
        const struct method *method = method_of(row->key);
        if (row->stale >= from && (!method || method_on(method, env->settings)))
            add_changed(p, env, row);
    }
}

void provenance_of_job(struct provenance *p, const struct provenance_env *env)
{
    struct settings *s = prompt_undated(env->settings);
    const struct provenance_env undated = { env->model, env->adapter, env->backend, s };
    provenance_of(p, &undated, STALE_NEXT);
    settings_free(s);
}

void provenance_of_scores(struct provenance *p, const struct provenance_env *env)
{
    const struct setting *row;
    provenance_of_job(p, env);
    for (int i = 0; (row = settings_row(i)); i++)
        if (row->stale == STALE_SCORED) add_changed(p, env, row);
}

void provenance_join(struct provenance *p, const char *prefix, const struct provenance *other)
{
    p->checkpoint = other->checkpoint;
    for (size_t i = 0; i < other->count; i++) {
        char *key = xasprintf("%s%s", prefix, other->list[i].key);
        provenance_add(p, key, other->list[i].value);
        free(key);
    }
}

// --- differences ---------------------------------------------------------------------------------

static const char *or_default(const char *value, const char *key)
{
    const struct setting *row = settings_find(key);
    return value ? value : row ? row->def : "none";
}

// True for the key "model", with or without a prefix ("A model").
static bool is_model(const char *key)
{
    return text_ends(key, "model") && !strchr(key, '.');
}

static bool is_files(const char *key)
{
    return text_ends(key, "model files");
}

// True if an earlier version of vlmsh computed this fingerprint for the model.
static bool was_model(const struct provenance *now, const char *fingerprint)
{
    return now->checkpoint && fingerprint &&
           checkpoint_matches_earlier(now->checkpoint, fingerprint);
}

// Sets the message "model differs, or its files have changed: chat_template.jinja", or "prune.score
// was contribution, now off".
static int differs(const struct provenance *there, const struct provenance *now, const char *key,
                   struct err *err)
{
    enum { MOST = 100 };
    const char *was = provenance_value(there, key), *is = provenance_value(now, key);
    if (is_model(key) && was && is) {
        char *files = xasprintf("%s files", key);
        char *which =
            checkpoint_files_differ(provenance_value(there, files), provenance_value(now, files));
        err_set(err, "%s differs, or its files have changed%s%s", key, which ? ": " : "",
                which ? which : "");
        free(which);
        free(files);
        return -1;
    }
    was = or_default(was, key);
    is = or_default(is, key);
    return err_set(err, "%s was %.*s, now %.*s", key, utf8_head(was, MOST), was,
                   utf8_head(is, MOST), is);
}

bool provenance_earlier(const struct provenance *there, const struct provenance *now)
{
    return was_model(now, provenance_value(there, "model"));
}

int provenance_same(const struct provenance *there, const struct provenance *now, struct err *err)
{
    for (size_t i = 0; i < now->count; i++) {
        const struct provenance_fact *f = &now->list[i];
        const char *other = provenance_value(there, f->key);
        if (is_files(f->key) || (is_model(f->key) && was_model(now, other))) continue;
        if (!other || strcmp(other, f->value) != 0) return differs(there, now, f->key, err);
    }
    for (size_t i = 0; i < there->count; i++)
        if (!is_files(there->list[i].key) && !provenance_value(now, there->list[i].key))
            return differs(there, now, there->list[i].key, err);
    return 0;
}

// --- as text -------------------------------------------------------------------------------------

void provenance_put(const struct provenance *p, cJSON *object)
{
    cJSON *o = cJSON_AddObjectToObject(object, "provenance");
    for (size_t i = 0; i < p->count; i++)
        cJSON_AddStringToObject(o, p->list[i].key, p->list[i].value);
}

bool provenance_get(struct provenance *p, const cJSON *object)
{
    const cJSON *o = json_get(object, "provenance"), *fact;
    *p = (struct provenance){ 0 };
    if (!cJSON_IsObject(o)) return false;
    cJSON_ArrayForEach(fact, o) if (cJSON_IsString(fact))
        provenance_add(p, fact->string, fact->valuestring);
    return true;
}

char *provenance_state(const struct provenance *p)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < p->count; i++)
        if (!is_model(p->list[i].key) && !is_files(p->list[i].key))
            buf_printf(&b, "%s%s=%s", b.length ? ", " : "", p->list[i].key, p->list[i].value);
    return b.length ? buf_take(&b) : xstrdup("");
}
