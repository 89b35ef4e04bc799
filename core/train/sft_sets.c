// core/train/sft_sets.c -- evaluation sets as validation: train.validation SET:FILE[:DIR], ...
// Each set is scored by its own rule (sft_score.c); the mean of their scores selects the best
// weights.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/metrics/metric.h"
#include "core/sets/set.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

// True if the text names sets, not a file.
static bool names_sets(const char *text)
{
    return strchr(text, ':') && access(text, F_OK) != 0;
}

// Reads SET[/SUITE]:FILE[:DIR].
static int read_one(struct sft_sets *sets, char *word, struct err *err)
{
    struct sft_scored *one = &sets->list[sets->count];
    *one = (struct sft_scored){ .data.file = -1 };
    if (!set_source_split(&one->from, word))
        return err_set(err, "'%s': write SET:FILE for each set, separated by commas (/help sets)",
                       word);
    if (set_source_find(&one->from, err) < 0) return -1;
    size_t same = 0; // sets of this kind so far
    for (size_t i = 0; i < sets->count; i++) same += sets->list[i].from.kind == one->from.kind;
    one->name = same ? xasprintf("%s-%zu", word, same + 1) : xstrdup(word);
    sets->count++;
    const struct metric *m = metric_find(one->from.way->metric);
    if (!sets->metric) sets->metric = m;
    if (m->smaller == sets->metric->smaller) return 0;
    return err_set(err,
                   "lower scores are better for only one of '%s' and '%s', so their mean is "
                   "meaningless",
                   sets->list[0].name, one->name);
}

int sft_sets_read(struct sft_sets *sets, const struct settings *s, struct err *err)
{
    *sets = (struct sft_sets){ 0 };
    if (!names_sets(settings_text(s, "train.validation"))) return 0;
    if (!settings_is(s, "train.score", "auto"))
        return err_set(err,
                       "train.score %s: evaluation sets have their own rules; /set train.score "
                       "auto",
                       settings_text(s, "train.score"));
    char *rest = NULL;
    int status = 0;
    sets->words = xstrdup(settings_text(s, "train.validation"));
    for (char *w = strtok_r(sets->words, ",", &rest); w && status == 0;
         w = strtok_r(NULL, ",", &rest)) {
        w += strspn(w, " ");
        for (size_t n = strlen(w); n && w[n - 1] == ' ';) w[--n] = 0;
        if (sets->count == SFT_SETS)
            status = err_set(err, "at most %d evaluation sets are possible", SFT_SETS);
        else
            status = read_one(sets, w, err);
    }
    if (status == 0) return 0;
    sft_sets_release(sets);
    return err_in(err, "train.validation");
}

int sft_sets_open(struct sft_sets *sets, char hex[HASH_HEX], struct err *err)
{
    struct hash all;
    int status = 0;
    hash_start(&all);
    for (size_t i = 0; i < sets->count && status == 0; i++) {
        struct sft_scored *one = &sets->list[i];
        char own[HASH_HEX];
        status = set_source_open(&one->from, &one->data, err);
        if (status == 0) status = set_source_hash(&one->data, own, err);
        if (status == 0) hash_add(&all, own, sizeof own);
    }
    hash_end(&all, hex);
    return status < 0 ? err_in(err, "train.validation") : 0;
}

char *sft_sets_names(const struct sft_sets *sets)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < sets->count; i++)
        buf_printf(&b, "%s%s", i ? ", " : sets->count > 1 ? "mean of " : "", sets->list[i].name);
    return buf_take(&b);
}

void sft_sets_release(struct sft_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++) {
        if (sets->list[i].data.path) dataset_close(&sets->list[i].data);
        set_source_release(&sets->list[i].from);
        free(sets->list[i].name);
    }
    free(sets->words);
    *sets = (struct sft_sets){ 0 };
}
