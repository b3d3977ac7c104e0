"""Messages of a stream: a header in msgpack, then up to three payloads (docs/PROTOCOL.md, section 6)."""

import math
import re
import struct

from noise import Refused

U8, U32, U64 = 2**8 - 1, 2**32 - 1, 2**64 - 1
GREETING, HELLO, XCHG, XACK, BUSY, BYE, MEMBERS, SNAPSHOT_ASK, SNAPSHOT_TELL, PARKED, STATISTICS, MERGE, RELAY, REMOVED = range(1, 15)
NAMES = ("", "greeting", "hello", "xchg", "xack", "busy", "bye", "members", "snapshot_ask", "snapshot_tell", "parked", "statistics",
         "merge", "relay", "removed")

# A field: a number and its bound; "float"; "text" or "name" and its longest length; "bytes" (its length is in the header).
EXCHANGE = (("epoch", U64), ("sequence", U64), ("clock", U64), ("standing", 2), ("step_scale", "float"), ("weight", "float"),
            ("limit", "float"), ("bound", "float"), ("progress", "float"),
            ("pace_ns", U64), ("form", 1), ("offset", U64), ("keys", 1), ("delta", "bytes", U32), ("moment", "bytes", U32),
            ("news", "bytes", 64))
FIELDS = {
    GREETING: (("version", "text", 31), ("name", "name", 63), ("model", "text", 95), ("schema", U64), ("parameters", U64),
               ("instance_id", U64), ("rules", "text", 767), ("told", "text", 767), ("own0", U64), ("own1", U64), ("begun", 1),
               ("shard", U32), ("seen", "text", 55)),
    HELLO: (("epoch", U64), ("sequence", U64), ("reference_hash", U64), ("correction_hash", U64), ("resync_offset", U64),
            ("answer", U8), ("standing", 2), ("scaling", U64)),
    XCHG: EXCHANGE,
    XACK: EXCHANGE,
    BUSY: (("epoch", U64), ("sequence", U64)),
    BYE: (("reason", "text", 63),),
    MEMBERS: (("packet", "bytes", 16384),),
    SNAPSHOT_ASK: (("snapshot", U64), ("part", 5), ("block", U32)),
    SNAPSHOT_TELL: (("snapshot", U64), ("parts", 63), ("part", 5), ("block", U32), ("round", U64), ("step", U64), ("hash", U64),
                    ("values", "bytes", 65536)),
    PARKED: (("epoch", U64), ("sequence", U64), ("round", U64)),
    STATISTICS: (("generation", U64), ("rows", 2**53), ("columns", 5460), ("first", 5460), ("spreads", "bytes", 8192)),
    MERGE: (("phase", 5), ("gives", 1), ("hash", U64), ("keys", "bytes", 512)),
    RELAY: (("verb", 5), ("stream", U32), ("amount", U64), ("bytes", "bytes", 16384)),
    REMOVED: (("list", "bytes", 2120),),
}


class Message:
    """A message of a kind. Its fields are attributes, by the names above."""

    def __init__(self, kind, **fields):
        self.__dict__.update(fields, kind=kind)

    def fields(self):
        return {name: getattr(self, name) for name, *_ in FIELDS[self.kind]}


def put_uint(value):
    for bound, code, form in ((U8, 0xCC, ">B"), (2**16 - 1, 0xCD, ">H"), (U32, 0xCE, ">I"), (U64, 0xCF, ">Q")):
        if value < 128:
            return bytes([value])
        if value <= bound:
            return bytes([code]) + struct.pack(form, value)
    raise ValueError(f"{value} has more than 64 bits")


def put_text(text):
    raw = text.encode("ascii")
    if len(raw) < 32:
        return bytes([0xA0 | len(raw)]) + raw
    return (struct.pack(">BB", 0xD9, len(raw)) if len(raw) <= U8 else struct.pack(">BH", 0xDA, len(raw))) + raw


def put_array(count):
    return bytes([0x90 | count]) if count < 16 else struct.pack(">BH", 0xDC, count)


def encode(message):
    fields = FIELDS[message.kind]
    header, payloads = put_array(len(fields) + 1) + bytes([message.kind]), b""
    for name, kind, *_ in fields:
        value = getattr(message, name)
        if kind == "float":
            header += struct.pack(">Bf", 0xCA, value)
        elif kind in ("text", "name"):
            header += put_text(value)
        elif kind == "bytes":
            header += put_uint(len(value))
            payloads += value
        else:
            header += put_uint(value)
    return header + payloads


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        piece = self.data[self.at:self.at + count]
        if len(piece) < count:
            raise Refused("a message that ends too early")
        self.at += count
        return piece

    def uint(self, most):
        first = self.take(1)[0]
        if first < 128:
            value = first
        elif 0xCC <= first <= 0xCF:
            value = int.from_bytes(self.take(1 << first - 0xCC), "big")
        else:
            raise Refused("no number where one belongs")
        if value > most or put_uint(value)[0] != first:
            raise Refused("a number that is too large, or longer than it need be")
        return value

    def float(self):
        if self.take(1) != b"\xca":
            raise Refused("no float where one belongs")
        return struct.unpack(">f", self.take(4))[0]

    def text(self, most, pattern):
        first = self.take(1)[0]
        if first & 0xE0 == 0xA0:
            length = first & 31
        elif first in (0xD9, 0xDA):
            length = int.from_bytes(self.take(first - 0xD8), "big")
        else:
            raise Refused("no text where one belongs")
        raw = self.take(length)
        if length > most or not re.fullmatch(pattern, raw) or put_text(raw.decode())[0] != first:
            raise Refused("a text of a form that is not allowed")
        return raw.decode()


def check(message):
    """What the bounds of single fields do not say."""
    if message.kind in (XCHG, XACK):
        block = message.form == 1
        return math.isfinite(message.step_scale) and message.step_scale >= 0 and message.limit >= 0 and message.bound >= 0 and math.isfinite(message.progress) and message.progress >= 0 and (
            message.weight == 0.5 and not message.keys if block else 0 < message.weight <= 1 and message.offset == 0)
    if message.kind == MEMBERS:
        return len(message.packet) > 0
    if message.kind == SNAPSHOT_TELL:
        count = len(message.values)
        return message.snapshot >= 1 and message.parts >> message.part & 1 and (
            message.block == 0 if message.part == 3 else 0 < count <= 16384 and count % 4 == 0)
    return True


def decode(data):
    reader = Reader(data)
    array = reader.take(1)
    array += reader.take(2) if array[0] == 0xDC else b""
    kind = reader.take(1)[0]
    if kind not in FIELDS or array != put_array(len(FIELDS[kind]) + 1):
        raise Refused("a message of no known kind, or with another number of fields")
    message, payloads = Message(kind), []
    for name, form, *bound in FIELDS[kind]:
        if form == "float":
            setattr(message, name, reader.float())
        elif form in ("text", "name"):
            setattr(message, name, reader.text(bound[0], rb"[A-Za-z0-9._-]+" if form == "name" else rb"[ -~]*"))
        elif form == "bytes":
            payloads.append((name, reader.uint(bound[0])))
        else:
            setattr(message, name, reader.uint(form))
    for name, length in payloads:
        setattr(message, name, reader.take(length))
    if reader.at != len(data) or not check(message):
        raise Refused(f"a {NAMES[kind]} that is too long, or says what none may say")
    return message
