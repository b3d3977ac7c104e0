"""The hot parts of codec and exchange in NumPy, with the same bits: `install` puts them in place. An exchange of 25,450 parameters then takes about
1 ms instead of 50. `check_vectors --fast` runs the vectors over them."""

import struct
from array import array

import codec
import exchange
import numpy as np
from noise import Refused

U64 = np.uint64
U32 = U64(32)
PUT_PACKET, TAKE_PACKET = codec.put_packet, codec.take_packet


def view(vector):
    """fp32, of an array or of bytes: the same memory."""
    return vector if isinstance(vector, np.ndarray) else np.frombuffer(vector, np.float32)


def mix(value):
    value = (value ^ value >> U64(30)) * U64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> U64(27)) * U64(0x94D049BB133111EB)
    return value ^ value >> U64(31)


def hash_elements(indices, bits):
    return mix((indices << U32 ^ indices >> U32) + U64(codec.GOLDEN) * (bits.astype(U64) + U64(1)))


def hash_vector(values, magnitudes=False):
    bits = view(values).view(np.uint32) & np.uint32(0x7FFFFFFF if magnitudes else 0xFFFFFFFF)
    return int(hash_elements(np.arange(len(bits), dtype=U64), bits).sum(dtype=U64))


def hash_keys(indices):
    indices = np.asarray(indices, dtype=U64)
    places = np.arange(len(indices), dtype=U64)
    return codec.mix(codec.mix(len(indices)) + int(mix(places << U32 | indices).sum(dtype=U64)) & codec.MASK)


def select(a, k):
    """As codec.select: of equal magnitudes at the limit the lower indices."""
    sizes = np.abs(view(a))
    if k >= len(sizes):
        return np.flatnonzero(sizes)
    least = np.partition(sizes, len(sizes) - k)[len(sizes) - k]
    above, at = np.flatnonzero(sizes > least), np.flatnonzero(sizes == least) if least else []
    return np.union1d(above, at[:k - len(above)]).astype(np.int64)


# -- indices

def bits_of(data):
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")


def put_bitmap(indices):
    raw = np.zeros(int(indices[-1]) + 1 if len(indices) else 0, np.uint8)
    raw[indices] = 1
    return np.packbits(raw, bitorder="little").tobytes()


def put_rice(gaps, p):
    ones = np.cumsum(gaps >> p) + np.arange(len(gaps))
    low = (gaps[:, None] >> np.arange(p) & 1).astype(np.uint8)
    return put_bitmap(ones) + np.packbits(low.ravel(), bitorder="little").tobytes()


def put_indices(indices, d):
    if len(indices) == d or not len(indices):
        return codec.put_indices([int(i) for i in indices], d)
    gaps = np.diff(indices, prepend=-1) - 1
    guess = max(1, (int(gaps.sum()) // len(gaps)).bit_length())
    rice = [((len(gaps) + int((gaps >> p).sum()) + 7) // 8 + (len(gaps) * p + 7) // 8, p) for p in range(max(1, guess - 3), min(31, guess + 3))]
    if int(indices[-1]) // 8 + 1 <= min(rice)[0]:
        return codec.BITMAP, 0, put_bitmap(indices)
    return codec.RICE, min(rice)[1], put_rice(gaps, min(rice)[1])


def take_rice(data, n, p):
    low_bytes = (n * p + 7) // 8
    if not 1 <= p <= 30 or n == 0 or len(data) <= low_bytes:
        raise Refused("a Rice section of no valid form")
    high, low = data[:len(data) - low_bytes], bits_of(data[len(data) - low_bytes:])
    ones = np.flatnonzero(bits_of(high))
    if high[-1] == 0 or len(ones) != n or low[n * p:].any():
        raise Refused("a Rice section of no valid form")
    gaps = (np.diff(ones, prepend=-1) - 1 << p) + low[:n * p].reshape(n, p).astype(np.int64) @ (1 << np.arange(p))
    return np.cumsum(gaps + 1) - 1


# -- packets: int8 and the two usual codes of indices; the rest is codec's

def put_int8(values):
    out = []
    for at in range(0, len(values), codec.BLOCK):
        block = values[at:at + codec.BLOCK]
        largest = np.abs(block).max()
        if largest < 127 * codec.NORMAL or float(largest) > 1e38:
            out.append(codec.put_int8([float(v) for v in block]))
            continue
        scale = np.float32(largest / np.float32(127))
        out.append(scale.tobytes() + np.clip(np.rint(block / scale), -127, 127).astype(np.int8).tobytes())
    return b"".join(out)


def take_int8(data, count):
    values = np.empty(count, np.float32)
    for done in range(0, count, codec.BLOCK):
        here, at = min(codec.BLOCK, count - done), done // codec.BLOCK * (codec.BLOCK + 4)
        (scale,) = struct.unpack_from("<f", data, at)
        codes = np.frombuffer(data, np.int8, here, at + 4)
        if not (scale == 0 or codec.NORMAL <= scale < 2.0**128) or (codes == -128).any() or 127.0 * scale >= 2.0**128 or scale == 0 and codes.any():
            raise Refused("a block that no encoder writes")
        values[done:done + here] = np.float32(scale) * codes
    return values


def put_packet(indices, values, d, form, known=None):
    indices, values = np.asarray(indices, np.int64), np.asarray(values, np.float32)
    if form != codec.INT8 or known is not None or not len(indices):
        return PUT_PACKET([int(i) for i in indices], [float(v) for v in values], d, form, known)
    code, p, section = put_indices(indices, d)
    return struct.pack("<BBI", form | code << 4, p, len(indices)) + section + put_int8(values)


def take_packet(data, d, known=None):
    kinds, p, n = struct.unpack_from("<BBI", data) if len(data) >= 6 else (0, 0, 0)
    form, code = kinds & 15, kinds >> 4
    if form != codec.INT8 or code != codec.RICE or n > d or len(data) < 6 + codec.section_bytes(form, n):
        return TAKE_PACKET(data, d, known)
    end = len(data) - codec.section_bytes(form, n)
    indices = take_rice(data[6:end], n, p)
    if indices[-1] >= d:
        raise Refused("an index beyond the model")
    return indices, take_int8(data[end:], n)


def take_floats(data, count):
    if len(data) != 4 * count:
        raise Refused("a block of another length")
    if not np.isfinite(np.frombuffer(data, np.float32)).all():
        raise Refused("a block with a value that is not finite")
    return array("f", data)


# -- an edge

class Entries:
    """Of two packets together: indices, and the two values at each, as `Edge.move` takes them one by one."""

    def __init__(self, mine, theirs):
        self.indices = np.union1d(mine[0], theirs[0]).astype(np.int64)
        self.mine, self.theirs = (np.zeros(len(self.indices), np.float32) for _ in range(2))
        self.mine[np.searchsorted(self.indices, mine[0])] = mine[1]
        self.theirs[np.searchsorted(self.indices, theirs[0])] = theirs[1]


class FastEdge(exchange.Edge):
    """Where it need not move a correction: a member that trains nothing has none."""

    def sparse(self, slice_clock):
        if self.owner.bf16:
            return super().sparse(slice_clock)
        owner = self.owner
        with np.errstate(over="ignore"):
            a = view(owner.model_to_send(self)) - view(self.reference)
        indices, packet = select(a, owner.entries), self.base_of(exchange.SPARSE)
        packet["delta"] = put_packet(indices, a[indices], owner.parameters, owner.values)
        if owner.second and owner.slices:
            first, count = codec.moment_slice(slice_clock, owner.slices, owner.parameters)
            packet["moment"] = codec.put_moments(owner.second_to_send()[first:first + count])
        return owner.packet_to_send(self, packet)

    def commit_sparse(self, mine, theirs, slice_clock):
        if self.owner.bf16 or theirs.keys or self.gain(mine, theirs, 1) > 0:
            super().commit_sparse(mine, theirs, slice_clock)
            return
        d = self.owner.parameters
        ours, other = codec.take_packet(mine["delta"], d), codec.take_packet(theirs.delta, d, self.received)
        weight = exchange.weight_of(mine["standing"], theirs.standing, theirs.weight)
        self.apply(Entries(ours, other), weight)
        self.received = None
        if self.owner.second and self.owner.slices and mine["moment"] and theirs.moment:
            self.move_moments(mine["moment"], theirs.moment, slice_clock)
        self.exchanges += 1

    def move(self, entries, weight, moves_reference=True, gain=0.0):
        if self.owner.bf16 or gain > 0 or not moves_reference:
            super().move([(int(i), float(m), float(t)) for i, m, t in entries], weight, moves_reference, gain)
            return
        indices, mine, theirs = zip(*entries)
        self.apply(Entries((indices, np.array(mine, np.float32)), (indices, np.array(theirs, np.float32))), weight)

    def apply(self, entries, weight):
        at, reference, model = entries.indices, view(self.reference), view(self.owner.model)
        places = at.astype(np.uint64)
        total, force = entries.mine + entries.theirs, entries.theirs - entries.mine
        before = hash_elements(places, reference[at].view(np.uint32)).sum(dtype=U64)
        reference[at] = (reference[at] + 0.5 * total.astype(np.float64)).astype(np.float32)
        after = hash_elements(places, reference[at].view(np.uint32)).sum(dtype=U64)
        if weight > 0:
            model[at] += np.float32(weight) * force
        self.hash = self.hash + int(after) - int(before) & codec.MASK


def install():
    """From now on, in this process. Edges of members are then FastEdge (`Member.edge_type`)."""
    codec.hash_zeros.cache_clear()
    codec.hash_vector, codec.hash_keys, codec.select = hash_vector, hash_keys, select
    codec.put_packet, codec.take_packet, codec.take_floats = put_packet, take_packet, take_floats
    return FastEdge
