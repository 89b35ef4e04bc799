// core/train/trained.h -- how the adapter or model in use was trained, and what differs now.
//
//   trained_say(folder, adapter, false, settings, sinks);  // notices
#ifndef CORE_TRAIN_TRAINED_H
#define CORE_TRAIN_TRAINED_H

#include "core/base/event.h"
#include "core/base/json.h"

struct adapter;
struct settings;

// Reads the record of the run that made this adapter, model or checkpoint; NULL: none, or
// unreadable. The caller frees it.
cJSON *trained_record(const char *folder);
// Emits a notice for each method that acted in training but is off, and one that names the settings
// of pictures, prompts and these methods that differ from those in training, unless it was `said`
// of the model in this folder. `a`: the adapter in the folder; NULL: the folder is the model's.
void trained_say(const char *folder, const struct adapter *a, bool said, const struct settings *s,
                 struct sinks *sinks);
// Emits a notice that names settings of the run, other than train.*, without which another run
// trains something else.
void trained_say_unset(const char *folder, const struct settings *s, struct sinks *sinks);

#endif
