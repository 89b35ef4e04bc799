// core/picture/image_jpeg.c -- JPEG through libjpeg-turbo, with the defaults that Pillow uses.
// For damaged data, libjpeg only warns and gives grey or blurred blocks; as in Pillow, the picture
// is accepted. After a code that is in no Huffman table, the rest of a scan is noise, so the file
// is refused; so is a file that ends early.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "core/base/mem.h"
#include "core/picture/image_parts.h"

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    char why[JMSG_LENGTH_MAX];
};

static _Noreturn void fail(j_common_ptr jpeg)
{
    struct reader *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->why);
    longjmp(r->failed, 1);
}

static void take_warning(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF)) fail(jpeg);
}

// Adobe's programs store CMYK inverted: 255 means no ink. Pillow assumes this for all files with
// four components.
static void inks_to_rgb(uint8_t *rgb, const uint8_t *inks, int64_t width)
{
    for (int64_t x = 0; x < width; x++, rgb += 3, inks += 4)
        for (int c = 0; c < 3; c++) {
            const int light = inks[3], t = (255 - inks[c]) * light + 128;
            rgb[c] = (uint8_t)(light - ((t + (t >> 8)) >> 8));
        }
}

// Fills the pixels of `image`; `inks`: memory for a row of four inks. -1: r->why has the reason.
static int read_pixels(struct reader *r, const struct image *image, uint8_t *inks,
                       const uint8_t *bytes, size_t size)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    if (setjmp(r->failed)) return -1;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, bytes, size);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->image_width != image->width || jpeg->image_height != image->height) {
        snprintf(r->why, sizeof r->why, "it contains two different sizes");
        return -1;
    }
    const bool four = jpeg->num_components == 4;
    if (!four) jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *row = image->pixels + jpeg->output_scanline * image->width * 3;
        jpeg_read_scanlines(jpeg, four ? &inks : &row, 1);
        if (four) inks_to_rgb(row, inks, image->width);
    }
    jpeg_finish_decompress(jpeg);
    return 0;
}

int image_decode_jpeg(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err)
{
    struct reader r = { .jpeg.client_data = &r };
    uint8_t *inks = malloc((size_t)h->width * 4);
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = fail;
    r.errors.emit_message = take_warning;
    int rc = image_allocate(image, h, 3, name, err);
    if (rc == 0 && !inks) rc = err_set(err, "out of memory for the pixels of '%s'", name);
    if (rc == 0 && read_pixels(&r, image, inks, bytes, size) < 0)
        rc = image_bad_pixels(name, r.why, err);
    jpeg_destroy_decompress(&r.jpeg);
    free(inks);
    return rc;
}

// --- writing -------------------------------------------------------------------------------------

struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr to;
    struct buf *bytes;
    uint8_t piece[16384]; // bytes not yet appended to `bytes`
    jmp_buf failed;
    char why[JMSG_LENGTH_MAX];
};

static _Noreturn void fail_writing(j_common_ptr jpeg)
{
    struct writer *w = jpeg->client_data;
    jpeg->err->format_message(jpeg, w->why);
    longjmp(w->failed, 1);
}

static void begin_piece(j_compress_ptr jpeg)
{
    struct writer *w = jpeg->client_data;
    w->to.next_output_byte = w->piece;
    w->to.free_in_buffer = sizeof w->piece;
}

// Called when the piece is full; libjpeg does not keep free_in_buffer up to date then.
static boolean take_piece(j_compress_ptr jpeg)
{
    struct writer *w = jpeg->client_data;
    buf_add(w->bytes, w->piece, sizeof w->piece);
    begin_piece(jpeg);
    return TRUE;
}

static void take_last_piece(j_compress_ptr jpeg)
{
    struct writer *w = jpeg->client_data;
    buf_add(w->bytes, w->piece, sizeof w->piece - w->to.free_in_buffer);
}

// -1: w->why has the reason.
static int write_pixels(struct writer *w, const struct image *image, int quality)
{
    struct jpeg_compress_struct *jpeg = &w->jpeg;
    if (setjmp(w->failed)) return -1;
    jpeg_create_compress(jpeg);
    jpeg->dest = &w->to;
    jpeg->image_width = (JDIMENSION)image->width;
    jpeg->image_height = (JDIMENSION)image->height;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        uint8_t *row = image->pixels + jpeg->next_scanline * image->width * 3;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    return 0;
}

int image_encode_jpeg(struct buf *bytes, const struct image *image, int quality, struct err *err)
{
    // Not jpeg_mem_dest: when memory runs out, it leaves a freed pointer.
    struct writer w = { .jpeg.client_data = &w,
                        .bytes = bytes,
                        .to = { .init_destination = begin_piece,
                                .empty_output_buffer = take_piece,
                                .term_destination = take_last_piece } };
    w.jpeg.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = fail_writing;
    const int status = write_pixels(&w, image, quality);
    jpeg_destroy_compress(&w.jpeg);
    return status < 0 ? err_set(err, "cannot write a JPEG: %s", w.why) : 0;
}
