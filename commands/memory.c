// commands/memory.c -- /memory: memory of model and conversation, layer by layer.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/probes/results.h"

// "VmRSS" and "VmHWM" of this process in bytes; 0 where the system does not say.
static double process_bytes(const char *key)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
            kib = strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return kib * 1024;
}

static void put(struct result_table *t, const char *what, double bytes)
{
    result_row(t, "%s", what)[0] = bytes / (1 << 20);
}

static void put_model(struct result_table *t, const struct model *m)
{
    double mapped = 0, resident = 0;
    for (int i = 0; i < m->checkpoint->shard_count; i++) {
        mapped += (double)m->checkpoint->shards[i]->size;
        resident += (double)safetensors_resident(m->checkpoint->shards[i]);
    }
    put(t, "weights, mapped", mapped);
    put(t, "weights, resident", resident);
    put(t, "weights, converted", (double)m->arena.reserved);
}

static void put_conversation(struct result_table *t, const struct conversation *c)
{
    double visual = 0, files = 0;
    for (size_t i = 0; i < c->picture_count; i++) {
        const struct picture *p = &c->pictures[i];
        if (p->visual.data) visual += (double)tensor_bytes(&p->visual);
        files += (double)p->size;
        if (p->image.pixels)
            files += (double)p->image.width * (double)p->image.height * p->image.channels;
    }
    put(t, "pictures: files and pixels", files);
    put(t, "visual tokens", visual);
    put(t, "keys and values", (double)kv_bytes(&c->kv));
    put(t, "state of methods (pruning's h[K+1])", (double)methods_bytes(&c->methods));
    put(t, "activations, peak", (double)c->step.peak);
    put(t, "activations, reserved", (double)c->step.reserved);
}

static void put_layers(struct results *r, const struct kv *kv)
{
    struct result_table *t =
        results_table(r, "memory.layers", "layer|rows|MiB in use|MiB reserved");
    for (int l = 0; l < kv->layers; l++) {
        const struct kv_layer *k = &kv->layer[l];
        const double row = (double)kv_row_bytes(kv, l);
        double *v = result_row(t, "%d", l);
        v[0] = (double)k->rows;
        v[1] = (double)k->rows * row / (1 << 20);
        v[2] = (double)(tensor_bytes(&k->k) + tensor_bytes(&k->v)) / (1 << 20);
    }
}

static int memory_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct conversation *c = engine_conversation(shell->engine);
    struct results r = { 0 };
    struct result_table *t = results_table(&r, "memory", "what|MiB");
    struct buf json = { 0 };
    put_model(t, engine_model(shell->engine));
    put_conversation(t, c);
    put(t, "process, resident", process_bytes("VmRSS"));
    put(t, "process, peak", process_bytes("VmHWM"));
    put_layers(&r, &c->kv);
    results_show(&r, shell->sinks);
    results_json(&r, &json);
    sinks_emit(shell->sinks,
               &(struct event){ .kind = EVENT_MEASURED, .key = "memory", .text = json.data });
    buf_release(&json);
    const int status = argc == 2 ? results_write_csv(&r, argv[1], shell->sinks, err) : 0;
    results_release(&r);
    return status;
}

static int memory_check(int argc, char **argv, struct err *err)
{
    if (argc && (argc != 2 || strcmp(argv[0], "--csv") != 0))
        return err_set(err, "/memory takes no arguments but --csv FILE");
    return 0;
}

const struct command command_memory = {
    .name = "memory",
    .also = "ram gpu usage",
    .usage = "/memory [--csv FILE]",
    .help = "Shows memory use: weights, KV cache by layer, pictures.",
    .details =
        "Weights are memory-mapped: the system can reclaim their resident pages at any time.\n"
        "Pruned layers hold fewer rows; with kv.dtype bf16, keys and values take half the\n"
        "memory of f32. --csv FILE writes each table to FILE-TABLE.csv.",
    .writes = true,
    .max = 2,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_PATH,
    .check = memory_check,
    .run = memory_run,
};
