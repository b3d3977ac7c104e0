// A build without libcurl.
#include "lab/fetch/private.h"

enum base_error lab_fetch_transfer(const char *url, const char *authority, FILE *out, const char *path,
                                   struct base_reason *why)
{
    (void)url;
    (void)authority;
    (void)out;
    (void)path;
    return base_fail(why, BASE_ESTATE,
                     "this p2pml was built without libcurl (libcurl4-openssl-dev of Debian and Ubuntu)");
}
