// core/sets/source.c -- opens the data that the options of a command name.
#include "core/sets/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/dataset.h"
#include "core/data/shots.h"
#include "core/files/checkpoint.h"
#include "core/picture/image.h"
#include "core/sets/set.h"

bool set_source_split(struct set_source *s, char *text)
{
    char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    if (!colon) return false;
    *colon = 0;
    if (slash && slash < colon) *slash = 0, s->suite = slash + 1;
    s->name = text;
    s->data = colon + 1;
    if ((colon = strrchr(colon + 1, ':')) && access(s->data, F_OK) < 0)
        *colon = 0, s->images = colon + 1;
    return true;
}

int set_source_find(struct set_source *s, struct err *err)
{
    if (!s->name && s->suite)
        return err_set(err, "--rule needs a set: --set pope --rule %s", s->suite);
    if (!s->name && s->columns)
        return err_set(err, "--columns needs a set: --set vqa --columns %s", s->columns);
    if (s->name && !(s->kind = eval_set_need(s->name, err))) return -1;
    if (s->name && !(s->way = eval_set_way(s->kind, s->suite, err))) return -1;
    if (!s->data)
        return s->name ? err_set(err, "--set %s needs the set's files: --data FILE", s->name) : 0;
    if (!(s->found = checkpoint_data_file(s->data, s->kind ? s->kind->hub : NULL, err))) return -1;
    s->cached = strcmp(s->found, s->data) != 0;
    s->data = s->found;
    return 0;
}

void set_source_release(struct set_source *s)
{
    free(s->found);
    *s = (struct set_source){ 0 };
}

int set_source_check(const struct set_source *s, struct err *err)
{
    if (s->shots && dataset_check(s->shots, err) < 0) return err_in(err, "--shots");
    return s->kind ? eval_set_check(s->data, s->columns, err) : dataset_check(s->data, err);
}

int set_source_open(const struct set_source *s, struct dataset *d, struct err *err)
{
    const int status = s->kind
                           ? eval_set_open(d, s->kind, s->way, s->data, s->images, s->columns, err)
                           : dataset_open(d, s->data, s->images, err);
    return status == 0 && s->shots ? dataset_add_shots(d, s->shots, err) : status;
}

int set_source_check_picture(const struct dataset *d, bool *pictures, struct err *err)
{
    enum { LOOK = 16 };
    struct err first = { 0 }; // why the first sample cannot be read
    int status = 0;
    bool readable = false;
    *pictures = false;
    for (int64_t i = 0; i < d->count && i < LOOK && !*pictures; i++) {
        struct sample s;
        struct err later;
        const bool read = dataset_read(d, i, &s, i ? &later : &first) == 0;
        readable |= read;
        *pictures = read && s.dialogue.path_count;
        if (*pictures) {
            size_t size;
            char *bytes = dataset_picture(d, s.dialogue.paths[0], IMAGE_MAX_FILE, &size, err);
            if (!bytes) status = -1;
            free(bytes);
        }
        sample_release(&s);
    }
    return readable || !d->count ? status : err_set(err, "%s", first.text);
}

int set_source_hash(const struct dataset *d, char hex[HASH_HEX], struct err *err)
{
    const char *known = eval_set_hash(d);
    if (!known) return hash_file(d->path, hex, err);
    memcpy(hex, known, HASH_HEX);
    return 0;
}
