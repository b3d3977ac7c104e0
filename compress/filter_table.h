// The list of filters, one line each (compress/filter.h). No include guard: filter.c reads it twice.
FILTER(compress_filter_significantly_modified)
FILTER(compress_filter_same_keys)
FILTER(compress_filter_random_skip)
