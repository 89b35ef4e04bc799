// core/train/settings.c -- the settings of training: their rows, and the resulting learning rates.
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
static const char *const shards[] = { "auto", "on", "off", NULL };
static const char *const schedules[] = { "cosine", "constant", NULL };

const struct setting train_settings[] = {
    { "train.method", SETTING_CHOICE, 0, 0, "layernorm", NULL, methods, STALE_TRAINING,
      .help = "Weights to train: all; full (all but the vision encoder); lora, qv, mlp, layernorm "
              "(each with the projector, embedding and head trained in full); layernorm-simple "
              "(norms only); connector (projector only).",
      .also = "lora finetune fine-tune" },
    { "train.params", SETTING_TEXT, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      .help = "Weights to train by name, in place of train.method's: rules with ; between them. "
              "*layernorm* is every weight whose name matches, @projector every weight of a part "
              "(@decoder, @embedding, @head, @projector, @vision, @all), @vision:*norm* those of "
              "a part that match. lora:q_proj,v_proj:8 puts a LoRA of rank 8 on linear layers of "
              "the decoder, lora:*:8 on all of them, lora:@vision:8 on those of a part; without a "
              "rank it is train.lora.rank." },
    { "train.lr", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      .help = "Peak learning rate; auto is 1e-3 for layernorm-simple and connector, 2e-4 for "
              "layernorm and LoRA, otherwise 2e-5.",
      .also = "learning rate" },
    { "train.lr.projector", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      .help = "Learning rate of the projector and of norm alignment; auto is train.lr." },
    { "train.lr.vision", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      .help = "Learning rate of the vision encoder; auto is train.lr." },
    { "train.lr.ira", SETTING_REAL, 0, 10, "auto", NULL, words_auto, STALE_TRAINING,
      .help = "Learning rate of the IRA parameters; auto is 10 times train.lr." },
    { "train.schedule", SETTING_CHOICE, 0, 0, "cosine", NULL, schedules, STALE_TRAINING,
      .help = "Learning rate schedule after warm-up: cosine decay to 0, or constant." },
    { "train.warmup", SETTING_REAL, 0, 1, "0.03", NULL, NULL, STALE_TRAINING,
      .help = "Warm-up: fraction of the steps over which the learning rate rises from 0. The first "
              "step has rate 0; a run of one step has no warm-up." },
    { "train.weight_decay", SETTING_REAL, 0, 10, "0", NULL, NULL, STALE_TRAINING,
      .help = "AdamW weight decay of matrices; gains and biases are not decayed." },
    { "train.weight_decay.ira", SETTING_REAL, 0, 10, "0.01", NULL, NULL, STALE_TRAINING,
      .help = "AdamW weight decay of the IRA parameters." },
    { "train.beta2", SETTING_REAL, 0, 0.999999, "0.999", NULL, NULL, STALE_TRAINING,
      .help = "AdamW beta2, the decay rate of the squared gradients; 0.98 suits training from "
              "scratch." },
    { "train.clip", SETTING_REAL, 0, 1e9, "1", NULL, NULL, STALE_TRAINING,
      .help = "Clips the global gradient norm; 0 disables clipping." },
    { "train.batch", SETTING_INTEGER, 1, 1e6, "8", "samples", NULL, STALE_TRAINING,
      .help = "Micro-batch size in samples." },
    { "train.accumulate", SETTING_INTEGER, 1, 1e6, "1", NULL, NULL, STALE_TRAINING,
      .help = "Gradient accumulation: micro-batches per step; the gradient is the mean over all "
              "their samples." },
    { "train.exact_sum", SETTING_FLAG, 0, 0, "off", NULL, NULL, STALE_TRAINING,
      .help = "Adds the gradients of micro-batches one by one in their order: any number of ranks "
              "(job.ranks) computes the same bits, for one more copy of the gradients and slower "
              "sums." },
    { "train.shard", SETTING_CHOICE, 0, 0, "auto", NULL, shards, STALE_TRAINING,
      .help = "Shares the optimizer state out over the ranks of a job; auto if it takes 64 MB or "
              "more." },
    { "train.epochs", SETTING_REAL, 0.001, 1e6, "1", NULL, NULL, STALE_TRAINING,
      .help = "Passes over the data." },
    { "train.steps", SETTING_INTEGER, 1, 1e12, "auto", NULL, words_auto, STALE_TRAINING,
      .help = "Number of steps; auto follows train.epochs.", .also = "epochs iterations" },
    { "train.shuffle", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_TRAINING,
      .help = "Shuffles the samples in each epoch." },
    { "train.seed", SETTING_INTEGER, 0, 9007199254740991, "42", NULL, NULL, STALE_TRAINING,
      .help = "Random seed of the sample order and of new parameters." },
    { "train.lora.rank", SETTING_INTEGER, 1, 65536, "32", NULL, NULL, STALE_TRAINING,
      .help = "LoRA rank. Method lora also trains the projector, embedding and head in full; "
              "train.params \"lora:*\" trains LoRA only." },
    { "train.lora.alpha", SETTING_REAL, 1e-6, 1e9, "64", NULL, NULL, STALE_TRAINING,
      .help = "LoRA alpha: its product is scaled by alpha / rank. A rank named in train.params "
              "keeps that ratio." },
    { "train.checkpointing", SETTING_CHOICE, 0, 0, "auto", NULL, checkpointing, STALE_TRAINING,
      .help = "Gradient checkpointing: keeps only the inputs of layers and recomputes layers in "
              "the backward pass. host moves these inputs to host memory while a GPU computes (on "
              "the CPU the same as on). auto recomputes the layers that do not fit into half of "
              "the free memory, and uses host if recomputing all is not enough." },
    { "train.ira", SETTING_FLAG, 0, 0, "off", NULL, NULL, STALE_TRAINING,
      .help = "Trains with IRA (information-regularized attention) and its loss." },
    { "train.filter", SETTING_TEXT, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      .help = "Trains only on samples of these kinds, separated by commas: "
              "conversation,detail,reasoning." },
    { "train.validation", SETTING_PATH, 0, 0, "none", NULL, words_none, STALE_TRAINING,
      .help = "Validation set, to find the best checkpoint: a data file, or the fraction of the "
              "samples to hold out (0.05). Samples that share a picture are held out together." },
    { "train.score", SETTING_CHOICE, 0, 0, "auto", NULL, scores, STALE_TRAINING,
      .help = "Metric that selects the best checkpoint: a metric of /eval, or loss; auto is the "
              "metric named by the validation samples, otherwise the loss." },
    { "train.eval_every", SETTING_INTEGER, 1, 1e12, "auto", "steps", words_auto, STALE_TRAINING,
      .help = "Steps between validations; auto is a tenth of the run." },
    { "train.save_every", SETTING_INTEGER, 1, 1e12, "auto", "steps", words_auto, STALE_TRAINING,
      .help = "Steps between checkpoints; auto is about five minutes." },
    { "train.keep", SETTING_INTEGER, 0, 1e6, "0", NULL, NULL, STALE_TRAINING,
      .help = "Number of checkpoints to keep; each can be loaded as a result. 0 keeps only the "
              "newest while the run lasts, to resume from." },
    { 0 },
};
