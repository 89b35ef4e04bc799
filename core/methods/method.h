// core/methods/method.h -- a method: something that changes how a model computes, while one talks
// to it, trains it or evaluates it.
//
// A method is one file core/methods/NAME.c with one constant struct (its settings, what it does at
// the sites of core/graph/hooks.h, its state) and a line in core/lists.h. The forward pass
// names none of them. Whoever runs passes attaches the methods that the settings switch on:
//
//   struct methods methods = { 0 };                    // one a conversation, a training run ...
//   struct method_env env = { model, backend, settings, .tensors = adapter_tensors(...) };
//   methods_attach(&methods, &hooks, &env, &err);      // before probes are added
//   ... passes with g.hooks = &hooks, g.settings = settings ...
//   methods_trim(&methods, rows);                      // when the KV cache loses rows
//   methods_release(&methods);
//
// A method that is off adds no hook: the pass is the same to the bit and costs nothing.
//
// Room core/methods/: what changes a pass (norm alignment, IRA, pruning, FFN approximation), each
// in one file, and the files of calibrations. It uses model and what it uses.
#ifndef CORE_METHODS_METHOD_H
#define CORE_METHODS_METHOD_H

#include "core/graph/hooks.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

// Trained tensors of methods ("norm_align.weight", "ira.3.head.bias"): f32 on the device, they
// outlive the passes. find gives NULL where there is none; NULL itself when nothing was trained.
struct method_tensors {
    const struct tensor *(*find)(void *self, const char *name);
    void *self;
};

// What a method is started with. `settings` (a snapshot) and the model last until the next start.
struct method_env {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings;
    struct method_tensors tensors; // of the adapter
    bool training;                 // parameters are made where none were trained
};

// Called once for each of a method's parameters; `t` belongs to the method's state.
typedef void (*method_param_fn)(void *self, const char *name, struct tensor *t);

// A tensor that a method learns: f32, of an adapter's extra.safetensors. K in the name stands for
// each layer ("ira.K.head.bias").
struct method_tensor {
    const char *name;
    int rank;
    int64_t shape[2];
};

struct method {
    const char *name;               // "prune"
    const char *title;              // "pruning"
    const struct setting *settings; // its rows, ended by one without a key
    // The setting that switches it, the value that is off (its default too), and a value that is
    // on: /baseline, the off side of /compare, keys and badges need no more.
    struct method_switch {
        const char *key, *off, *on;
    } toggle;
    const char *press; // the key of the screen that switches it ("Alt-2"), by which methods are
                       // sorted where they are shown; NULL: none
    bool replaces;     // removes tokens or replaces their FFN: calibrations run without it
    // What the status line shows while it is on; never NULL. `layer` is that of `place`, or -1.
    void (*badge)(struct buf *b, const struct settings *s, int layer);
    int (*place)(const struct model *m); // the layer it chooses itself in this model; may be NULL
    // Is each value possible with some model? Asked before there is one too. May be NULL.
    int (*possible)(const struct settings *s, struct err *err);
    // Can it work with this model under these settings, on or off? Every value that is impossible
    // in itself is refused even when off. Must be quick. May be NULL.
    int (*check)(const struct method_env *env, struct err *err);
    // Do its values fit together? They may differ for a while when they are set one by one; asked
    // where several are set at once, while it is on. May be NULL.
    int (*agree)(const struct method_env *env, struct err *err);
    // It is on and these settings fit, and still it changes nothing, or nothing for the better:
    // *why says what the reason is. false: it does something. May be NULL; a model without visual
    // tokens is seen to for all.
    bool (*vain)(const struct method_env *env, struct err *why);
    // `key` of its settings has changed since the last start, now they are `s`: can the next
    // prefill go on from what is cached all the same? NULL: never.
    bool (*keeps)(const void *state, const char *key, const struct settings *s);
    // Does what it computes depend on this setting, which is none of its own? NULL: on none.
    bool (*reads)(const char *key, const struct settings *s);
    // Before the passes of an answer (a training run ...) while it is on. *state is NULL at first,
    // afterwards what the last start left there: caches may be kept when model and settings allow.
    // On failure *state is something that release accepts.
    int (*start)(void **state, const struct method_env *env, struct err *err);
    void (*release)(void *state);
    // The KV cache keeps only its first `rows` rows: what was computed after them is forgotten. May
    // be NULL.
    void (*trim)(void *state, int64_t rows);
    // Device memory of the state that grows with the conversation. May be NULL.
    uint64_t (*bytes)(const void *state);
    // How many of the cached rows, of which a new prefill shares the first `rows`, it can go on
    // from. NULL: all of them.
    int64_t (*reusable)(void *state, const struct sequence *cached, int64_t rows);
    // Does it listen at this site and layer (-1: any)? NULL: wherever `at` has a function.
    bool (*wants)(void *state, enum site site, int layer);
    // What it does there: 0, or -1 after graph_fail.
    int (*at[SITE_COUNT])(void *state, struct graph *g, struct site_args *args);
    // Operations a row of what it does at a site while it is on (core/model/flops.h): at SITE_FFN
    // of the rows whose FFN is not computed, elsewhere of all. NULL: none that count.
    double (*flops)(const struct settings *s, const struct decoder_config *c, enum site site);
    // The tensors it learns, by number; false past the last one and where this model has no use for
    // it. NULL: it learns nothing.
    bool (*learned)(const struct model *m, int index, struct method_tensor *t);
    // The setting that trains them whatever else is trained ("train.ira"), with the rate and weight
    // decay of train.lr.ira and train.weight_decay.ira; NULL: they are trained with the projector.
    const char *trained_by;
    // Names its parameters, as `learned` does, for training. NULL: it learns nothing.
    void (*params)(void *state, method_param_fn add, void *self);
    // In training: the share of the steps done, 0..1, before each step. May be NULL.
    void (*progress)(void *state, double share);
    // In training: the passes that follow validate (`on`), so they have nothing that is for
    // learning alone (noise, penalties), or train again. May be NULL.
    void (*validate)(void *state, bool on);
};

enum { METHODS_MAX = 8 };

// The states of all methods in one place: of a conversation, a training run, an evaluation.
struct methods {
    struct method_slot {
        const struct method *method;
        void *state; // NULL: it was never on with this model
        bool on;
    } slot[METHODS_MAX];
};

bool method_on(const struct method *method, const struct settings *s);

// All methods, NULL behind the last, in the order in which they act; they live as long as the
// program.
void methods_hand_over(const struct method *const *all);
const struct method *method_at(int index); // in the order of the list; NULL past the end
// In the order in which people see them, that of their keys; NULL past the end.
const struct method *method_shown(int index);

// Starts the methods that env->settings switch on and adds their hooks, in the order of the list;
// the others forget what they cached. `m` is of one model (methods_release before another) and
// must stay in place while the hooks are used. -1: none is attached.
int methods_attach(struct methods *m, struct hooks *hooks, const struct method_env *env,
                   struct err *err);
void methods_trim(struct methods *m, int64_t rows);
// How many of the first `rows` rows in the cache, which hold `cached`, all methods can go on from.
int64_t methods_reusable(const struct methods *m, const struct sequence *cached, int64_t rows);
void methods_release(struct methods *m);
bool methods_on(const struct methods *m);        // any of them?
uint64_t methods_bytes(const struct methods *m); // of all states
void methods_params(struct methods *m, method_param_fn add, void *self);
void methods_progress(struct methods *m, double share);
void methods_validate(struct methods *m, bool on);

// Who learns a tensor of that name in this model? NULL: nobody. *t: its shape.
const struct method *method_learning(const struct model *m, const char *name,
                                     struct method_tensor *t);
// All that methods learn in this model: "norm_align.weight, ira.K.head.bias".
void methods_learned(const struct model *m, struct buf *b);
// What the methods that are on do at a site, a row.
double methods_flops(const struct settings *s, const struct decoder_config *c, enum site site);
// Whose setting is this? NULL: no method's.
const struct method *method_of(const char *key);
// Looks at the settings of one method (NULL: of all), with a model and without.
int methods_possible(const struct method *method, const struct settings *s, struct err *err);
int methods_check(const struct method *method, const struct method_env *env, struct err *err);
// Is the method on, and its settings do not fit together? Then *why is a sentence that says so.
bool methods_odd(const struct method *method, const struct method_env *env, struct err *why);
// Is the method on and changes nothing (for the better)? Then *why is a sentence that says so.
bool methods_vain(const struct method *method, const struct method_env *env, struct err *why);
// Is it a setting of a method that had no part in what is cached and is off under `s`?
bool methods_idle(const struct methods *m, const char *key, const struct settings *s);
// Does a method that is on depend on this setting of another's?
bool methods_read(const char *key, const struct settings *s);
// May what is cached stay although this setting has changed?
bool methods_keep(const struct methods *m, const char *key, const struct settings *s);

#endif
