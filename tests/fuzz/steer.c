// tests/fuzz/steer.c -- reads arbitrary bytes as a file of steering vectors, safetensors or GGUF:
// it is refused, or can be described, added to a model's sum and copied to both formats.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/methods/steer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_file(const char *path)
{
    enum { LAYERS = 4, WIDTH = 3 };
    float sum[LAYERS * WIDTH] = { 0 };
    bool there[LAYERS] = { 0 };
    struct steer_about about;
    struct err err;
    (void)steer_about(&about, path, &err);
    steer_about_release(&about);
    (void)steer_read(path, -2.5, LAYERS, WIDTH, sum, there, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const bool gguf = size >= 4 && !memcmp(bytes, "GGUF", 4);
    char path[64], out[2][64];
    struct err err;
    snprintf(path, sizeof path, "/dev/shm/vlmsh-fuzz-%d.%s", (int)getpid(),
             gguf ? "gguf" : "safetensors");
    snprintf(out[0], sizeof out[0], "/dev/shm/vlmsh-fuzz-%d-copy.gguf", (int)getpid());
    snprintf(out[1], sizeof out[1], "/dev/shm/vlmsh-fuzz-%d-copy.safetensors", (int)getpid());
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    close(file);
    read_file(path);
    for (int i = 0; i < 2; i++) {
        (void)steer_convert(path, out[i], &err);
        unlink(out[i]);
    }
    unlink(path);
    return 0;
}
