// core/draw/letters.c -- letters for pictures that are drawn.
#include "core/draw/letters.h"

#include <stdbool.h>
#include <string.h>

enum { COLUMNS = 5 };

// Printable ASCII from the blank on. Row by row from above, a digit of base 32 (0-9, A-V) each: 16
// is the left dot, 1 the right one; rows that are missing at the end are empty.
static const char *const letters[] = {
    "",         "4444004",   "AAA0000", "AAVAVAA",   "4FKE5U4",   "OP248J3",   "CIK8LID",
    "C480000",  "2488842",   "8422248", "04LEL40",   "044V440",   "00000C48",  "000E000",
    "00000CC",  "01248G0",   "EHJLPHE", "4C4444E",   "EH1248V",   "V2421HE",   "26AIV22",
    "VGU11HE",  "68GUHHE",   "V124888", "EHHEHHE",   "EHHF12C",   "0CC0CC0",   "0CC0CC48",
    "248G842",  "00V0V00",   "8421248", "EH12404",   "EH1DLLE",   "EHHVHHH",   "UHHUHHU",
    "EHGGGHE",  "SIHHHIS",   "VGGUGGV", "VGGUGGG",   "EHGNHHF",   "HHHVHHH",   "E44444E",
    "72222IC",  "HIKOKIH",   "GGGGGGV", "HRLLHHH",   "HHPLJHH",   "EHHHHHE",   "UHHUGGG",
    "EHHHLID",  "UHHUKIH",   "FGGE11U", "V444444",   "HHHHHHE",   "HHHHHA4",   "HHHLLLA",
    "HHA4AHH",  "HHHA444",   "V1248GV", "E88888E",   "0G84210",   "E22222E",   "4AH0000",
    "0000000V", "8420000",   "00E1FHF", "GGMPHHU",   "00EGGHE",   "11DJHHF",   "00EHVGE",
    "698S888",  "00FHHHF1E", "GGMPHHH", "40C444E",   "2062222IC", "GGIKOKI",   "C44444E",
    "00QLLHH",  "00MPHHH",   "00EHHHE", "00UHHHUGG", "00FHHHF11", "00MPGGG",   "00EGE1U",
    "88S8896",  "00HHHJD",   "00HHHA4", "00HHLLA",   "00HA4AH",   "00HHHHF1E", "00V248V",
    "2448442",  "4444444",   "8442448", "008L200",
};

static int row_bits(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'A' + 10;
}

// Letters beyond ASCII take one place, whatever their bytes.
static bool begins(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

static const char *drawing(char c)
{
    const int i = (unsigned char)c - ' ';
    return i >= 0 && i < (int)(sizeof letters / sizeof *letters) ? letters[i] : "";
}

struct page {
    uint8_t *pixels;
    int width, height, dot;
    const uint8_t *colour;
    bool up; // the text goes upwards
};

// A dot of a letter, `along` dots from where the text begins and `down` from its upper edge.
static void put(const struct page *p, int x, int y, int along, int down)
{
    const int from_x = p->up ? x + down * p->dot : x + along * p->dot;
    const int from_y = p->up ? y - (along + 1) * p->dot + 1 : y + down * p->dot;
    for (int r = 0; r < p->dot; r++)
        for (int c = 0; c < p->dot; c++) {
            const int px = from_x + c, py = from_y + r;
            if (px < 0 || py < 0 || px >= p->width || py >= p->height) continue;
            memcpy(p->pixels + ((size_t)py * (size_t)p->width + (size_t)px) * 3, p->colour, 3);
        }
}

static void draw(const struct page *p, int x, int y, const char *text)
{
    for (int at = 0; *text; text++) {
        const char *rows = drawing(*text);
        for (int r = 0; rows[r]; r++)
            for (int c = 0; c < COLUMNS; c++)
                if (row_bits(rows[r]) & (16 >> c)) put(p, x, y, at + c, r);
        at += begins(*text) ? LETTER_WIDTH : 0;
    }
}

void letters_draw(uint8_t *pixels, int width, int height, int x, int y, int dot, const char *text,
                  const uint8_t colour[3])
{
    draw(&(struct page){ pixels, width, height, dot, colour, false }, x, y, text);
}

void letters_draw_up(uint8_t *pixels, int width, int height, int x, int y, int dot,
                     const char *text, const uint8_t colour[3])
{
    draw(&(struct page){ pixels, width, height, dot, colour, true }, x, y, text);
}

int letters_width(const char *text, int dot)
{
    int count = 0;
    for (; *text; text++) count += begins(*text);
    return count * LETTER_WIDTH * dot;
}
