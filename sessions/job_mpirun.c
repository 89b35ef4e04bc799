// sessions/job_mpirun.c -- reads mpirun's messages about ranks that ended.
#include "sessions/job_mpirun.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// Bytes kept of a message or line: dashes that a rank prints may begin an endless message.
enum { MESSAGE_MOST = 1 << 14 };

// Reads the number after `words`. Returns the text after the number; NULL if there is no number.
static const char *number_after(const char *text, const char *words, int *number)
{
    const char *at = strstr(text, words);
    char *end;
    if (!at) return NULL;
    const long n = strtol(at + strlen(words), &end, 10);
    if (end == at + strlen(words) || n < 0 || n > INT_MAX) return NULL;
    *number = (int)n;
    return end;
}

// "mpirun noticed that process rank 1 with PID 42 on node a exited on signal 9 (Killed)."
static bool read_signal(struct mpirun_output *output, const char *message)
{
    int rank, signal;
    const char *rest = number_after(message, "noticed that process rank ", &rank);
    if (!rest || !number_after(rest, "exited on signal ", &signal)) return false;
    output->rank = rank;
    output->signal = signal;
    return true;
}

// "... The first process to do so was: Process name: [[1234,1],0] Exit code: 1", in version 5
// "Process name: [prterun-host-1234@1,0] Exit code: 1".
static void read_status(struct mpirun_output *output, const char *message)
{
    int rank, job, status;
    const char *name = strstr(message, "Process name: [");
    if (!name) return;
    const char *rest = name[strlen("Process name: [")] == '[' ? number_after(name, "],", &rank)
                                                              : number_after(name, "@", &job);
    if (rest && name[strlen("Process name: [")] != '[') rest = number_after(rest, ",", &rank);
    if (!rest) return;
    output->rank = rank;
    if (number_after(rest, "Exit code: ", &status)) output->status = status;
}

void mpirun_read(struct mpirun_output *output, const char *text, size_t size,
                 void (*other)(void *self, const char *line), void *self)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\n') {
            if (text[i] && output->line.length < MESSAGE_MOST) buf_putc(&output->line, text[i]);
            continue;
        }
        const char *line = output->line.data ? output->line.data : "";
        if (!strncmp(line, "--------------------", 20)) {
            // The end of a message. The first message that names a rank names the rank that ended
            // first.
            if (output->inside) {
                const char *message = output->block.data ? output->block.data : "";
                if (output->rank < 0 && !read_signal(output, message)) read_status(output, message);
                // "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD with errorcode 1.
                // ..." That rank may not have been the first to end.
                int rank;
                if (output->aborted < 0 &&
                    number_after(message, "MPI_ABORT was invoked on rank ", &rank))
                    output->aborted = rank;
                if (!output->message.length) buf_puts(&output->message, message);
                buf_clear(&output->block);
            }
            output->inside = !output->inside;
        } else if (output->inside) {
            // Joins words by single spaces, so that line breaks do not matter.
            struct buf *b = &output->block;
            for (; *line && b->length < MESSAGE_MOST; line++) {
                if (!isspace((unsigned char)*line))
                    buf_putc(b, *line);
                else if (b->length && b->data[b->length - 1] != ' ')
                    buf_putc(b, ' ');
            }
            if (b->length && b->data[b->length - 1] != ' ') buf_putc(b, ' ');
        } else {
            other(self, line);
        }
        buf_clear(&output->line);
    }
}

void mpirun_output_release(struct mpirun_output *output)
{
    buf_release(&output->message);
    buf_release(&output->line);
    buf_release(&output->block);
    *output = MPIRUN_NO_OUTPUT;
}
