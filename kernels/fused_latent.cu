#include "kernels/fused_cuda.h"
int fused_latent_cuda(const struct fused_latent *p)
{
    return FUSED_NOT;
}
