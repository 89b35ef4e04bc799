// core/checkup/checkup.c -- runs the checks on each model, keeps the record, and defines the job
// `checkup`.
#include "core/checkup/checkup_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_config.h"
#include "core/adapter/adapters.h"
#include "core/adapter/provenance.h"
#include "core/base/clock.h"
#include "core/base/event.h"
#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "core/engine/device.h"
#include "core/files/content.h"
#include "core/jobs/job.h"
#include "core/jobs/memory.h"
#include "core/model/families/family.h"
#include "core/probes/measure.h"
#include "core/template/template.h"

#define FORMAT "vlmsh checkup 1"
enum { RECORD_MOST = 256 << 20, WARM_TOKENS = 4 };
// Limits of the forecast time of one model's checks: 80% of the 15 and 3 minutes that
// docs/checkup.md promises, because a forecast may be too low.
enum { BUDGET_S = 720, QUICK_S = 144 };

// --- the table -----------------------------------------------------------------------------------

#define X(name) extern const struct checkup_check check_##name;
CHECKS(X)
#undef X
#define X(name) &check_##name,
static const struct checkup_check *const all_checks[] = { CHECKS(X) };
#undef X

enum { CHECK_COUNT = sizeof all_checks / sizeof *all_checks };

const char *checkup_check_name(int index)
{
    return index < CHECK_COUNT ? all_checks[index]->name : NULL;
}

const char *checkup_check_shows(int index)
{
    return index < CHECK_COUNT ? all_checks[index]->shows : NULL;
}

// --- options -------------------------------------------------------------------------------------

static int take_model(void *self, const char *value, struct err *err)
{
    struct checkup_options *o = self;
    bool known;
    names_add(&o->models, value, &known);
    return known ? err_set(err, "'%s' is named twice", value) : 0;
}

static int check_only(const struct names *only, struct err *err)
{
    struct buf all = { 0 };
    size_t wrong = only->count;
    for (size_t i = only->count; i-- > 0;) {
        bool found = false;
        for (int k = 0; k < CHECK_COUNT; k++) found |= !strcmp(only->list[i], all_checks[k]->name);
        if (!found) wrong = i;
    }
    for (int k = 0; k < CHECK_COUNT; k++)
        buf_printf(&all, "%s%s", k ? ", " : "", all_checks[k]->name);
    if (wrong < only->count)
        err_set(err, "--only: there is no check '%s': %s", only->list[wrong], all.data);
    buf_release(&all);
    return wrong < only->count ? -1 : 0;
}

#define AT(field) .at = offsetof(struct checkup_options, field)
const struct option_row checkup_rows[] = {
    { "MODEL", NULL, NULL, OPTION_CALL, .take = take_model, .optional = true, .many = true },
    { "--adapter", "DIR", "an adapter to apply (default: the one in use)", OPTION_TEXT,
      AT(adapter) },
    { "--pictures", "DIR",
      "folder with pictures to describe and measure (at most 16; default: drawn scenes)",
      OPTION_TEXT, AT(pictures) },
    { "--out", "DIR", "the output folder (default: checkup-MODEL)", OPTION_TEXT, AT(out) },
    { "--quick", NULL, "fewer samples: at most 3 minutes for a model with 2 billion parameters",
      OPTION_FLAG, AT(quick) },
    { "--only", "NAME,...", "runs only these checks (/help checks)", OPTION_NAMES, AT(only) },
    { "--again", NULL, "discards the findings in DIR and starts again", OPTION_FLAG, AT(again) },
    { "--here", NULL, "runs in this process instead of a job", OPTION_FLAG, AT(here) },
    JOB_OPTIONS,
    { 0 },
};

int checkup_options_read(struct checkup_options *o, int argc, char **argv, const char *model,
                         struct err *err)
{
    *o = (struct checkup_options){ 0 };
    int status = options_parse(checkup_rows, o, argc, argv, err) < 0 ? -1 : 0;
    o->unnamed = !o->models.count;
    if (status == 0 && o->unnamed && model) names_add(&o->models, model, NULL);
    if (status == 0 && !o->models.count) status = err_set(err, "give a MODEL");
    if (status == 0) status = check_only(&o->only, err);
    if (status < 0) checkup_options_release(o);
    return status;
}

void checkup_options_release(struct checkup_options *o)
{
    names_release(&o->models);
    names_release(&o->only);
    *o = (struct checkup_options){ 0 };
}

char *checkup_folder(const struct checkup_options *o)
{
    if (o->out) return xstrdup(o->out);
    char *name = folder_name(o->models.list[0]);
    char *folder = xasprintf("checkup-%s%s", name, o->models.count > 1 ? "-and-others" : "");
    free(name);
    return folder;
}

static bool wanted(const struct checkup_options *o, const struct checkup_check *check)
{
    size_t number;
    return !o->only.count || names_find(&o->only, check->name, &number);
}

void checkup_work_release(struct checkup_work *w)
{
    checkup_options_release(&w->options);
    free(w->outcome);
    w->outcome = NULL;
}

// --- the record ----------------------------------------------------------------------------------

struct run {
    struct checkup_work *work;
    char *folder;
    int lock; // of the folder; -1: none
    cJSON *record;
    struct checkup c;           // of the open model
    struct folder_work scratch; // folder of temporary files, in the output folder
    size_t at;                  // index of the model
    double done, all; // forecast seconds of the model's due checks: those done so far, and all
    double now;       // forecast seconds of the running check
    bool computed;    // at least one check was due
    struct pace pace;
};

// Returns a text of the inputs, which must be equal to continue an earlier record; the caller frees
// it.
static char *identity_of(const struct checkup_options *o)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < o->models.count; i++) buf_printf(&b, "%s, ", o->models.list[i]);
    if (o->adapter) buf_printf(&b, "adapter %s, ", o->adapter);
    buf_printf(&b, "pictures %s%s", o->pictures ? o->pictures : "of its own",
               o->quick ? ", quick" : "");
    return buf_take(&b);
}

static cJSON *new_record(const struct checkup_work *w)
{
    const struct checkup_options *o = &w->options;
    cJSON *r = cJSON_CreateObject(), *machine, *models;
    uint64_t kib = 0;
    char *of = identity_of(o);
    cJSON_AddStringToObject(r, "format", FORMAT);
    cJSON_AddStringToObject(r, "program", "vlmsh " VERSION);
    cJSON_AddStringToObject(r, "of", of);
    machine = cJSON_AddObjectToObject(r, "machine");
    cJSON_AddStringToObject(machine, "device", device_text(w->backend));
    if (file_number("/proc/meminfo", "MemTotal:", &kib))
        cJSON_AddNumberToObject(machine, "memory GiB", floor((double)kib / 104857.6 + 0.5) / 10);
    cJSON_AddBoolToObject(r, "quick", o->quick);
    models = cJSON_AddArrayToObject(r, "models");
    for (size_t i = 0; i < o->models.count; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "name", o->models.list[i]);
        cJSON_AddArrayToObject(m, "checks");
        cJSON_AddItemToArray(models, m);
    }
    free(of);
    return r;
}

cJSON *checkup_read(const char *path, struct err *err)
{
    struct stat st;
    char *file = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? xasprintf("%s/checkup.json", path)
                                                             : xstrdup(path);
    cJSON *r = json_read(file, RECORD_MOST, err);
    if (r &&
        (strcmp(record_text(r, "format"), FORMAT) != 0 || !cJSON_IsArray(json_get(r, "models")))) {
        err_set(err, "'%s' is not a check-up of this version of vlmsh", file);
        cJSON_Delete(r);
        r = NULL;
    }
    free(file);
    return r;
}

// True if the folder is empty, or holds only files of a check-up that was killed early.
static bool is_ours(const char *folder)
{
    bool ours = true;
    char **names = folder_list(folder);
    for (size_t i = 0; names[i]; i++)
        ours &= !strncmp(names[i], "checkup.", 8) || !strncmp(names[i], "scenes", 6);
    folder_list_free(names);
    return ours;
}

// True if the record has these models in this order, each with a list of checks.
static bool is_whole(const cJSON *record, const struct checkup_options *o)
{
    const cJSON *model, *check;
    size_t count = 0;
    cJSON_ArrayForEach(model, json_get(record, "models"))
    {
        const cJSON *checks = json_get(model, "checks");
        if (!cJSON_IsArray(checks) || count == o->models.count ||
            strcmp(record_text(model, "name"), o->models.list[count++]) != 0)
            return false;
        cJSON_ArrayForEach(check, checks) if (!cJSON_IsArray(json_get(check, "rows"))) return false;
    }
    return count == o->models.count;
}

// Locks the folder, and continues with the record of an earlier run, if there is one.
static int open_record(struct run *r, struct err *err)
{
    const struct checkup_options *o = &r->work->options;
    if (mkdir(r->folder, 0777) < 0 && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", r->folder, strerror(errno));
    if ((r->lock = folder_lock(r->folder, "writing a check-up", err)) < 0) return -1;
    char *path = xasprintf("%s/checkup.json", r->folder);
    const bool there = access(path, F_OK) == 0;
    int status = 0;
    free(path);
    if (!there && !is_ours(r->folder))
        return err_set(err, "'%s' exists and holds no check-up: choose another folder (--out)",
                       r->folder);
    if (!there || o->again) {
        r->record = new_record(r->work);
        return 0;
    }
    if (!(r->record = checkup_read(r->folder, err))) return -1;
    char *is = identity_of(o);
    const cJSON *of = json_get(r->record, "of"), *program = json_get(r->record, "program");
    if (!cJSON_IsString(of) || strcmp(of->valuestring, is) != 0)
        status = err_set(err,
                         "'%s' holds another check-up (%.200s): choose another folder (--out), or "
                         "--again to replace it",
                         r->folder, cJSON_IsString(of) ? of->valuestring : "unknown");
    else if (!is_whole(r->record, o))
        status = err_set(err, "'%s/checkup.json' is damaged: --again starts again", r->folder);
    else if (!cJSON_IsString(program) || strcmp(program->valuestring, "vlmsh " VERSION) != 0)
        status = err_set(err, "'%s' was begun by %.60s: --again starts again", r->folder,
                         cJSON_IsString(program) ? program->valuestring : "another version");
    free(is);
    cJSON_DeleteItemFromObject(r->record, "verdict"); // it covers only the checks so far
    return status;
}

static int write_record(const struct run *r, struct err *err)
{
    struct buf page = { 0 }, html = { 0 };
    char *text = cJSON_Print(r->record);
    if (!text) return err_set(err, "not enough memory for the record");
    checkup_markdown(r->record, &page);
    checkup_html(r->record, &html);
    // Writes the record last, so that every check in it is also on the pages.
    int status = folder_write(r->folder, "checkup.md", page.data, page.length, err);
    if (status == 0) status = folder_write(r->folder, "checkup.html", html.data, html.length, err);
    if (status == 0) status = folder_write(r->folder, "checkup.json", text, strlen(text), err);
    cJSON_free(text);
    buf_release(&page);
    buf_release(&html);
    return status;
}

static cJSON *model_record(const struct run *r)
{
    return cJSON_GetArrayItem(json_get(r->record, "models"), (int)r->at);
}

static bool is_done(const struct run *r, const struct checkup_check *check)
{
    return record_find(json_get(model_record(r), "checks"), check->name) != NULL;
}

static bool is_due(const struct run *r, const struct checkup_check *check)
{
    return wanted(&r->work->options, check) && !is_done(r, check);
}

// Adds a check's findings to the record, in the order of all_checks.
static void add_check(struct run *r, const struct checkup_check *check)
{
    cJSON *list = cJSON_GetObjectItem(model_record(r), "checks"), *item = cJSON_CreateObject();
    int at = 0;
    cJSON_AddStringToObject(item, "name", check->name);
    cJSON_AddStringToObject(item, "shows", check->shows);
    cJSON_AddItemToObject(item, "rows", r->c.rows);
    cJSON_AddItemToObject(item, "figures", r->c.figures);
    cJSON_AddStringToObject(item, "verdict", check_verdict(item));
    r->c.rows = r->c.figures = NULL;
    for (int i = 0; i < CHECK_COUNT && all_checks[i] != check; i++) at += is_done(r, all_checks[i]);
    cJSON_InsertItemInArray(list, at, item);
}

// --- progress and stops --------------------------------------------------------------------------

static void report(struct checkup *c, double share)
{
    struct run *r = (struct run *)((char *)c - offsetof(struct run, c));
    const double models = (double)r->work->options.models.count;
    const double done = r->all > 0 ? (r->done + share * r->now) / r->all : 0;
    const double step = ((double)r->at + done) / models * 100;
    if (r->work->job)
        job_progress(r->work->job, &r->pace, step, 100, NAN);
    else
        sinks_progress(r->work->sinks, &r->pace, "checking", step, 100);
}

bool checkup_stopped(struct checkup *c)
{
    const struct checkup_work *w = c->work;
    if (w->job && job_stopped(w->job) != JOB_GO) atomic_store(w->stop, true);
    c->stopped |= w->cancel && atomic_load(w->cancel);
    return c->stopped;
}

static bool report_loading(void *self, uint64_t done, uint64_t total)
{
    return !checkup_stopped(self);
}

// --- a model -------------------------------------------------------------------------------------

// Returns the default settings, except for the adapter, the dtype of keys and values, and the
// precision of matrix products. The caller frees them.
static struct settings *plain_settings(const struct settings *s)
{
    struct settings *plain = measure_without_methods(s);
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (row->stale != STALE_KV && row->use != USE_ARITHMETIC) settings_reset(plain, row->key);
    return plain;
}

// Turns reasoning off if the chat template has a variable for it that the user has not set: the
// check-up's answers are so short that they would end during the reasoning.
static int skip_reasoning(struct checkup *c, struct err *err)
{
    static const char name[] = "enable_thinking", key[] = "chat.template.enable_thinking";
    size_t at;
    if (!names_find(chat_template_variables(c->model->template), name, &at) ||
        settings_changed(c->settings, key))
        return 0;
    return settings_set(c->settings, key, "false", err);
}

// Reads the model and the pictures. A model that cannot be opened is a finding, not an error.
static int open_model(struct run *r, struct err *err)
{
    struct checkup *c = &r->c;
    struct checkup_work *w = r->work;
    const struct load_progress progress = { .report = report_loading, .self = c };
    const double start = clock_seconds();
    *c = (struct checkup){ .work = w,
                           .name = w->options.models.list[r->at],
                           .scratch = r->scratch.path,
                           .settings = plain_settings(w->settings),
                           .backend = w->backend,
                           .blank = -1,
                           .scale = 1,
                           .progress = report };
    conversation_init(&c->talk, w->backend);
    if (w->options.adapter && settings_set(c->settings, "adapter", w->options.adapter, err) < 0)
        return -1;
    c->memory[0] = memory_now();
    c->model = model_open(c->name, w->backend, NULL, &progress, &c->closed);
    c->load_s = clock_seconds() - start;
    c->memory[1] = memory_now();
    if (!c->model) return checkup_stopped(c) ? err_set(err, "stopped") : 0;
    if (checkpoint_identify(c->model->checkpoint, &progress, err) < 0) return -1;
    if (adapter_apply_settings(&c->adapter, c->model, c->settings, &c->unfit) < 0) {
        adapter_free(c->adapter);
        c->adapter = NULL;
    }
    conversation_set_model(&c->talk, c->model);
    if (skip_reasoning(c, err) < 0) return -1;
    return checkup_pictures_open(c, r->folder, err);
}

static void close_model(struct run *r)
{
    struct checkup *c = &r->c;
    conversation_release(&c->talk);
    checkup_pictures_release(c);
    adapter_free(c->adapter);
    model_free(c->model);
    settings_free(c->settings);
    cJSON_Delete(c->rows);
    cJSON_Delete(c->figures);
    *c = (struct checkup){ 0 };
}

// Fails if the findings so far were made with a different model, adapter or setting, or on a
// different device.
static int check_same(const struct run *r, const struct provenance *now, struct err *err)
{
    const char *device = record_text(json_get(r->record, "machine"), "device"),
               *here = device_text(r->work->backend);
    struct provenance then;
    int status = 0;
    if (strcmp(device, here) != 0)
        status = err_set(err, "the device was %.100s, now %s", device, here);
    else if (!provenance_get(&then, model_record(r)))
        status = err_set(err, "the model's provenance is missing");
    else {
        status = provenance_same(&then, now, err);
        provenance_release(&then);
    }
    if (status == 0) return 0;
    return err_in(err, "'%s' holds findings made under different conditions (--again starts again)",
                  r->folder);
}

static void put_model(const struct run *r, const struct provenance *now)
{
    const struct model *m = r->c.model;
    cJSON *to = model_record(r);
    struct model_part parts[MODEL_PARTS];
    double parameters = 0;
    model_count(m, parts);
    for (int i = 0; i < MODEL_PARTS; i++) parameters += (double)parts[i].parameters;
    cJSON_AddStringToObject(to, "identity", m->checkpoint->identity);
    cJSON_AddStringToObject(to, "family", m->family->name);
    cJSON_AddNumberToObject(to, "parameters", parameters);
    cJSON_AddStringToObject(to, "weights", dtype_form(m->dtype).name);
    cJSON_AddStringToObject(to, "arithmetic", model_arithmetic(m, r->work->backend, r->c.settings));
    if (r->c.adapter) cJSON_AddStringToObject(to, "adapter", r->c.adapter->name);
    provenance_put(now, to);
}

// Records the model, or compares it with the recorded one.
static int note_model(const struct run *r, struct err *err)
{
    const struct checkup *c = &r->c;
    const struct provenance_env env = { c->model, c->adapter, c->backend, c->settings };
    struct provenance now;
    int status = 0;
    if (!c->model) return 0;
    provenance_of_job(&now, &env);
    if (r->work->options.pictures) {
        char hex[HASH_HEX];
        checkup_pictures_hash(c, hex);
        provenance_add(&now, "pictures", hex);
    }
    if (json_get(model_record(r), "identity"))
        status = check_same(r, &now, err);
    else
        put_model(r, &now);
    provenance_release(&now);
    return status;
}

// --- the time ------------------------------------------------------------------------------------

static double seconds_of(const struct run *r, const struct checkup_check *check)
{
    const struct checkup *c = &r->c;
    const struct checkup_cost *cost = r->work->options.quick ? &check->quick : &check->cost;
    const double further = check->seconds && c->model ? check->seconds(c) : 0;
    return 0.1 + cost->prompts * c->prompt_s + cost->tokens * c->token_s +
           cost->encodes * c->encode_s + cost->reads * c->load_s + further;
}

// Times an answer and a text twice, because the first pass reads the weights from disk. If a pass
// fails, the rates stay 0, and the checks report the failure.
static int measure_rates(struct run *r, struct err *err)
{
    struct checkup *c = &r->c;
    struct checkup_answer a;
    struct settings *s = checkup_with(c, "sample.ignore_eos", "on", NULL);
    const int first = 0;
    checkup_ask(c, &first, c->scenes ? 1 : 0, checkup_question);
    struct err why;
    for (int i = 0; i < 2; i++) {
        if (checkup_answer(c, s, WARM_TOKENS, false, &a, &why) < 0) break;
        if (!i) c->encode_s = a.vision_s;
        c->prompt_s = a.prefill_s;
        c->token_s = a.decode_s / WARM_TOKENS;
        checkup_answer_release(&a);
    }
    settings_free(s);
    for (int i = 0; i < 2 && !c->stopped; i++) {
        const double start = clock_seconds();
        double nats;
        int64_t tokens;
        if (checkup_text_nats(c, c->settings, &nats, &tokens, &why) < 0) break;
        c->text_s = clock_seconds() - start;
    }
    return c->stopped ? err_set(err, "stopped") : 0;
}

// The rates and the share of samples that fits into the time are part of the record, so that a
// resumed run computes the same numbers.
static int plan_time(struct run *r, struct err *err)
{
    struct checkup *c = &r->c;
    cJSON *to = model_record(r);
    const cJSON *plan = json_get(to, "plan");
    enum { PLAN = 5 };
    static const char *const keys[PLAN] = { "seconds a prompt", "seconds a text", "seconds a token",
                                            "seconds a picture", "share of samples" };
    double *const at[PLAN] = { &c->prompt_s, &c->text_s, &c->token_s, &c->encode_s, &c->scale };
    if (!c->model) return 0;
    for (int i = 0; i < PLAN && plan; i++)
        if (json_real(plan, keys[i], *at[i], at[i], err) < 0) return -1;
    if (plan) return 0;
    if (measure_rates(r, err) < 0) return -1;
    double all = 0;
    for (int i = 0; i < CHECK_COUNT; i++)
        if (wanted(&r->work->options, all_checks[i])) all += seconds_of(r, all_checks[i]);
    const double budget = r->work->options.quick ? QUICK_S : BUDGET_S;
    c->scale = all > budget ? budget / all : 1;
    cJSON *made = cJSON_AddObjectToObject(to, "plan");
    for (int i = 0; i < PLAN; i++) cJSON_AddNumberToObject(made, keys[i], *at[i]);
    cJSON_AddNumberToObject(made, "forecast seconds", all * c->scale);
    return 0;
}

// --- the checks ----------------------------------------------------------------------------------

static int run_check(struct run *r, const struct checkup_check *check, struct err *err)
{
    struct checkup *c = &r->c;
    struct err why = { 0 };
    c->rows = cJSON_CreateArray();
    c->figures = cJSON_CreateArray();
    if (!c->model && !check->closed) {
        struct finding f = finding(c, check->name);
        finding_skip(&f, "the model could not be opened");
    } else if (check->sees && c->model && !model_has_vision(c->model)) {
        struct finding f = finding(c, check->name);
        finding_skip(&f, "the model is text-only");
    } else if (check->run(c, &why) < 0 && !checkup_stopped(&r->c)) {
        struct finding f = finding(c, "completed");
        finding_fails(&f, "%s", why.text);
    }
    if (checkup_stopped(&r->c)) return JOB_STOPPED;
    add_check(r, check);
    return write_record(r, err);
}

static int run_model(struct run *r, struct err *err)
{
    bool due = false;
    int status = 0;
    // A model that could not be opened may have been repaired since.
    if (!json_get(model_record(r), "identity"))
        cJSON_ReplaceItemInObject(model_record(r), "checks", cJSON_CreateArray());
    for (int i = 0; i < CHECK_COUNT; i++) due |= is_due(r, all_checks[i]);
    if (!due) return 0;
    r->computed = true;
    status = open_model(r, err);
    if (status == 0) status = note_model(r, err);
    if (status == 0) status = plan_time(r, err);
    if (status == 0) status = write_record(r, err);
    r->done = r->all = 0;
    for (int i = 0; i < CHECK_COUNT && status == 0; i++)
        if (is_due(r, all_checks[i])) r->all += seconds_of(r, all_checks[i]);
    for (int i = 0; i < CHECK_COUNT && status == 0; i++) {
        if (!is_due(r, all_checks[i])) continue;
        r->now = seconds_of(r, all_checks[i]);
        report(&r->c, 0);
        status = run_check(r, all_checks[i], err);
        r->done += r->now;
    }
    if (status < 0 && checkup_stopped(&r->c)) status = JOB_STOPPED;
    close_model(r);
    return status;
}

// --- all -----------------------------------------------------------------------------------------

const char *check_verdict(const cJSON *check)
{
    static const char *const order[] = { "fails", "works", "measured" };
    const cJSON *row;
    for (size_t i = 0; i < 3; i++) cJSON_ArrayForEach(row, json_get(check, "rows"))
        {
            if (!strcmp(record_text(row, "verdict"), order[i])) return order[i];
        }
    return "not applicable";
}

// Returns "2 of 12 checks fail (demo: sees, demo: speed)", "none of 12 checks fails (2 do not
// apply)" or the like; the caller frees the text. *failing: the number of checks that fail.
static char *outcome_of(const cJSON *record, int *failing)
{
    struct buf failed = { 0 };
    const cJSON *model, *check;
    int checks = 0, fails = 0, idle = 0;
    cJSON_ArrayForEach(model, json_get(record, "models"))
        cJSON_ArrayForEach(check, json_get(model, "checks"))
    {
        const char *verdict = check_verdict(check);
        checks++;
        idle += !strcmp(verdict, "not applicable");
        if (strcmp(verdict, "fails") != 0) continue;
        buf_printf(&failed, "%s%s: %s", fails++ ? ", " : " (", record_text(model, "name"),
                   record_text(check, "name"));
    }
    struct buf b = { 0 };
    if (checks == 1)
        buf_printf(&b, "the check %s", fails ? "fails" : idle ? "does not apply" : "does not fail");
    else if (fails)
        buf_printf(&b, "%d of %d checks fail%s", fails, checks, fails == 1 ? "s" : "");
    else
        buf_printf(&b, "none of %d checks fails", checks);
    if (fails)
        buf_printf(&b, "%s)", failed.data);
    else if (idle && checks > 1)
        buf_printf(&b, idle == 1 ? " (1 does not apply)" : " (%d do not apply)", idle);
    buf_release(&failed);
    *failing = fails;
    return buf_take(&b);
}

// Creates the folder of temporary files, and removes one that a killed run left.
static int open_scratch(struct run *r, struct err *err)
{
    char *path = xasprintf("%s/work", r->folder);
    const int status = folder_begin(&r->scratch, path, err);
    free(path);
    return status;
}

static int finish(struct run *r, struct err *err)
{
    int failing;
    if (!r->computed)
        sinks_notice(r->work->sinks,
                     "'%s' already has all findings, so nothing was computed; --again checks "
                     "again",
                     r->folder);
    r->work->outcome = outcome_of(r->record, &failing);
    r->work->fails = failing;
    cJSON_AddStringToObject(r->record, "verdict", failing ? "fails" : "works");
    return write_record(r, err);
}

int checkup_run(struct checkup_work *w, struct err *err)
{
    struct run r = {
        .work = w, .folder = checkup_folder(&w->options), .lock = -1, .scratch.lock = -1
    };
    int status = open_record(&r, err);
    if (status == 0) status = write_record(&r, err);
    if (status == 0) status = open_scratch(&r, err);
    for (r.at = 0; r.at < w->options.models.count && status == 0; r.at++)
        status = run_model(&r, err);
    if (status == 0) status = finish(&r, err);
    cJSON_Delete(r.record);
    folder_abandon(&r.scratch);
    if (r.lock >= 0) close(r.lock);
    free(r.folder);
    return status;
}

int checkup_show(const char *folder, const struct sinks *sinks, struct err *err)
{
    cJSON *record = checkup_read(folder, err);
    const cJSON *model, *check, *row;
    struct table_builder t;
    if (!record) return -1;
    table_begin(&t, "checkup", "model|check|shows|verdict|findings");
    cJSON_ArrayForEach(model, json_get(record, "models"))
        cJSON_ArrayForEach(check, json_get(model, "checks"))
            cJSON_ArrayForEach(row, json_get(check, "rows"))
    {
        table_row(&t, "%s|%s|%s|%s|%s", record_text(model, "name"), record_text(check, "name"),
                  record_text(row, "name"), record_text(row, "verdict"), record_text(row, "text"));
    }
    table_emit(&t, sinks);
    cJSON_Delete(record);
    return 0;
}

// --- the job -------------------------------------------------------------------------------------

static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct checkup_options o;
    if (checkup_options_read(&o, argc, argv, NULL, err) < 0) return -1;
    checkup_options_release(&o);
    return 0;
}

static int run(struct job *j, struct err *err)
{
    atomic_bool stop = false;
    struct checkup_work w = { .settings = j->settings,
                              .backend = j->backend,
                              .sinks = j->sinks,
                              .cancel = &stop,
                              .stop = &stop,
                              .job = j };
    if (checkup_options_read(&w.options, j->argc, j->argv, NULL, err) < 0) return -1;
    if (j->resumed) w.options.again = false;
    int status = checkup_run(&w, err);
    char *folder = checkup_folder(&w.options);
    if (status == 0) {
        job_result(j, "checkup", "%s", w.outcome);
        job_result(j, "page", "%s/checkup.html", folder);
    }
    if (w.fails) status = err_set(err, "%s; the report is '%s/checkup.html'", w.outcome, folder);
    free(folder);
    checkup_work_release(&w);
    return status;
}

static char *outcome(const struct job_end *end)
{
    const char *found = job_end_value(end, "checkup"), *page = job_end_value(end, "page");
    return found && page ? xasprintf("%s; '%s'", found, page) : NULL;
}

const struct job_kind job_kind_checkup = {
    .name = "checkup",
    .check = check,
    .run = run,
    .outcome = outcome,
};
