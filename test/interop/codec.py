"""Hashes, packets of sparse deltas, dense blocks and second moments (docs/PROTOCOL.md, sections 1 and 8; compress/LAYOUT.md).

Arithmetic is that of fp32: a double holds the exact sum, product or quotient of two of them well enough that rounding it once more
gives the same bits (an array of type "f" rounds what is stored in it)."""

import functools
import struct
from array import array
from ctypes import c_float

from noise import Refused

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FP32, FP16, INT8, BF16, INT4, INT2, SIGN = range(7)
ALL, BITMAP, RICE, SAME_KEYS = 0, 1, 3, 4
SCALES = {INT8: 4, INT4: 8, INT2: 8, SIGN: 4}  # bytes before the codes of a block
BITS = {FP32: 32, FP16: 16, INT8: 8, BF16: 16, INT4: 4, INT2: 2, SIGN: 1}  # of an entry
BLOCK = 256
HALF_MOST, BF16_MOST = 65504.0, 0x7F7F
NORMAL = 2.0**-126
PLACES = (0.0, 0.0517622936, 0.120643012, 0.212303415, 0.334277034, 0.496588826, 0.712579131, 1.0)  # of the levels of int4
LOG8_RUN = 4096  # second moments that share a scale
LOG8_LEAST = 2.0**-94
STEPS = tuple(float.fromhex(s) for s in ("0x1p0", "0x1.d5818ep-1", "0x1.ae89fap-1", "0x1.8ace54p-1", "0x1.6a09e6p-1", "0x1.4bfdaep-1",
                                         "0x1.306fe0p-1", "0x1.172b84p-1"))
MIDDLES = tuple(float.fromhex(s) for s in ("0x1.ea4afap-1", "0x1.c199bep-1", "0x1.9c4918p-1", "0x1.7a1148p-1", "0x1.5ab07ep-1",
                                           "0x1.3dea64p-1", "0x1.2387a6p-1", "0x1.0b5586p-1"))


def f32(value):
    return c_float(value).value


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


# -- hashes

def mix(value):
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def hash_bytes(seed, data):
    state = mix(mix(seed + GOLDEN & MASK) ^ len(data))
    for at in range(0, len(data), 8):
        state = mix(state ^ int.from_bytes(data[at:at + 8], "little")) + GOLDEN & MASK
    return mix(state)


def hash_element(index, value_bits):
    value = (index << 32 ^ index >> 32) + GOLDEN * (value_bits + 1) & MASK  # mix of this, written out: it is called most
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def hash_vector(values, magnitudes=False):
    """`values`: an array of fp32. Elements count from 0."""
    keep = 0x7FFFFFFF if magnitudes else 0xFFFFFFFF
    return sum(hash_element(i, bits & keep) for i, bits in enumerate(struct.unpack(f"<{len(values)}I", values.tobytes()))) & MASK


@functools.lru_cache(None)
def hash_zeros(count):
    return hash_vector(array("f", bytes(4 * count)))


def hash_keys(indices):
    return mix(mix(len(indices)) + sum(mix(i << 32 | index) for i, index in enumerate(indices)) & MASK)


def hash_blob(blob):
    """The scaling of a HELLO."""
    return hash_bytes(1, blob) | 1 if blob else 0


def chain(value, number):
    return hash_bytes(value, struct.pack("<Q", number))


def hash_schema(kind, tensors, described="", loss=0):
    """`tensors`: (name, shape, offset) in the order of the vector. `described`: of kinds above 1 (mlp)."""
    value = chain(0, kind)
    for name, shape, offset in tensors:
        value = hash_bytes(value, name.encode())
        for size in tuple(shape) + (0,) * (2 - len(shape)):
            value = chain(value, size)
        value = chain(value, offset)
    if described:
        value = hash_bytes(value, described.encode())
    return chain(value, loss) if loss else value


def hash_graph(edges):
    """`edges`: pairs of names, as the file has them."""
    value = 0x6772617068
    for edge in edges:
        for name in edge:
            value = hash_bytes(value, name.encode())
    return value


def merge_key(id, generation, instance_id):
    return hash_bytes(hash_bytes(1, struct.pack("<QQ", generation, instance_id)), id) or 1


# -- values

def to_bf16(value):
    """The upper half of the nearest number in bf16, ties to even; too large ones become the largest."""
    bits = bits_of(value)
    magnitude = bits & 0x7FFFFFFF
    upper = magnitude + 0x7FFF + (magnitude >> 16 & 1) >> 16
    return bits >> 16 & 0x8000 | min(upper, BF16_MOST)


def round_bf16(value):
    return float_of(to_bf16(value) << 16)


def round_bf16_up(value, chance):
    """The next number in bf16 towards zero, or with that chance of 65,536 the one away from it."""
    bits = bits_of(value)
    return float_of((bits >> 16 & 0x8000 | min((bits & 0x7FFFFFFF) + chance >> 16, BF16_MOST)) << 16)


def to_fp16(value):
    return struct.pack("<e", max(-HALF_MOST, min(HALF_MOST, value)) if abs(value) >= 65520 else value)


def section_bytes(form, count):
    codes = (count * BITS[form] + 7) // 8
    blocks, rest = divmod(count, BLOCK)
    if form not in SCALES:
        return codes
    return blocks * (SCALES[form] + BLOCK * BITS[form] // 8) + (SCALES[form] + (rest * BITS[form] + 7) // 8 if rest else 0)


def put_int8(values):
    largest = max(abs(v) for v in values)
    scale = 0.0 if largest < 127 * NORMAL else f32(largest / 127)
    if scale and 127.0 * scale >= 2.0**128:
        scale = float_of(bits_of(scale) - 1)
    codes = [max(-127, min(127, round(f32(v / (scale or 1.0))))) for v in values] if scale else [0] * len(values)
    return struct.pack(f"<f{len(codes)}b", scale, *codes)


def put_values(form, values):
    if form == FP32:
        return struct.pack(f"<{len(values)}f", *values)
    if form == FP16:
        return b"".join(map(to_fp16, values))
    if form == BF16:
        return struct.pack(f"<{len(values)}H", *map(to_bf16, values))
    if form == INT8:
        return b"".join(put_int8(values[at:at + BLOCK]) for at in range(0, len(values), BLOCK))
    raise ValueError("this client sends fp32, fp16, bf16 and int8")


def int4_levels(low, high):
    levels = [f32(low + f32(f32(high - low) * f32(place))) for place in PLACES]
    levels[7] = high
    return levels + [-level for level in levels]


def block_levels(form, scales):
    """What each code of a block stands for."""
    if form == INT8:
        return [f32(scales[0] * (c - 256 if c > 127 else c)) for c in range(256)]
    if form == SIGN:
        return [scales[0], -scales[0]]
    low, high = scales
    return int4_levels(low, high) if form == INT4 else [low, high, -low, -high]


def take_block(form, data, count):
    scales = struct.unpack_from(f"<{SCALES[form] // 4}f", data)
    if not all(s == 0 or NORMAL <= s < 2.0**128 for s in scales) or list(scales) != sorted(scales):
        raise Refused("a scale that no block may have")
    if form == INT8 and 127.0 * scales[0] >= 2.0**128 or form == INT4 and 0 < scales[1] < LOG8_LEAST:
        raise Refused("a scale out of its range")
    bits = BITS[form]
    number = int.from_bytes(data[SCALES[form]:], "little")
    levels = block_levels(form, scales)
    codes = [number >> i * bits & (1 << bits) - 1 for i in range(count)]
    if number >> count * bits or form == INT8 and 128 in codes or any(c and levels[c] == 0 for c in codes):
        raise Refused("codes that no encoder writes")
    return [levels[c] for c in codes]


def take_values(form, data, count):
    if len(data) != section_bytes(form, count):
        raise Refused("a section of another length")
    if form == FP32:
        values = struct.unpack(f"<{count}f", data)
    elif form == FP16:
        values = struct.unpack(f"<{count}e", data)
    elif form == BF16:
        values = [float_of(upper << 16) for upper in struct.unpack(f"<{count}H", data)]
    else:
        values, at = [], 0
        for done in range(0, count, BLOCK):
            here = min(BLOCK, count - done)
            length = SCALES[form] + (here * BITS[form] + 7) // 8
            values += take_block(form, data[at:at + length], here)
            at += length
    if not all(abs(v) < 2.0**128 for v in values):
        raise Refused("a value that is not finite")
    return array("f", values)


# -- indices

def gaps_of(indices):
    last, gaps = -1, []
    for index in indices:
        gaps.append(index - last - 1)
        last = index
    return gaps


def put_rice(gaps, p):
    ones, at = [], 0
    for gap in gaps:
        at += gap >> p
        ones.append(at)
        at += 1
    return put_bitmap(ones) + low_stream(gaps, p)


def low_stream(gaps, p):
    out, held, bits = bytearray(), 0, 0
    for gap in gaps:
        held |= (gap & (1 << p) - 1) << bits
        bits += p
        while bits >= 8:
            out.append(held & 255)
            held >>= 8
            bits -= 8
    return bytes(out) + (bytes([held]) if bits else b"")


def put_bitmap(indices):
    raw = bytearray(indices[-1] // 8 + 1 if indices else 0)
    for index in indices:
        raw[index >> 3] |= 1 << (index & 7)
    return bytes(raw)


def put_indices(indices, d):
    """The shortest section: (code, parameter, bytes). Of two equally short ones the code with the lower number."""
    if len(indices) == d:
        return ALL, 0, b""
    gaps = gaps_of(indices)
    guess = max(1, (sum(gaps) // max(1, len(gaps))).bit_length())
    rice = [((len(gaps) + sum([g >> p for g in gaps]) + 7) // 8 + (len(gaps) * p + 7) // 8, p)
            for p in range(max(1, guess - 3), min(31, guess + 3))] if gaps else []
    bitmap = indices[-1] // 8 + 1 if indices else 0
    if not rice or bitmap <= min(rice)[0]:
        return BITMAP, 0, put_bitmap(indices)
    return RICE, min(rice)[1], put_rice(gaps, min(rice)[1])


def set_bits(data):
    return [8 * i + j for i, byte in enumerate(data) if byte for j in range(8) if byte >> j & 1]


def take_rice(data, n, p):
    low_bytes = (n * p + 7) // 8
    if len(data) <= low_bytes:
        raise Refused("a Rice section that is too short")
    high, low = data[:len(data) - low_bytes], data[len(data) - low_bytes:]
    ones = set_bits(high)
    number = int.from_bytes(low, "little")
    if not 1 <= p <= 30 or n == 0 or high[-1] == 0 or len(ones) != n or number >> n * p:
        raise Refused("a Rice section of no valid form")
    indices, last, before = [], -1, -1
    for i, one in enumerate(ones):
        start = i * p
        piece = int.from_bytes(low[start >> 3:(start + p + 7 >> 3)], "little") >> (start & 7)
        last += 1 + ((one - before - 1) << p | piece & (1 << p) - 1)
        before = one
        indices.append(last)
    return indices


def take_indices(code, p, data, n, d, known):
    if code == RICE:
        indices = take_rice(data, n, p)
    elif p:
        raise Refused("a parameter of a code that has none")
    elif code == ALL:
        indices = list(range(d))
        if n != d or data:
            raise Refused("not all of the elements")
    elif code == BITMAP:
        indices = set_bits(data)
        if data and data[-1] == 0 or len(indices) != n:
            raise Refused("a bitmap of no valid form")
    elif code == SAME_KEYS:
        if n == 0 or len(data) != 8:
            raise Refused("a hash of no valid length")
        if known is None or len(known) != n or struct.pack("<Q", hash_keys(known)) != data:
            raise KeyError("indices that this end does not remember")
        indices = known
    else:
        raise Refused("an index code of no known number")
    if indices and indices[-1] >= d:
        raise Refused("an index beyond the model")
    return indices


def put_packet(indices, values, d, form, known=None):
    if known is not None and known == indices and indices:
        code, p, section = SAME_KEYS, 0, struct.pack("<Q", hash_keys(indices))
    else:
        code, p, section = put_indices(indices, d)
    return struct.pack("<BBI", form | code << 4, p, len(indices)) + section + put_values(form, values)


def take_packet(data, d, known=None):
    """(indices, values). KeyError: over indices that this end does not remember."""
    if len(data) < 6:
        raise Refused("a packet without a header")
    kinds, p, n = struct.unpack_from("<BBI", data)
    form, code = kinds & 15, kinds >> 4
    if form > SIGN or n > d or len(data) < 6 + section_bytes(form, n):
        raise Refused("a packet of no valid form")
    end = len(data) - section_bytes(form, n)
    return take_indices(code, p, data[6:end], n, d, known), take_values(form, data[end:], n)


def select(a, k):
    """The indices of the k largest magnitudes; ties go to the lower index, zeros are never taken."""
    sizes = [abs(value) for value in a]
    order = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)[:k]  # equal ones keep their order
    return sorted(i for i in order if sizes[i])


def count_auto(d):
    """How many entries average.ratio: auto sends."""
    return max(1, int(max(d / 32, min(d / 8, 16384)) + 0.5))


# -- dense runs

def take_floats(data, count):
    if len(data) != 4 * count:
        raise Refused("a block of another length")
    values = array("f", struct.unpack(f"<{count}f", data))
    if not all(abs(v) < 2.0**128 for v in values):
        raise Refused("a block with a value that is not finite")
    return values


def log8_scaled(largest, steps, below):
    return f32(f32(largest * steps[below % 8]) * 2.0**-(below // 8))


def put_log8(values):
    """Of one run, at most LOG8_RUN values."""
    largest = max(values)
    if largest < LOG8_LEAST:
        return bytes(4 + len(values))
    least = [0.0, 2.0**-149] + [log8_scaled(largest, MIDDLES, 255 - c) for c in range(2, 256)]
    return struct.pack("<f", largest) + bytes(max(c for c in range(256) if v >= least[c]) for v in values)


def take_log8(data, count):
    (largest,) = struct.unpack_from("<f", data)
    codes = data[4:]
    if len(codes) != count or not (largest == 0 or LOG8_LEAST <= largest < 2.0**128):
        raise Refused("second moments of no valid form")
    if (255 not in codes) if largest else any(codes):
        raise Refused("second moments that do not fit their scale")
    levels = [0.0] + [log8_scaled(largest, STEPS, 255 - c) for c in range(1, 256)]
    return array("f", (levels[c] for c in codes))


def moment_slice(clock, slices, d):
    """The run of second moments that an exchange of this round shares: (first, count)."""
    length = (d + slices - 1) // slices
    first = (clock + clock // slices) % slices * length
    return (first, min(length, d - first)) if first < d else (0, 0)


def put_moments(values):
    return b"".join(put_log8(values[at:at + LOG8_RUN]) for at in range(0, len(values), LOG8_RUN))


def take_moments(data, count):
    values, at = array("f"), 0
    for done in range(0, count, LOG8_RUN):
        here = min(LOG8_RUN, count - done)
        values += take_log8(data[at:at + 4 + here], here)
        at += 4 + here
    if at != len(data):
        raise Refused("second moments of another length")
    return values
