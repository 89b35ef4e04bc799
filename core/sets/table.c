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

// VLMEvalKit asks and scores most multiple-choice sets alike.
#define MCQ_VLMEVALKIT(total)                                                         \
    {                                                                                 \
        "vlmevalkit", prompt_mcq_vlmevalkit, VLMEVALKIT_WORDS, VLMEVALKIT_TOKENS,     \
            "mcq-vlmevalkit", total, "dataset/utils/multiple_choice.py", LOST_MISSING \
    }

enum { LLAVA_TOKENS = 128, LLAVA_LONG = 1024, VLMEVALKIT_TOKENS = 2048, LMMS_EVAL_TOKENS = 1024 };

const struct eval_set eval_sets[] = {
    { .name = "pope",
      .title = "POPE: does the picture show an object?",
      .files = "coco_pope_{random,popular,adversarial}.json, llava_pope_test.jsonl, POPE.tsv",
      .ways = { { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "pope-llava", &set_total_f1,
                  "llava/eval/eval_pope.py" },
                { "lmms-eval", prompt_short, SHORT_WORDS, 128, "pope-lmms-eval", NULL,
                  "tasks/pope/utils.py" },
                { "vlmevalkit", prompt_question, "the question alone", VLMEVALKIT_TOKENS,
                  "yesno-vlmevalkit", &set_total_f1_all, "dataset/utils/yorn.py" } } },
    { .name = "mme",
      .title = "MME: two yes/no questions per picture, in 14 categories",
      .files = "llava_mme.jsonl, MME.tsv",
      .group = "picture",
      .ways = { { "lmms-eval", prompt_mme, SHORT_WORDS ", instead of \"Please answer yes or no.\"",
                  16, "mme-lmms-eval", &set_total_mme, "tasks/mme/utils.py" },
                { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "mme-lmms-eval", &set_total_mme,
                  "scripts/v1_5/eval/mme.sh (MME's calculation.py)" },
                { "vlmevalkit", prompt_question, "the question alone", VLMEVALKIT_TOKENS,
                  "yesno-vlmevalkit", &set_total_mme, "dataset/utils/yorn.py" } } },
    { .name = "vqav2",
      .title = "VQAv2: short answers, compared with those of ten annotators",
      .files = "v2_OpenEnded_mscoco_val2014_questions.json with v2_mscoco_val2014_annotations.json "
               "beside it, llava_vqav2_mscoco_test-dev2015.jsonl",
      .ways = { { "llava", prompt_short, SHORT_WORDS, LLAVA_TOKENS, "vqa-official", NULL,
                  "llava/eval/model_vqa_loader.py; vqaEval.py of GT-Vision-Lab/VQA" },
                { "lmms-eval", prompt_short, SHORT_WORDS, 16, "vqa-lmms-eval", NULL,
                  "tasks/vqav2/utils.py" } } },
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
      .kind = "l2_category",
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
                { "vlmevalkit", prompt_question, "the question alone", VLMEVALKIT_TOKENS,
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
