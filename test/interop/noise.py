"""Identities, the Noise handshake of a stream, its sealed records, and sealed datagrams (docs/PROTOCOL.md, sections 2 to 5)."""

import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher as StreamCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NAME = b"Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b"
CHACHAPOLY, AESGCM_256 = 0, 1
AEADS = {CHACHAPOLY: ("ChaChaPoly", ChaCha20Poly1305), AESGCM_256: ("AESGCM", AESGCM)}
TAG = 16
REKEY_RECORDS = 65536
PROMPT = 17408  # bytes of the longest message in one record
PIECE = 16384
WHOLE, BEGIN, MORE = 0, 1, 2
LENGTHS = (52, 197, 161)  # of the handshake messages
DATAGRAM_MOST, DATAGRAM_OVERHEAD = 1200, 48


class Refused(Exception):
    """The other end has broken the protocol, or is not who it claims to be."""


def blake2b_256(data, key=b""):
    return hashlib.blake2b(data, digest_size=32, key=key).digest()


def psk_of(secret):
    """Of a line of the secret file without its newline; None: the cluster has no secret."""
    return blake2b_256(b"p2pml without a cluster secret" if secret is None else secret)


def raw_public(secret):
    return secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(secret, public):
    try:
        return secret.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise Refused("a key of small order") from None


def verifies(public, text, signature):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
        return True
    except (InvalidSignature, ValueError):
        return False


class Identity:
    def __init__(self, seed):
        self.signing = Ed25519PrivateKey.from_private_bytes(blake2b_256(b"p2pml sign", seed))
        self.id = raw_public(self.signing)
        self.exchange = X25519PrivateKey.from_private_bytes(blake2b_256(b"p2pml kex", seed))
        self.exchange_public = raw_public(self.exchange)
        self.binding = self.sign(b"p2pml static key" + self.exchange_public)

    def sign(self, text):
        return self.signing.sign(text)


class Key:
    """A key of one direction with the number of its next message: CipherState of the Noise specification."""

    def __init__(self, key, aead=CHACHAPOLY):
        self.key, self.aead, self.number = key, aead, 0
        self.cipher = AEADS[aead][1](key)

    def nonce(self, number):
        return struct.pack("<IQ" if self.aead == CHACHAPOLY else ">IQ", 0, number)

    def seal(self, plain, bound):
        self.number += 1
        return self.cipher.encrypt(self.nonce(self.number - 1), plain, bound)

    def open(self, sealed, bound):
        try:
            plain = self.cipher.decrypt(self.nonce(self.number), sealed, bound)
        except InvalidTag:
            raise Refused("bytes that do not open") from None
        self.number += 1
        return plain

    def rekey(self):
        self.key = self.cipher.encrypt(self.nonce(2**64 - 1), bytes(32), None)[:32]
        self.cipher = AEADS[self.aead][1](self.key)

    def count_record(self):
        if self.number % REKEY_RECORDS == 0:
            self.rekey()


def hkdf(chaining, material, count):
    temporary = hmac.new(chaining, material, hashlib.blake2b).digest()
    outputs, last = [], b""
    for i in range(count):
        last = hmac.new(temporary, last + bytes([i + 1]), hashlib.blake2b).digest()
        outputs.append(last)
    return outputs


class Symmetric:
    def __init__(self, prologue):
        self.hash = self.chaining = NAME.ljust(64, b"\0")
        self.key = None
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.hash = hashlib.blake2b(self.hash + data).digest()

    def mix_key(self, material):
        self.chaining, key = hkdf(self.chaining, material, 2)
        self.key = Key(key[:32])

    def mix_key_and_hash(self, material):
        self.chaining, mixed, key = hkdf(self.chaining, material, 3)
        self.mix_hash(mixed)
        self.key = Key(key[:32])

    def seal(self, plain):
        sealed = self.key.seal(plain, self.hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed):
        plain = self.key.open(sealed, self.hash)
        self.mix_hash(sealed)
        return plain


class Handshake:
    """One end. `write` and `read` are called in turn; afterwards `split` gives the keys of the two directions."""

    def __init__(self, identity, initiator, cluster, psks, ephemeral, protocols, offer=1 << CHACHAPOLY):
        self.identity, self.initiator, self.psks = identity, initiator, psks
        self.protocols, self.offer = protocols, offer
        self.prologue = b"p2pml" + struct.pack("<I", 1) + cluster.encode()
        self.ephemeral = X25519PrivateKey.from_private_bytes(ephemeral)
        self.ephemeral_public = raw_public(self.ephemeral)
        self.peer = self.peer_protocols = self.peer_offer = self.peer_ephemeral = self.peer_static = None
        self.number = 0

    def done(self):
        return self.number == 3

    def writes(self):
        return not self.done() and (self.number % 2 == 0) == self.initiator

    def begin(self, psk):
        self.symmetric = Symmetric(self.prologue)
        self.symmetric.mix_key_and_hash(psk)

    def say_ephemeral(self, public):
        self.symmetric.mix_hash(public)
        self.symmetric.mix_key(public)

    def mix_dh(self, initiators, responders):
        """MixKey of a DH of two keys; 'e' and 's' name the key of each end."""
        ours, theirs = (initiators, responders) if self.initiator else (responders, initiators)
        secret = self.ephemeral if ours == "e" else self.identity.exchange
        self.symmetric.mix_key(dh(secret, self.peer_ephemeral if theirs == "e" else self.peer_static))

    def payload(self):
        proof = self.identity.id + self.identity.binding + bytes([self.offer])
        return (proof if self.number > 0 else b"") + (struct.pack("<HH", *self.protocols) if self.number < 2 else b"")

    def take_payload(self, payload):
        if self.number > 0:
            self.peer, binding, self.peer_offer = payload[:32], payload[32:96], payload[96]
            if not verifies(self.peer, b"p2pml static key" + self.peer_static, binding):
                raise Refused("a static key that its id has not signed")
            if not self.peer_offer & 1 << CHACHAPOLY:
                raise Refused("an offer without ChaChaPoly")
        if self.number < 2:
            self.peer_protocols = struct.unpack("<HH", payload[-4:])
            if not 1 <= self.peer_protocols[0] <= self.peer_protocols[1]:
                raise Refused("a range of protocols that is none")

    def write(self):
        """The next message, with its length before it."""
        if self.number == 0:
            self.begin(self.psks[0])
        out = b""
        if self.number < 2:
            out += self.ephemeral_public
            self.say_ephemeral(self.ephemeral_public)
        if self.number == 1:
            self.mix_dh("e", "e")
        if self.number > 0:
            out += self.symmetric.seal(self.identity.exchange_public)
            self.mix_dh(*("es" if self.number == 1 else "se"))
        out += self.symmetric.seal(self.payload())
        self.number += 1
        return struct.pack("<H", len(out)) + out

    def read(self, message):
        """The other end's message, without its length."""
        if len(message) != LENGTHS[self.number]:
            raise Refused("a handshake message of another length")
        if self.number == 0:
            return self.read_first(message)
        at = 0
        if self.number == 1:
            self.peer_ephemeral, at = message[:32], 32
            self.say_ephemeral(self.peer_ephemeral)
            self.mix_dh("e", "e")
        self.peer_static = self.symmetric.open(message[at:at + 48])
        self.mix_dh(*("es" if self.number == 1 else "se"))
        self.take_payload(self.symmetric.open(message[at + 48:]))
        self.number += 1

    def read_first(self, message):
        self.peer_ephemeral = message[:32]
        for psk in self.psks:
            self.begin(psk)
            self.say_ephemeral(self.peer_ephemeral)
            try:
                payload = self.symmetric.open(message[32:])
            except Refused:
                continue
            self.take_payload(payload)
            self.number = 1
            return
        raise Refused("a caller without the secret")

    def protocol(self):
        """The number that both speak; 0: there is none."""
        most = min(self.protocols[1], self.peer_protocols[1])
        return most if most >= max(self.protocols[0], self.peer_protocols[0]) else 0

    def split(self):
        """The keys (to send with, to receive with)."""
        aead = (self.offer & self.peer_offer & 3).bit_length() - 1
        name = b"" if aead == CHACHAPOLY else f"Noise_XXpsk0_25519_{AEADS[aead][0]}_BLAKE2b".encode()
        first, second = (Key(k[:32], aead) for k in hkdf(self.symmetric.chaining, name, 2))
        return (first, second) if self.initiator else (second, first)


class Sealer:
    def __init__(self, key):
        self.key = key

    def record(self, kind, plain):
        prefix = struct.pack("<HB", len(plain) + TAG, kind)
        sealed = prefix + self.key.seal(plain, prefix)
        self.key.count_record()
        return sealed

    def message(self, message):
        if len(message) <= PROMPT:
            return self.record(WHOLE, message)
        return self.record(BEGIN, struct.pack("<I", len(message))) + b"".join(
            self.record(MORE, message[at:at + PIECE]) for at in range(0, len(message), PIECE))


class Opener:
    def __init__(self, key, limit=1 << 30):
        self.key, self.limit = key, limit
        self.input, self.large, self.missing = bytearray(), None, 0

    def feed(self, data):
        """All messages that are complete with these bytes."""
        self.input += data
        while len(self.input) >= 3:
            length, kind = struct.unpack_from("<HB", self.input)
            if length <= TAG or kind > MORE:
                raise Refused("a record of no valid form")
            if len(self.input) < 3 + length:
                return
            prefix, sealed = bytes(self.input[:3]), bytes(self.input[3:3 + length])
            del self.input[:3 + length]
            plain = self.key.open(sealed, prefix)
            self.key.count_record()
            yield from self.take(kind, plain)

    def take(self, kind, plain):
        if kind == WHOLE:
            if len(plain) > PROMPT:
                raise Refused("a long message in one record")
            yield plain
        elif kind == BEGIN:
            if self.large is not None or len(plain) != 4:
                raise Refused("a second large message in one direction")
            self.large, (self.missing,) = bytearray(), struct.unpack("<I", plain)
            if not PROMPT < self.missing <= self.limit:
                raise Refused(f"a message of {self.missing} bytes")
        else:
            if self.large is None or len(plain) > self.missing:
                raise Refused("a record of no large message")
            self.large += plain
            self.missing -= len(plain)
            if self.missing == 0:
                whole, self.large = bytes(self.large), None
                yield whole


def hchacha20(key, nonce):
    """The subkey of XChaCha20: a block of ChaCha20 without its last addition."""
    block = struct.unpack("<16I", StreamCipher(ChaCha20(key, nonce), None).encryptor().update(bytes(64)))
    begin = struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<4I", nonce)
    return struct.pack("<8I", *((b - a) & 0xFFFFFFFF for a, b in zip(begin, block[:4] + block[12:])))


def xchacha20poly1305(key, nonce):
    return ChaCha20Poly1305(hchacha20(key, nonce[:16])), bytes(4) + nonce[16:]


class Datagrams:
    """Of one process: what it seals for members and opens from them. A window of every pair keeps replays out."""

    WINDOW = 256

    def __init__(self, identity, psks, cluster, generation, entropy):
        self.identity, self.psks, self.cluster = identity, psks, cluster
        self.generation, self.entropy = generation, entropy
        self.counter, self.tags, self.seen = {}, {}, {}

    def derive(self, psk, label, sender, receiver, shared=b""):
        return blake2b_256(label + b"\0" + shared + sender + receiver + struct.pack("<I", 1) + self.cluster.encode(), psk)

    def tag(self, psk, sender, receiver):
        return self.derive(psk, b"p2pml datagram tag", sender, receiver)[:8]

    def key(self, psk, sender, receiver, public):
        return self.derive(psk, b"p2pml datagram", sender, receiver, dh(self.identity.exchange, public))

    def know(self, peer, public):
        """Datagrams of this member are opened from now on."""
        for psk in self.psks:
            self.tags[self.tag(psk, peer, self.identity.id)] = peer, public, psk

    def seal(self, peer, public, generation, plain):
        """For the process of the receiver that has this generation."""
        tag = self.tag(self.psks[0], self.identity.id, peer)
        number = self.counter.get(peer, 0)
        self.counter[peer] = number + 1
        nonce = struct.pack("<QQ", self.generation, number) + self.entropy
        cipher, short = xchacha20poly1305(self.key(self.psks[0], self.identity.id, peer, public), nonce)
        return tag + nonce + cipher.encrypt(short, plain, tag + struct.pack("<Q", generation))

    def open(self, sealed):
        """(sender, plaintext). Refused: nothing is to be answered."""
        if not DATAGRAM_OVERHEAD <= len(sealed) <= DATAGRAM_MOST or sealed[:8] not in self.tags:
            raise Refused("no datagram of a member")
        tag, nonce = sealed[:8], sealed[8:32]
        peer, public, psk = self.tags[tag]
        generation, number = struct.unpack("<QQ", nonce[:16])
        self.check_window(peer, generation, number, nonce[16:])
        cipher, short = xchacha20poly1305(self.key(psk, peer, self.identity.id, public), nonce)
        try:
            plain = cipher.decrypt(short, sealed[32:], tag + struct.pack("<Q", self.generation))
        except InvalidTag:
            raise Refused("a datagram that does not open") from None
        self.note(peer, generation, number, nonce[16:])
        return peer, plain

    def check_window(self, peer, generation, number, entropy):
        life, process, highest, numbers = self.seen.get(peer, (0, None, -1, set()))
        if generation < life or number == 2**64 - 1:
            raise Refused("a datagram of an earlier process")
        if generation == life and process and (entropy != process or number in numbers or number <= highest - self.WINDOW):
            raise Refused("a datagram that was here")

    def note(self, peer, generation, number, entropy):
        life, process, highest, numbers = self.seen.get(peer, (0, None, -1, set()))
        if generation > life or process is None:
            highest, numbers = -1, set()
        highest = max(highest, number)
        self.seen[peer] = generation, entropy, highest, {n for n in numbers | {number} if n > highest - self.WINDOW}
