// core/eval/ask_file.h -- the files of /ask --data: questions in, one JSON line per answer out.
//
//   struct ask_data data;
//   struct ask_output out = { .file = -1 };
//   if (ask_data_read(&data, "questions.json", NULL, &err) < 0) ...
//   if (ask_output_open(&out, "answers.jsonl", &provenance, &err) < 0) ...
//   const int64_t there = ask_mark_done(&data, &out, &err);     // data.list[i].done
//   ask_output_write(&out, text, length, &err);                 // whole lines, durable
//   ask_output_release(&out);
//   ask_data_release(&data);
//
// A sample is identified by its id and the number of earlier samples with that id, so that samples
// with the same id are kept apart. An output file whose lines have no provenance or a different
// one, or different questions or pictures, is an error. A line that a crash has cut off is removed.
#ifndef CORE_EVAL_ASK_FILE_H
#define CORE_EVAL_ASK_FILE_H

#include "core/adapter/provenance.h"
#include "core/data/dataset.h"

struct ask_question {
    char *key;     // id as JSON
    int64_t index; // in the data
    bool done;     // the output has it
};

struct ask_data {
    struct dataset set;
    struct ask_question *list; // [set.count]
};

// A line of the existing output.
struct ask_line {
    char *key;      // id
    char *question; // NULL: a sample that could not be read
    char *pictures; // SHA-256 of each, followed by a space; NULL: an error line
    size_t number;  // of the line, from 1
};

struct ask_output {
    int file; // locked while open; -1: none
    const char *path;
    const struct provenance *now; // provenance of new lines; NULL: existing lines will be replaced
    bool earlier;                 // an earlier version wrote some lines (provenance_earlier)
    bool temporary;               // written by --again until it replaces --out
    struct ask_line *lines;       // sorted by id
    size_t count;
};

int ask_data_read(struct ask_data *d, const char *path, const char *images, struct err *err);
void ask_data_release(struct ask_data *d);

// Opens and locks the output, and reads its lines. `now` NULL: accepts lines of any provenance.
// path and now must outlive *o.
int ask_output_open(struct ask_output *o, const char *path, const struct provenance *now,
                    struct err *err);
void ask_output_release(struct ask_output *o);
// Appends whole lines: either all reach the disk, or the file is truncated to its former size.
int ask_output_write(const struct ask_output *o, const char *text, size_t length, struct err *err);

// Marks one sample as done for each line with its id. Returns the number of marked samples, or -1.
int64_t ask_mark_done(struct ask_data *d, const struct ask_output *o, struct err *err);

#endif
