// core/methods/method.h -- a method: changes how a model computes, in chat, training and
// evaluation.
//
// A method is one constant struct in core/methods/NAME.c (its settings, its functions at the sites
// of core/graph/hooks.h, its state) and a line in core/lists.h. The forward pass names no
// method. Code that runs passes attaches the methods that the settings switch on:
//
//   struct methods methods = { 0 };                    // one per conversation, training run ...
//   struct method_env env = { model, backend, settings, .tensors = adapter_tensors(...) };
//   methods_attach(&methods, &hooks, &env, &err);      // before probes are added
//   ... passes with g.hooks = &hooks, g.settings = settings ...
//   methods_trim(&methods, rows);                      // when the KV cache loses rows
//   methods_release(&methods);
//
// A method that is off adds no hook: the pass is bit-identical and costs nothing.
//
// Room core/methods/: methods that change a pass (norm alignment, steering, hidden tokens, IRA,
// pruning, FFN approximation), and calibration files. Uses stages, model and what they use.
#ifndef CORE_METHODS_METHOD_H
#define CORE_METHODS_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/model/parts.h"

struct buf;
struct decoder_config;
struct forecast_rows;
struct graph;
struct hooks;
struct sequence;
struct site;
struct site_args;

// Trained tensors of methods ("norm_align.weight", "ira.3.head.bias"): f32 on the device, valid for
// all passes. find returns NULL for an unknown tensor; it is NULL itself if nothing was trained.
struct method_tensors {
    const struct tensor *(*find)(void *self, const char *name);
    void *self;
};

// Environment of a method. `settings` (a snapshot) and the model must last until the next
// methods_attach.
struct method_env {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings;
    struct method_tensors tensors; // of the adapter
    bool training;                 // untrained parameters are initialised
};

// Called once for each parameter of a method; `t` belongs to the method's state.
typedef void (*method_param_fn)(void *self, const char *name, struct tensor *t);

// Receives a method's measurements of a training step.
struct method_reporter {
    void (*sum)(void *self, double *x, size_t n); // adds up over the ranks
    void (*metric)(void *self, const char *name, double value);
    void (*warn)(void *self, const char *text);
    void *self;
};

// A tensor that a method learns: f32, in an adapter's extra.safetensors. "K" in the name is the
// layer number: "ira.K.head.bias" exists once per layer.
struct method_tensor {
    const char *name;
    int rank;
    int64_t shape[2];
};

enum { METHOD_SITES = 9 };

struct method {
    const char *name;               // "prune"
    const char *title;              // "pruning"
    const struct setting *settings; // its settings, ended by a row without a key
    // The setting that switches it, its off value (which is also the default, in the spelling of
    // settings: "1", not "1.0"), and an on value (NULL: it needs a file that the user names).
    // /baseline, the off side of /compare, keys and badges use nothing else.
    struct method_switch {
        const char *key, *off, *on;
    } toggle;
    const char *press; // the key that toggles it ("Alt-2"); methods are listed in the order of
                       // their keys; NULL: none
    // Its calibration or trained parameters: the setting that names their file, and their path in a
    // model's folder. A command that switches the method on loads them from there while the setting
    // has its default (preset_fit). NULL: it needs none.
    struct method_fit {
        const char *key, *path;
    } fit;
    bool text;     // also acts without visual tokens
    bool values;   // writes values at SITE_VALUES: layers cache the changed values
    bool replaces; // removes tokens or replaces their FFN: calibrations run without it
    // Badge of the status line while it is on; never NULL. `layer`: its default_layer, or -1.
    void (*badge)(struct buf *b, const struct settings *s, int layer);
    // Returns the layer that the method chooses by default in this model; may be NULL.
    int (*default_layer)(const struct model *m);
    // 0 if the settings are possible with some model, else -1. Also called without a model. May be
    // NULL.
    int (*possible)(const struct settings *s, struct err *err);
    // 0 if the method can work with this model and these settings, else -1. Refuses impossible
    // values even while the method is off. Must be fast. May be NULL.
    int (*check)(const struct method_env *env, struct err *err);
    // 0 if its values are consistent with each other, else -1. Values set one by one may be
    // temporarily inconsistent, so this is called when several are set at once, while the method is
    // on. May be NULL.
    int (*agree)(const struct method_env *env, struct err *err);
    // True if it is on with valid settings but has no effect, or a bad one; *why: the reason.
    // May be NULL; models without visual tokens are handled for all methods without `text`.
    bool (*without_effect)(const struct method_env *env, struct err *why);
    // True if the next prefill can reuse the cache after the setting `key` changed to the value in
    // `s`. NULL: never.
    bool (*keeps)(const void *state, const char *key, const struct settings *s);
    // True if its result depends on this setting, which another module owns. NULL: never.
    bool (*reads)(const char *key, const struct settings *s);
    // Called while the method is on, before the passes of an answer (a training run ...). *state is
    // NULL at the first call; later calls receive the previous call's state, and may keep its
    // caches if model and settings are compatible. On failure *state must be valid for release. If
    // start is NULL, the method has no state, and release is NULL too.
    int (*start)(void **state, const struct method_env *env, struct err *err);
    void (*release)(void *state);
    // Called when the KV cache is cut to its first `rows` rows: discards everything computed from
    // later rows. May be NULL.
    void (*trim)(void *state, int64_t rows);
    // Device memory of the state that grows with the conversation. May be NULL.
    uint64_t (*bytes)(const void *state);
    // Returns how many cached rows a new prefill can reuse if it shares the first `rows` rows.
    // NULL: all of them.
    int64_t (*reusable)(void *state, const struct sequence *cached, int64_t rows);
    // The setting (SETTING_LIST) that names the layers in which it acts. NULL: all, or those that
    // `wants` chooses.
    const char *layers;
    // True if the method listens at this site and layer (-1: any). NULL: wherever `at` has a
    // function.
    bool (*wants)(void *state, const struct site *site, int layer);
    // Its action at each site, one row per site; run returns 0, or -1 after graph_fail.
    struct method_action {
        const struct site *site;
        int (*run)(void *state, struct graph *g, struct site_args *args);
    } at[METHOD_SITES];
    // FLOPs of its action on one row of a site (`visual`: a visual token, else text) while the
    // method is on; at SITE_FFN, called only for rows whose FFN is not computed. 0 where the method
    // does nothing; NULL: counted as 0 everywhere.
    double (*flops)(const struct settings *s, const struct decoder_config *c,
                    const struct site *site, const struct site_args *args, bool visual);
    // Removes from `rows` [L] (core/methods/forecast.h) the rows and FFNs that the method omits
    // while it is on; env->settings have passed `check`. -1 if that depends on the picture. NULL:
    // none.
    int (*forecast)(const struct method_env *env, struct forecast_rows *rows, struct err *err);
    // The tensors it learns, by index, in the shape of that layer if the name contains ".K."; false
    // past the last one, or if this model or layer does not use the method. NULL: it learns
    // nothing.
    bool (*learned)(const struct model *m, int index, int layer, struct method_tensor *t);
    struct {
        enum model_part_kind part; // the learned tensors are trained with this part of the model
        // A setting ("train.ira") that decides alone whether the method acts in training, and
        // whether its tensors are trained, whatever train.params says; NULL: see
        // method_in_training.
        const char *by;
        const char *rate, *decay; // settings of the tensors' learning rate and weight decay; NULL:
                                  // those of the part
        double times;             // if `rate` is auto: the learning rate is train.lr times this
    } training;
    // Calls add() with each parameter that `learned` names, for training. NULL: it learns nothing.
    void (*params)(void *state, method_param_fn add, void *self);
    // Training only: called before each step with the fraction of steps done, 0..1. May be NULL.
    void (*progress)(void *state, double share);
    // Training only: reports measurements of the passes since the last report, after each step. May
    // be NULL.
    void (*report)(void *state, const struct method_reporter *to);
    // Training only: the following passes validate (`on`), without noise and penalties, or train
    // again. May be NULL.
    void (*validate)(void *state, bool on);
};

enum { METHODS_MAX = 8 };

// The states of all methods: for a conversation, a training run, an evaluation.
struct methods {
    struct method_slot {
        const struct method *method;
        void *state;  // NULL: never on with this model
        bool *layers; // [L] in which it acts; NULL: all
        bool on;
    } slot[METHODS_MAX];
};

bool method_on(const struct method *method, const struct settings *s);
// True if the method acts in training. A method with training.by (IRA, pruning) acts while that
// setting is on; any other method that learns acts while the method itself is on. FFN
// approximation, steering and hidden tokens never act in training.
bool method_in_training(const struct method *method, const struct settings *s);

// Registers all methods, in the order in which they act, ended by NULL. They must last as long as
// the program.
void methods_register(const struct method *const *all);
const struct method *method_at(int index); // in list order; NULL past the end
// In display order (the order of their keys); NULL past the end.
const struct method *method_shown(int index);

// Starts the methods that env->settings switch on and adds their hooks in list order; methods that
// were on and are off now drop their caches. `m` belongs to one model (methods_release before
// another) and must not move while the hooks are used. On failure (-1) none is attached.
int methods_attach(struct methods *m, struct hooks *hooks, const struct method_env *env,
                   struct err *err);
void methods_trim(struct methods *m, int64_t rows);
// Returns how many of the first `rows` cached rows all methods can reuse; `cached` is the sequence
// in the cache.
int64_t methods_reusable(const struct methods *m, const struct sequence *cached, int64_t rows);
void methods_release(struct methods *m);
bool methods_on(const struct methods *m);        // true if any method is on
uint64_t methods_bytes(const struct methods *m); // of all states
void methods_params(struct methods *m, method_param_fn add, void *self);
void methods_progress(struct methods *m, double share);
void methods_report(struct methods *m, const struct method_reporter *to);
void methods_validate(struct methods *m, bool on);

// Returns the method that learns a tensor of that name in this model; NULL: none. *t: its shape.
const struct method *method_learning(const struct model *m, const char *name,
                                     struct method_tensor *t);
// Appends the names of all tensors that methods learn in this model: "norm_align.weight,
// ira.K.head.bias".
void methods_learned(const struct model *m, struct buf *b);
// Returns the FLOPs of the active methods on one row of a site, as method.flops does.
double methods_row_flops(const struct settings *s, const struct decoder_config *c,
                         const struct site *site, const struct site_args *args, bool visual);
// Returns the sum of these FLOPs over the site's rows among the first `end` rows of the sequence.
double methods_flops(const struct settings *s, const struct decoder_config *c,
                     const struct site *site, const struct site_args *args, int64_t end);
// True if an active method counts FLOPs at this site.
bool methods_cost(const struct settings *s, const struct site *site);
// Returns the method that owns this setting; NULL: none.
const struct method *method_of(const char *key);
// These check the settings of one method (NULL: all methods): methods_possible without a model,
// methods_check for a model.
int methods_possible(const struct method *method, const struct settings *s, struct err *err);
int methods_check(const struct method *method, const struct method_env *env, struct err *err);
// True if the method is on with inconsistent settings; then *why explains this to the user.
bool methods_inconsistent(const struct method *method, const struct method_env *env,
                          struct err *why);
// True if the method is on without effect (or with a bad one); then *why explains this to the user.
bool methods_without_effect(const struct method *method, const struct method_env *env,
                            struct err *why);
// True if the setting belongs to a method that did not affect the cache and is off under `s`.
bool methods_unused(const struct methods *m, const char *key, const struct settings *s);
// True if an active method depends on this setting, which belongs to another method or module.
bool methods_read(const char *key, const struct settings *s);
// True if the cache stays valid after this setting has changed.
bool methods_keep_cache(const struct methods *m, const char *key, const struct settings *s);

#endif
