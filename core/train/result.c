// core/train/result.c -- writes trained weights as a model folder or an adapter folder.
//
// The files are written to a temporary folder that becomes OUT/result.part when complete, and then
// move to OUT. A run that is interrupted in between writes them again: the run's record
// (core/train/run_folder.h) says "done" only after the move.
#include "core/train/result.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/adapter_entry.h"
#include "core/adapter/model_write.h"
#include "core/base/folder.h"
#include "core/model/weights.h"
#include "core/train/params.h"

// True if this run trains this entry of the base adapter.
static bool is_trained(const struct params *p, const struct adapter_entry *e)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        if (e->kind == ADAPTER_EXTRA && !strcmp(one->name, e->name)) return true;
        if (e->kind == ADAPTER_WEIGHT && one->kind == PARAM_WEIGHT && one->weight == e->weight)
            return true;
        if (e->kind == ADAPTER_LORA && one->kind == PARAM_LORA_A && one->weight == e->weight)
            return true;
    }
    return false;
}

// Lists the trained parameters, then the entries of `base` that were not trained; with
// extras_alone, only parameters of methods. The caller frees the list.
static struct adapter_delta *list_deltas(const struct params *p, const struct adapter *base,
                                         bool extras_alone, size_t *count)
{
    struct adapter_delta *deltas = xcalloc(p->count + (base ? base->count : 0) + 1, sizeof *deltas);
    *count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        struct adapter_delta delta = { .weight = one->weight, .tensor = one->tensor };
        if (one->kind == PARAM_LORA_B) continue; // written with A
        if (extras_alone && one->kind != PARAM_EXTRA) continue;
        delta.kind = one->kind == PARAM_EXTRA    ? ADAPTER_EXTRA
                     : one->kind == PARAM_LORA_A ? ADAPTER_LORA
                                                 : ADAPTER_WEIGHT;
        if (delta.kind == ADAPTER_EXTRA) delta.name = one->name;
        if (delta.kind == ADAPTER_LORA) {
            delta.lora = one->weight->linear->lora;
            delta.tensor = NULL;
        }
        deltas[(*count)++] = delta;
    }
    for (size_t i = 0; base && i < base->count; i++) {
        const struct adapter_entry *e = &base->list[i];
        if (is_trained(p, e) || (extras_alone && e->kind != ADAPTER_EXTRA)) continue;
        adapter_add_delta(deltas, count, e);
    }
    return deltas;
}

// Removes the remains of interrupted attempts: OUT/result.part, or the temporary folder for it.
static void clear_attempts(const char *out)
{
    DIR *d = opendir(out);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, "result.part", strlen("result.part")) != 0) continue;
        char *path = xasprintf("%s/%s", out, e->d_name);
        folder_remove(path);
        free(path);
    }
    if (d) closedir(d);
}

static int move_up(const char *from, const char *out, struct err *err)
{
    DIR *d = opendir(from);
    if (!d) return err_set(err, "cannot read '%s': %s", from, strerror(errno));
    int status = 0;
    for (struct dirent *e; status == 0 && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        // Skips the base model's training.json: OUT has this run's record, which says "running".
        if (!strcmp(e->d_name, "training.json")) continue;
        char *source = xasprintf("%s/%s", from, e->d_name);
        char *target = xasprintf("%s/%s", out, e->d_name);
        if (rename(source, target) < 0)
            status = err_set(err, "cannot move '%s' to '%s': %s", source, target, strerror(errno));
        free(source);
        free(target);
    }
    closedir(d);
    return status;
}

int result_write_into(const char *folder, const struct params *p, const struct adapter *base,
                      const char **what, struct err *err)
{
    size_t count;
    struct adapter_delta *deltas = list_deltas(p, base, p->whole, &count);
    *what = p->whole ? "model" : "adapter";
    const int status = p->whole
                           ? model_write_into(p->model, deltas, count, folder, err)
                           : adapter_write_into(p->model, deltas, count, DTYPE_F32, folder, err);
    free(deltas);
    return status < 0 ? err_in(err, "writing the result") : 0;
}

int result_write(const char *out, const struct params *p, const struct adapter *base,
                 const char **what, struct err *err)
{
    char *folder = xasprintf("%s/result.part", out);
    struct folder_work work;
    clear_attempts(out);
    int status = folder_begin(&work, folder, err);
    if (status == 0 && (status = result_write_into(work.path, p, base, what, err)) < 0)
        folder_abandon(&work);
    else if (status == 0)
        status = folder_commit(&work, folder, err);
    if (status == 0) status = move_up(folder, out, err);
    clear_attempts(out);
    free(folder);
    return status;
}
