// core/papers/norm_alignment.c -- tables and figures of The Unseen Bias (norm alignment).
#include "core/papers/paper.h"

// --- table 1 -------------------------------------------------------------------------------------

static const struct paper_column norm_columns[] = {
    { .name = "L2 norm", .ours = "norm", .demo = "norm" },
    { 0 },
};

static const char norms[] = "|CLIP-ViT-large-patch14|29.30\n"
                            "|SigLIP-SO-400m-patch14-384|71.78\n"
                            "|SigLIP2-SO-400m-patch14-384|59.37\n"
                            "|MoonViT-SO-400M|72.17\n"
                            "|Qwen2.5-7B-Instruct|0.80\n"
                            "|Qwen3-8B-Instruct|1.38\n"
                            "|Llama3.2-3B-Instruct|1.09\n";

#define NORM(row, cell, data)                                                      \
    "/collect ${TABLE}/measured.csv \"row=" row "\" \"norm=@norms.interface:" cell \
    ":norm\" : /norms --data " data " --limit ${LIMIT}\n"
#define NORMS(data)                                                    \
    "/load ${MODEL}\n" NORM("this model, encoder", "encoder, *", data) \
        NORM("this model, text", "text embedding table*", data)

static const struct paper_claim norm_claims[] = {
    { .text = "the encoder's outputs have larger norms than text embeddings",
      .from = "this model, text",
      .to = "this model, encoder",
      .column = "norm" },
    { 0 },
};

// --- table 2 -------------------------------------------------------------------------------------

static const struct paper_column interface_columns[] = {
    { .name = "before projector", .ours = "before", .demo = "before" },
    { .name = "after projector", .ours = "after", .demo = "after" },
    { .name = "text embedding", .ours = "text", .demo = "text" },
    { .name = "after / text", .ours = "ratio", .demo = "ratio" },
    { 0 },
};

static const char interface[] = "|LLaVA-v1.5|39.96|39.96|1.08|37.0\n"
                                "|Qwen-2.5-VL|3484.24|56.88|0.86|66.1\n"
                                "|KimiVL|137.93|4.78|0.85|5.6\n"
                                "|GLM-4.1V|47.44|4.58|0.80|5.7\n";

#define MEASURE(data)                                                                          \
    "/load ${MODEL}\n"                                                                         \
    "/collect ${TABLE}/measured.csv \"row=this model\" \"before=@norms.interface:projector, "  \
    "input:norm\" \"after=@norms.interface:visual tokens:norm\" \"text=@norms.interface:text " \
    "embedding table*:norm\" \"ratio=@norms.interface:visual tokens:ratio*\" : /norms "        \
    "--data " data " --limit ${LIMIT}\n"

static const struct paper_claim interface_claims[] = {
    { .text = "visual tokens have more than twice the norm of text embeddings",
      .from = NULL,
      .to = "this model",
      .column = "ratio",
      .above = 2 },
    { 0 },
};

// --- figures 2 and 3 -----------------------------------------------------------------------------

static const struct paper_column cosine_columns[] = {
    { .name = "cosine, visual tokens", .ours = "visual", .demo = "visual" },
    { .name = "cosine, text", .ours = "text", .demo = "text" },
    { 0 },
};

#define COSINES(row, data)                                                               \
    "/collect ${TABLE}/measured.csv \"row=" row "\" norms.cosines : /norms --data " data \
    " --limit ${LIMIT}\n"
#define FIGURE2(data)                                     \
    "/load ${MODEL}\n" COSINES(                           \
        "mean of layers",                                 \
        data) "/plot ${TABLE}/measured.csv layer visual " \
              "text --y \"cosine of consecutive layers\" --figure ${TABLE}/figure2.svg\n"
// Measures both models by layer, as two named conditions in one file.
#define LAYERS(what, table, data)                                                                 \
    "/collect ${TABLE}/measured.csv \"what=" what "\" " table " : /norms \"" what                 \
    ", w/o Norm:\" now | \"" what                                                                 \
    ", w/ Norm:\" model=${OUT}/text-2 adapter=${OUT}/text-2 norm.align=on --data " data           \
    " --limit ${LIMIT}\n"                                                                         \
    "/plot ${TABLE}/measured.csv layer visual text --by condition --where \"what=" what "\" --y " \
    "\"" what "\" --figure ${TABLE}/"
#define FIGURE3(data)                                                                       \
    "/load ${OUT}/off-2\n" LAYERS("L2 norm", "norms.layers", data) "figure3a.svg\n" LAYERS( \
        "cosine", "norms.cosines", data) "figure3b.svg\n"

static const struct paper_column layer_columns[] = {
    { .name = "visual tokens", .ours = "visual", .demo = "visual" },
    { .name = "text", .ours = "text", .demo = "text" },
    { 0 },
};

static const struct paper_claim turn_claims[] = {
    { .text = "visual tokens rotate less than text, averaged over layers",
      .to = "mean of layers",
      .column = "visual",
      .against = "text" },
    { 0 },
};

static const struct paper_claim aligned_claims[] = {
    { .text = "without alignment, visual tokens have a larger norm than text in early layers",
      .to = "L2 norm, w/o Norm, first third",
      .column = "visual",
      .against = "text" },
    { .text = "with alignment, the norm of visual tokens in early layers is smaller",
      .from = "L2 norm, w/o Norm, first third",
      .to = "L2 norm, w/ Norm, first third",
      .column = "visual",
      .less = true },
    { .text = "without alignment, visual tokens change direction less than text",
      .to = "cosine, w/o Norm",
      .column = "visual",
      .against = "text" },
    { .text = "with alignment, visual tokens change direction more",
      .from = "cosine, w/o Norm",
      .to = "cosine, w/ Norm",
      .column = "visual",
      .less = true },
    { 0 },
};

// --- table 3 -------------------------------------------------------------------------------------

static const struct paper_column sets[] = {
    { .name = "MMBench", .ours = "mmbench", .demo = "questions" },
    { .name = "MM-Star", .ours = "mmstar", .demo = "reasoning" },
    { .name = "POPE", .ours = "pope", .demo = "yesno" },
    { .name = "SEED-Bench-2", .ours = "seed2-plus", .demo = NULL },
    { .name = "OCRBench", .ours = "ocrbench", .demo = NULL },
    { .name = "ScienceQA", .ours = "scienceqa", .demo = NULL },
    { .name = "AI2D", .ours = "ai2d", .demo = NULL },
    { .name = "HellaSwag", .ours = "hellaswag", .demo = NULL },
    { .name = "MMLU", .ours = "mmlu", .demo = NULL },
    { .name = "Avg", .ours = "Avg", .demo = "Avg" },
    { 0 },
};

static const char gains[] =
    "|w/o Norm|71.39|37.72|88.14|42.86|40.70|78.99|60.17|65.96|45.19|59.01\n"
    "|w/ Norm|72.16|41.19|88.88|47.26|45.60|80.83|63.24|66.01|53.21|62.62\n";

// Trains stage 1 with norm.align `align` and norm.init `init`, into OUT/NAME-1.
#define STAGE1(base, name, align, init, settings, data)       \
    "/load " base "\n" settings "/set norm.align " align "\n" \
    "/set norm.init " init "\n"                               \
    "/train " data " ${OUT}/" name "-1 --resume\n"            \
    "/wait\n"
// Trains both stages with norm.align `align`, into OUT/NAME-1 and OUT/NAME-2.
#define STAGES(base, name, align, settings1, data1, settings2, data2)           \
    STAGE1(base, name, align, "text", settings1, data1)                         \
    "/adapter load ${OUT}/" name "-1\n" settings2 "/set norm.align " align "\n" \
    "/train " data2 " ${OUT}/" name "-2 --resume\n"                             \
    "/wait\n"                                                                   \
    "/adapter unload\n"                                                         \
    "/set norm.align off\n"
#define DEMO1                       \
    "/set train.method connector\n" \
    "/set train.lr 2e-3\n"          \
    "/set train.steps ${STEPS}\n"
#define DEMO2                 \
    "/set train.method all\n" \
    "/set train.lr 4e-4\n"    \
    "/set train.steps ${STEPS}\n"
#define REAL(name, align)                                                          \
    STAGES("${MODEL}", name, align, "/preset load norm-alignment-1\n", "${DATA1}", \
           "/preset load norm-alignment-2\n", "${DATA2}")
#define DEMO(name, align)                                                       \
    STAGES("${OUT}/base", name, align, DEMO1, "${OUT}/train/dense.json", DEMO2, \
           "${OUT}/train/lessons.json")

static const struct paper_claim gain_claims[] = {
    { .text = "alignment raises the mean score",
      .from = "w/o Norm",
      .to = "w/ Norm",
      .column = "Avg" },
    { .text = "alignment raises POPE",
      .from = "w/o Norm",
      .to = "w/ Norm",
      .column = "pope",
      .demo = "yesno" },
    { .text = "alignment raises MM-Star",
      .from = "w/o Norm",
      .to = "w/ Norm",
      .column = "mmstar",
      .demo = "reasoning" },
    { 0 },
};

// --- table 4 -------------------------------------------------------------------------------------

static const struct paper_column learned_columns[] = {
    { .name = "gain, L2 norm", .ours = "gain norm", .demo = "gain norm" },
    { .name = "gain, mean |x|", .ours = "gain", .demo = "gain" },
    { .name = "bias, mean |x|", .ours = "bias", .demo = "bias" },
    { 0 },
};

static const char learned[] = "|Default Init|53.2500|0.9609|0.0175\n"
                              "|Our Init|2.2812|0.0400|0.0152\n";

#define LEARNED(row, name)                                              \
    "/adapter load ${OUT}/" name "-1\n"                                 \
    "/collect ${TABLE}/measured.csv \"row=" row                         \
    "\" \"gain norm=@adapter.tensors:norm_align.weight:norm\" "         \
    "\"gain=@adapter.tensors:norm_align.weight:mean*\" "                \
    "\"bias=@adapter.tensors:norm_align.bias:mean*\" : /adapter show\n" \
    "/adapter unload\n"                                                 \
    "/set norm.align off\n"

static const struct paper_claim learned_claims[] = {
    { .text = "with the default init the gain stays within 10% of the paper's 0.96",
      .from = NULL,
      .to = "Default Init",
      .column = "gain",
      .equal = 0.1 },
    { .text = "our initialisation ends with the smaller gain",
      .from = "Default Init",
      .to = "Our Init",
      .column = "gain",
      .less = true },
    { 0 },
};

// --- text-gain: MMLU and HellaSwag of table 3 ----------------------------------------------------

static const struct paper_column text_sets[] = {
    { .name = "MMLU", .ours = "mmlu", .demo = "choices" },
    { .name = "HellaSwag", .ours = "hellaswag", .demo = "facts" },
    { 0 },
};

static const char text_gains[] = "|w/o Norm|45.19|65.96\n|w/ Norm|53.21|66.01\n";

// Stage 2 trains LoRA in the language model, and the projector.
#define LORA_STAGE                                                                         \
    "/set train.params \"lora:q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj:8; " \
    "@projector\"\n"
// Trains both stages with one seed, without and with alignment.
#define GAIN(seed, settings1, data1, settings2, data2)                                           \
    "/set train.seed " seed "\n" STAGES("${MODEL}", "gain-off-" seed, "off",                     \
                                        "/set adapter none\n/set train.params none\n" settings1, \
                                        data1, settings2 LORA_STAGE, data2)                      \
        STAGES("${MODEL}", "gain-on-" seed, "on",                                                \
               "/set adapter none\n/set train.params none\n" settings1, data1,                   \
               settings2 LORA_STAGE, data2)
#define GAINS(settings1, data1, settings2, data2) \
    GAIN("1", settings1, data1, settings2, data2) \
    GAIN("2", settings1, data1, settings2, data2) \
    GAIN("3", settings1, data1, settings2, data2) \
    "/set train.params none\n/load ${MODEL}\n/set adapter none\n"

static const struct paper_claim text_claims[] = {
    { .text = "alignment raises the score of text-only choices",
      .from = "w/o Norm",
      .to = "w/ Norm",
      .column = "mmlu",
      .demo = "choices" },
    { .text = "without alignment, training on pictures lowers the score of text-only choices",
      .from = "Start",
      .to = "w/o Norm",
      .column = "mmlu",
      .demo = "choices",
      .less = true },
    { 0 },
};

static const struct paper_table tables[] = {
    { .name = "table1",
      .title = "norms of encoder outputs and of text embeddings",
      .needs = "--data with pictures (the paper: 1000 samples of MMBench, POPE and MM-Star)",
      .columns = norm_columns,
      .published = norms,
      .plan = "/reset all\n" NORMS("${DATA1}"),
      .demo = PAPER_DEMO_WORLD NORMS("${OUT}/world/questions.json"),
      .claims = norm_claims,
      .note = "Encoders with a final norm are measured after it, as in the paper." },
    { .name = "table2",
      .title = "norms of visual tokens before and after the projector, and of text embeddings",
      .needs = "--data with pictures (the paper: 1000 samples of MMBench, POPE and MM-Star)",
      .columns = interface_columns,
      .published = interface,
      .plan = "/reset all\n" MEASURE("${DATA1}"),
      .demo = PAPER_DEMO_WORLD MEASURE("${OUT}/world/questions.json"),
      .claims = interface_claims,
      .note = "The paper prints the same number before and after LLaVA-v1.5's projector. The ratio "
              "is computed from the printed numbers." },
    { .name = "table3",
      .title = "two-stage training without and with norm alignment",
      .needs =
          "--model: a joined model (vlmsh new --encoder siglip --decoder Llama-3.2-3B-Instruct "
          "OUT), --data STAGE1.json,STAGE2.json (LLaVA-558K, LLaVA-NeXT), --sets",
      .columns = sets,
      .published = gains,
      .plan = "/reset all\n${READING}" REAL("off", "off") REAL("text", "on"),
      .demo = PAPER_DEMO_BASE DEMO("off", "off") DEMO("text", "on"),
      .rows = "row w/o Norm: off model=${OUT}/off-2\n"
              "row w/ Norm: off model=${OUT}/text-2 adapter=${OUT}/text-2 norm.align=on\n",
      .claims = gain_claims },
    { .name = "text-gain",
      .title = "text-only questions after both stages, without and with alignment, three seeds",
      .needs = "--small, or --model and --data as table3 and --sets with MMLU, HellaSwag (12 "
               "training runs)",
      .columns = text_sets,
      .published = text_gains,
      .plan = "/reset all\n${READING}" GAINS("/preset load norm-alignment-1\n", "${DATA1}",
                                             "/preset load norm-alignment-2\n", "${DATA2}"),
      .demo = PAPER_SMALL_WORLD GAINS(DEMO1, "${OUT}/train/dense.json",
                                      "/set train.lr 4e-4\n/set train.steps ${STEPS}\n",
                                      "${OUT}/train/lessons.json"),
      .rows = "set choices: ${TEXTS}/choices.jsonl\n"
              "set facts: ${TEXTS}/facts.jsonl\n"
              "row Start: off adapter=none\n"
              "row w/o Norm: off adapter=${OUT}/gain-off-{seed}-2\n"
              "row w/ Norm: off adapter=${OUT}/gain-on-{seed}-2 norm.align=on\n"
              "seeds 1 2 3\n",
      .claims = text_claims,
      .small = true,
      .note =
          "The paper's numbers are those of table 3, where stage 2 trains all weights; here it "
          "trains LoRA of rank 8 in the language model and the projector, so that the two stages "
          "of a seed are adapters of a few MB: to continue on another machine, copy DIR/gain-* and "
          "repeat the command. With --small, 20 choices and 10 facts stand in for MMLU and "
          "HellaSwag; their intervals are wide." },
    { .name = "table4",
      .title = "the added norm after stage 1, initialised by default or from text embeddings",
      .needs = "--model and --data as table3 (stage 1 only)",
      .columns = learned_columns,
      .published = learned,
      .plan = "/reset all\n${READING}" STAGE1("${MODEL}", "default", "on", "default",
                                              "/preset load norm-alignment-1\n",
                                              "${DATA1}") LEARNED("Default Init", "default")
          STAGE1("${MODEL}", "text", "on", "text", "/preset load norm-alignment-1\n", "${DATA1}")
              LEARNED("Our Init", "text"),
      .demo = PAPER_DEMO_BASE STAGE1("${OUT}/base", "default", "on", "default", DEMO1,
                                     "${OUT}/train/dense.json") LEARNED("Default Init", "default")
          STAGE1("${OUT}/base", "text", "on", "text", DEMO1, "${OUT}/train/dense.json")
              LEARNED("Our Init", "text"),
      .claims = learned_claims,
      .note = "With the paper's initialisation, the gain starts at T*/sqrt(D), where T* is the "
              "mean norm of the text embeddings: it differs between models." },
    { .name = "figure2",
      .title = "cosine between the states of consecutive layers, for visual tokens and text",
      .needs = "--data with pictures",
      .columns = cosine_columns,
      .published = "",
      .plan = "/reset all\n" FIGURE2("${DATA1}"),
      .demo = PAPER_DEMO_WORLD FIGURE2("${OUT}/world/questions.json"),
      .claims = turn_claims,
      .note = "The figure prints no numbers; figure2.svg plots our values by layer." },
    { .name = "figure3",
      .title = "norms and cosines by layer after both stages, without and with alignment",
      .needs = "--model and --data as table3 (the same training runs: --out FOLDER reuses them)",
      .columns = layer_columns,
      .published = "",
      .plan = "/reset all\n${READING}" REAL("off", "off") REAL("text", "on") FIGURE3("${DATA2}"),
      .demo = PAPER_DEMO_BASE DEMO("off", "off") DEMO("text", "on")
          FIGURE3("${OUT}/world/questions.json"),
      .claims = aligned_claims,
      .note = "The figure prints no numbers; figure3a.svg (norms) and figure3b.svg (cosines) plot "
              "our values." },
    { 0 },
};

static const struct paper_reading readings[] = { PAPER_TOKEN_LOSS, { 0 } };

const struct paper paper_norm_alignment = {
    .name = "norm-alignment",
    .title =
        "The Unseen Bias: How Norm Discrepancy in Pre-Norm MLLMs Leads to \"Visual Information "
        "Loss\"",
    .tables = tables,
    .readings = readings,
};
