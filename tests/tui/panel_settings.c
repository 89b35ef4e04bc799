// tests/tui/panel_settings.c -- tui/panel_settings.c: the field for editing a value.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "commands/reference.h"
#include "tui/panel.h"

enum { WIDTH = 40, HEIGHT = 20 };
static const struct area area = { 0, 0, WIDTH, HEIGHT };

static const struct panel *panel(void)
{
    return panel_at(PANEL_settings);
}

static char *drawn(struct view *v, int width)
{
    struct canvas c = { 0 };
    struct buf b = { 0 };
    canvas_resize(&c, HEIGHT, width);
    panel()->draw(v, &c, (struct area){ 0, 0, width, HEIGHT }, true);
    canvas_write(&c, &b);
    canvas_release(&c);
    return buf_take(&b);
}

static void press(struct view *v, const char *name)
{
    struct key key = { .kind = name[1] ? KEY_NAMED : KEY_TEXT, .bytes = { *name }, .length = 1 };
    memcpy(key.name, name, strlen(name));
    panel()->type(v, &key);
}

// Begins to edit the first setting: deletes its value and types 7.
static struct view *begin(void)
{
    struct view *v = view_new();
    free(drawn(v, WIDTH));
    panel()->act(v, "change");
    press(v, "Ctrl-U");
    press(v, "7");
    assert_true(panel()->typing(v));
    return v;
}

// The value being edited does not go to another row.
static void test_click_ends(void **state)
{
    static const int buttons[] = { 1, 4, 5 };
    for (int i = 0; i < 3; i++) {
        struct view *v = begin();
        panel()->click(v, area, 2, 3, 0); // a released button changes nothing
        assert_true(panel()->typing(v));
        panel()->click(v, area, 2, 3, buttons[i]);
        assert_false(panel()->typing(v));
        assert_null(v->run);
        view_free(v);
    }
}

static void test_other_keys(void **state)
{
    static const char *const others[] = { "Left", "Up", "Tab", "Home", "F1", "Ctrl-A" };
    struct view *v = begin();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        press(v, others[i]);
        assert_true(panel()->typing(v));
    }
    press(v, "Enter");
    assert_false(panel()->typing(v));
    char *wanted = xasprintf("/set %s 7", v->set.rows[0]->key);
    assert_string_equal(v->run, wanted);
    free(wanted);
    view_free(v);
    v = begin();
    press(v, "Esc");
    assert_false(panel()->typing(v));
    assert_null(v->run);
    view_free(v);
}

// A long value shows its end, where the user types.
static void test_long_value(void **state)
{
    struct view *v = begin();
    for (int i = 0; i < WIDTH; i++) press(v, "8");
    press(v, "9");
    char *text = drawn(v, WIDTH);
    assert_non_null(strstr(text, "889"));
    free(text);
    view_free(v);
}

// A default that does not fit is omitted, not truncated to another number.
static void test_default_cut(void **state)
{
    struct view *v = view_new();
    free(drawn(v, WIDTH));
    const struct setting *row = v->set.rows[0];
    char *allowed = setting_allowed(row);
    char *head = xasprintf("%s: %s", row->key, allowed),
         *all = xasprintf("%s  [%s]", head, row->def);
    char *whole = drawn(v, (int)strlen(all)), *cut = drawn(v, (int)strlen(all) - 1);
    assert_non_null(strstr(whole, all));
    assert_null(strstr(cut, "["));
    assert_non_null(strstr(cut, head));
    free(whole), free(cut), free(head), free(all), free(allowed);
    view_free(v);
}

// The settings of methods that are on come first, those of sampling last.
static void test_order(void **state)
{
    struct view *v = view_new();
    free(drawn(v, WIDTH));
    assert_string_equal(v->set.rows[0]->key, "chat.template");
    assert_true(setting_in(v->set.rows[v->set.count - 1], "sample"));
    panel()->act(v, "down");
    assert_int_equal(settings_set(v->settings, "ira.on", "on", NULL), 0);
    free(drawn(v, WIDTH)); // in use: the selection stays on its row
    assert_true(setting_in(v->set.rows[0], "ira"));
    assert_string_equal(v->set.rows[v->set.selected]->key, "chat.date");
    view_free(v);
}

// A value being edited does not go to the row that takes its row's place in the list.
static void test_order_ends(void **state)
{
    struct view *v = begin();
    assert_int_equal(settings_set(v->settings, "ira.on", "on", NULL), 0);
    struct canvas c = { 0 };
    canvas_resize(&c, HEIGHT, WIDTH);
    panel()->draw(v, &c, area, false); // a key toggles a method while another panel has the focus
    canvas_release(&c);
    assert_true(setting_in(v->set.rows[v->set.selected], "ira"));
    assert_false(panel()->typing(v));
    view_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_click_ends), cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_long_value), cmocka_unit_test(test_default_cut),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_order_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
