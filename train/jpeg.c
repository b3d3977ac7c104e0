// JPEG through libjpeg (libjpeg-turbo). Its errors return by longjmp, so everything that must be freed then
// is in one struct.
#include "base/limits.h"
#include "train/picture.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct decoding {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf away;
    char message[JMSG_LENGTH_MAX];
    uint8_t *pixels;
};

static void leave(j_common_ptr jpeg)
{
    struct decoding *d = jpeg->client_data;
    (*jpeg->err->format_message)(jpeg, d->message);
    longjmp(d->away, 1);
}

// A warning means damage that libjpeg would hide.
static void warn(j_common_ptr jpeg, int level)
{
    if (level < 0)
        leave(jpeg);
}

// How the camera was held.
static unsigned orientation_of(const struct jpeg_decompress_struct *jpeg)
{
    static const char name[] = "Exif\0"; // and the zero byte that ends the text
    for (jpeg_saved_marker_ptr at = jpeg->marker_list; at; at = at->next)
        if (at->data_length >= sizeof name && memcmp(at->data, name, sizeof name) == 0)
            return train_exif_orientation(at->data + sizeof name, at->data_length - sizeof name);
    return 1;
}

static enum base_error decode(struct decoding *d, const struct train_bytes *file, size_t channels,
                              struct train_picture *image, struct base_reason *why)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_mem_src(jpeg, file->data, file->bytes);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    (void)jpeg_read_header(jpeg, TRUE);
    const unsigned orientation = orientation_of(jpeg);
    if (!train_image_size_fits(jpeg->image_width, jpeg->image_height))
        return base_fail(why, BASE_ELIMIT,
                         "%s: found %u x %u pixels, expected at most %u a side and %u in all", file->name,
                         jpeg->image_width, jpeg->image_height, LIMIT_IMAGE_SIDE, LIMIT_IMAGE_PIXELS);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return base_fail(why, BASE_EFORMAT, "%s: found %d colours (CMYK?), expected grey or RGB", file->name,
                         jpeg->num_components);
    if (channels == 0)
        channels = (size_t)jpeg->num_components;
    jpeg->out_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg->dct_method = JDCT_ISLOW; // the same bits on every machine
    (void)jpeg_start_decompress(jpeg);
    const size_t row = jpeg->output_width * channels;
    d->pixels = malloc(row * jpeg->output_height);
    if (!d->pixels)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %u x %u pixels", file->name, jpeg->output_width,
                         jpeg->output_height);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW at = d->pixels + row * jpeg->output_scanline;
        (void)jpeg_read_scanlines(jpeg, &at, 1);
    }
    (void)jpeg_finish_decompress(jpeg);
    struct train_picture upright = {jpeg->output_width, jpeg->output_height, channels, d->pixels};
    d->pixels = NULL;
    if (train_image_turn(&upright, orientation)) {
        free(upright.pixels);
        return base_fail(why, BASE_ENOMEM, "%s: no memory to turn it", file->name);
    }
    *image = upright;
    return BASE_OK;
}

enum base_error train_jpeg_decode(const struct train_bytes *file, size_t channels,
                                  struct train_picture *image, struct base_reason *why)
{
    struct decoding *d = calloc(1, sizeof *d);
    if (!d)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to decode it", file->name);
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = leave;
    d->errors.emit_message = warn;
    d->jpeg.client_data = d;
    enum base_error error;
    if (setjmp(d->away) == 0) {
        jpeg_create_decompress(&d->jpeg);
        error = decode(d, file, channels, image, why);
    } else {
        error = base_fail(why, BASE_EFORMAT, "%s: is not a complete JPEG: %s", file->name, d->message);
    }
    jpeg_destroy_decompress(&d->jpeg);
    free(d->pixels);
    free(d);
    return error;
}
