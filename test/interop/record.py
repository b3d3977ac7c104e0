"""Records of members, suspicions, and the packets of membership (docs/PROTOCOL.md, section 7)."""

import ipaddress
import math
import struct
from dataclasses import dataclass, field

from codec import MASK, hash_bytes
from noise import Refused, verifies

LEFT, ELIGIBLE, TRAINING, FINISHED, STOPPING, HELD, HAS_FIRST_MODEL, PAUSED = (1 << i for i in range(8))
REACHABLE, RELAYS = 1, 2
NONE = 2**32 - 1  # no slot, no shard
PING, ACK, PING_REQUEST, RELAYED, NACK, GOSSIP, SYNC_ASK, SYNC_TELL = range(1, 9)
DEAD_BIT = 1
SILENT, EVIDENCE = 0, 1
NAN = struct.pack("<Q", 0x7FF8000000000000)


class Cursor:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, form):
        form = "<" + form
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise Refused("a packet that ends too early")
        self.at += size
        return struct.unpack_from(form, self.data, self.at - size)

    def one(self, form):
        return self.take(form)[0]


def put_address(address):
    """`address`: (ip, port)."""
    ip = ipaddress.ip_address(address[0])
    return bytes([ip.version]) + ip.packed + struct.pack("<H", address[1])


def take_address(cursor, may_be_none=False):
    family = cursor.one("B")
    if family == 0 and may_be_none:
        return None
    if family not in (4, 6):
        raise Refused("an address of no known family")
    ip, port = cursor.one("4s" if family == 4 else "16s"), cursor.one("H")
    if port == 0:
        raise Refused("an address without a port")
    return str(ipaddress.ip_address(ip)), port


@dataclass
class Setting:  # value and before as eight bytes: they are compared and hashed as bits
    round: int = 0
    by: int = 0
    value: bytes = bytes(8)
    before: bytes = bytes(8)

    def packed(self):
        return struct.pack("<QQ", self.round, self.by) + self.value + self.before


@dataclass
class Record:
    id: bytes = bytes(32)
    generation: int = 1
    instance_id: int = 1
    incarnation: int = 0
    flags: int = 0
    name: str = "member"
    slot: int = NONE
    shard: int = NONE
    group: int = 0
    examples: int = 0
    stop_round: int = 0
    age_ms: int = 0
    first_model: int = 0
    exchange_public: bytes = bytes(32)
    addresses: list = field(default_factory=list)
    pages: tuple = None
    ways: int = 0
    access: int = 0
    relays: list = field(default_factory=list)
    settings: list = field(default_factory=lambda: [Setting(), Setting()])
    signature: bytes = bytes(64)

    def version(self):
        return self.generation, self.instance_id, self.incarnation

    def signed_part(self):
        flags = self.flags | (HAS_FIRST_MODEL if self.first_model else 0)
        name = self.name.encode()
        out = self.id + struct.pack("<QQIBB", *self.version(), flags, len(name)) + name
        out += struct.pack("<IIIIQQ", self.slot, self.shard, self.group, self.examples, self.stop_round, self.age_ms)
        if self.first_model:
            out += struct.pack("<Q", self.first_model)
        out += self.exchange_public + bytes([len(self.addresses)]) + b"".join(map(put_address, self.addresses))
        out += put_address(self.pages) if self.pages else b"\0"
        out += bytes([self.ways, self.access, len(self.relays)]) + struct.pack(f"<{len(self.relays)}Q", *self.relays)
        changed = [s for s in self.settings if s.round]
        return out + bytes([sum(1 << i for i, s in enumerate(self.settings) if s.round)]) + b"".join(s.packed() for s in changed)

    def sign(self, identity):
        self.signature = identity.sign(b"p2pml record\0" + self.signed_part())
        return self

    def verifies(self):
        return verifies(self.id, b"p2pml record\0" + self.signed_part(), self.signature)

    def packed(self):
        return self.signed_part() + self.signature

    def term(self):
        """Its share of the view hash."""
        settings = b"".join(s.packed() for s in self.settings)
        parts = struct.pack("<8Q", self.generation, self.instance_id, self.flags, self.slot << 32 | self.shard, self.group,
                            self.access, self.stop_round, hash_bytes(0, settings))
        return hash_bytes(hash_bytes(1, self.id), parts) or 1


def take_setting(cursor):
    setting = Setting(*cursor.take("QQ8s8s"))
    value, before = struct.unpack("<dd", setting.value + setting.before)
    if setting.round == 0 or not math.isfinite(value) or not (math.isfinite(before) or setting.before == NAN):
        raise Refused("a setting of no valid form")
    return setting


def take_record(cursor):
    r = Record(id=cursor.one("32s"))
    r.generation, r.instance_id, r.incarnation, flags, length = cursor.take("QQIBB")
    if not 1 <= length <= 63:
        raise Refused("a name of no valid length")
    r.name, r.flags = cursor.one(f"{length}s").decode("ascii", "replace"), flags & ~HAS_FIRST_MODEL
    r.slot, r.shard, r.group, r.examples, r.stop_round, r.age_ms = cursor.take("IIIIQQ")
    if flags & HAS_FIRST_MODEL:
        r.first_model = cursor.one("Q")
    if bool(r.stop_round) != bool(flags & STOPPING) or bool(flags & HAS_FIRST_MODEL) != bool(r.first_model):
        raise Refused("flags that do not fit their fields")
    r.exchange_public, count = cursor.take("32sB")
    if not 1 <= count <= 4:
        raise Refused("a record without an address, or with too many")
    r.addresses = [take_address(cursor) for _ in range(count)]
    r.pages = take_address(cursor, may_be_none=True)
    r.ways, r.access, count = cursor.take("BBB")
    if r.ways > 3 or r.access > 2 or count > 2:
        raise Refused("ways of no valid form")
    r.relays = list(cursor.take(f"{count}Q"))
    changed = cursor.one("B")
    if changed > 3:
        raise Refused("a setting that is not known")
    r.settings = [take_setting(cursor) if changed >> i & 1 else Setting() for i in range(2)]
    r.signature = cursor.one("64s")
    return r


@dataclass
class Suspicion:
    subject: bytes
    suspector: bytes
    version: tuple
    evidence: int = SILENT
    signature: bytes = bytes(64)

    def signed_part(self):
        return self.subject + self.suspector + struct.pack("<QQIB", *self.version, self.evidence)

    def sign(self, identity):
        self.signature = identity.sign(b"p2pml accusation\0" + self.signed_part())
        return self

    def verifies(self):
        return verifies(self.suspector, b"p2pml accusation\0" + self.signed_part(), self.signature)

    def packed(self):
        return self.signed_part() + self.signature


def take_suspicion(cursor):
    subject, suspector, *version = cursor.take("32s32sQQI")
    evidence, signature = cursor.take("B64s")
    if evidence > EVIDENCE:
        raise Refused("a suspicion of no known class")
    return Suspicion(subject, suspector, tuple(version), evidence, signature)


@dataclass
class Packet:
    kind: int
    number: int = 0
    bits: int = 0
    view_hash: int = 0
    view_age: int = 0  # in 100 ms
    round: int = 0
    step: int = 0
    target: bytes = None
    records: list = field(default_factory=list)
    suspicions: list = field(default_factory=list)
    dead: list = field(default_factory=list)  # (record, suspicions)

    def packed(self):
        out = struct.pack("<BBIQBQQ", self.kind, self.bits, self.number, self.view_hash, min(self.view_age, 255), self.round, self.step)
        if PING_REQUEST <= self.kind <= NACK:
            out += self.target
        out += b"".join(b"\1" + r.packed() for r in self.records)
        out += b"".join(b"\2" + s.packed() for s in self.suspicions)
        return out + b"".join(b"\3" + r.packed() + bytes([len(told)]) + b"".join(s.packed() for s in told) for r, told in self.dead)


def take_packet(data):
    cursor = Cursor(data)
    kind, bits, number, view_hash, view_age, round_, step = cursor.take("BBIQBQQ")
    if not PING <= kind <= SYNC_TELL or bits & ~DEAD_BIT:
        raise Refused("a packet of no known kind")
    packet = Packet(kind, number, bits, view_hash, view_age, round_, step)
    if PING_REQUEST <= kind <= NACK:
        packet.target = cursor.one("32s")
    while cursor.at < len(data):
        item = cursor.one("B")
        if item == 1:
            packet.records.append(take_record(cursor))
        elif item == 2:
            packet.suspicions.append(take_suspicion(cursor))
        elif item == 3:
            record, count = take_record(cursor), cursor.one("B")
            if not 1 <= count <= 4:
                raise Refused("a death without suspicions, or with too many")
            packet.dead.append((record, [take_suspicion(cursor) for _ in range(count)]))
        else:
            raise Refused("an item of no known kind")
    return packet


def view_hash(records):
    """Of all members that are alive or suspected, the sender included."""
    return sum(r.term() for r in records) & MASK


def group_of(name, id):
    """`name`: node.group, or empty."""
    return (hash_bytes(1, name.encode()) if name else hash_bytes(2, id)) & 0xFFFFFFFF


def news_tag(id):
    from codec import mix
    return mix(int.from_bytes(id[:8], "little")) >> 48
