// core/sets/table.c -- the sets, and how each suite asks and scores them.
//
// LLaVA's files for SEED-Bench, MME, VQAv2 and TextVQA contain the prompt; other formats get the
// same prompt here. LLaVA and lmms-eval send MMBench to its server; the rules here are those of its
// static and exact-matching methods.
#include "core/sets/prompt.h"
#include "core/sets/set.h"
#include "core/sets/total.h"

#define SHORT_WORDS "question, \"Answer the question using a single word or phrase.\""
#define LETTER_WORDS                                                                        \
    "hint, question, \"A. ...\", \"Answer with the option's letter from the given choices " \
    "directly.\""
#define VLMEVALKIT_WORDS                                                                           \
    "\"Hint:\", \"Question:\", \"Options:\", \"Please select the correct answer from the options " \
    "above.\""

#define SHORT      "\nAnswer the question using a single word or phrase."
#define LETTER     "\nAnswer with the option's letter from the given choices directly."
#define PRO_LETTER "Answer with the option letter from the given choices directly."
#define PRO_LAST_LINE                                                                      \
    "The last line of your response should be of the following format: 'Answer: $LETTER' " \
    "(without quotes) where LETTER is one of "
#define PRO_STEPS  "options. Think step by step before answering."
#define NOTE_WORDS "\"Note: You only need to respond with A, B ...\", "
// 选项 ... 最佳答案为: MME-RealWorld's last sentence in Chinese.
#define CN_BEST                                                                                    \
    "\xE6\xA0\xB9\xE6\x8D\xAE\xE5\x9B\xBE\xE5\x83\x8F\xE9\x80\x89\xE6\x8B\xA9\xE4\xB8\x8A\xE8\xBF" \
    "\xB0\xE5\xA4\x9A\xE9\xA1\xB9\xE9\x80\x89\xE6\x8B\xA9\xE9\xA2\x98\xE7\x9A\x84\xE6\x9C\x80\xE4" \
    "\xBD\xB3\xE7\xAD\x94\xE6\xA1\x88\xE3\x80\x82\xE5\x8F\xAA\xE9\x9C\x80\xE5\x9B\x9E\xE7\xAD\x94" \
    "\xE6\xAD\xA3\xE7\xA1\xAE\xE9\x80\x89\xE9\xA1\xB9\xE7\x9A\x84\xE5\xAD\x97\xE6\xAF\x8D\xEF\xBC" \
    "\x88"                                                                                         \
    "A, B, C, D \xE6\x88\x96 E\xEF\xBC\x89\xE3\x80\x82\n\xE6\x9C\x80\xE4\xBD\xB3\xE7\xAD\x94"      \
    "\xE6\xA1\x88\xE4\xB8\xBA\xEF\xBC\x9A"
#define EN_BEST                                                                                 \
    "Select the best answer to the above multiple-choice question based on the image. Respond " \
    "with only the letter (A, B, C, D, or E) of the correct option."

// VLMEvalKit asks and scores most multiple-choice sets alike.
#define MCQ_VLMEVALKIT(total)                                                         \
    {                                                                                 \
        "vlmevalkit", prompt_mcq_vlmevalkit, VLMEVALKIT_WORDS, VLMEVALKIT_TOKENS,     \
            "mcq-vlmevalkit", total, "dataset/utils/multiple_choice.py", LOST_MISSING \
    }

enum {
    LLAVA_TOKENS = 128,
    LLAVA_LONG = 1024,
    VLMEVALKIT_TOKENS = 2048,
    LMMS_EVAL_TOKENS = 1024,
    COT_TOKENS = 16384,
    PRO_TOKENS = 4096,
};

const struct eval_set eval_sets[] = {
    { .name = "pope",
      .title = "POPE: does the picture show an object?",
      .files = "coco_pope_{random,popular,adversarial}.json, llava_pope_test.jsonl, POPE.tsv",
      .ways = { { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "pope-llava", &set_total_f1,
                  "llava/eval/eval_pope.py" },
                { "lmms-eval", prompt_short, SHORT_WORDS, 128, "pope-lmms-eval", NULL,
                  "tasks/pope/utils.py" },
                { "vlmevalkit", prompt_raw, "the question alone", VLMEVALKIT_TOKENS,
                  "yesno-vlmevalkit", &set_total_f1_all, "dataset/utils/yorn.py" } } },
    { .name = "mme",
      .title = "MME: two yes/no questions per picture, in 14 categories",
      .files = "llava_mme.jsonl, MME.tsv",
      .group = "picture",
      .ways = { { "lmms-eval", prompt_mme, SHORT_WORDS ", instead of \"Please answer yes or no.\"",
                  16, "mme-lmms-eval", &set_total_mme, "tasks/mme/utils.py" },
                { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "mme-lmms-eval", &set_total_mme,
                  "scripts/v1_5/eval/mme.sh (MME's calculation.py)" },
                { "vlmevalkit", prompt_raw, "the question alone", VLMEVALKIT_TOKENS,
                  "yesno-vlmevalkit", &set_total_mme, "dataset/utils/yorn.py" } } },
    { .name = "vqav2",
      .title = "VQAv2: short answers, compared with those of ten annotators",
      .files = "v2_OpenEnded_mscoco_val2014_questions.json with v2_mscoco_val2014_annotations.json "
               "beside it, llava_vqav2_mscoco_test-dev2015.jsonl",
      .ways = { { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "vqa-official", NULL,
                  "llava/eval/model_vqa_loader.py; vqaEval.py of GT-Vision-Lab/VQA" },
                { "lmms-eval", prompt_raw, SHORT_WORDS, 16, "vqa-lmms-eval", NULL,
                  "tasks/vqav2/utils.py", .after = SHORT } } },
    { .name = "textvqa",
      .title = "TextVQA: questions about text in pictures",
      .files =
          "TextVQA_0.5.1_val.json, llava_textvqa_val_v051_ocr.jsonl beside it, TextVQA_VAL.tsv",
      .ways = { { "llava", prompt_textvqa, SHORT_WORDS " with \"Reference OCR token:\" between",
                  LLAVA_TOKENS, "vqa-evalai", NULL, "llava/eval/eval_textvqa.py" },
                { "lmms-eval", prompt_capitalized, SHORT_WORDS ", the question capitalized",
                  LMMS_EVAL_TOKENS, "vqa-evalai", NULL, "tasks/textvqa/utils.py" },
                { "vlmevalkit", prompt_short, SHORT_WORDS, VLMEVALKIT_TOKENS, "vqa-vlmevalkit",
                  NULL, "dataset/utils/vqa_eval.py" } } },
    { .name = "coco",
      .title = "COCO captions: CIDEr",
      .files = "captions_val2017.json, dataset_coco.json (Karpathy's test split), COCO_VAL.tsv",
      .kind = "",
      .needs = "",
      .ways = { { "lmms-eval", prompt_caption_lmms_eval,
                  "\"Provide a one-sentence caption for the provided image.\"", 64, "cider", NULL,
                  "tasks/coco_cap/utils.py" },
                { "vlmevalkit", prompt_caption_vlmevalkit,
                  "\"Please describe this image in general. ...\"", VLMEVALKIT_TOKENS,
                  "cider-vlmevalkit", NULL, "dataset/image_caption.py" } } },
    { .name = "flickr30k",
      .title = "Flickr30k captions: CIDEr",
      .files = "dataset_flickr30k.json (Karpathy's test split); test-*.parquet (lmms-eval: 31783 "
               "pictures)",
      .kind = "",
      .needs = "",
      .ways = { { "lmms-eval", prompt_caption_lmms_eval,
                  "\"Provide a one-sentence caption for the provided image.\"", 64, "cider", NULL,
                  "tasks/flickr30k/utils.py" } } },
    { .name = "mmbench",
      .title = "MMBench: multiple choice on 20 abilities",
      .files = "mmbench_dev_20230712.tsv, MMBench_DEV_EN.tsv",
      .group = "rotation",
      .ways = { MCQ_VLMEVALKIT(&set_total_circular),
                { "llava", prompt_mmbench_llava, LETTER_WORDS, LLAVA_LONG, "mcq-vlmevalkit",
                  &set_total_circular, "llava/eval/model_vqa_mmbench.py; scored by a server",
                  LOST_REST },
                { "lmms-eval", prompt_mmbench_lmms_eval,
                  "hint, question, \"There are several options:\", \"A. ...\", \"Answer with the "
                  "option's letter from the given choices directly.\"",
                  LMMS_EVAL_TOKENS, "mmbench-lmms-eval", &set_total_circular,
                  "tasks/mmbench/mmbench_evals.py, static", LOST_MISSING } } },
    { .name = "mmstar",
      .title = "MMStar: multiple choice that cannot be answered without the picture",
      .files = "MMStar.tsv",
      .kind = "l2_category category",
      .ways = { { "lmms-eval", prompt_mmstar_lmms_eval,
                  "question, \"Options: A: ...\", \"Answer with the option's letter from the given "
                  "choices directly\"",
                  LMMS_EVAL_TOKENS, "mmstar-lmms-eval", &set_total_kinds, "tasks/mmstar/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "seed",
      .title = "SEED-Bench: multiple choice on 12 abilities",
      .files = "llava-seed-bench.jsonl, SEED-Bench.json, SEEDBench_IMG.tsv",
      .ways = { { "llava", prompt_letter, LETTER_WORDS, LLAVA_TOKENS, "mcq-exact", NULL,
                  "scripts/convert_seed_for_submission.py" },
                { "lmms-eval", prompt_letter, LETTER_WORDS, LMMS_EVAL_TOKENS, "seed-lmms-eval",
                  NULL, "tasks/seedbench/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "ocrbench",
      .title = "OCRBench: 1000 questions about text in pictures",
      .files = "OCRBench.tsv",
      .ways = { { "lmms-eval", prompt_question, "the question alone", 128, "ocrbench-lmms-eval",
                  NULL, "tasks/ocrbench/utils.py" },
                { "vlmevalkit", prompt_raw, "the question alone", VLMEVALKIT_TOKENS,
                  "ocrbench-vlmevalkit", NULL, "dataset/image_vqa.py" } } },
    { .name = "scienceqa",
      .title = "ScienceQA: multiple choice from school science",
      .files = "problems.json with pid_splits.json beside it, llava_test_CQM-A.json beside them, "
               "ScienceQA_TEST.tsv",
      .plain = true,
      .ways = { { "llava", prompt_letter, LETTER_WORDS, LLAVA_LONG, "scienceqa-llava", NULL,
                  "llava/eval/eval_science_qa.py" },
                { "lmms-eval", prompt_scienceqa_lmms_eval,
                  "\"Context: ...\", question, \"A. ...\", \"Answer with the option's letter from "
                  "the given choices directly.\"",
                  16, "scienceqa-lmms-eval", NULL, "tasks/scienceqa/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "ai2d",
      .title = "AI2D: multiple choice about diagrams",
      .files = "AI2D_TEST.tsv",
      .ways = { { "lmms-eval", prompt_scienceqa_lmms_eval,
                  "question, \"A. ...\", \"Answer with the option's letter from the given choices "
                  "directly.\"",
                  16, "ai2d-lmms-eval", NULL, "tasks/ai2d/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "mmmu",
      .title = "MMMU: questions on 30 college subjects",
      .files = "MMMU_DEV_VAL.tsv",
      .group = "split",
      .ways = { { "lmms-eval", prompt_mmmu_lmms_eval,
                  "question, \"A. ...\", the sentence of letters or of short answers", 128,
                  "mmmu-lmms-eval", &set_total_splits, "tasks/mmmu/utils.py", LOST_NONE,
                  MARKS_SELECT },
                { "vlmevalkit", prompt_mcq_vlmevalkit, VLMEVALKIT_WORDS, VLMEVALKIT_TOKENS,
                  "mmmu-vlmevalkit", &set_total_splits, "dataset/image_mcq.py", LOST_MISSING,
                  MARKS_ARE_PICTURES } } },
    { .name = "chartqa",
      .title = "ChartQA: questions about charts, relaxed accuracy",
      .files = "test-*.parquet, ChartQA_TEST.tsv, test_human.json",
      .kind = "type split human_or_machine",
      .ways = { { "lmms-eval", prompt_raw, "question, \"Answer the question with a single word.\"",
                  16, "relaxed", NULL, "tasks/chartqa/utils.py",
                  .after = "\nAnswer the question with a single word." },
                { "vlmevalkit", prompt_raw, SHORT_WORDS, VLMEVALKIT_TOKENS, "relaxed", NULL,
                  "dataset/utils/vqa_eval.py", .after = SHORT } } },
    { .name = "docvqa",
      .title = "DocVQA: questions about scanned documents, ANLS",
      .files = "validation-*.parquet, DocVQA_VAL.tsv",
      .ways = { { "lmms-eval", prompt_raw, SHORT_WORDS, 32, "anls", NULL,
                  "tasks/docvqa, api/metrics.py", .after = SHORT },
                { "vlmevalkit", prompt_raw, SHORT_WORDS, VLMEVALKIT_TOKENS, "anls", NULL,
                  "dataset/utils/vqa_eval.py", .after = SHORT } } },
    { .name = "infovqa",
      .title = "InfoVQA: questions about infographics, ANLS",
      .files = "validation-*.parquet, InfoVQA_VAL.tsv",
      .ways = { { "lmms-eval", prompt_raw, SHORT_WORDS, 32, "anls", NULL,
                  "tasks/infovqa, api/metrics.py", .after = SHORT },
                { "vlmevalkit", prompt_raw, SHORT_WORDS, VLMEVALKIT_TOKENS, "anls", NULL,
                  "dataset/utils/vqa_eval.py", .after = SHORT } } },
    { .name = "okvqa",
      .title = "OK-VQA: questions that need outside knowledge",
      .files = "val2014-*.parquet, OpenEnded_mscoco_val2014_questions.json with "
               "mscoco_val2014_annotations.json beside it",
      .ways = { { "lmms-eval", prompt_raw,
                  "question, \"When the provided information is insufficient, respond with "
                  "'Unanswerable'.\", \"Answer the question using a single word or phrase.\"",
                  LMMS_EVAL_TOKENS, "vqa-evalai", NULL, "tasks/ok_vqa/utils.py",
                  .after = "\nWhen the provided information is insufficient, respond with "
                           "'Unanswerable'." SHORT } } },
    { .name = "gqa",
      .title = "GQA: compositional questions about scenes",
      .files = "testdev-*.parquet of testdev_balanced_instructions, GQA_TestDev_Balanced.tsv, "
               "llava_gqa_testdev_balanced.jsonl with testdev_balanced_questions.json beside it",
      .ways = { { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "gqa-llava", NULL,
                  "scripts/convert_gqa_for_eval.py; GQA's eval.py" },
                { "lmms-eval", prompt_raw, SHORT_WORDS, 16, "gqa-lmms-eval", NULL, "tasks/gqa",
                  .after = SHORT },
                { "vlmevalkit", prompt_raw, SHORT_WORDS, VLMEVALKIT_TOKENS, "gqa-vlmevalkit", NULL,
                  "dataset/utils/vqa_eval.py", .after = SHORT } } },
    { .name = "hallusionbench",
      .title = "HallusionBench: yes/no questions about figures, original and edited",
      .files = "HallusionBench.json, HallusionBench.tsv, image-*.parquet",
      .group = "figure",
      .ways = { { "vlmevalkit", prompt_raw, "the question alone", VLMEVALKIT_TOKENS,
                  "yesno-vlmevalkit", &set_total_hallusion, "dataset/utils/yorn.py" } } },
    { .name = "realworldqa",
      .title = "RealWorldQA: questions about scenes seen from vehicles and elsewhere",
      .files = "test-*.parquet, RealWorldQA.tsv",
      .ways = { { "lmms-eval", prompt_question, "the question alone, which lists the choices", 16,
                  "realworldqa-lmms-eval", NULL, "tasks/realworldqa/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "mmmu-pro",
      .title = "MMMU-Pro, standard: questions on 30 college subjects with up to ten choices",
      .files = "test-*.parquet of standard (10 options) or standard (4 options), MMMU_Pro_10c.tsv",
      .ways = { { "official", prompt_lettered, "question, \"A. ...\", \"" PRO_LETTER "\"",
                  PRO_TOKENS, "mmmu-pro", NULL, "mmmu-pro/evaluate.py of MMMU", LOST_NONE,
                  MARKS_ARE_PICTURES, .after = "\n" PRO_LETTER },
                { "official-cot", prompt_lettered,
                  "question, \"A. ...\", \"Answer the preceding multiple choice question. ... "
                  "Think "
                  "step by step before answering.\"",
                  PRO_TOKENS, "mmmu-pro", NULL, "mmmu-pro/evaluate.py of MMMU", LOST_NONE,
                  MARKS_ARE_PICTURES,
                  .after =
                      "\nAnswer the preceding multiple choice question. " PRO_LAST_LINE PRO_STEPS },
                { "lmms-eval", prompt_lettered, "question, \"A. ...\", \"" PRO_LETTER "\"", 256,
                  "mmmu-lmms-eval", NULL, "tasks/mmmu_pro/utils.py", LOST_NONE, MARKS_SELECT,
                  .after = "\n\n" PRO_LETTER },
                { "lmms-eval-cot", prompt_lettered,
                  "question, \"A. ...\", \"... Think step by step before answering.\"", COT_TOKENS,
                  "mmmu-lmms-eval", NULL, "tasks/mmmu_pro/utils.py", LOST_NONE, MARKS_SELECT,
                  .after = "\n\nAnswer the following multiple choice question. " PRO_LAST_LINE
                      PRO_STEPS },
                { "vlmevalkit", prompt_options_vlmevalkit,
                  "\"Question:\", \"Options:\", \"Answer directly with the option letter from the "
                  "given choices.\"",
                  VLMEVALKIT_TOKENS, "mmmu-vlmevalkit", NULL, "dataset/image_mcq.py", LOST_MISSING,
                  MARKS_ARE_PICTURES,
                  .after = "Answer directly with the option letter from the given choices. " },
                { "vlmevalkit-cot", prompt_options_vlmevalkit,
                  "\"Question:\", \"Options:\", \"... Think step by step before answering.\"",
                  VLMEVALKIT_TOKENS, "mmmu-cot-vlmevalkit", NULL, "dataset/image_mcq.py",
                  LOST_MISSING, MARKS_ARE_PICTURES,
                  .after = "Answer the following multiple-choice question. " PRO_LAST_LINE
                           "the " PRO_STEPS " " } } },
    { .name = "mmmu-pro-vision",
      .title = "MMMU-Pro, vision: the same questions, written into the picture",
      .files = "test-*.parquet of vision, MMMU_Pro_V.tsv",
      .needs = "",
      .ways = { { "official", prompt_nothing,
                  "\"" PRO_LETTER " The last line of your response ...\"", PRO_TOKENS, "mmmu-pro",
                  NULL, "mmmu-pro/evaluate.py of MMMU",
                  .before = PRO_LETTER " " PRO_LAST_LINE "options." },
                { "official-cot", prompt_nothing,
                  "\"Write out the multiple-choice question in the image and then solve it. ...\"",
                  PRO_TOKENS, "mmmu-pro", NULL, "mmmu-pro/evaluate.py of MMMU",
                  .before = "Write out the multiple-choice question in the image and then solve "
                            "it. " PRO_LAST_LINE PRO_STEPS },
                { "lmms-eval", prompt_nothing, "\"" PRO_LETTER "\"", 256, "mcq-exact", NULL,
                  "tasks/mmmu_pro/utils.py", .before = PRO_LETTER },
                { "lmms-eval-cot", prompt_nothing,
                  "\"Write out the multiple-choice question in the image and then solve it. ...\"",
                  COT_TOKENS, "mcq-exact", NULL, "tasks/mmmu_pro/mmmu_pro_vision_cot.yaml",
                  .before = "Write out the multiple-choice question in the image and then solve "
                            "it. " PRO_LAST_LINE PRO_STEPS },
                { "vlmevalkit", prompt_nothing,
                  "\"Answer the following multiple-choice question in the image. ...\"",
                  VLMEVALKIT_TOKENS, "mmmu-vlmevalkit", NULL, "dataset/image_mcq.py", LOST_MISSING,
                  .before = "Answer the following multiple-choice question in the image. Answer "
                            "directly with the option letter from the given choices. " },
                { "vlmevalkit-cot", prompt_nothing,
                  "\"Answer the following multiple-choice question in the image. ... Think step by "
                  "step before answering.\"",
                  VLMEVALKIT_TOKENS, "mmmu-cot-vlmevalkit", NULL, "dataset/image_mcq.py",
                  LOST_MISSING,
                  .before = "Answer the following multiple-choice question in the "
                            "image. " PRO_LAST_LINE "the " PRO_STEPS " " } } },
    { .name = "blink",
      .title = "BLINK: multiple choice on 14 tasks of perception, up to four pictures",
      .files = "val-00000-of-00001.parquet of a task, BLINK.tsv",
      .kind = "sub_task category",
      .ways = { { "lmms-eval", prompt_blink_lmms_eval, NOTE_WORDS "the file's prompt",
                  LMMS_EVAL_TOKENS, "blink-lmms-eval", &set_total_kinds, "tasks/blink/utils.py" },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "muirbench",
      .title = "MuirBench: multiple choice about several pictures",
      .files = "test-*.parquet, MUIRBench.tsv",
      .kind = "task category",
      .ways = { { "lmms-eval", prompt_lettered, LETTER_WORDS, 16, "muirbench-lmms-eval", NULL,
                  "tasks/muirbench/utils.py", LOST_NONE, MARKS_IN_ORDER, .after = LETTER },
                { "vlmevalkit", prompt_muirbench_vlmevalkit, LETTER_WORDS, VLMEVALKIT_TOKENS,
                  "mcq-vlmevalkit", NULL, "dataset/image_mcq.py", LOST_MISSING,
                  MARKS_IN_ORDER } } },
    { .name = "cv-bench",
      .title = "CV-Bench: multiple choice on counting, relations, depth and distance",
      .files = "test_2d.parquet, test_3d.parquet, test.parquet, CV-Bench-2D.tsv, CV-Bench-3D.tsv",
      .kind = "source",
      .ways = { { "lmms-eval", prompt_cvbench_lmms_eval, NOTE_WORDS "the file's prompt",
                  LMMS_EVAL_TOKENS, "cvbench-lmms-eval", NULL, "tasks/cv_bench/utils.py" },
                { "vlmevalkit", prompt_ready, "the file's prompt", VLMEVALKIT_TOKENS,
                  "mcq-vlmevalkit", &set_total_kinds, "dataset/image_mcq.py", LOST_MISSING } } },
    { .name = "embspatial",
      .title = "EmbSpatial-Bench: spatial relations in rooms",
      .files = "test-*.parquet, EmbSpatialBench.tsv",
      .kind = "data_source",
      .ways = { { "lmms-eval", prompt_embspatial_lmms_eval, NOTE_WORDS "question, \"A) ...\"",
                  LMMS_EVAL_TOKENS, "cvbench-lmms-eval", NULL, "tasks/embspatial/utils.py",
                  .before = "Note: You only need to respond with A, B, C, D without providing any "
                            "additional information.\n" },
                { "vlmevalkit", prompt_embspatial_vlmevalkit,
                  "\"Question:\", \"Options:\", \"A: ...\", \"Give me the answer letter directly. "
                  "The "
                  "best answer is:\"",
                  VLMEVALKIT_TOKENS, "embspatial-vlmevalkit", NULL, "dataset/embspatialbench.py",
                  .after = "\nGive me the answer letter directly. The best answer is:" } } },
    { .name = "seed2-plus",
      .title = "SEED-Bench-2-Plus: multiple choice about charts, maps and web pages",
      .files = "test-*.parquet, SEEDBench2_Plus.tsv",
      .kind = "question_image_type category",
      .ways = { { "lmms-eval", prompt_seed2_lmms_eval, LETTER_WORDS, 16, "seed-lmms-eval", NULL,
                  "tasks/seedbench_2_plus/utils.py", .after = LETTER },
                MCQ_VLMEVALKIT(NULL) } },
    { .name = "mme-realworld",
      .title = "MME-RealWorld: five choices about large pictures",
      .files = "train-*.parquet (also Lite), MME-RealWorld.tsv, mme_realworld_lite.tsv",
      .ways = { { "lmms-eval", prompt_mmerealworld,
                  "question, \"The choices are listed below:\", \"(A) ...\", \"The best answer is: "
                  "\"",
                  16, "mmerealworld-lmms-eval", NULL, "tasks/mme_realworld/utils.py",
                  .after = EN_BEST "\nThe best answer is: " },
                { "vlmevalkit", prompt_mmerealworld,
                  "question, \"The choices are listed below:\", \"(A) ...\", \"The best answer "
                  "is:\"",
                  VLMEVALKIT_TOKENS, "mmerealworld-vlmevalkit", NULL, "dataset/image_mcq.py",
                  .after = EN_BEST " \nThe best answer is:" } } },
    { .name = "mme-realworld-cn",
      .title = "MME-RealWorld in Chinese",
      .files = "train-*.parquet, MME-RealWorld-CN.tsv",
      .ways = { { "lmms-eval", prompt_mmerealworld_cn,
                  "question, choices \"(A) ...\", the last sentence in Chinese", 16,
                  "mmerealworld-lmms-eval", NULL, "tasks/mme_realworld/utils.py",
                  .after = CN_BEST " " },
                { "vlmevalkit", prompt_mmerealworld_cn,
                  "question, choices \"(A) ...\", the last sentence in Chinese", VLMEVALKIT_TOKENS,
                  "mmerealworld-vlmevalkit", NULL, "dataset/image_mcq.py", .after = CN_BEST } } },
    { .name = "mmlu",
      .title = "MMLU: multiple choice without pictures, by likelihood of the letters",
      .files = "test/SUBJECT_test.csv with dev/SUBJECT_dev.csv (the first five rows are examples)",
      .plain = true,
      .ways = { { "lmms-eval", prompt_mmlu, "examples, question, \"A. ...\", \"Answer:\"", 1,
                  "loglik", NULL, "tasks/mmlu/default" } } },
    { .name = "hellaswag",
      .title = "HellaSwag: how does the text continue? By likelihood of the endings",
      .files = "hellaswag_val.jsonl",
      .kind = "source_id",
      .needs = "ctx",
      .plain = true,
      .ways = { { "lmms-eval", prompt_hellaswag, "activity and context", 1, "loglik", NULL,
                  "tasks/hellaswag/utils.py" } } },
    { .name = "chair",
      .title = "CHAIR: object hallucination in descriptions",
      .files = "instances_val2014.json, objects.jsonl of /scenes",
      .kind = "",
      .needs = "",
      .ways = { { "paper", prompt_chair, "\"Please describe this image in detail.\"", 512, "chair",
                  &set_total_chair, "Rohrbach et al. 2018 (arXiv 1809.02156), section 2" } } },
    { 0 },
};
