// core/sets/prompt.h -- the suites' prompts; each function appends the prompt of a record.
#ifndef CORE_SETS_PROMPT_H
#define CORE_SETS_PROMPT_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct set_record;

typedef void set_prompt(struct set_record *r, struct buf *to);

set_prompt prompt_nothing;     // nothing: the prompt is `before` and `after` of struct set_way
set_prompt prompt_raw;         // the question
set_prompt prompt_question;    // the question, without white space around it
set_prompt prompt_ready;       // the column "prompt"
set_prompt prompt_short;       // the question, "Answer the question using a single word or phrase."
set_prompt prompt_mme;         // like prompt_short, without "Please answer yes or no."
set_prompt prompt_textvqa;     // like prompt_short, with a line of OCR tokens if there are any
set_prompt prompt_capitalized; // like prompt_short, with only the first letter in upper case
set_prompt prompt_caption_lmms_eval;
set_prompt prompt_caption_vlmevalkit;
set_prompt prompt_chair;
// Which choices a prompt leaves out. LOST_MISSING: choices whose text a suite's table reads as
// missing (None, NA, an empty cell). LOST_REST: the first missing choice and all after it (LLaVA's
// MMBench). LOST_MARKED: choices that are empty or that lmms-eval's files mark with "nan"; in the
// tables from which those files were made, all missing choices.
enum prompt_lost { LOST_NONE, LOST_MISSING, LOST_REST, LOST_MARKED };
// How a suite treats marks of pictures in a question. MARKS_ARE_TEXT: all pictures precede the
// text. MARKS_SELECT: only pictures with a mark "<image 2>" precede the text, or all if there is no
// mark. MARKS_ARE_PICTURES: a picture replaces each of its marks. MARKS_IN_ORDER: pictures replace
// plain marks "<image>" in order.
enum set_marks { MARKS_ARE_TEXT, MARKS_SELECT, MARKS_ARE_PICTURES, MARKS_IN_ORDER };

set_prompt prompt_letter;        // hint, question, "A. ...", "Answer with the option's letter"
set_prompt prompt_mmbench_llava; // like prompt_letter, up to the first missing choice
set_prompt prompt_mmbench_lmms_eval;
set_prompt prompt_mmstar_lmms_eval;
set_prompt prompt_scienceqa_lmms_eval;
set_prompt prompt_mmmu_lmms_eval;
set_prompt prompt_mcq_vlmevalkit;        // "Hint: Question: Options: Please select ..."
set_prompt prompt_lettered;              // question, "A. ..."
set_prompt prompt_seed2_lmms_eval;       // like prompt_lettered, "<image>" for picture choices
set_prompt prompt_options_vlmevalkit;    // "Question:", "Options:", "A. ..."
set_prompt prompt_mvbench;               // "Question:", "Option:", "(A) ..."
set_prompt prompt_muirbench_vlmevalkit;  // question, "A. ...", "Answer with the option's letter"
set_prompt prompt_blink_lmms_eval;       // "Note: You only need to respond with A, B ...", "prompt"
set_prompt prompt_cvbench_lmms_eval;     // like prompt_blink_lmms_eval, after an empty line
set_prompt prompt_embspatial_lmms_eval;  // question, "A) ..."
set_prompt prompt_embspatial_vlmevalkit; // "Question:", "Options:", "A: ..."
set_prompt prompt_mmerealworld;          // question, "The choices are listed below:", "(A) ..."
set_prompt prompt_mmerealworld_cn;       // like prompt_mmerealworld, in Chinese
set_prompt prompt_mmlu;                  // with five examples, if there are any
set_prompt prompt_hellaswag;             // activity and context

// Appends a few-shot example of MMLU, with its answer, as lm-evaluation-harness writes it; the
// first example starts with a line about the subject ("category").
void prompt_add_shot(struct set_record *r, struct buf *to);

// Returns the [*count] texts of the choices, which live as long as the record: a list "choices",
// "endings", "answer_options" or "options", which may be a Python list as text, or columns A, B ...
// up to the last one that has a text or that the answer names (absent ones are ""). HellaSwag's
// endings are cleaned as in lm-evaluation-harness.
const char **prompt_choices(struct set_record *r, size_t *count);
// Returns -1 with a message if the record has choices in a form that prompt_choices cannot read.
int prompt_check_choices(const struct set_record *r, struct err *err);
// Returns LOST_MISSING instead of LOST_MARKED if the record is from a table, otherwise `lost`.
enum prompt_lost prompt_lost_of(const struct set_record *r, enum prompt_lost lost);
bool prompt_is_lost(const char *text, enum prompt_lost lost);
// Returns the number of choices that a prompt leaves out.
int prompt_count_lost(const char *const *choices, size_t count, enum prompt_lost lost);

#endif
