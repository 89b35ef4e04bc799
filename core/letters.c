// core/letters.c -- small letters for pictures that are drawn.
#include "core/letters.h"

#include <stddef.h>
#include <string.h>

// Letters of 3 x 5 dots, row by row, an octal digit each: 4 is the left dot, 1 the right one.
static const struct {
    char letter;
    const char *rows;
} letters[] = {
    { '0', "75557" }, { '1', "26227" }, { '2', "71747" }, { '3', "71717" }, { '4', "55711" },
    { '5', "74717" }, { '6', "74757" }, { '7', "71122" }, { '8', "75757" }, { '9', "75717" },
    { 'a', "25755" }, { 'b', "65656" }, { 'c', "34443" }, { 'd', "65556" }, { 'e', "74647" },
    { 'f', "74644" }, { 'g', "34553" }, { 'h', "55755" }, { 'i', "72227" }, { 'j', "11152" },
    { 'k', "55655" }, { 'l', "44447" }, { 'm', "57755" }, { 'n', "65555" }, { 'o', "25552" },
    { 'p', "65644" }, { 'q', "25561" }, { 'r', "65655" }, { 's', "34216" }, { 't', "72222" },
    { 'u', "55557" }, { 'v', "55552" }, { 'w', "55775" }, { 'x', "55255" }, { 'y', "55222" },
    { 'z', "71247" }, { '.', "00002" }, { ',', "00024" }, { '-', "00700" }, { '+', "02720" },
    { '_', "00007" }, { '/', "11244" }, { ':', "02020" }, { '=', "07070" }, { '%', "51245" },
    { '(', "24442" }, { ')', "21112" }, { '*', "05250" },
};

static void letter(uint8_t *pixels, int width, int height, int x, int y, int dot, const char *rows,
                   const uint8_t colour[3])
{
    for (int r = 0; r < 5 * dot; r++)
        for (int c = 0; c < 3 * dot; c++) {
            const int px = x + c, py = y + r;
            if (!((rows[r / dot] - '0') & (4 >> c / dot))) continue;
            if (px < 0 || py < 0 || px >= width || py >= height) continue;
            memcpy(pixels + ((size_t)py * (size_t)width + (size_t)px) * 3, colour, 3);
        }
}

void letters_draw(uint8_t *pixels, int width, int height, int x, int y, int dot, const char *text,
                  const uint8_t colour[3])
{
    for (; *text; text++, x += 4 * dot) {
        const char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
        for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
            if (letters[i].letter == c)
                letter(pixels, width, height, x, y, dot, letters[i].rows, colour);
    }
}

int letters_width(const char *text, int dot)
{
    return (int)strlen(text) * 4 * dot;
}
