#include "lab/term/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool put(const char *text)
{
    for (size_t bytes = strlen(text); bytes > 0;) {
        ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    return true;
}

enum base_error lab_screen_open(struct lab_screen *screen, struct base_reason *why)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return base_fail(why, BASE_EIO, "stdin and stdout are not a terminal; --once prints one table");
    if (kind && strcmp(kind, "dumb") == 0)
        return base_fail(why, BASE_EIO,
                         "TERM is 'dumb': this terminal has no cursor; --once prints one table");
    if (tcgetattr(STDIN_FILENO, &screen->before) != 0)
        return base_fail(why, BASE_EIO, "cannot read the terminal's settings: %s", strerror(errno));
    struct termios raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return base_fail(why, BASE_EIO, "cannot change the terminal's settings: %s", strerror(errno));
    (void)put("\x1b[?1049h\x1b[?25l\x1b[?7l"); // another screen, no cursor, long lines are cut
    return BASE_OK;
}

bool lab_screen_size(const struct lab_screen *screen, size_t *width, size_t *height)
{
    struct winsize size;
    (void)screen;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return false;
    *width = size.ws_col ? size.ws_col : 80;
    *height = size.ws_row ? size.ws_row : 24;
    return true;
}

bool lab_screen_show(const struct lab_screen *screen, const char *text)
{
    (void)screen;
    return put("\x1b[H") && put(text) && put("\x1b[J");
}

// ESC [ letter
static bool arrow(const char *bytes, ssize_t left, enum lab_key *key)
{
    static const enum lab_key arrows[] = {LAB_KEY_UP, LAB_KEY_DOWN, LAB_KEY_RIGHT, LAB_KEY_LEFT};
    if (left < 3 || bytes[0] != 27 || (bytes[1] != '[' && bytes[1] != 'O') || bytes[2] < 'A' ||
        bytes[2] > 'D')
        return false;
    *key = arrows[bytes[2] - 'A'];
    return true;
}

int lab_screen_keys(const struct lab_screen *screen, enum lab_key *keys, size_t capacity)
{
    char bytes[64];
    size_t count = 0;
    struct pollfd gone = {.fd = STDIN_FILENO, .events = POLLIN};
    (void)screen;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0 && poll(&gone, 1, 0) > 0 && (gone.revents & (POLLHUP | POLLERR)))
        return -1;
    for (ssize_t i = 0; i < got && count < capacity; i++) {
        enum lab_key key = (enum lab_key)(unsigned char)bytes[i];
        if (arrow(bytes + i, got - i, &key))
            i += 2;
        keys[count++] = key;
    }
    return (int)count;
}

void lab_screen_close(struct lab_screen *screen)
{
    (void)put("\x1b[?7h\x1b[?25h\x1b[?1049l");
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}
