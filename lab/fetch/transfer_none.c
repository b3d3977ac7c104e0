// A build without libcurl.
#include "lab/fetch/private.h"

enum base_error lab_fetch_transfer(const char *url, size_t most, const struct lab_fetch_options *options,
                                   FILE *out, const char *path, struct base_reason *why)
{
    (void)url;
    (void)most;
    (void)options;
    (void)out;
    (void)path;
    return base_fail(why, BASE_ESTATE,
                     "this p2pml was built without libcurl (libcurl4-openssl-dev of Debian and Ubuntu)");
}
