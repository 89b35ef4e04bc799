// tui/keys.h -- keys: terminal bytes to key names, and names to actions.
//
//   key_reader_add(&r, bytes, n);
//   while (key_reader_next(&r, false, &key)) {
//       char *what = keys_find(keys, "settings", key.name);   // "toggle", "/image", or NULL
//
// Names: "a", "Space", "Enter", "Tab", "Esc", "Up", "PageUp", "F5", with the prefixes Ctrl-, Alt-,
// Shift- in this order ("Ctrl-P", "Ctrl-Alt-T", "Shift-Tab"). A key runs a command line (with a
// slash) or an action of the screen. A user binding applies everywhere and overrides the table.
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include "commands/command.h"

// --- bytes to keys -------------------------------------------------------------------------------

enum { KEY_SHIFT = 1, KEY_ALT = 2, KEY_CTRL = 4 }; // terminals send their sum plus 1

// Returns the prefixes of modifiers ("Ctrl-Alt-"); "" for no modifiers.
const char *key_modifiers(unsigned modifiers);

enum key_kind { KEY_NAMED, KEY_TEXT, KEY_MOUSE, KEY_PASTE, KEY_REPLY };

struct key {
    enum key_kind kind;
    char name[32];  // of KEY_NAMED and KEY_TEXT (one character)
    char bytes[64]; // as received, at most the first 64; KEY_REPLY: a reply of the terminal
    size_t length;
    // KEY_MOUSE: x and y from 0; button 1 left, 2 middle, 3 right, 4 wheel up, 5 wheel down, 0 a
    // release or, if `moved`, a movement with or without a button.
    int x, y, button;
    bool moved;
    char *paste; // KEY_PASTE: free() it
};

struct key_reader {
    struct buf bytes, paste;
    bool pasting;
    bool paused; // the last paste was returned without its end
};

void key_reader_add(struct key_reader *r, const char *bytes, size_t length);
// Reads the next key. flush: no bytes have followed for a while, so an ESC is the key itself.
// False: no complete key.
bool key_reader_next(struct key_reader *r, bool flush, struct key *key);
bool key_reader_open(const struct key_reader *r);     // in the middle of a sequence
bool key_reader_replying(const struct key_reader *r); // in the middle of a reply of the terminal
void key_reader_release(struct key_reader *r);

// --- keys to commands ----------------------------------------------------------------------------

// Returns a row of the table, which lacks the keys of methods (keys_new adds them); NULL past its
// end.
const struct key_row *key_row(int index);

// The table and the user's bindings; thread-safe.
struct keys *keys_new(void);
void keys_free(struct keys *k);
// Returns the key's command in that context; NULL: none. free() it.
char *keys_find(struct keys *k, const char *context, const char *key);
// Binds a key; command NULL or "" restores the default. -1: the key is unknown, types a character,
// or must keep its meaning (Ctrl-C, Enter ...).
int keys_bind(struct keys *k, const char *key, const char *command, struct err *err);
// Spells a key name canonically ("ctrl-p", "C-p", "^P": "Ctrl-P"; "Ctrl-M": "Enter"). False:
// terminals send no such key.
bool key_spell(const char *typed, char name[32]);
// Returns the hints of a panel's keys, "Left Right: token  Up Down: layer". free() it.
char *keys_hints(struct keys *k, const char *context);
// Calls each(self, row) for every active binding.
void keys_each(struct keys *k, void (*each)(void *self, const struct key_row *row), void *self);

#endif
