// core/files/safetensors_header.h -- the JSON header of a safetensors file, for
// core/files/safetensors.c only.
#ifndef CORE_FILES_SAFETENSORS_HEADER_H
#define CORE_FILES_SAFETENSORS_HEADER_H

#include "core/files/safetensors.h"

// Reads name, type, shape, offset and bytes of every tensor and the metadata into f, in file order.
// Checks syntax, types and each shape against its span, but not the layout of tensors relative to
// each other. After -1, f holds what was read so far (safetensors_close releases it).
int safetensors_header_read(struct safetensors *f, const char *text, size_t size, struct err *err);

#endif
