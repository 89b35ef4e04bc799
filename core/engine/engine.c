// core/engine/engine.c -- the engine's state and its model. Settings are in engine_settings.c, the
// conversation in engine_talk.c.
#include "core/engine/engine_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/files/content.h"
#include "core/model/companions.h"
#include "core/model/converted.h"
#include "core/model/families/family.h"
#include "core/model/unread.h"

// Reports the progress of file readers, which have no engine.
static void report_reading(void *self, const char *what, uint64_t done, uint64_t total)
{
    struct engine *e = self;
    sinks_progress(e->sinks, &e->reading, what, (double)done, (double)total);
}

struct engine *engine_new(const struct backend *backend, struct sinks *sinks)
{
    struct engine *e = xcalloc(1, sizeof *e);
    e->backend = backend ? backend : backend_cpu();
    e->sinks = sinks;
    e->settings = settings_new();
    conversation_init(&e->conversation, e->backend);
    changes_init(&e->posted);
    cancel_watch(&e->cancel, &(struct cancel_watcher){ .progress = report_reading, .self = e });
    return e;
}

void engine_free(struct engine *e)
{
    if (!e) return;
    cancel_unwatch(&e->cancel);
    engine_unstash(e);
    engine_report_identity(e);
    conversation_release(&e->conversation);
    adapters_release(&e->adapters);
    model_free(e->model);
    tokenizer_free(e->tokenizer);
    settings_free(e->settings);
    dump_free(e->dump);
    live_free(e->live);
    shares_free(e->shares);
    changes_release(&e->posted);
    free(e);
}

const struct model *engine_model(const struct engine *e)
{
    return e->model;
}

struct checkpoint *engine_checkpoint(const struct engine *e)
{
    return e->model ? e->model->checkpoint : NULL;
}

const char *engine_model_name(const struct engine *e)
{
    return e->model ? e->model->name : NULL;
}

const char *engine_family_name(const struct engine *e)
{
    return e->model ? e->model->family->name : NULL;
}

bool engine_has_vision(const struct engine *e)
{
    return e->model && model_has_vision(e->model);
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
    return e->tokenizer ? e->tokenizer : e->model ? e->model->tokenizer : NULL;
}

const struct conversation *engine_conversation(const struct engine *e)
{
    return &e->conversation;
}

const struct backend *engine_backend(const struct engine *e)
{
    return e->backend;
}

const char *engine_arithmetic(const struct engine *e)
{
    return e->model ? model_arithmetic(e->model, e->backend, e->settings) : NULL;
}

struct sinks *engine_sinks(struct engine *e)
{
    return e->sinks;
}

const struct settings *engine_settings(const struct engine *e)
{
    return e->settings;
}

void engine_cancel(struct engine *e)
{
    atomic_store(&e->cancel, true);
}

void engine_uncancel(struct engine *e)
{
    atomic_store(&e->cancel, false);
}

bool engine_cancelled(const struct engine *e)
{
    return atomic_load(&e->cancel);
}

const atomic_bool *engine_cancel_flag(const struct engine *e)
{
    return &e->cancel;
}

void engine_emit(struct engine *e, const struct event *event)
{
    sinks_emit(e->sinks, event);
}

struct method_env engine_env(const struct engine *e, const struct settings *s)
{
    return (struct method_env){ .model = e->model,
                                .backend = e->backend,
                                .settings = s,
                                .tensors = adapter_tensors(e->adapters.active) };
}

// --- model ---------------------------------------------------------------------------------------

static bool report_work(void *self, uint64_t done, uint64_t total)
{
    struct engine *e = self;
    sinks_progress(e->sinks, &e->pace, e->work, (double)done, (double)total);
    return !engine_cancelled(e);
}

static void report_notice(void *self, const char *text)
{
    const struct engine *e = self;
    sinks_notice(e->sinks, "%s", text);
}

struct load_progress engine_progress(struct engine *e, const char *what)
{
    e->work = what;
    e->pace = (struct pace){ 0 };
    return (struct load_progress){ .report = report_work, .self = e, .notice = report_notice };
}

// Emits a notice if the chat template cannot be rendered or changes the user's text.
static void report_template(struct engine *e, const struct model *m)
{
    const char *name = layout_title(m->layout);
    if (chat_template_changes(m->template))
        sinks_notice(e->sinks,
                     "the chat template of the folder changes what you type (such as case or "
                     "spaces); to use another one: /set chat.template NAME (/help templates)");
    if (!m->template_problem) return;
    if (!strcmp(name, "plain"))
        sinks_notice(e->sinks,
                     "the chat template of the folder cannot be rendered (%s), and no built-in one "
                     "matches: choose one with /set chat.template (see /help templates)",
                     m->template_problem);
    else
        sinks_notice(e->sinks,
                     "the chat template of the folder cannot be rendered (%s): the built-in "
                     "template '%s' is used",
                     m->template_problem, name);
}

int engine_identify(struct engine *e, struct err *err)
{
    const struct load_progress progress = engine_progress(e, "hashing");
    if (e->model && checkpoint_identify(e->model->checkpoint, &progress, err) < 0)
        return err_in(err, "hashing the files of '%s'", e->model->name);
    engine_report_identity(e);
    return 0;
}

bool engine_report_identity(struct engine *e)
{
    if (!e->model || !*e->provisional_identity || !checkpoint_identified(e->model->checkpoint))
        return false;
    engine_emit(e, &(struct event){ .kind = EVENT_IDENTITY,
                                    .key = e->provisional_identity,
                                    .text = e->model->checkpoint->name,
                                    .value = e->model->checkpoint->identity });
    *e->provisional_identity = 0;
    return true;
}

// A conversation keeps its token ids if the new model has the same fingerprint as the previous
// model. A previous model whose files are unreadable does not prevent loading the next one.
static int identify(struct engine *e, struct model *m, struct err *err)
{
    const struct load_progress progress = engine_progress(e, "hashing");
    if (!conversation_has_ids(&e->conversation))
        return checkpoint_identify_in_background(m->checkpoint, err);
    struct err why;
    if (engine_identify(e, &why) == 0) return checkpoint_identify(m->checkpoint, &progress, err);
    if (engine_cancelled(e)) return err_set(err, "%s", why.text);
    if (checkpoint_identify_in_background(m->checkpoint, err) < 0) return -1;
    sinks_notice(e->sinks, "the conversation loses its token ids: %s", why.text);
    return 0;
}

// Says why `auto` does not multiply in bf16 although most matrices may be bf16.
static void report_mixed(const struct engine *e, const struct model *m)
{
    const bool slower =
        graph_matmul_auto(e->backend, DTYPE_BF16) != graph_matmul_auto(e->backend, m->dtype);
    if (m->mixed && slower && settings_is(e->settings, "compute.matmul", "auto"))
        sinks_notice(e->sinks,
                     "the matrices are %s, which bf16 would round: compute.matmul auto computes in "
                     "f32; /set compute.matmul bf16 is faster",
                     m->mixed);
}

int engine_load(struct engine *e, const char *name, struct err *err)
{
    const struct load_progress progress = engine_progress(e, "loading");
    struct model *m = model_open(name, e->backend, NULL, &progress, err);
    if (m && identify(e, m, err) < 0) {
        model_free(m);
        m = NULL;
    }
    if (!m) return -1;
    if (tokenizer_size(m->tokenizer) > m->decoder.config.vocab)
        sinks_notice(e->sinks,
                     "the tokenizer has %d tokens, but the model %lld: do its tokenizer and "
                     "config.json belong together?",
                     tokenizer_size(m->tokenizer), (long long)m->decoder.config.vocab);
    if (m->checkpoint->notice) sinks_notice(e->sinks, "%s", m->checkpoint->notice);
    if (m->unread) sinks_notice(e->sinks, "not read: %s", m->unread);
    report_mixed(e, m);
    report_template(e, m);
    char *missing[COMPANIONS_MOST + UNUSED_MOST];
    int n = companions_missing(m, missing);
    n += unused_notices(m, missing + n);
    for (int i = 0; i < n; i++) {
        sinks_notice(e->sinks, "%s", missing[i]);
        free(missing[i]);
    }
    engine_report_identity(e);
    struct model *former = e->model;
    adapters_release(&e->adapters);
    e->model = m;
    conversation_set_model(&e->conversation, m);
    model_free(former);
    tokenizer_free(e->tokenizer);
    e->tokenizer = NULL;
    *e->provisional_identity = 0;
    if (!checkpoint_identified(m->checkpoint)) { // a unique name until the files are hashed
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(e->provisional_identity, sizeof e->provisional_identity, UNHASHED "%llx-%x",
                 (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec,
                 (unsigned)getpid());
    }
    const char *means = "f32 only"; // compute.matmul auto
    if (backend_multiplies_bf16(e->backend))
        means = graph_precision(graph_matmul_auto(e->backend, m->dtype));
    engine_emit(e, &(struct event){ .kind = EVENT_MODEL,
                                    .key = means,
                                    .text = m->checkpoint->name,
                                    .value = *e->provisional_identity ? e->provisional_identity
                                                                      : m->checkpoint->identity });
    prompt_offer_variables(m);
    engine_recheck_settings(e);
    struct err untrimmed;
    if (converted_trim(e->settings, &untrimmed) < 0) sinks_notice(e->sinks, "%s", untrimmed.text);
    return 0;
}

int engine_load_as_set(struct engine *e, const char *name, struct err *err)
{
    char *whole = converted_name(name, e->settings);
    const int status = engine_load(e, whole, err);
    free(whole);
    return status;
}

static void drop_model(struct engine *e)
{
    engine_report_identity(e);
    *e->provisional_identity = 0;
    conversation_set_model(&e->conversation, NULL);
    adapters_release(&e->adapters);
    model_free(e->model);
    e->model = NULL;
}

char *engine_ignoring(const char *name)
{
    return unread_join(name);
}

void engine_adopt(struct engine *e, struct model *model)
{
    drop_model(e);
    e->model = model;
    conversation_set_model(&e->conversation, model);
}

void engine_unload(struct engine *e)
{
    struct err why;
    // Messages keep their token ids for a model with the same fingerprint.
    if (conversation_has_ids(&e->conversation) && engine_identify(e, &why) < 0)
        sinks_notice(e->sinks, "the conversation loses its token ids: %s", why.text);
    drop_model(e);
}

int engine_load_tokenizer(struct engine *e, const char *path, struct err *err)
{
    struct tokenizer *t = checkpoint_tokenizer_open(path, err);
    if (!t) return -1;
    if (tokenizer_notice(t)) sinks_notice(e->sinks, "%s", tokenizer_notice(t));
    tokenizer_free(e->tokenizer);
    e->tokenizer = t;
    return 0;
}
