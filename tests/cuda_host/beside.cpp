// tests/cuda_host/beside.cpp -- runs the copies of an emulated GPU's second stream as late as
// possible.
#include "beside.h"

static void add(cuda_host_beside *b, const cuda_host_task &task)
{
    b->tasks.push_back(task);
    b->asked++;
}

// The stream's copies from the memory must be done before it is filled with NaNs.
void cuda_host_beside_copy(cuda_host_beside *b, void *to, const void *from, size_t size,
                           bool to_gpu)
{
    if (cuda_host_how() != CUDA_HOST_ALL) return; // nothing is computed
    if (to_gpu) {
        cuda_host_beside_end(b);
        cuda_host_access access;
        memset(to, 0xff, size);
    }
    add(b, { static_cast<char *>(to), static_cast<const char *>(from), size, nullptr, 0 });
}

void cuda_host_beside_order(cuda_host_beside *b, cuda_host_beside *other, long until)
{
    if (b != other) add(b, { nullptr, nullptr, 0, other, until });
}

void cuda_host_beside_end(cuda_host_beside *b, long until)
{
    while (b->done < until && !b->tasks.empty()) {
        const cuda_host_task task = b->tasks.front();
        b->tasks.pop_front();
        b->done++;
        if (task.other) {
            cuda_host_beside_end(task.other, task.until);
        } else {
            cuda_host_access access;
            memcpy(task.to, task.from, task.size);
        }
    }
}
