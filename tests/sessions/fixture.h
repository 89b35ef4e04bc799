// tests/sessions/fixture.h -- a database in a separate folder, and hand-made events for it.
#ifndef TESTS_SESSIONS_FIXTURE_H
#define TESTS_SESSIONS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/template/message.h"
#include "sessions/internal.h"

static char folder[256], database[272];
static struct buf notices;
static struct sinks sinks;

static inline void note(void *self, const struct event *e)
{
    if (e->kind == EVENT_NOTICE) buf_printf(&notices, "%s\n", e->text);
}

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlmsh-sessions-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(database, sizeof database, "%s/vlmsh.db", folder);
    buf_clear(&notices);
    return 0;
}

static int teardown(void **state)
{
    buf_release(&notices);
    char command[272];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

// Opens the database with its sink, and a second sink that keeps the notices.
static inline struct store *open_store(void)
{
    struct err err = { 0 };
    struct store *s = store_open(database, &err);
    if (!s) print_message("%s\n", err.text);
    assert_non_null(s);
    sinks = (struct sinks){ 0 };
    sinks_add(&sinks, (struct sink){ .emit = note });
    sinks_add(&sinks, store_sink(s, &sinks));
    return s;
}

static inline void tell(const struct event *e)
{
    sinks_emit(&sinks, e);
}

static inline void say(enum role role, const char *text)
{
    struct message m = { .role = role };
    message_add_text(&m, text);
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = &m });
    message_release(&m);
}

static inline void say_picture(const char *path, const void *bytes, size_t size, const char *text)
{
    struct picture p = { .path = (char *)path, .bytes = (void *)bytes, .size = size };
    struct message m = { .role = ROLE_USER };
    hash_hex(bytes, size, p.sha256);
    message_add_picture(&m, 0);
    message_add_text(&m, text);
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = &m, .pictures = &p });
    message_release(&m);
}

static inline void reply(const char *text)
{
    static const int32_t ids[] = { 5, 6, 7 };
    const struct event_answer a = { .text = text,
                                    .ids = ids,
                                    .count = 3,
                                    .prompt_tokens = 40,
                                    .visual_tokens = 16,
                                    .computed_tokens = 24,
                                    .prefill_s = 0.5,
                                    .decode_s = 0.25,
                                    .stop = "eos",
                                    .in_conversation = true };
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &a });
}

static inline void set(const char *key, const char *value)
{
    tell(&(struct event){ .kind = EVENT_SETTING, .key = key, .value = value });
}

static inline void model(const char *path, const char *fingerprint)
{
    tell(&(struct event){ .kind = EVENT_MODEL, .text = path, .value = fingerprint });
}

static inline int64_t number(struct store *s, const char *sql)
{
    int64_t value;
    assert_int_equal(store_number(s, NULL, -1, &value, sql, ""), 0);
    return value;
}

// Returns the session as the database holds it now, as "user:hi assistant:ho", read through a
// second connection.
static inline char *kept(const char *name)
{
    struct err err = { 0 };
    struct saved saved;
    struct buf b = { 0 };
    struct store *other = store_open(database, &err);
    assert_non_null(other);
    if (saved_read(other, name, &saved, &err) == 0) {
        for (size_t i = 0; i < saved.count; i++) {
            const struct saved_entry *e = &saved.list[i];
            if (b.length) buf_putc(&b, ' ');
            if (e->kind == SAVED_COMMAND) {
                buf_printf(&b, "/%s", e->value);
                continue;
            }
            if (e->kind != SAVED_MESSAGE) {
                buf_printf(&b, "%s=%s", e->key, e->value);
                continue;
            }
            char *text = message_text(&e->message);
            buf_printf(&b, "%s:%s", role_name(e->message.role), text);
            free(text);
        }
        saved_release(&saved);
    } else {
        buf_puts(&b, err.text);
    }
    store_close(other);
    return buf_take(&b);
}

static inline void assert_kept(const char *name, const char *expected)
{
    char *text = kept(name);
    assert_string_equal(text, expected);
    free(text);
}

static inline void assert_contains(const char *text, const char *part)
{
    if (text && strstr(text, part)) return;
    print_message("'%s' is not in:\n%s\n", part, text ? text : "(nothing)");
    fail();
}

#endif
