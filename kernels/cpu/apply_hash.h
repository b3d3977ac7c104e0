// Hashes of runs and of changes, LANES terms at once. The including file defines LANES, the names MM(noun)
// and MM_BITS(noun) of its intrinsics, vec and the operations on it.
static inline vec mix(vec h)
{
    h = times(MM_BITS(xor)(h, MM(srli_epi64)(h, 30)), 0xbf58476d1ce4e5b9ull);
    h = times(MM_BITS(xor)(h, MM(srli_epi64)(h, 27)), 0x94d049bb133111ebull);
    return MM_BITS(xor)(h, MM(srli_epi64)(h, 31));
}

// base_hash_element of LANES elements: `places` holds index << 32 ^ index >> 32, `value` the bits of the
// elements as 64-bit numbers.
static inline vec terms(vec places, vec value)
{
    const uint64_t golden = 0x9e3779b97f4a7c15ull;
    vec low = MM(mul_epu32)(value, spread((int64_t)(golden & 0xffffffffu)));
    vec high = MM(mul_epu32)(value, spread((int64_t)(golden >> 32)));
    vec product = MM(add_epi64)(low, MM(slli_epi64)(high, 32));
    return mix(MM(add_epi64)(product, MM(add_epi64)(places, spread((int64_t)golden))));
}

static uint64_t hash_change(size_t count, const uint32_t *index, const float *before, const float *after)
{
    vec sum = spread(0);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vec places = MM(slli_epi64)(widen(index + i), 32);
        sum = MM(add_epi64)(sum, terms(places, widen(after + i)));
        sum = MM(sub_epi64)(sum, terms(places, widen(before + i)));
    }
    return sum_of(sum) + plain_hash_change(count - i, index + i, before + i, after + i);
}

static uint64_t hash_run(size_t count, const float *x, size_t first, uint32_t mask)
{
    vec sum = spread(0);
    vec index = MM(add_epi64)(spread((int64_t)first), numbers());
    const vec counted = spread(mask);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        sum = MM(add_epi64)(sum, terms(swap_halves(index), MM_BITS(and)(widen(x + i), counted)));
        index = MM(add_epi64)(index, spread(LANES));
    }
    return sum_of(sum) + plain_hash_run(count - i, x + i, first + i, mask);
}
