// Downloads data files with known SHA-256; a file with another digest is not kept. The only directory that
// uses libcurl; a build without it prints the file to download, its address and its place. Blocking; main
// thread.
#ifndef LAB_FETCH_FETCH_H
#define LAB_FETCH_FETCH_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

#define LAB_FETCH_DIGEST 64 // hexadecimal digits of a SHA-256
#define LAB_FETCH_PATH   4096
#define LAB_FETCH_FILES  4
#define LAB_FETCH_SLOW   1000u // bytes per second
#define LAB_FETCH_WAIT   30u   // seconds, by default
#define LAB_FETCH_WAITS  86400u

struct lab_fetch_file {
    const char *name; // in its directory
    const char *url;  // https://
    const char *sha256;
    size_t bytes; // 0: not known, at most LIMIT_DATA_FILE_BYTES
};

// A data set by name. `look`: the file in the directory for 'p2pml data info'.
struct lab_fetch_set {
    const char *name, *about, *look;
    size_t n_files;
    struct lab_fetch_file files[LAB_FETCH_FILES];
};
extern const struct lab_fetch_set lab_fetch_sets[];
extern const size_t lab_fetch_n_sets;
const struct lab_fetch_set *lab_fetch_find(const char *name); // NULL: unknown

struct lab_fetch_options {
    const char *directory; // created if missing
    const char *from;      // replaces the part of the addresses before the last '/', or NULL
    const char *authority; // file of certificates (PEM) to trust in place of the system's, or NULL
    unsigned wait_s;       // at most LAB_FETCH_WAITS; 0: LAB_FETCH_WAIT
};

// <directory>/<name>, which appears only when it is complete; an existing file with the right digest is kept
// (*there true). A transfer fails when it has no connection after wait_s seconds, or when it was slower than
// LAB_FETCH_SLOW bytes a second for that long, so every transfer ends. On error no part of it is left.
// BASE_EMISMATCH: the existing file, or the received one, has another digest, or another process fetches the
// file; BASE_EIO: network or disk; BASE_ESTATE: built without libcurl.
enum base_error lab_fetch(const struct lab_fetch_file *file, const struct lab_fetch_options *options,
                          bool *there, struct base_reason *why) BASE_CHECK;

// Unpacks <directory>/<name> there with tar if it is a .tar.gz; otherwise does nothing. BASE_EIO.
enum base_error lab_fetch_unpack(const char *name, const char *directory, struct base_reason *why) BASE_CHECK;

#endif
