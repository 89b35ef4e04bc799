// kernels/record.cu -- records ops as a CUDA graph. One call replays the graph, so a repeated step
// (a token of an answer) costs the host a single call. A recording begins and ends on one GPU; the
// events of gpus->enter add other GPUs to it.
#include "kernels/cuda.h"

// A recorded graph, and the scratch addresses that its kernels use.
struct recording {
    cudaGraphExec_t run;
    const void *scratch[CUDA_GPUS_MOST];
};

static thread_local struct {
    bool on, failed;
    cudaStream_t stream;
} recording_now;

bool cuda_unrecordable(const char *what)
{
    if (!recording_now.on) return false;
    recording_now.failed = true;
    cuda_fail("%s cannot be part of a recording", what);
    return true;
}

static int start(void)
{
    const cudaStream_t stream = cuda_stream();
    const cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return cuda_fail("recording: %s", cudaGetErrorString(error));
    }
    recording_now = { true, false, stream };
    return 0;
}

static void *finish(void)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    cudaError_t error = cudaStreamEndCapture(recording_now.stream, &graph);
    const bool failed = recording_now.failed;
    recording_now = {};
    if (error == cudaSuccess && !failed) error = cudaGraphInstantiate(&run, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (error != cudaSuccess) cudaGetLastError(); // clears the error: later ops must not report it
    if (failed) return nullptr;
    if (error == cudaSuccess) {
        struct recording *r = new recording{ run, {} };
        for (int i = 0; i < CUDA_GPUS_MOST; i++) r->scratch[i] = cuda_scratch_of(i);
        return r;
    }
    cuda_fail("recording: %s", cudaGetErrorString(error));
    return nullptr;
}

static int play(void *recorded)
{
    const struct recording *r = static_cast<const struct recording *>(recorded);
    for (int i = 0; i < CUDA_GPUS_MOST; i++)
        if (r->scratch[i] != cuda_scratch_of(i)) return 1;
    const cudaError_t error = cudaGraphLaunch(r->run, cuda_stream());
    if (error == cudaSuccess) return cuda_started("playing");
    cudaGetLastError(); // clears the error: later ops must not report it
    return cuda_fail("playing: %s", cudaGetErrorString(error));
}

static void forget(void *recorded)
{
    struct recording *r = static_cast<struct recording *>(recorded);
    if (!r) return;
    cuda_stream();
    cudaGraphExecDestroy(r->run);
    delete r;
}

const struct recorder recorder_cuda = {
    .start = start, .finish = finish, .play = play, .forget = forget
};
