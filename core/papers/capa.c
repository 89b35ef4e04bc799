// core/papers/capa.c -- CAPA: Contribution-Aware Pruning and FFN Approximation.
#include "core/papers/paper.h"

static const char models[] = "L LLaVA-1.5-7B|Q Qwen2.5-VL-7B|I InternVL3-8B";

static const struct paper_column sets[] = {
    { .name = "VQA2", .ours = "vqav2", .demo = "questions" },
    { .name = "MMBench", .ours = "mmbench", .demo = "reasoning" },
    { .name = "MMVet", .ours = NULL, .demo = NULL },
    { .name = "TextVQA", .ours = "textvqa", .demo = NULL },
    { .name = "SEED", .ours = "seed", .demo = "yesno" },
    { .name = "MMMU", .ours = "mmmu", .demo = NULL },
    { .name = "Avg", .ours = "Avg", .demo = "Avg" },
    { 0 },
};

// --- table 1 -------------------------------------------------------------------------------------

static const char pruning[] = "L|Vanilla|76.55|62.97|28.89|48.64|60.14|34.67\n"
                              "L|Early, Unif.|72.79|61.25|24.03|32.98|56.87|34.62\n"
                              "L|Early, FastV|72.14|62.37|24.67|42.56|56.01|34.56\n"
                              "L|Early, Feather|73.87|62.45|26.30|45.30|56.86|34.70\n"
                              "L|Early, CAPA|74.76|62.80|28.75|46.70|57.91|35.44\n"
                              "L|Transition, Unif.|73.95|62.60|25.69|36.07|58.80|35.44\n"
                              "L|Transition, FastV|75.27|62.43|27.01|47.05|56.91|35.56\n"
                              "L|Transition, Feather|75.28|62.54|26.91|47.46|57.05|35.67\n"
                              "L|Transition, CAPA|76.21|62.82|27.96|48.40|59.94|36.61\n"
                              "L|Late, Unif.|74.65|62.47|25.55|37.87|59.17|34.22\n"
                              "L|Late, FastV|75.27|62.43|28.27|47.38|59.13|35.67\n"
                              "L|Late, Feather|75.52|62.43|28.48|47.43|59.13|35.68\n"
                              "L|Late, CAPA|76.20|62.67|28.70|48.38|60.08|35.89\n"
                              "Q|Vanilla|83.74|82.21|61.83|83.69|76.80|48.68\n"
                              "Q|Early, Unif.|82.61|74.10|59.31|80.82|71.20|47.10\n"
                              "Q|Early, FastV|82.73|75.34|60.91|82.24|73.80|47.67\n"
                              "Q|Early, Feather|82.71|75.10|60.68|81.24|73.10|47.67\n"
                              "Q|Early, CAPA|83.10|78.16|62.51|82.90|75.30|47.97\n"
                              "Q|Transition, Unif.|82.61|75.20|62.11|81.74|73.92|47.67\n"
                              "Q|Transition, FastV|82.75|75.93|61.42|81.55|73.65|47.69\n"
                              "Q|Transition, Feather|82.79|75.30|61.83|82.10|73.69|47.67\n"
                              "Q|Transition, CAPA|84.10|77.20|64.25|82.34|75.72|47.89\n"
                              "Q|Late, Unif.|82.62|75.10|59.95|81.78|71.70|48.44\n"
                              "Q|Late, FastV|82.75|76.40|61.74|82.37|73.75|48.54\n"
                              "Q|Late, Feather|82.80|76.70|63.30|82.39|73.79|48.59\n"
                              "Q|Late, CAPA|84.30|77.70|64.70|82.30|75.60|49.33\n"
                              "I|Vanilla|80.28|84.71|70.41|80.89|74.97|55.44\n"
                              "I|Early, Unif.|79.56|82.65|67.56|81.34|73.92|54.67\n"
                              "I|Early, FastV|78.26|82.71|68.80|78.87|72.02|53.42\n"
                              "I|Early, Feather|79.26|82.70|69.95|79.87|73.02|54.43\n"
                              "I|Early, CAPA|80.26|84.79|70.37|80.92|74.02|55.44\n"
                              "I|Transition, Unif.|79.05|84.62|68.34|80.65|73.00|55.00\n"
                              "I|Transition, FastV|79.50|83.10|69.31|79.10|71.27|54.27\n"
                              "I|Transition, Feather|79.56|83.20|69.95|80.12|72.02|53.21\n"
                              "I|Transition, CAPA|80.26|84.79|69.85|81.20|74.02|55.44\n"
                              "I|Late, Unif.|79.90|83.00|69.49|80.35|73.02|51.40\n"
                              "I|Late, FastV|80.10|84.30|69.27|80.98|72.50|51.60\n"
                              "I|Late, Feather|80.30|84.70|69.35|80.98|71.79|51.67\n"
                              "I|Late, CAPA|80.27|84.79|69.63|81.93|72.02|53.67\n";

#define AT(phase, layer)                                                                        \
    "row " phase ", Unif.: off prune.score=uniform prune.layer={" layer "} prune.keep=0.25\n"   \
    "row " phase ", FastV: off prune.score=attention prune.layer={" layer "} prune.keep=0.25\n" \
    "row " phase ", Feather: off prune.score=norope prune.layer={" layer "} prune.keep=0.25\n"  \
    "row " phase ", CAPA: off prune.score=contribution prune.layer={" layer "} prune.keep=0.25\n"

static const struct paper_claim pruning_claims[] = {
    { .text = "early: CAPA above FastV",
      .from = "Early, FastV",
      .to = "Early, CAPA",
      .column = "Avg" },
    { .text = "transition: CAPA above FastV",
      .from = "Transition, FastV",
      .to = "Transition, CAPA",
      .column = "Avg" },
    { .text = "transition: CAPA above Feather",
      .from = "Transition, Feather",
      .to = "Transition, CAPA",
      .column = "Avg" },
    { .text = "transition: CAPA above uniform",
      .from = "Transition, Unif.",
      .to = "Transition, CAPA",
      .column = "Avg" },
    { .text = "late: CAPA above FastV",
      .from = "Late, FastV",
      .to = "Late, CAPA",
      .column = "Avg" },
    { .text = "late: CAPA within 1 point of the full model",
      .from = "Vanilla",
      .to = "Late, CAPA",
      .column = "Avg",
      .margin = 1 },
    { 0 },
};

// --- table 2 -------------------------------------------------------------------------------------

static const char ffn[] = "L|Full Model|76.55|62.97|28.89|48.64|60.14|34.67\n"
                          "L|Skip FFN|74.02|58.12|22.45|44.10|56.78|29.30\n"
                          "L|Hadamard|75.48|61.32|26.90|47.15|58.82|32.85\n"
                          "L|Prune Only|76.20|62.67|28.70|48.38|60.08|35.89\n"
                          "L|CAPA, Skip FFN|73.88|57.90|22.10|43.85|56.40|30.25\n"
                          "L|CAPA, Hadamard|75.10|61.05|26.44|46.90|58.65|34.02\n"
                          "Q|Full Model|83.74|82.21|61.83|83.69|76.80|48.68\n"
                          "Q|Skip FFN|79.15|72.40|49.30|76.12|69.20|38.50\n"
                          "Q|Hadamard|81.02|77.85|56.40|80.22|73.15|44.10\n"
                          "Q|Prune Only|84.30|77.70|64.70|82.30|75.60|49.33\n"
                          "Q|CAPA, Skip FFN|79.60|67.20|52.15|74.50|67.90|39.45\n"
                          "Q|CAPA, Hadamard|81.85|73.20|59.12|78.90|71.42|45.22\n"
                          "I|Full Model|80.28|84.71|70.41|80.89|74.97|55.44\n"
                          "I|Skip FFN|75.70|78.13|59.10|74.90|67.32|42.37\n"
                          "I|Hadamard|78.79|80.52|65.05|78.03|71.95|49.33\n"
                          "I|Prune Only|80.27|84.79|69.63|81.93|72.02|53.67\n"
                          "I|CAPA, Skip FFN|73.90|75.80|56.45|73.12|64.50|40.85\n"
                          "I|CAPA, Hadamard|76.70|78.34|62.30|75.08|71.30|45.33\n";

#define CALIBRATE(data, limit)                                                  \
    "/load ${MODEL}\n"                                                          \
    "/calibrate ffn " data " ${OUT}/ffn.safetensors --limit " limit " --once\n" \
    "/wait\n"
#define FFN   "ffn.calibration=${OUT}/ffn.safetensors ffn.layers={ffn} "
#define PRUNE "prune.score=contribution prune.layer={late} prune.keep=0.25 "

static const struct paper_claim ffn_claims[] = {
    { .text = "Hadamard above skipping the FFNs",
      .from = "Skip FFN",
      .to = "Hadamard",
      .column = "Avg" },
    { .text = "with pruning: Hadamard above skipping",
      .from = "CAPA, Skip FFN",
      .to = "CAPA, Hadamard",
      .column = "Avg" },
    { .text = "pruning alone within 1 point of the full model",
      .from = "Full Model",
      .to = "Prune Only",
      .column = "Avg",
      .margin = 1 },
    { 0 },
};

// --- figure 2: the claim of section 3.1 ----------------------------------------------------------

static const struct paper_claim sink_claims[] = {
    { .text = "removing the probability dumps keeps the score (within 1 point)",
      .from = "Vanilla",
      .to = "without dumps",
      .column = "Avg",
      .margin = 1 },
    { .text = "removing the structural anchors lowers the score",
      .from = "Vanilla",
      .to = "without anchors",
      .column = "Avg",
      .less = true },
    { .text = "anchors matter more than dumps",
      .from = "without dumps",
      .to = "without anchors",
      .column = "Avg",
      .less = true },
    { 0 },
};

// --- figure 3 ------------------------------------------------------------------------------------

static const struct paper_column redundancy_columns[] = {
    { .name = "cosine, visual tokens", .ours = "visual", .demo = "visual" },
    { .name = "cosine, text", .ours = "text", .demo = "text" },
    { 0 },
};

#define REDUNDANCY(data)                                                                     \
    "${each}/load ${MODEL}\n"                                                                \
    "/collect ${TABLE}/measured.csv \"row=layers\" model=${MODEL} redundancy : /redundancy " \
    "--data " data " --limit ${LIMIT}\n${end}"                                               \
    "/plot ${TABLE}/measured.csv layer visual text --by model --y cosine --figure "          \
    "${TABLE}/figure3.svg\n"

static const struct paper_claim redundancy_claims[] = {
    { .text = "FFNs change visual tokens less than text, averaged over layers",
      .to = "layers",
      .column = "visual",
      .against = "text" },
    { .text = "FFNs of early layers change text more: cosine of visual tokens above that of text",
      .to = "layers, first third",
      .column = "visual",
      .against = "text" },
    { .text = "the mean cosine of visual tokens exceeds eta = 0.96 in the middle layers (figure 4)",
      .to = "layers, middle third",
      .column = "visual",
      .above = 0.96 },
    { 0 },
};

// --- figure 9 ------------------------------------------------------------------------------------

static const struct paper_column contribution_columns[] = {
    { .name = "text to visual", .ours = "text to visual", .demo = "text to visual" },
    { .name = "text to text", .ours = "text to text", .demo = "text to text" },
    { .name = "visual to visual", .ours = "visual to visual", .demo = "visual to visual" },
    { 0 },
};

#define CONTRIBUTION(data)                                                                        \
    "/load ${MODEL}\n"                                                                            \
    "/collect ${TABLE}/measured.csv row=layers contribution : /contribution --data " data         \
    " --limit ${LIMIT}\n"                                                                         \
    "/plot ${TABLE}/measured.csv layer \"text to visual\" \"text to text\" \"visual to visual\" " \
    "--log y --y contribution --figure ${TABLE}/figure9.svg\n"

static const struct paper_claim contribution_claims[] = {
    { .text = "from text to the picture: late layers below early ones",
      .from = "layers, first third",
      .to = "layers, last third",
      .column = "text to visual",
      .less = true },
    { .text = "the drop is in the middle: middle layers below early ones",
      .from = "layers, first third",
      .to = "layers, middle third",
      .column = "text to visual",
      .less = true },
    { 0 },
};

// --- figure 6 ------------------------------------------------------------------------------------

// Table 1, averaged over its three models.
static const char transition[] = "|Vanilla|80.19|76.63|53.71|71.07|70.64|46.26\n"
                                 "|FastV|79.17|73.82|52.58|69.23|67.28|45.84\n"
                                 "|Feather|79.21|73.68|52.90|69.89|67.59|45.52\n"
                                 "|CAPA|80.19|74.94|54.02|70.65|69.89|46.65\n";

#define OF_EACH(name, settings) "${each}row " name ": model=${MODEL} off " settings "\n${end}"
#define AT_TRANSITION(score)    "prune.score=" score " prune.layer={transition} prune.keep=0.25"

static const struct paper_claim transition_claims[] = {
    { .text = "CAPA above FastV", .from = "FastV", .to = "CAPA", .column = "Avg" },
    { .text = "CAPA above Feather", .from = "Feather", .to = "CAPA", .column = "Avg" },
    { .text = "CAPA within 1 point of the full model",
      .from = "Vanilla",
      .to = "CAPA",
      .column = "Avg",
      .margin = 1 },
    { 0 },
};

// --- figures 5, 7 and 8 --------------------------------------------------------------------------

static const struct paper_column distance_columns[] = {
    { .name = "Hellinger distance", .ours = "hellinger", .demo = "hellinger" },
    { 0 },
};

#define DISTANCE(row, score, data)                                                                \
    "/collect ${TABLE}/measured.csv \"row=" row "\" \"hellinger=@Hellinger distance, mean\" "     \
    "\"hellinger low=@Hellinger distance, mean, 95% low\" \"hellinger high=@Hellinger distance, " \
    "mean, 95% high\" : /compare off | prune.score=" score " prune.keep=0.25 --data " data        \
    " --limit ${LIMIT}\n"
// The preset sets prune.layer; /baseline leaves it unchanged.
#define DISTANCES(data)                                                                        \
    "/load ${MODEL}\n/preset load capa-transition\n/baseline\n" DISTANCE("FastV", "attention", \
                                                                         data)                 \
        DISTANCE("CAPA", "contribution", data) DISTANCE("Random", "random", data)

static const struct paper_claim distance_claims[] = {
    { .text = "pruning by contribution stays closer to the full model than by attention",
      .from = "FastV",
      .to = "CAPA",
      .column = "hellinger",
      .less = true },
    { 0 },
};

#define KEEP(name, keep)                                                                           \
    "row Unif., " name ": off prune.score=uniform prune.layer={transition} prune.keep=" keep "\n"  \
    "row FastV, " name ": off prune.score=attention prune.layer={transition} prune.keep=" keep     \
    "\n"                                                                                           \
    "row Feather, " name ": off prune.score=norope prune.layer={transition} prune.keep=" keep "\n" \
    "row CAPA, " name ": off prune.score=contribution prune.layer={transition} prune.keep=" keep   \
    "\n"

static const struct paper_claim ratio_claims[] = {
    { .text = "half kept: CAPA above FastV",
      .from = "FastV, 50%",
      .to = "CAPA, 50%",
      .column = "Avg" },
    { .text = "a quarter kept: CAPA above FastV",
      .from = "FastV, 25%",
      .to = "CAPA, 25%",
      .column = "Avg" },
    { .text = "15% kept: CAPA above FastV",
      .from = "FastV, 15%",
      .to = "CAPA, 15%",
      .column = "Avg" },
    { .text = "15% kept: CAPA within 2 points of the full model",
      .from = "Vanilla",
      .to = "CAPA, 15%",
      .column = "Avg",
      .margin = 2 },
    { 0 },
};

static const struct paper_column flop_columns[] = {
    { .name = "FLOPs of a prompt, %", .ours = "flops", .demo = "flops", .scale = 100 },
    { 0 },
};

#define FLOPS(row, settings, data)                                                                \
    settings "/collect ${TABLE}/measured.csv row=" row " \"flops=@flops:all:now/full\" : /flops " \
             "--data " data " --limit 5\n"
#define ALL_FLOPS(data)                                 \
    FLOPS("Full", "/baseline\n", data)                  \
    FLOPS("Pruning", "/preset load capa-prune\n", data) \
    FLOPS("CAPA", "/calibration load ${OUT}/ffn.safetensors\n/preset load capa\n", data)

static const struct paper_claim flop_claims[] = {
    { .text = "pruning and Hadamard FFNs save more than half of the FLOPs",
      .from = "Full",
      .to = "CAPA",
      .column = "flops",
      .less = true,
      .margin = -50 },
    { .text = "CAPA saves more than pruning alone",
      .from = "Pruning",
      .to = "CAPA",
      .column = "flops",
      .less = true },
    { 0 },
};

static const struct paper_table tables[] = {
    { .name = "table1",
      .title = "pruning to 25% at three layers, by four scores",
      .needs = "--sets with files of VQAv2, MMBench, TextVQA, SEED-Bench, MMMU",
      .variants = models,
      .columns = sets,
      .published = pruning,
      .plan = "/reset all\n/load ${MODEL}\n",
      .demo = PAPER_DEMO_WORLD "/load ${MODEL}\n",
      .rows = "row Vanilla: off\n" AT("Early", "early") AT("Transition", "transition")
          AT("Late", "late"),
      .claims = pruning_claims,
      .note = "MM-Vet needs a judge model: its answers can be exported but not scored. Our Avg "
              "excludes it." },
    { .name = "table2",
      .title = "FFNs of visual tokens skipped or approximated, without and with pruning",
      .needs =
          "--sets as table1, --data with pictures for the calibration (the paper: 500 of COCO)",
      .variants = models,
      .columns = sets,
      .published = ffn,
      .plan = "/reset all\n" CALIBRATE("${DATA1}", "500"),
      .demo = PAPER_DEMO_WORLD CALIBRATE("${OUT}/world/captions.json", "100"),
      .rows = "row Full Model: off\n"
              "row Skip FFN: off ffn.approx=skip " FFN "\n"
              "row Hadamard: off ffn.approx=hadamard " FFN "\n"
              "row Prune Only: off " PRUNE "\n"
              "row CAPA, Skip FFN: off ffn.approx=skip " FFN PRUNE "\n"
              "row CAPA, Hadamard: off ffn.approx=hadamard " FFN PRUNE "\n",
      .claims = ffn_claims,
      .note = "MM-Vet needs a judge model: its answers can be exported but not scored. Our Avg "
              "excludes it." },
    { .name = "figure2",
      .title = "removing attention sinks that contribute little (dumps) or much (anchors)",
      .needs = "--sets as table1",
      .columns = sets,
      .published = "",
      .plan = "/reset all\n/load ${MODEL}\n",
      .demo = PAPER_DEMO_WORLD "/load ${MODEL}\n",
      .rows =
          "row Vanilla: off\n"
          "row without dumps: off prune.score=dumps prune.worst=on prune.layer={transition}\n"
          "row without anchors: off prune.score=anchors prune.worst=on prune.layer={transition}\n",
      .claims = sink_claims,
      .note =
          "The figure shows the two kinds of sinks (/sinks --figure); section 3.1 states the "
          "effect of removing them, without numbers. The demo model has no visual sinks, so its "
          "rows are equal." },
    { .name = "figure3",
      .also = "figure4",
      .title =
          "redundancy of FFNs by layer, for visual tokens and text; figure 4: for several models",
      .needs = "--data with pictures (the paper: 500 of COCO); for figure 4, --model M,M,M",
      .columns = redundancy_columns,
      .published = "",
      .plan = "/reset all\n" REDUNDANCY("${DATA1}"),
      .demo = PAPER_DEMO_WORLD REDUNDANCY("${OUT}/world/questions.json"),
      .claims = redundancy_claims,
      .note = "The figures print no numbers; figure3.svg plots our values by layer." },
    { .name = "figure5",
      .title = "distance between the answers of the pruned and the unpruned model",
      .needs = "--data with pictures (the paper: 200 of COCO)",
      .columns = distance_columns,
      .published = "",
      .plan = "/reset all\n" DISTANCES("${DATA1}"),
      .demo = PAPER_DEMO_WORLD DISTANCES("${OUT}/world/detail.json"),
      .claims = distance_claims,
      .note = "The figure prints no numbers. /compare ... --steps has the distance by step." },
    { .name = "figure6",
      .title = "pruning at the transition layer, mean of three models",
      .needs = "--sets as table1, --model M,M,M",
      .columns = sets,
      .published = transition,
      .plan = "/reset all\n/load ${MODEL}\n",
      .demo = PAPER_DEMO_WORLD "/load ${MODEL}\n",
      .rows = OF_EACH("Vanilla", "") OF_EACH("FastV", AT_TRANSITION("attention")) OF_EACH(
          "Feather", AT_TRANSITION("norope")) OF_EACH("CAPA", AT_TRANSITION("contribution")),
      .claims = transition_claims,
      .note = "The figure prints no numbers; the published values here are means over the three "
              "models of table 1. With several models, our rows are means, too." },
    { .name = "figure7",
      .title = "mean over the sets, by share of tokens kept",
      .needs = "--sets as table1",
      .columns = sets,
      .published = "",
      .plan = "/reset all\n/load ${MODEL}\n",
      .demo = PAPER_DEMO_WORLD "/load ${MODEL}\n",
      .rows = "row Vanilla: off\n" KEEP("75%", "0.75") KEEP("50%", "0.5") KEEP("25%", "0.25")
          KEEP("15%", "0.15"),
      .claims = ratio_claims,
      .note = "The figure prints no numbers; the paper's text gives about 52.0 for CAPA at 25%." },
    { .name = "figure8",
      .title = "FLOPs of a prompt with pruning at the late layer and Hadamard FFNs",
      .needs = "--data with pictures",
      .columns = flop_columns,
      .published = "|Full|100\n|CAPA|22\n",
      .plan = "/reset all\n" CALIBRATE("${DATA1}", "500") ALL_FLOPS("${DATA1}"),
      .demo = PAPER_DEMO_WORLD CALIBRATE("${OUT}/world/captions.json", "100")
          ALL_FLOPS("${OUT}/world/captions.json"),
      .claims = flop_claims,
      .note = "The paper's saving of 78% does not follow from its settings: with pruning at "
              "LLaVA-1.5's late layer, its formulas give 44%." },
    { .name = "figure9",
      .title = "attention contribution by layer",
      .needs = "--data with pictures and prompts that ask for a description",
      .columns = contribution_columns,
      .published = "",
      .plan = "/reset all\n" CONTRIBUTION("${DATA1}"),
      .demo = PAPER_DEMO_WORLD CONTRIBUTION("${OUT}/world/detail.json"),
      .claims = contribution_claims,
      .note = "The figure prints no numbers; figure9.svg plots our values by layer." },
    { 0 },
};

const struct paper paper_capa = {
    .name = "capa",
    .title = "CAPA: Contribution-Aware Pruning and FFN Approximation for Efficient Large "
             "Vision-Language Models",
    .tables = tables,
};
