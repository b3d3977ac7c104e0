// The whole terminal: raw keys from stdin, the alternate screen on stdout. Closing restores the previous
// contents. Main thread.
#ifndef LAB_TERM_SCREEN_H
#define LAB_TERM_SCREEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct lab_screen {
    struct termios before;
};

enum lab_key {             // a character, or:
    LAB_KEY_INTERRUPT = 3, // Ctrl-C
    LAB_KEY_UP = 256,
    LAB_KEY_DOWN,
    LAB_KEY_RIGHT,
    LAB_KEY_LEFT,
};

// BASE_EIO: stdin or stdout is not a terminal, or a dumb one.
enum base_error lab_screen_open(struct lab_screen *screen, struct base_reason *why) BASE_CHECK;
bool lab_screen_size(const struct lab_screen *screen, size_t *width, size_t *height);
// Shows text from the top left corner on and clears the rest. False: the terminal is gone.
bool lab_screen_show(const struct lab_screen *screen, const char *text);
// Reads pressed keys without waiting; returns their number, or -1: the terminal is gone.
int lab_screen_keys(const struct lab_screen *screen, enum lab_key *keys, size_t capacity);
void lab_screen_close(struct lab_screen *screen);

#endif
