// kernels/record.cu -- ops noted once as a CUDA graph, which runs them again with one call: what a
// step that is always the same (a token of an answer) costs on the host is that call. It begins and
// ends on one GPU; others are drawn in by the events of gpus->enter.
#include "kernels/cuda.h"

// Where the scratch lay when the ops were noted: they use it again.
struct recording {
    cudaGraphExec_t run;
    const void *scratch[CUDA_GPUS_MOST];
};

static thread_local struct {
    bool on, failed;
    cudaStream_t stream;
} noting;

bool cuda_unrecordable(const char *what)
{
    if (!noting.on) return false;
    noting.failed = true;
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
    noting = { true, false, stream };
    return 0;
}

static void *finish(void)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    cudaError_t error = cudaStreamEndCapture(noting.stream, &graph);
    const bool failed = noting.failed;
    noting = {};
    if (error == cudaSuccess && !failed) error = cudaGraphInstantiate(&run, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (error != cudaSuccess) cudaGetLastError(); // it is told here: no later op failed
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
    cudaGetLastError(); // it is told here: no later op failed
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
