// core/train/jobs_list.h -- the kinds of jobs. X(NAME): core/train/NAME.c, or the file of its
// subject, defines `const struct job_kind job_kind_NAME`.
#ifndef CORE_TRAIN_JOBS_LIST_H
#define CORE_TRAIN_JOBS_LIST_H

#define JOB_KINDS(X) \
    X(train)         \
    X(sweep)         \
    X(evaluate)      \
    X(calibrate)     \
    X(compare)

#endif
