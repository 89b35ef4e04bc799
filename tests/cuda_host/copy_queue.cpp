// tests/cuda_host/copy_queue.cpp -- runs the copies of an emulated GPU's second stream as late as
// possible.
#include "copy_queue.h"

static void add(cuda_host_queue *b, const cuda_host_task &task)
{
    b->tasks.push_back(task);
    b->requested++;
}

// Finishes earlier copies first: they may read the memory that is filled with NaNs here.
void cuda_host_queue_copy(cuda_host_queue *b, void *to, const void *from, size_t size, bool to_gpu)
{
    if (cuda_host_mode() != CUDA_HOST_ALL) return; // a dry run
    if (to_gpu) {
        cuda_host_queue_run(b);
        cuda_host_access access;
        memset(to, 0xff, size);
    }
    add(b, { static_cast<char *>(to), static_cast<const char *>(from), size, nullptr, 0 });
}

void cuda_host_queue_order(cuda_host_queue *b, cuda_host_queue *other, long until)
{
    if (b != other) add(b, { nullptr, nullptr, 0, other, until });
}

void cuda_host_queue_run(cuda_host_queue *b, long until)
{
    while (b->done < until && !b->tasks.empty()) {
        const cuda_host_task task = b->tasks.front();
        b->tasks.pop_front();
        b->done++;
        if (task.other) {
            cuda_host_queue_run(task.other, task.until);
        } else {
            cuda_host_access access;
            memcpy(task.to, task.from, task.size);
        }
    }
}
