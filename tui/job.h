// tui/job.h -- `vlmsh job`: runs a job in this process, or lists them.
#ifndef TUI_JOB_H
#define TUI_JOB_H

#include "core/base/err.h"

int job_word_run(int argc, char **argv, struct err *err); // an exit status

#endif
