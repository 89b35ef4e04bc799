// tests/sessions/job_mpirun.c -- the messages of mpirun of Open MPI 4 and 5.
#include "sessions/job_mpirun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define DASHES "--------------------------------------------------------------------------\n"

static void other(void *self, const char *line)
{
    buf_printf(self, "%s\n", line);
}

// Reads the text in pieces of `step` bytes.
static void read_all(const char *text, size_t step, struct mpirun_output *output,
                     struct buf *others)
{
    *output = MPIRUN_NO_OUTPUT;
    buf_clear(others);
    for (size_t at = 0; at < strlen(text); at += step) {
        const size_t left = strlen(text) - at;
        mpirun_read(output, text + at, left < step ? left : step, other, others);
    }
}

static const struct {
    const char *text;
    int rank, signal, status;
    const char *message, *others; // the beginning of the message; lines printed by the ranks
} cases[] = {
    // Open MPI 4: a rank was killed. Versions up to 2 break the line as in the second case.
    { DASHES "Primary job  terminated normally, but 1 process returned\n"
             "a non-zero exit code. Per user-direction, the job has been aborted.\n" DASHES DASHES
             "mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 "
             "(Killed).\n" DASHES,
      3, 9, 0, "Primary job terminated normally, but", "" },
    { "from a rank\n" DASHES "mpirun noticed that process rank 1 with PID 42 on node vm exited on\n"
      "signal 11 (Segmentation fault).\n" DASHES "from another\n",
      1, 11, 0, "mpirun noticed that process rank 1", "from a rank\nfrom another\n" },
    { DASHES
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[35478,1],2]\n  Exit code:    3\n" DASHES,
      2, 0, 3, "mpirun detected that one or more", "" },
    // MPI_Abort names a rank too, but the text after it names the rank that ended first.
    { DASHES
      "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
      "with errorcode 1.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI "
      "processes.\n" DASHES DASHES
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[2,1],1]\n  Exit code:    1\n" DASHES,
      1, 0, 1, "MPI_ABORT was invoked on rank 1", "" },
    // Open MPI 5.
    { DASHES "prterun noticed that process rank 2 with PID 97312 on node node-7 exited on\n"
             "signal 9 (Killed).\n" DASHES,
      2, 9, 0, "prterun noticed that process rank 2", "" },
    { DASHES "prterun detected that one or more processes exited with non-zero status,\n"
             "thus causing the job to be terminated. The first process to do so was:\n\n"
             "   Process name: [prterun-node-7-97300@1,5] Exit code:    139\n" DASHES,
      5, 0, 139, "prterun detected that one or more", "" },
    // A message that does not mention ranks.
    { DASHES "There are not enough slots available in the system to satisfy the 4\n"
             "slots that were requested by the application:\n\n  ./vlmsh\n" DASHES,
      -1, 0, 0, "There are not enough slots available in the system to satisfy the 4 slots", "" },
    { "process rank 4 with PID 1 exited on signal 9\nProcess name: [[1,1],0]\n", -1, 0, 0, "",
      "process rank 4 with PID 1 exited on signal 9\nProcess name: [[1,1],0]\n" },
    { DASHES "Process name: [[1,1],99999999999]\n" DASHES DASHES
             "Process name: [x@1]\n" DASHES DASHES
             "noticed that process rank -1 exited on signal 9\n" DASHES,
      -1, 0, 0, "Process name: ", "" },
};

// The rank that called MPI_Abort is kept apart from the rank named by other messages.
static void aborted(void **state)
{
    static const char text[] =
        DASHES "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n"
               "with errorcode 1.\n" DASHES;
    struct mpirun_output output;
    struct buf others = { 0 };
    read_all(text, 7, &output, &others);
    assert_int_equal(output.rank, -1);
    assert_int_equal(output.aborted, 3);
    mpirun_output_release(&output);
    assert_int_equal(output.aborted, -1);
    buf_release(&others);
}

static void messages(void **state)
{
    struct mpirun_output output;
    struct buf others = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 200; step = 3 * step + 1) {
            read_all(cases[i].text, step, &output, &others);
            assert_int_equal(output.rank, cases[i].rank);
            assert_int_equal(output.signal, cases[i].signal);
            assert_int_equal(output.status, cases[i].status);
            const char *message = output.message.data ? output.message.data : "";
            assert_memory_equal(message, cases[i].message,
                                strlen(cases[i].message) + !*cases[i].message);
            assert_string_equal(others.data ? others.data : "", cases[i].others);
            mpirun_output_release(&output);
        }
    buf_release(&others);
}

// A rank that prints a line of dashes opens a message that never ends: memory stays bounded.
static void endless(void **state)
{
    struct mpirun_output output = MPIRUN_NO_OUTPUT;
    struct buf others = { 0 };
    mpirun_read(&output, DASHES, strlen(DASHES), other, &others);
    for (int i = 0; i < 100000; i++) mpirun_read(&output, "word word\n", 10, other, &others);
    assert_true(output.block.length < 20000);
    mpirun_output_release(&output);
    buf_release(&others);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(messages), cmocka_unit_test(aborted),
                                        cmocka_unit_test(endless) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
