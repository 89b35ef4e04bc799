// core/picture/source.h -- the source of a picture: a path, file://, a data: URI or bare base64
// with the file's bytes. Web URLs are refused: vlmsh downloads nothing.
//
//   char *name = picture_source(text, folder);            // as data sets write it
//   char *bytes = picture_source_read(name, limit, &size, &err);
//   char *title = picture_source_title(name);             // for messages: never a whole data: URI
#ifndef CORE_PICTURE_SOURCE_H
#define CORE_PICTURE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

// Endings of picture files' names (text_ends_with_any).
extern const char *const picture_endings[];
// Resolves `text` to a source: a path, prefixed with `folder` unless it is absolute or `folder` is
// "."; the path of a file:// URI; a data: URI or a URL unchanged; bare base64 as a data: URI. The
// caller frees the texts that this and the other functions return.
char *picture_source(const char *text, const char *folder);
// Converts "file:///a%20b" to a path; returns other text unchanged.
char *picture_source_path(const char *text);
bool picture_source_is_url(const char *name);  // begins with SCHEME://
bool picture_source_is_file(const char *name); // neither a data: URI nor a URL
// Shortens long names: "data:image/png;base64,iVBORw0KGgo... (6024 characters)".
char *picture_source_title(const char *name);
// Returns the bytes of the file, or of that file in an archive (core/picture/zipped.h). NULL on
// error, with a message that names the source.
char *picture_source_read(const char *name, size_t limit, size_t *size, struct err *err);

#endif
