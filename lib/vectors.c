#include "lib/vectors.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Sealed, so that neither process can remove pages that the other uses.
static enum base_error make_file(const struct lib_vectors *v, int *made, struct base_reason *why)
{
    const int file = memfd_create("p2pml-vectors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file >= 0 && ftruncate(file, (off_t)(LIB_VECTORS * v->bytes)) == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        *made = file;
        return BASE_OK;
    }
    (void)base_fail(why, BASE_EIO, "no file in memory for vectors of %zu parameters: %s", v->parameters,
                    strerror(errno));
    if (file >= 0)
        close(file);
    return BASE_EIO;
}

// At the address `at`; NULL: anywhere.
static void *map_vector(const struct lib_vectors *v, int file, size_t which, void *at)
{
    const int access = PROT_READ | PROT_WRITE, fixed = at ? MAP_FIXED : 0;
    if (file < 0)
        return mmap(at, v->bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    return mmap(at, v->bytes, access, MAP_SHARED | fixed, file, (off_t)(which * v->bytes));
}

static bool copy_vector(const struct lib_vectors *v, int file, size_t which)
{
    const char *from = (const char *)v->at[which];
    for (size_t done = 0; done < v->bytes;) {
        const ssize_t bytes = pwrite(file, from + done, v->bytes - done, (off_t)(which * v->bytes + done));
        if (bytes <= 0 && errno != EINTR)
            return false;
        done += bytes > 0 ? (size_t)bytes : 0;
    }
    return true;
}

enum base_error lib_vectors_renew(struct lib_vectors *v, struct base_reason *why)
{
    int file = -1;
    enum base_error error = make_file(v, &file, why);
    for (size_t i = 0; !error && i < LIB_VECTORS; i++)
        if (v->at[i] && !copy_vector(v, file, i))
            error = base_fail(why, BASE_ENOMEM, "no memory for a copy of the vectors: %s", strerror(errno));
    for (size_t i = 0; !error && i < LIB_VECTORS; i++)
        if (v->at[i]) // replaces as many pages of the same kind, which cannot fail
            BASE_ASSERT(map_vector(v, file, i, v->at[i]) == v->at[i]);
    if (!error) {
        close(v->file);
        v->file = file;
    } else if (file >= 0) {
        close(file);
    }
    return error;
}

enum base_error lib_vectors_create(struct lib_vectors *v, size_t parameters, const bool wanted[LIB_VECTORS],
                                   bool shared, struct base_reason *why)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *v = (struct lib_vectors){
        .parameters = parameters, .bytes = (parameters * sizeof(float) + page - 1) / page * page, .file = -1};
    if (shared) {
        enum base_error error = make_file(v, &v->file, why);
        if (error)
            return error;
    }
    for (size_t i = 0; i < LIB_VECTORS; i++) {
        if (!wanted[i])
            continue;
        void *at = map_vector(v, v->file, i, NULL);
        if (at == MAP_FAILED)
            return base_fail(why, BASE_ENOMEM, "out of memory for vectors of %zu parameters", parameters);
        v->at[i] = at;
    }
    return BASE_OK;
}

void lib_vectors_destroy(struct lib_vectors *v)
{
    for (size_t i = 0; i < LIB_VECTORS; i++)
        if (v->at[i])
            munmap(v->at[i], v->bytes);
    if (v->file >= 0)
        close(v->file);
    *v = (struct lib_vectors){.file = -1};
}
