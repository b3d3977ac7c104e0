// Two tables side by side: what an exchange asks of a backend (kernels/select.h, values.h, apply.h) must give
// the same bits on a second backend as on the CPU's plain one, except for energies. For CUDA on a device and
// for its code in the emulator.
#ifndef TEST_UNIT_KERNELS_TWIN_H
#define TEST_UNIT_KERNELS_TWIN_H

#include "kernels_checks.h"

struct twins {
    const struct kernels *plain, *other;
    const size_t *sizes; // ends with 0
};

enum twin_data {
    TWIN_GAUSSIAN,
    TWIN_HEAVY,
    TWIN_SPARSE,
    TWIN_CONSTANT,
    TWIN_FEW,
    TWIN_DENORMAL,
    TWIN_HUGE,
    TWIN_FINITE, // the kinds above are finite
    TWIN_NAN = TWIN_FINITE,
    TWIN_INFINITE,
    TWIN_KINDS
};

static inline uint32_t twin_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline size_t twin_below(size_t limit)
{
    return (size_t)(base_rng_u64(&checks_rng) % limit);
}

static inline float twin_element(enum twin_data data)
{
    const double normal = base_rng_normal(&checks_rng), other = base_rng_normal(&checks_rng);
    switch (data) {
    case TWIN_HEAVY:
        return (float)(normal / (fabs(other) + 1e-6));
    case TWIN_SPARSE:
        return twin_below(100) == 0 ? (float)normal : twin_below(2) == 0 ? 0.0f : -0.0f;
    case TWIN_CONSTANT:
        return 0.5f;
    case TWIN_FEW:
        return (float)(int)(twin_below(5)) * 0.25f - 0.5f;
    case TWIN_DENORMAL:
        return (float)(normal * 1e-39);
    case TWIN_HUGE:
        return (float)(normal * 5e37);
    default:
        return (float)normal;
    }
}

static inline void twin_fill(enum twin_data data, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = twin_element(data);
    }
    if (data >= TWIN_FINITE) {
        for (size_t n = 0; n < 1 + count / 100; n++) {
            x[twin_below(count)] = data == TWIN_NAN ? NAN : twin_below(2) == 0 ? INFINITY : -INFINITY;
        }
    }
}

// A copy in a backend's memory; the guards behind it are checked when it is fetched.
static inline void *twin_send(const struct kernels *k, const void *host, size_t bytes)
{
    unsigned char guard[GUARD];
    unsigned char *device = k->alloc(bytes + GUARD);
    assert_non_null(device);
    memset(guard, 0x5a, sizeof guard);
    k->upload(device, host, bytes);
    k->upload(device + bytes, guard, sizeof guard);
    return device;
}

static inline void *twin_fetch(const struct kernels *k, void *device, size_t bytes)
{
    unsigned char *host = malloc(bytes + GUARD);
    assert_non_null(host);
    k->wait();
    k->download(host, device, bytes + GUARD);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(host[bytes + i], 0x5a);
    }
    k->release(device);
    return host;
}

static inline void twin_same(const char *what, size_t size, const void *found, const void *expected,
                             size_t bytes)
{
    const unsigned char *f = found, *e = expected;
    for (size_t i = 0; i < bytes; i++) {
        if (f[i] != e[i]) {
            fail_msg("%s, %zu elements, byte %zu of %zu: found %02x, expected %02x", what, size, i, bytes,
                     f[i], e[i]);
        }
    }
}

#endif
