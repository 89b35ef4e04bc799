// tests/cuda_host/counts.cpp -- chooses which blocks of a kernel run ($CUDA_HOST_DRY), and counts
// memory and work ($CUDA_HOST_REPORT).
#include <stdio.h>
#include <stdlib.h>

#include <set>
#include <tuple>

#include "cuda_runtime.h"

namespace
{

enum { GPUS_MOST = 8 };
constexpr size_t LARGE = 1 << 20, SMALLEST = 512;

struct tally {
    int64_t held, most; // bytes allocated now, and the peak
    long kernels, products, odd, copies;
    double copied;
} tallies[GPUS_MOST];

using grid_of_kernel =
    std::tuple<const void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned>;

bool is_new(const grid_of_kernel &g)
{
    static std::set<grid_of_kernel> seen;
    return seen.insert(g).second;
}

void report(void)
{
    FILE *const f = fopen(getenv("CUDA_HOST_REPORT"), "ae");
    for (int i = 0; f && i < GPUS_MOST; i++) {
        const tally &t = tallies[i];
        if (t.most)
            fprintf(f,
                    "{\"gpu\":%d,\"most\":%lld,\"kernels\":%ld,\"products\":%ld,"
                    "\"odd_products\":%ld,\"copies\":%ld,\"copied\":%.0f}\n",
                    i, (long long)t.most, t.kernels, t.products, t.odd, t.copies, t.copied);
    }
    if (f) fclose(f);
}
} // namespace

dim3::dim3(size_t x_, size_t y_, size_t z_) : x((unsigned)x_), y((unsigned)y_), z((unsigned)z_)
{
    if (x_ == x && y_ == y && z_ == z) return;
    fprintf(stderr, "a grid of %zu x %zu x %zu exceeds 32-bit dimensions\n", x_, y_, z_);
    abort();
}

cuda_host_run cuda_host_mode(void)
{
    static const char *const said = getenv("CUDA_HOST_DRY");
    if (!said || !strcmp(said, "0")) return CUDA_HOST_ALL;
    return strcmp(said, "corners") ? CUDA_HOST_NOTHING : CUDA_HOST_CORNERS;
}

void cuda_host_submit(dim3 grid, dim3 block, size_t dynamic, const void *kernel,
                      const std::function<void()> &call)
{
    const auto run = [=]() {
        if (cuda_host_mode() == CUDA_HOST_ALL)
            cuda_host_launch(grid, block, dynamic, call);
        else if (cuda_host_mode() == CUDA_HOST_CORNERS &&
                 is_new({ kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z }))
            cuda_host_launch_corners(grid, block, dynamic, call);
    };
    if (!cuda_host_capture(run)) run();
}

// --- counts --------------------------------------------------------------------------------------

// Rounds as the driver does: large allocations to 2 MB, small ones to 512 bytes.
void cuda_host_allocated(int gpu, int64_t bytes)
{
    static const bool wanted = getenv("CUDA_HOST_REPORT") && atexit(report) == 0;
    const int64_t size = bytes < 0 ? -bytes : bytes;
    const int64_t unit = size > (int64_t)LARGE ? (int64_t)(2 * LARGE) : (int64_t)SMALLEST;
    const int64_t rounded = (size + unit - 1) / unit * unit;
    tally &t = tallies[gpu];
    t.held += bytes < 0 ? -rounded : rounded;
    if (wanted && t.held > t.most) t.most = t.held;
}

void cuda_host_started(int gpu)
{
    tallies[gpu].kernels++;
}

void cuda_host_multiplied(int gpu, bool odd)
{
    tallies[gpu].products++;
    tallies[gpu].odd += odd;
}

void cuda_host_copied(int gpu, size_t size)
{
    tallies[gpu].copies++;
    tallies[gpu].copied += (double)size;
}
