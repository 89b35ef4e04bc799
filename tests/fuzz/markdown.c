// tests/fuzz/markdown.c -- renders arbitrary text as an answer at widths below 100: the bytes of
// the output come from the text in its order, and indents fit the width.
#include <stdlib.h>
#include <string.h>

#include "tui/markdown.h"
#include "tui/wrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) return 0;
    const int width = bytes[0] % 100;
    const size_t length = strnlen((const char *)bytes + 1, size - 1);
    char *text = xstrndup((const char *)bytes + 1, length);
    struct remark remark = { length / 2, "remark" };
    struct markdown m = { 0 };
    markdown_render(&m, text, &remark, 1, width,
                    bytes[0] & 128 ? MARKDOWN_ON : MARKDOWN_ON | MARKDOWN_ASCII);
    for (size_t i = 0; i < m.text.length; i++)
        if (m.from[i] > length || m.styles[i] >= STYLE_COUNT || (i && m.from[i] < m.from[i - 1]))
            abort();
    struct wrap w = wrap_begin_marked(m.text.data ? m.text.data : "", width);
    while (wrap_next(&w))
        if (w.indent > width) abort();
    markdown_release(&m);
    free(text);
    return 0;
}
