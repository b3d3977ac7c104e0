// The built-in digits as pen strokes: how people write 0 to 9, several ways each. Constant data; any thread.
#ifndef TRAIN_GLYPHS_H
#define TRAIN_GLYPHS_H

#include <stddef.h>
#include <stdint.h>

#define GLYPH_STROKES 2u
#define GLYPH_POINTS  16u // of all strokes together

// A smooth curve goes through the points of a stroke in turn; a point given twice is a corner. x grows to the
// right, y downwards; a digit fills about 15..85 of the width and 5..95 of the height.
struct glyph {
    uint8_t points[GLYPH_STROKES]; // of each stroke; 0: no such stroke
    uint8_t at[GLYPH_POINTS][2];   // x, y; stroke after stroke
};

// The ways to write `digit` (0 to 9), each about as usual as the others.
const struct glyph *train_glyphs_of(unsigned digit, size_t *count);

#endif
