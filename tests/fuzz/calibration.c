// tests/fuzz/calibration.c -- reads arbitrary bytes as a calibration, directly and through the
// settings of methods and probes. The file is refused, or its sums can be read, shown and added to
// themselves.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/engine/proposal.h"
#include "core/methods/calibration.h"
#include "core/model/model.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"
#include "kernels/backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void read_file(const char *path, const struct model *m)
{
    const struct sinks nobody = { 0 };
    struct calibration c;
    struct err err;
    if (calibration_open(&c, path, &err) < 0) return;
    (void)calibration_fits(&c, m, &err);
    calibration_free(calibration_read(&c, &err));
    calibration_show(&c, &nobody);
    calibration_close(&c);
}

// Uses the file in the settings of methods and probes.
static void use_file(const char *path, struct model *m)
{
    static const char *const keys[] = { "ffn.calibration", "sinks.calibration",
                                        "norms.calibration" };
    struct settings *s = settings_new();
    struct err err;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct change list[] = { { keys[i], path },
                                       { "ffn.approx", i ? "off" : "hadamard" } };
        struct proposal p = { .from = s, .env = { .model = m, .backend = backend_cpu() } };
        (void)proposal_check(&p, list, 2, &err);
        proposal_release(&p);
    }
    settings_free(s);
}

static struct model *model;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct err err;
    if (!(model = model_load("tests/goldens/llava-1.5", backend_cpu(), NULL, &err))) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    char path[64], out[64];
    const int file = memfd_create("calibration", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(out, sizeof out, "/dev/shm/vlmsh-fuzz-%d", (int)getpid());
    read_file(path, model);
    use_file(path, model);
    (void)calibration_merge((const char *[]){ path, path }, 2, out, &err);
    unlink(out);
    close(file);
    return 0;
}
