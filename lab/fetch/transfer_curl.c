// One transfer over HTTPS.
#include "lab/fetch/private.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define REDIRECTS 5L

struct sink {
    FILE *out;
    size_t bytes, most;
    int error;     // errno of a write that failed
    bool too_many; // more than `most`
};

static size_t on_bytes(char *data, size_t size, size_t count, void *owner)
{
    struct sink *sink = owner;
    const size_t bytes = size * count;
    sink->too_many = bytes > sink->most - sink->bytes;
    if (sink->too_many)
        return 0;
    errno = 0;
    if (fwrite(data, 1, bytes, sink->out) != bytes) {
        sink->error = errno;
        return 0;
    }
    sink->bytes += bytes;
    return bytes;
}

static unsigned wait_of(const struct lab_fetch_options *options)
{
    BASE_ASSERT(options->wait_s <= LAB_FETCH_WAITS);
    return options->wait_s ? options->wait_s : LAB_FETCH_WAIT;
}

// Redirects are also restricted to HTTPS.
static CURLcode only_https(CURL *curl)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    const CURLcode code = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
    return code ? code : curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
#else
    const CURLcode code = curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTPS);
    return code ? code : curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
}

static CURLcode prepare(CURL *curl, const char *url, const struct lab_fetch_options *options,
                        struct sink *sink, char *said)
{
    const long wait_s = (long)wait_of(options);
    CURLcode code = only_https(curl);
    const struct {
        CURLoption option;
        long value;
    } numbers[] = {{CURLOPT_FOLLOWLOCATION, 1L},
                   {CURLOPT_MAXREDIRS, REDIRECTS},
                   {CURLOPT_FAILONERROR, 1L},
                   {CURLOPT_CONNECTTIMEOUT, wait_s},
                   {CURLOPT_LOW_SPEED_LIMIT, (long)LAB_FETCH_SLOW},
                   {CURLOPT_LOW_SPEED_TIME, wait_s},
                   {CURLOPT_NOSIGNAL, 1L}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !code; i++)
        code = curl_easy_setopt(curl, numbers[i].option, numbers[i].value);
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_URL, url);
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, said);
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_WRITEDATA, sink);
    if (!code && options->authority)
        code = curl_easy_setopt(curl, CURLOPT_CAINFO, options->authority);
    return code;
}

static enum base_error perform(CURL *curl, const char *url, const struct lab_fetch_options *options,
                               struct sink *sink, const char *path, struct base_reason *why)
{
    char said[CURL_ERROR_SIZE] = "";
    CURLcode code = prepare(curl, url, options, sink, said);
    if (!code)
        code = curl_easy_perform(curl);
    if (sink->too_many)
        return base_fail(why, BASE_ELIMIT,
                         "%s: has more than %zu bytes, so it is not the file that is expected", url,
                         sink->most);
    if (sink->error)
        return base_fail(why, BASE_EIO, "%s: cannot be written after %zu bytes: %s", path, sink->bytes,
                         strerror(sink->error));
    if (code == CURLE_OPERATION_TIMEDOUT)
        return base_fail(
            why, BASE_EIO,
            "%s: the server is too slow: no connection, or fewer than %u bytes a second, for %u s "
            "(--timeout); %zu bytes arrived",
            url, LAB_FETCH_SLOW, wait_of(options), sink->bytes);
    return code ? base_fail(why, BASE_EIO, "%s: %s, after %zu bytes", url,
                            said[0] ? said : curl_easy_strerror(code), sink->bytes)
                : BASE_OK;
}

enum base_error lab_fetch_transfer(const char *url, size_t most, const struct lab_fetch_options *options,
                                   FILE *out, const char *path, struct base_reason *why)
{
    struct sink sink = {.out = out, .most = most};
    CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_easy_init();
    if (!curl)
        return base_fail(why, BASE_ENOMEM, "libcurl does not start: out of memory");
    const enum base_error error = perform(curl, url, options, &sink, path, why);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    return error;
}
