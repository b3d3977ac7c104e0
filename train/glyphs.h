// The built-in digits as pen strokes: several common ways to write each digit. Constant data; any thread.
#ifndef TRAIN_GLYPHS_H
#define TRAIN_GLYPHS_H

#include <stddef.h>
#include <stdint.h>

#define GLYPH_STROKES 2u
#define GLYPH_POINTS  16u // of all strokes together

// A stroke is a smooth curve through its points; a point given twice is a corner. x grows to the right, y
// downwards; a digit fills about 15..85 of the width and 5..95 of the height.
struct glyph {
    uint8_t points[GLYPH_STROKES]; // of each stroke; 0: no such stroke
    uint8_t at[GLYPH_POINTS][2];   // x, y; stroke after stroke
};

// The ways to write `digit` (0 to 9), all equally common.
const struct glyph *train_glyphs_of(unsigned digit, size_t *count);

#endif
