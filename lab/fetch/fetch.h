// Downloads data files, each known by its SHA-256; a file with another digest is not kept. The only room
// that names libcurl; a build without it says what to download, from where, and where to put it. Blocking;
// main thread.
#ifndef LAB_FETCH_FETCH_H
#define LAB_FETCH_FETCH_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

#define LAB_FETCH_DIGEST 64 // hexadecimal digits of a SHA-256
#define LAB_FETCH_PATH   4096
#define LAB_FETCH_FILES  4
#define LAB_FETCH_SLOW   1000u // bytes a second
#define LAB_FETCH_WAIT   30u   // seconds, unless options say otherwise
#define LAB_FETCH_WAITS  86400u

struct lab_fetch_file {
    const char *name; // in its directory
    const char *url;  // https://
    const char *sha256;
};

// A data set by name. `look`: what 'p2pml data info' then takes, in the directory.
struct lab_fetch_set {
    const char *name, *about, *look;
    size_t n_files;
    struct lab_fetch_file files[LAB_FETCH_FILES];
};
extern const struct lab_fetch_set lab_fetch_sets[];
extern const size_t lab_fetch_n_sets;
const struct lab_fetch_set *lab_fetch_find(const char *name); // NULL: there is none

struct lab_fetch_options {
    const char *directory; // made where it is missing
    const char *from;      // in place of what is before the last '/' of the addresses, or NULL
    const char *authority; // file of certificates (PEM) to trust in place of the system's, or NULL
    unsigned wait_s;       // at most LAB_FETCH_WAITS; 0: LAB_FETCH_WAIT
};

// <directory>/<name>, which appears only when it is complete; one that is there already and is the right one
// is left as it is (*there true). A transfer fails when it has no connection after wait_s seconds, or when it
// was slower than LAB_FETCH_SLOW bytes a second for that long, so every transfer ends. On error nothing of it
// is left. BASE_EMISMATCH: the file that is there, or the one that came, has another digest, or another
// process fetches the file; BASE_EIO: network or disk; BASE_ESTATE: built without libcurl.
enum base_error lab_fetch(const struct lab_fetch_file *file, const struct lab_fetch_options *options,
                          bool *there, struct base_reason *why) BASE_CHECK;

// Unpacks <directory>/<name> there, with tar, where the name is that of a .tar.gz; nothing else. BASE_EIO.
enum base_error lab_fetch_unpack(const char *name, const char *directory, struct base_reason *why) BASE_CHECK;

#endif
