// tests/fuzz/job_folder.c -- reads arbitrary bytes as each file of a job's folder: its
// specification, reports, request, the line of a rank, and the state of a comparison.
#include "core/base/folder.h"
#include "core/eval/compare_data.h"
#include "sessions/job_channel.h"
#include "sessions/job_internal.h"
#include "sessions/job_ranks.h"
#include "tests/fuzz/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_folder(const char *folder)
{
    struct job_channel channel;
    struct job_row row;
    struct job_rank *ranks;
    struct compared_data compared;
    enum job_state state;
    struct err err;
    char *message = NULL, *compare = xasprintf("%s/compare.jsonl", folder);
    if (job_channel_of_folder(&channel, folder, 7, &err) == 0) {
        if (job_channel_read(&channel, &row, &err) == 0) job_row_release(&row);
        job_channel_release(&channel);
    }
    (void)job_reports_state(folder, &state, &message);
    (void)job_request_read(folder);
    (void)job_ranks_read(folder, &ranks);
    if (compare_data_read(compare, &compared, &err) == 0) compared_data_release(&compared);
    free(ranks);
    free(message);
    free(compare);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const names[] = { "order.json", "reports.jsonl", "asked", "rank-0",
                                         "compare.jsonl" };
    char *folder = files_folder();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        files_put(folder, names[i], bytes, size);
    read_folder(folder);
    folder_remove(folder);
    free(folder);
    return 0;
}
