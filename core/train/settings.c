// core/train/settings.c -- the settings of training: their rows, and the rates they give.
#include "core/settings/settings.h"

static const char *const words_auto[] = { "auto", NULL };
static const char *const words_none[] = { "none", NULL };
static const char *const methods[] = {
#define X(name, rate, rules) name,
#include "core/train/methods_list.h"
#undef X
    NULL
};
static const char *const checkpointing[] = { "auto", "on", "off", "host", NULL };
static const char *const scores[] = { "auto",
#define X(name) #name,
#include "core/metrics/list.h"
#undef X
                                      NULL };
static const char *const schedules[] = { "cosine", "constant", NULL };

const struct setting train_settings[] = {
    { "train.method", SETTING_CHOICE, 0, 0, "layernorm", NULL, methods, STALE_TRAINING,
      "Which weights are trained: all; full (all but the encoder); lora, qv, mlp, layernorm (each "
      "with projector, embedding and head whole); layernorm-simple (norms alone); connector (the "
      "projector)." },
    { "train.params", SETTING_TEXT, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      "Another set than the method's, by names: \"lora:q_proj,v_proj:8; *layernorm*; "
      "@projector\"." },
    { "train.lr", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      "Highest learning rate; auto is 1e-3 for layernorm-simple and connector, 2e-4 for layernorm "
      "and LoRA, else 2e-5." },
    { "train.lr.projector", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      "Rate of the projector (and of norm alignment); auto is train.lr." },
    { "train.lr.vision", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      "Rate of the vision encoder; auto is train.lr." },
    { "train.lr.ira", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      "Rate of the IRA parameters; auto is ten times train.lr." },
    { "train.schedule", SETTING_CHOICE, 0, 0, "cosine", NULL, schedules, STALE_TRAINING,
      "How the rate goes on after the warm-up: along half a cosine down to 0, or constant." },
    { "train.warmup", SETTING_REAL, 0, 1, "0.03", NULL, NULL, STALE_TRAINING,
      "Share of the steps over which the rate rises from 0; the first step has a rate of 0 and "
      "changes nothing. A run of one step has no warm-up." },
    { "train.weight_decay", SETTING_REAL, 0, 10, "0", NULL, NULL, STALE_TRAINING,
      "AdamW's decay of matrices; gains and biases have none." },
    { "train.weight_decay.ira", SETTING_REAL, 0, 10, "0.01", NULL, NULL, STALE_TRAINING,
      "The same for the IRA parameters." },
    { "train.beta2", SETTING_REAL, 0, 0.999999, "0.999", NULL, NULL, STALE_TRAINING,
      "How long AdamW remembers squared gradients; 0.98 suits a training from random weights." },
    { "train.clip", SETTING_REAL, 0, 1e9, "1", NULL, NULL, STALE_TRAINING,
      "Longest gradient over all parameters; a longer one is shortened to it. 0: any." },
    { "train.batch", SETTING_INTEGER, 1, 1e6, "8", "samples", NULL, STALE_TRAINING,
      "Samples of a micro-batch." },
    { "train.accumulate", SETTING_INTEGER, 1, 1e6, "1", NULL, NULL, STALE_TRAINING,
      "Micro-batches of a step, whose gradient is the mean over all their samples." },
    { "train.epochs", SETTING_REAL, 0.001, 1e6, "1", NULL, NULL, STALE_TRAINING,
      "How often all samples are shown." },
    { "train.steps", SETTING_INTEGER, 1, 1e12, "auto", NULL, words_auto, STALE_TRAINING,
      "Steps of a run; auto is as train.epochs says." },
    { "train.shuffle", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_TRAINING,
      "Shows the samples in another order each epoch." },
    { "train.seed", SETTING_INTEGER, 0, 9007199254740991, "42", NULL, NULL, STALE_TRAINING,
      "Same seed, same order of samples and same first values of new parameters." },
    { "train.lora.rank", SETTING_INTEGER, 1, 65536, "32", NULL, NULL, STALE_TRAINING,
      "Rank of LoRA's matrices. Method lora also trains projector, embedding and head whole; "
      "train.params \"lora:*\" is LoRA alone." },
    { "train.lora.alpha", SETTING_REAL, 1e-6, 1e9, "64", NULL, NULL, STALE_TRAINING,
      "LoRA adds alpha / rank times its product; a rank named in train.params keeps that ratio." },
    { "train.checkpointing", SETTING_CHOICE, 0, 0, "auto", NULL, checkpointing, STALE_TRAINING,
      "Keeps only the inputs of layers and computes the layers again on the way back: less memory. "
      "host: these inputs wait in the host's memory, copied while a GPU computes (on the CPU as "
      "on). auto: as on for the layers that half of the free memory has no room for, and host "
      "where all of them again is still too much." },
    { "train.ira", SETTING_FLAG, 0, 0, "off", NULL, NULL, STALE_TRAINING,
      "Trains with information-regularised attention and its loss." },
    { "train.filter", SETTING_TEXT, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      "Only samples of these kinds, separated by commas: conversation,detail,reasoning." },
    { "train.validation", SETTING_PATH, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      "What is kept apart to find the best checkpoint: a data file, or about this share of the "
      "samples (0.05); samples that show the same picture stay together." },
    { "train.score", SETTING_CHOICE, 0, 0, "auto", NULL, scores, STALE_TRAINING,
      "By what the best checkpoint is found: a metric of /eval, or loss; auto is the metric that "
      "the samples kept apart name, else their loss." },
    { "train.eval_every", SETTING_INTEGER, 1, 1e12, "auto", "steps", words_auto, STALE_TRAINING,
      "Steps between two validations; auto is a tenth of the run." },
    { "train.save_every", SETTING_INTEGER, 1, 1e12, "auto", "steps", words_auto, STALE_TRAINING,
      "Steps between two checkpoints; auto is about five minutes." },
    { "train.keep", SETTING_INTEGER, 0, 1e6, "0", NULL, NULL, STALE_TRAINING,
      "How many checkpoints are kept, each a result that can be loaded; with 0 the newest is there "
      "while the run goes on, only to go on from." },
    { 0 },
};
