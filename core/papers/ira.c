// core/papers/ira.c -- tables and figures of "Information-Regularized Attention for Visual-Centric
// Reasoning".
#include "core/papers/paper.h"

static const char models[] =
    "internvl2.5 InternVL2.5-8B|internvl2 InternVL2-8B|llava-ov LLaVA-OneVision-8B";

// Trains all weights of `base` (in the paper, the model of stage 1.5) into OUT/NAME, after the
// commands `settings` and `more`.
#define TRAIN(base, name, settings, more, data)                                   \
    "/load " base "\n" settings more "/train " data " ${OUT}/" name " --resume\n" \
    "/wait\n"
#define REAL(name, more) \
    TRAIN("${MODEL}", name, "/preset load ira-train\n${READING}", more, "${DATA1}")
#define DEMO_SETTINGS                \
    "/set train.method all\n"        \
    "/set train.lr 4e-4\n"           \
    "/set train.weight_decay 0.05\n" \
    "/set train.steps ${STEPS}\n"    \
    "/set train.ira on\n"            \
    "/set ira.gate on\n"             \
    "/set ira.prior local\n"         \
    "${READING}"
#define DEMO(name, more) \
    TRAIN("${OUT}/start", name, DEMO_SETTINGS, more, "${OUT}/train/lessons.json")
#define SFT      "/set train.ira off\n"
#define NO_GATE  "/set ira.gate off\n"
#define NO_PRIOR "/set ira.prior global\n"
#define RESET    "/reset train.ira\n/reset ira.gate\n/reset ira.prior\n"

// Loads the model trained with IRA.
#define LOAD_IRA "/load ${OUT}/ira\n/adapter load ${OUT}/ira\n/set ira.on on\n"
#define UNLOAD   "/baseline\n/adapter unload\n"

#define THREE_ROWS(base)                \
    "row Pt: off model=" base "\n"      \
    "row + SFT: off model=${OUT}/sft\n" \
    "row + IRA: off model=${OUT}/ira adapter=${OUT}/ira ira.on=on\n"
#define REAL_BOTH "/reset all\n" REAL("sft", SFT) REAL("ira", "") RESET
#define DEMO_BOTH PAPER_DEMO_START DEMO("sft", SFT) DEMO("ira", "") RESET

// --- tables 2 and 3 ------------------------------------------------------------------------------

static const struct paper_column general_sets[] = {
    { .name = "MMMU-Pro", .ours = "mmmu-pro", .demo = NULL },
    { .name = "MMMU", .ours = "mmmu", .demo = "questions" },
    { .name = "MME", .ours = "mme", .demo = NULL },
    { .name = "MME-RW", .ours = "mme-realworld", .demo = NULL },
    { .name = "MMStar", .ours = "mmstar", .demo = "reasoning" },
    { .name = "MMBench", .ours = "mmbench", .demo = "yesno" },
    { .name = "OK-VQA", .ours = "okvqa", .demo = NULL },
    { .name = "TextVQA", .ours = "textvqa", .demo = NULL },
    { .name = "ChartQA", .ours = "chartqa", .demo = NULL },
    { .name = "DocVQA", .ours = "docvqa", .demo = NULL },
    { 0 },
};

static const char general[] =
    "internvl2|Pt|26.0|42.1|1598|31.2|43.7|70.9|44.3|64.8|70.3|76.2\n"
    "internvl2|+ SFT|30.1|45.1|1792|37.6|60.2|80.4|42.3|73.0|80.1|85.3\n"
    "internvl2|+ IRA|31.2|45.7|1959|40.5|58.8|81.0|43.0|73.8|79.9|85.5\n"
    "internvl2.5|Pt|26.7|41.3|1669|29.5|47.3|72.7|43.4|69.2|73.1|81.8\n"
    "internvl2.5|+ SFT|30.4|46.4|1981|40.4|61.1|80.6|39.8|74.5|81.0|86.7\n"
    "internvl2.5|+ IRA|30.6|47.6|2038|40.8|58.8|81.8|43.6|74.7|81.8|86.7\n"
    "llava-ov|Pt|20.5|36.3|1530|28.0|30.6|67.3|11.0|36.8|37.6|11.5\n"
    "llava-ov|+ SFT|27.4|44.4|2030|40.9|57.9|79.5|41.7|75.9|79.9|88.3\n"
    "llava-ov|+ IRA|28.0|45.3|2109|40.0|58.1|79.6|47.4|77.1|80.7|88.5\n";

static const struct paper_claim general_claims[] = {
    { .text = "IRA above SFT, averaged over the sets",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "Avg" },
    { .text = "SFT above the initial model", .from = "Pt", .to = "+ SFT", .column = "Avg" },
    { .text = "MMMU: IRA above SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "mmmu",
      .demo = "questions" },
    { 0 },
};

static const struct paper_column robust_sets[] = {
    { .name = "MuirBench", .ours = "muirbench", .demo = NULL },
    { .name = "BLINK", .ours = "blink", .demo = NULL },
    { .name = "MVBench", .ours = "mvbench", .demo = NULL },
    { .name = "POPE", .ours = "pope", .demo = "yesno" },
    { .name = "HallBench", .ours = "hallusionbench", .demo = NULL },
    { .name = "VLM-Bias", .ours = "vlms-are-biased", .demo = NULL },
    { .name = "VLM-Blind", .ours = "vlms-are-blind", .demo = NULL },
    { .name = "EmbSpatial", .ours = "embspatial", .demo = "reasoning" },
    { 0 },
};

static const char robust[] = "internvl2|Pt|31.1|41.1|35.6|83.9|33.6|17.6|39.0|52.3\n"
                             "internvl2|+ SFT|38.3|45.1|48.7|86.4|35.7|18.1|33.4|63.9\n"
                             "internvl2|+ IRA|36.8|45.3|48.9|86.5|36.0|18.4|33.9|64.9\n"
                             "internvl2.5|Pt|31.6|39.5|47.4|86.6|32.5|18.3|36.4|51.7\n"
                             "internvl2.5|+ SFT|35.2|47.1|51.5|87.0|37.6|17.8|33.9|64.5\n"
                             "internvl2.5|+ IRA|35.4|45.5|52.0|87.5|37.9|18.3|37.3|64.2\n"
                             "llava-ov|Pt|37.4|24.6|41.9|85.7|21.7|16.9|5.8|51.4\n"
                             "llava-ov|+ SFT|40.9|42.9|53.0|88.6|38.1|20.9|19.0|63.5\n"
                             "llava-ov|+ IRA|41.4|43.2|54.0|88.7|37.0|19.7|19.1|63.5\n";

static const struct paper_claim robust_claims[] = {
    { .text = "POPE: IRA above SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "pope",
      .demo = "yesno" },
    { .text = "EmbSpatial: IRA above SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "embspatial",
      .demo = "reasoning" },
    { 0 },
};

// --- table 4 -------------------------------------------------------------------------------------

static const struct paper_column ablation_sets[] = {
    { .name = "MMMU", .ours = "mmmu", .demo = "questions" },
    { .name = "RealWorldQA", .ours = "realworldqa", .demo = "reasoning" },
    { .name = "TextVQA", .ours = "textvqa", .demo = "yesno" },
    { .name = "ChartQA", .ours = "chartqa", .demo = NULL },
    { .name = "EmbSpatial", .ours = "embspatial", .demo = NULL },
    { .name = "MuirBench", .ours = "muirbench", .demo = NULL },
    { .name = "CVBench", .ours = "cv-bench", .demo = NULL },
    { .name = "Avg", .ours = "Avg", .demo = "Avg" },
    { 0 },
};

static const char ablation[] = "|IRA|46.1|58.3|70.3|79.8|64.7|38.4|71.7|61.3\n"
                               "|w/o weighted KL|45.1|57.0|69.5|80.4|65.6|35.9|71.8|60.7\n"
                               "|w/o mu_p = v|45.6|58.2|69.4|79.6|64.6|34.6|72.5|60.6\n"
                               "|w/o IRA|44.9|56.6|69.6|76.5|63.5|34.7|70.7|59.5\n";

#define ABLATION_ROWS                                                                        \
    "row IRA: off model=${OUT}/ira adapter=${OUT}/ira ira.on=on\n"                           \
    "row w/o weighted KL: off model=${OUT}/gate-off adapter=${OUT}/gate-off ira.on=on "      \
    "ira.gate=off\n"                                                                         \
    "row w/o mu_p = v: off model=${OUT}/prior-global adapter=${OUT}/prior-global ira.on=on " \
    "ira.prior=global\n"                                                                     \
    "row w/o IRA: off model=${OUT}/sft\n"

static const struct paper_claim ablation_claims[] = {
    { .text = "IRA above plain training", .from = "w/o IRA", .to = "IRA", .column = "Avg" },
    { .text = "IRA above IRA with an unweighted KL",
      .from = "w/o weighted KL",
      .to = "IRA",
      .column = "Avg" },
    { .text = "IRA above IRA with a global prior",
      .from = "w/o mu_p = v",
      .to = "IRA",
      .column = "Avg" },
    { 0 },
};

// --- table 5 -------------------------------------------------------------------------------------

static const struct paper_column layer_sets[] = {
    { .name = "MMMU", .ours = "mmmu", .demo = "questions" },
    { .name = "MME", .ours = "mme", .demo = NULL },
    { .name = "TextVQA", .ours = "textvqa", .demo = "yesno" },
    { .name = "ChartQA", .ours = "chartqa", .demo = NULL },
    { .name = "EmbSpatial", .ours = "embspatial", .demo = "reasoning" },
    { .name = "MuirBench", .ours = "muirbench", .demo = NULL },
    { .name = "CVBench", .ours = "cv-bench", .demo = NULL },
    { 0 },
};

static const char layers[] = "|baseline|45.1|1839|72.0|78.4|63.6|37.2|72.1\n"
                             "|0%-100%|47.3|1940|70.0|76.0|61.2|34.4|72.3\n"
                             "|20%-80%|45.1|1956|70.0|75.7|61.0|35.0|68.7\n"
                             "|20%-40%|43.4|1791|70.6|77.4|62.9|38.2|72.7\n"
                             "|40%-60%|43.6|1956|71.7|78.4|62.8|33.6|70.2\n"
                             "|50%-70%|45.2|1930|71.7|79.4|63.2|35.8|73.5\n"
                             "|60%-80%|44.8|1981|71.9|78.4|63.9|35.3|73.4\n";

// Trains with IRA in the layers from FROM to TO percent, with the paper's weight of the KL for
// these layers.
#define RANGE(train, from, to, beta) \
    train("layers-" from "-" to, "/set ira.layers " from "%-" to "%\n/set ira.beta " beta "\n")
#define RANGES(train)                                                                         \
    train("sft", SFT) RESET RANGE(train, "0", "100", "4e-4") RANGE(train, "20", "80", "4e-4") \
        RANGE(train, "20", "40", "8e-5") RANGE(train, "40", "60", "8e-5")                     \
            RANGE(train, "50", "70", "8e-5") RANGE(train, "60", "80", "8e-5") RESET           \
        "/reset ira.layers\n/reset ira.beta\n"
#define RANGE_ROW(from, to)                                                                      \
    "row " from "%-" to "%: off model=${OUT}/layers-" from "-" to " adapter=${OUT}/layers-" from \
    "-" to " ira.on=on ira.layers=" from "%-" to "%\n"

static const struct paper_claim layer_claims[] = {
    { .text = "60%-80% above no IRA", .from = "baseline", .to = "60%-80%", .column = "Avg" },
    { .text = "60%-80% above all layers", .from = "0%-100%", .to = "60%-80%", .column = "Avg" },
    { .text = "60%-80% above 20%-40%", .from = "20%-40%", .to = "60%-80%", .column = "Avg" },
    { 0 },
};

// --- table 6 -------------------------------------------------------------------------------------

static const struct paper_column sink_columns[] = {
    { .name = "accuracy", .ours = "Avg", .demo = "Avg" },
    { .name = "sink ratio, %", .ours = "sink ratio", .demo = "sink ratio", .scale = 100 },
    { 0 },
};

static const char sinks[] = "|Pt|48.8|96.9\n|+ SFT|53.8|46.9\n|+ IRA|54.4|40.6\n";

#define SINKS(row, load, data)                                                           \
    load "/collect ${TABLE}/measured.csv \"row=" row                                     \
         "\" \"sink ratio=@sink_ratio.total:share of layers*:\" \"sink ratio std="       \
         "@sink_ratio.total.std:share of layers*:\" n=@sink-ratio.data:samples:value : " \
         "/sink-ratio "                                                                  \
         "--data " data " --limit ${LIMIT}\n"
#define SINKS_ALL(base, data)                  \
    SINKS("Pt", "/load " base "\n", data)      \
    SINKS("+ SFT", "/load ${OUT}/sft\n", data) \
    SINKS("+ IRA", LOAD_IRA, data)             \
    UNLOAD "/load " base "\n"

static const struct paper_claim sink_claims[] = {
    { .text = "SFT has a smaller sink ratio than the initial model",
      .from = "Pt",
      .to = "+ SFT",
      .column = "sink ratio",
      .less = true },
    { .text = "IRA has a smaller sink ratio than SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "sink ratio",
      .less = true },
    { .text = "IRA above SFT in accuracy", .from = "+ SFT", .to = "+ IRA", .column = "Avg" },
    { 0 },
};

// --- figure 3 ------------------------------------------------------------------------------------

static const struct paper_column curve_columns[] = {
    { .name = "change in curvature over layers, degrees", .ours = "V", .demo = "V" },
    { 0 },
};

#define CURVE(row, load, data)                                                     \
    load "/collect ${TABLE}/measured.csv \"row=" row                               \
         "\" \"V=@sink_ratio.total:V (*:\" \"V std=@sink_ratio.total.std:V (*:\" " \
         "n=@sink-ratio.data:samples:value : /sink-ratio --data " data " --limit ${LIMIT}\n"
#define CURVES(base, data)                     \
    CURVE("Pt", "/load " base "\n", data)      \
    CURVE("+ SFT", "/load ${OUT}/sft\n", data) \
    CURVE("+ IRA", LOAD_IRA, data)             \
    UNLOAD

static const struct paper_claim curve_claims[] = {
    { .text = "IRA is straighter than SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "V",
      .less = true },
    { 0 },
};

// --- figure 4 ------------------------------------------------------------------------------------

static const struct paper_column kl_columns[] = {
    { .name = "KL, mean over training", .ours = "kl", .demo = "kl" },
    { .name = "KL in the loss", .ours = "kl_weighted", .demo = "kl_weighted" },
    { 0 },
};

#define KL_CURVES                                                                          \
    "/plot ${OUT}/ira ${OUT}/gate-off ${OUT}/prior-global kl kl_weighted --csv "           \
    "${TABLE}/curves.csv\n"                                                                \
    "/plot ${OUT}/ira ${OUT}/gate-off ${OUT}/prior-global kl --log y --smooth 5 --figure " \
    "${TABLE}/figure4a.svg\n"

static const struct paper_claim kl_claims[] = {
    { .text = "without the weights, the KL is higher",
      .from = "ira",
      .to = "gate-off",
      .column = "kl" },
    { .text = "with a global prior, the KL is higher",
      .from = "ira",
      .to = "prior-global",
      .column = "kl" },
    { 0 },
};

// --- figures 1, 5 and 8 --------------------------------------------------------------------------

static const struct paper_column dice_columns[] = {
    { .name = "soft Dice", .ours = "dice", .demo = "dice" },
    { .name = "Spearman of Dice and score", .ours = "rank", .demo = "rank" },
    { 0 },
};

#define SPACE "/set dice.space pixels\n${READING}"
// Measures the Dice of attention and objects, and the correlation of the Dice with the
// score.
#define DICE(row, load, data, objects)                                                            \
    load "/collect ${TABLE}/measured.csv \"row=" row                                              \
         "\" \"dice=@dice:soft Dice*:\" \"dice std=@dice.std:soft Dice*:\" "                      \
         "n=@dice.data:samples:value \"rank=@Spearman of value and score\" \"rank low=@Spearman " \
         "of value and score, 95% low\" \"rank high=@Spearman of value and score, 95% "           \
         "high\" : /dice --data " data " --objects " objects " --limit ${LIMIT}\n"
#define DICES(base, data, objects)                     \
    DICE("Pt", "/load " base "\n", data, objects)      \
    DICE("+ SFT", "/load ${OUT}/sft\n", data, objects) \
    DICE("+ IRA", LOAD_IRA, data, objects) UNLOAD

static const struct paper_claim dice_claims[] = {
    { .text = "IRA looks at the objects more than SFT (figures 1, 8)",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "dice" },
    { .text = "with IRA, Dice and score correlate", .to = "+ IRA", .column = "rank", .above = 0 },
    { .text = "with IRA, Dice and score correlate more than with SFT",
      .from = "+ SFT",
      .to = "+ IRA",
      .column = "rank" },
    { 0 },
};

// --- figure 6 ------------------------------------------------------------------------------------

static const struct paper_column course_columns[] = {
    { .name = "mean over sets", .ours = "Avg", .demo = "Avg" },
    { 0 },
};

#define KEEP(steps) "/set train.keep 10\n/set train.save_every " steps "\n"

static const struct paper_claim course_claims[] = {
    { .text = "at the end: IRA above SFT", .from = "SFT, end", .to = "IRA, end", .column = "Avg" },
    { .text = "at the end: IRA above the initial model",
      .from = "Pt",
      .to = "IRA, end",
      .column = "Avg" },
    { 0 },
};

#define NEEDS                                                                            \
    "--model: the checkpoint of stage 1.5, --data of stage 2 (LLaVA-OneVision's single " \
    "images, 3.2M), --sets"

static const struct paper_table tables[] = {
    { .name = "table2",
      .title = "general sets: before stage 2, after plain training (SFT), after IRA",
      .needs = NEEDS,
      .variants = models,
      .columns = general_sets,
      .published = general,
      .plan = REAL_BOTH "/load ${MODEL}\n",
      .demo = DEMO_BOTH "/load ${OUT}/start\n",
      .rows = THREE_ROWS("${BASE}"),
      .claims = general_claims },
    { .name = "table3",
      .title = "robustness and generalization",
      .needs = NEEDS,
      .variants = models,
      .columns = robust_sets,
      .published = robust,
      .plan = REAL_BOTH "/load ${MODEL}\n",
      .demo = DEMO_BOTH "/load ${OUT}/start\n",
      .rows = THREE_ROWS("${BASE}"),
      .claims = robust_claims,
      .note = "MVBench is scored on frames that you extract from its videos." },
    { .name = "table4",
      .title = "ablations: with an unweighted KL, with a global prior, without IRA",
      .needs = NEEDS,
      .columns = ablation_sets,
      .published = ablation,
      .plan = "/reset all\n" REAL("ira", "") REAL("gate-off", NO_GATE)
          REAL("prior-global", NO_PRIOR) REAL("sft", SFT) RESET "/load ${MODEL}\n",
      .demo = PAPER_DEMO_START DEMO("ira", "") DEMO("gate-off", NO_GATE)
          DEMO("prior-global", NO_PRIOR) DEMO("sft", SFT) RESET "/load ${OUT}/start\n",
      .rows = ABLATION_ROWS,
      .claims = ablation_claims },
    { .name = "table5",
      .title = "IRA in different layers",
      .needs = NEEDS " (seven training runs)",
      .columns = layer_sets,
      .published = layers,
      .plan = "/reset all\n" RANGES(REAL) "/load ${MODEL}\n",
      .demo = PAPER_DEMO_START RANGES(DEMO) "/load ${OUT}/start\n",
      .rows = "row baseline: off model=${OUT}/sft\n" RANGE_ROW("0", "100") RANGE_ROW("20", "80")
          RANGE_ROW("20", "40") RANGE_ROW("40", "60") RANGE_ROW("50", "70") RANGE_ROW("60", "80"),
      .claims = layer_claims,
      .note = "scores/table.csv has the improvement over the baseline in %, including MME." },
    { .name = "table6",
      .title = "accuracy and share of layers with a visual sink",
      .needs = NEEDS,
      .columns = sink_columns,
      .published = sinks,
      .plan = REAL_BOTH SINKS_ALL("${MODEL}", "${DATA1}"),
      .demo = DEMO_BOTH SINKS_ALL("${OUT}/start", "${OUT}/world/captions.json"),
      .rows = THREE_ROWS("${BASE}"),
      .claims = sink_claims },
    { .name = "figure3",
      .also = "figure7",
      .title = "curvature of visual tokens over layers",
      .needs = NEEDS,
      .columns = curve_columns,
      .published = "",
      .plan = REAL_BOTH CURVES("${MODEL}", "${DATA1}"),
      .demo = DEMO_BOTH CURVES("${OUT}/start", "${OUT}/world/captions.json"),
      .claims = curve_claims,
      .note = "The figure prints no numbers; /curvature plots the curve by layer. V is the sum of "
              "the changes from layer to layer: 0 is a straight line." },
    { .name = "figure4",
      .title = "KL divergence of IRA's bottleneck, during training and by visual token",
      .needs = NEEDS " (three training runs)",
      .columns = kl_columns,
      .published = "",
      .plan = "/reset all\n" REAL("ira", "") REAL("gate-off", NO_GATE)
          REAL("prior-global", NO_PRIOR) RESET KL_CURVES LOAD_IRA
      "/kl --data ${DATA1} --limit 1 --figure ${TABLE}/figure4b.svg\n" UNLOAD,
      .demo = PAPER_DEMO_START DEMO("ira", "") DEMO("gate-off", NO_GATE)
          DEMO("prior-global", NO_PRIOR) RESET KL_CURVES LOAD_IRA
      "/kl --data ${OUT}/world/captions.json --limit 1 --figure ${TABLE}/figure4b.svg\n" UNLOAD,
      .claims = kl_claims,
      .note = "The figure prints no numbers. Without weights, the KL in the loss is the KL itself. "
              "figure4b.svg shows the KL by visual token, for one picture." },
    { .name = "figure5",
      .also = "figure1 figure8",
      .title = "attention on the objects, and its correlation with the score",
      .needs = "--model and the first file of --data as table2; second file: samples about objects "
               "(RefCOCOg); third: the objects, as for /dice --objects",
      .columns = dice_columns,
      .published = "|+ IRA||0.28\n",
      .plan = REAL_BOTH SPACE DICES("${MODEL}", "${DATA2}", "${DATA3}"),
      .demo = DEMO_BOTH SPACE DICES("${OUT}/start", "${OUT}/world/questions.json",
                                    "${OUT}/world/objects.jsonl"),
      .claims = dice_claims,
      .note =
          "The paper takes CIDEr of RefCOCOg's captions as the score. Figures 1 and 8 show maps "
          "of single pictures; for one, load the model and use /attention --figure FILE." },
    { .name = "figure6",
      .title = "mean over the sets during training (forgetting)",
      .needs = NEEDS,
      .columns = course_columns,
      .published = "",
      .plan = "/reset all\n" KEEP("${STEPS}") REAL("sft-kept", SFT) REAL("ira-kept", "") RESET
      "/reset train.keep\n/reset train.save_every\n/load ${MODEL}\n",
      .demo = PAPER_DEMO_START KEEP("30") DEMO("sft-kept", SFT) DEMO("ira-kept", "") RESET
      "/reset train.keep\n/reset train.save_every\n/load ${OUT}/start\n",
      .rows = "row Pt: off model=${BASE}\n"
              "row SFT: off model=${BASE}\n"
              "row IRA: off model=${BASE}\n"
              "checkpoints SFT: ${OUT}/sft-kept\n"
              "checkpoints IRA: ${OUT}/ira-kept ira.on=on\n"
              "row SFT, end: off model=${OUT}/sft-kept\n"
              "row IRA, end: off model=${OUT}/ira-kept adapter=${OUT}/ira-kept ira.on=on\n",
      .after = "/plot ${TABLE}/scores/scores.csv step value --by series --where column=Avg --where "
               "series=SFT|IRA --interval low,high --y \"mean over sets\" --figure "
               "${TABLE}/figure6.svg\n",
      .claims = course_claims,
      .note =
          "The figure prints no numbers; it shows the change relative to the initial model, which "
          "is the column improve % of scores/scores.csv." },
    { 0 },
};

// The default scales the attention in the gate's entropy to sum to 1, lets the KL reach the value
// through the posterior's mean (Eqs. 8, 9), ends layers before 80% of the depth, averages the loss
// over samples and computes the Dice over pixels.
static const struct paper_reading readings[] = {
    { .name = "entropy", .title = "Eq. 14 as printed", .settings = "/set ira.entropy printed\n" },
    { .name = "kl", .title = "Eq. 10 as printed", .settings = "/set ira.prior local-printed\n" },
    { .name = "layers",
      .title = "layers with the one at 80%",
      .settings = "/set ira.layers 60%-80%,80%\n",
      .tables = "table2 table3 table4 table6 figure3 figure4 figure5 figure6" },
    PAPER_TOKEN_LOSS,
    { .name = "dice",
      .title = "Dice over tokens",
      .settings = "/set dice.space tokens\n",
      .tables = "figure5",
      .shares = true },
    { 0 },
};

const struct paper paper_ira = {
    .name = "ira",
    .title = "Information-Regularized Attention for Visual-Centric Reasoning",
    .tables = tables,
    .readings = readings,
};
