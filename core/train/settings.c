// core/train/settings.c -- the settings of training.
#include "core/settings/settings.h"

static const char *const words_auto[] = { "auto", NULL };
static const char *const words_none[] = { "none", NULL };
static const char *const methods[] = {
#define X(name, rate, rules) name,
#include "core/train/methods_list.h"
#undef X
    NULL
};
static const char *const embedding[] = { "auto", "gpu", "host", NULL };
static const char *const checkpointing[] = { "auto", "on", "off", "host", NULL };
static const char *const scores[] = { "auto",
#define X(id, name) name,
#include "core/metrics/list.h"
#undef X
                                      NULL };
static const char *const averages[] = { "samples", "tokens", NULL };
static const char *const shards[] = { "auto", "on", "gradients", "off", NULL };
static const char *const schedules[] = { "cosine", "constant", NULL };

const struct setting train_settings[] = {
    { .key = "train.method",
      .type = SETTING_CHOICE,
      .def = "layernorm",
      .choices = methods,
      .stale = STALE_TRAINING,
      .help = "Weights to train: all; full (all but the vision encoder); lora, qv, mlp, layernorm "
              "(each with the projector, embedding and head trained in full); layernorm-simple "
              "(norms only); connector (projector only).",
      .also = "lora finetune fine-tune" },
    { .key = "train.params",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = words_none,
      .stale = STALE_TRAINING,
      .help =
          "Weights to train, by name, instead of train.method: rules separated by ;. *layernorm* "
          "selects weights by name, @projector all weights of a part (@decoder, @embedding, @head, "
          "@projector, @vision, @all), @vision:*norm* matching weights of a part. "
          "lora:q_proj,v_proj:8 adds a LoRA of rank 8 to linear layers of the decoder, lora:*:8 to "
          "all of them, lora:@vision:8 to those of a part (the last two leave out routers of "
          "experts); the default rank is train.lora.rank." },
    { .key = "train.lr",
      .type = SETTING_REAL,
      .max = 10,
      .def = "auto",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Peak learning rate; auto is 1e-3 for layernorm-simple and connector, 2e-4 for "
              "layernorm and LoRA, otherwise 2e-5.",
      .also = "learning rate" },
    { .key = "train.lr.projector",
      .type = SETTING_REAL,
      .max = 10,
      .def = "auto",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Learning rate of the projector and of norm alignment; auto is train.lr." },
    { .key = "train.lr.vision",
      .type = SETTING_REAL,
      .max = 10,
      .def = "auto",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Learning rate of the vision encoder; auto is train.lr." },
    { .key = "train.lr.ira",
      .type = SETTING_REAL,
      .max = 10,
      .def = "auto",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Learning rate of the IRA parameters; auto is 10 times train.lr." },
    { .key = "train.schedule",
      .type = SETTING_CHOICE,
      .def = "cosine",
      .choices = schedules,
      .stale = STALE_TRAINING,
      .help = "Learning rate schedule after warm-up: cosine decay to 0, or constant." },
    { .key = "train.warmup",
      .type = SETTING_REAL,
      .max = 1,
      .def = "0.03",
      .stale = STALE_TRAINING,
      .help =
          "Warm-up: fraction of the steps over which the learning rate rises; the first step then "
          "has rate 0. 0 disables warm-up; a run of one step has none." },
    { .key = "train.weight_decay",
      .type = SETTING_REAL,
      .max = 10,
      .def = "0",
      .stale = STALE_TRAINING,
      .help = "AdamW weight decay of matrices; gains and biases are not decayed." },
    { .key = "train.weight_decay.ira",
      .type = SETTING_REAL,
      .max = 10,
      .def = "0.01",
      .stale = STALE_TRAINING,
      .help = "AdamW weight decay of the IRA parameters." },
    { .key = "train.beta2",
      .type = SETTING_REAL,
      .max = 0.999999,
      .def = "0.999",
      .stale = STALE_TRAINING,
      .help = "AdamW beta2, the decay rate of the squared gradients; 0.98 suits training from "
              "scratch." },
    { .key = "train.clip",
      .type = SETTING_REAL,
      .max = 1e9,
      .def = "1",
      .stale = STALE_TRAINING,
      .help = "Clips the global gradient norm; 0 disables clipping." },
    { .key = "train.loss",
      .type = SETTING_CHOICE,
      .def = "samples",
      .choices = averages,
      .stale = STALE_TRAINING,
      .help = "How the loss of a step is averaged: samples (mean over the answer tokens of each "
              "sample, then over the samples) or tokens (mean over all answer tokens of the "
              "step, as in transformers). Validation averages over samples.",
      .also = "reduction average" },
    { .key = "train.norm_inputs",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_TRAINING,
      .help = "Also records, for each trained norm of the decoder, the gradients of its input "
              "through the norm alone (LayerNorm tuning, appendix A.2.2): grad_x_mean, "
              "grad_x_var, grad_y_var, grad_x_share. Costs time." },
    { .key = "train.batch",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e6,
      .def = "8",
      .unit = "samples",
      .stale = STALE_TRAINING,
      .help = "Micro-batch size in samples." },
    { .key = "train.accumulate",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e6,
      .def = "1",
      .stale = STALE_TRAINING,
      .help = "Gradient accumulation: micro-batches per step; the gradient is the mean over all "
              "their samples." },
    { .key = "train.exact_sum",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_TRAINING,
      .help = "Bit-identical gradients for any number of ranks (job.ranks): adds micro-batches "
              "one by one, in order, which is slower and needs one more copy of the gradients." },
    { .key = "train.shard",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = shards,
      .stale = STALE_RUNS,
      .help = "With on the ranks shard the optimizer state (ZeRO stage 1), with gradients also the "
              "gradients (stage 2: summed in every pass); auto is on from 64 MB of state.",
      .also = "zero deepspeed fsdp" },
    { .key = "train.epochs",
      .type = SETTING_REAL,
      .min = 0.001,
      .max = 1e6,
      .def = "1",
      .stale = STALE_TRAINING,
      .help = "Passes over the data." },
    { .key = "train.steps",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e12,
      .def = "auto",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Number of steps; auto follows train.epochs.",
      .also = "epochs iterations" },
    { .key = "train.shuffle",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_TRAINING,
      .help = "Shuffles the samples anew in each epoch." },
    { .key = "train.seed",
      .type = SETTING_INTEGER,
      .max = 9007199254740991,
      .def = "42",
      .stale = STALE_TRAINING,
      .help = "Random seed of the sample order and of new parameters." },
    { .key = "train.lora.rank",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 65536,
      .def = "32",
      .stale = STALE_TRAINING,
      .help = "LoRA rank. Method lora also trains the projector, embedding and head in full; "
              "train.params \"lora:*\" trains LoRA only." },
    { .key = "train.lora.alpha",
      .type = SETTING_REAL,
      .min = 1e-6,
      .max = 1e9,
      .def = "64",
      .stale = STALE_TRAINING,
      .help = "LoRA alpha: scales the LoRA update by alpha / rank. Ranks in train.params keep this "
              "ratio." },
    { .key = "train.lora.rs",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_TRAINING,
      .help = "rsLoRA: scales the LoRA update by alpha / sqrt(rank), with each layer's own rank "
              "(use_rslora in adapter_config.json).",
      .also = "rank-stabilized rslora" },
    { .key = "train.checkpointing",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = checkpointing,
      .stale = STALE_RUNS,
      .help =
          "Gradient checkpointing: keeps only the inputs of layers and recomputes layers in "
          "the backward pass. host also moves these inputs to host memory while a GPU "
          "computes; on the CPU, host is the same as on. auto recomputes the layers that do "
          "not fit into half of the remaining free memory, and uses host if recomputing all is not "
          "enough." },
    { .key = "train.embedding",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = embedding,
      .stale = STALE_RUNS,
      .help = "Memory in which a GPU run trains an embedding table that is not also the output "
              "head: gpu is faster, host leaves more GPU memory. auto chooses the GPU if the run "
              "fits with it. On the CPU, all values are the same." },
    { .key = "train.ira",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_TRAINING,
      .help = "Trains with IRA (information-regularized attention) and its loss." },
    { .key = "train.prune",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_TRAINING,
      .help =
          "Prunes visual tokens in training and validation, as prune.* selects (by contribution if "
          "prune.score is off); the query is the row before the last answer. Samples are "
          "computed one by one, which is slower." },
    { .key = "train.filter",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = words_none,
      .stale = STALE_TRAINING,
      .help = "Trains only on samples of these kinds, separated by commas: "
              "conversation,detail,reasoning." },
    { .key = "train.validation",
      .type = SETTING_PATH,
      .def = "none",
      .choices = words_none,
      .stale = STALE_TRAINING,
      .help = "Validation set, to find the best checkpoint: a data file; the fraction of the "
              "samples to hold out (0.05; samples that share a picture are held out together); or "
              "evaluation sets, SET:FILE or SET/SUITE:FILE separated by commas, whose scores are "
              "averaged. SET:FILE:DIR names the folder of the set's pictures." },
    { .key = "train.score",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = scores,
      .stale = STALE_TRAINING,
      .help = "Metric that selects the best checkpoint: a metric of /eval, or loss; auto is the "
              "metric that most validation samples name, otherwise the loss." },
    { .key = "train.eval_every",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e12,
      .def = "auto",
      .unit = "steps",
      .choices = words_auto,
      .stale = STALE_TRAINING,
      .help = "Steps between validations; auto is a tenth of the run." },
    { .key = "train.save_every",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e12,
      .def = "auto",
      .unit = "steps",
      .choices = words_auto,
      .stale = STALE_RUNS,
      .help = "Steps between checkpoints; auto saves about every five minutes." },
    { .key = "train.keep",
      .type = SETTING_INTEGER,
      .max = 1e6,
      .def = "0",
      .stale = STALE_RUNS,
      .help =
          "Number of checkpoints to keep: the newest ones, each with weights that can be loaded "
          "like the result. 0 keeps only what resuming needs, until the run ends." },
    { 0 },
};
