// core/interventions/objects.c -- finds names of objects.
#include "core/interventions/objects.h"

#include <string.h>
#include <strings.h>

#include "core/base/text.h"

// Separated by commas, like the user's list.
static const char names[] =
    // The categories of COCO 2017.
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,ski,snowboard,sports ball,kite,baseball bat,"
    "baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,"
    "banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,"
    "potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,"
    "oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush,"
    // Words for people, and irregular plurals.
    "people,man,men,woman,women,boy,girl,child,children,sheep,knives,mice,"
    // The demo world.
    "circle,square,triangle,star,cross,ring,bar,diamond,digit,letter";

// Returns the length of the name, or of its plural, at `text`; 0 if the text begins with a
// different word.
static size_t match(const char *text, const char *name, size_t n)
{
    static const char *const endings[] = { "", "s", "es" };
    if (!n || strncasecmp(text, name, n) != 0) return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t more = strlen(endings[i]);
        if (!strncasecmp(text + n, endings[i], more) && !text_is_word(text[n + more]))
            return n + more;
    }
    return 0;
}

static size_t longest(const char *text, const char *list)
{
    size_t best = 0;
    for (const char *p = list; *p;) {
        p += strspn(p, ", ");
        const size_t n = strcspn(p, ",");
        size_t length = n;
        while (length && p[length - 1] == ' ') length--;
        const size_t found = match(text, p, length);
        if (found > best) best = found;
        p += n;
    }
    return best;
}

bool objects_next(const char **at, const char *more, struct object_name *o)
{
    for (const char *p = *at; *p;) {
        const size_t own = longest(p, names), users = longest(p, more);
        const size_t n = own > users ? own : users;
        if (n) {
            *o = (struct object_name){ p, n };
            *at = p + n;
            return true;
        }
        while (text_is_word(*p)) p++;
        while (*p && !text_is_word(*p)) p++;
    }
    return false;
}
