"""Checks the bytes of the vectors (vectors/*.json, written by the C code) against this client, in both directions where there are two."""

import hashlib
import json
import os
import struct
import unittest
from array import array
from types import SimpleNamespace

import codec
import record as rec
import wire
from exchange import PRESENT, Edge
from noise import Datagrams, Handshake, Identity, Opener, Refused, Sealer, psk_of

HERE = os.path.dirname(os.path.abspath(__file__))
raw = bytes.fromhex


def load(name):
    with open(os.path.join(HERE, "vectors", f"{name}.json"), encoding="ascii") as f:
        return json.load(f)


def floats(text):
    return array("f", raw(text))


class Vectors(unittest.TestCase):
    maxDiff = 2000

    def test_keys(self):
        v = load("keys")
        for end in v["initiator"], v["responder"]:
            identity = Identity(raw(end["seed"]))
            self.assertEqual([x.hex() for x in (identity.id, identity.exchange_public, identity.binding)],
                             [end["id"], end["exchange_public"], end["binding"]])
        self.assertEqual(psk_of(v["psk"]["secret"].encode()).hex(), v["psk"]["psk"])
        self.assertEqual(psk_of(None).hex(), v["psk"]["without_secret"])

    def ends(self, v):
        seeds = [raw(load("keys")[end]["seed"]) for end in ("initiator", "responder")]
        ranges = (20, 21), (19, 22)
        return [Handshake(Identity(seed), i == 0, v["cluster"], [raw(v["psk"])], raw(v[f"ephemeral_{end}"]), ranges[i])
                for i, (seed, end) in enumerate(zip(seeds, ("initiator", "responder")))]

    def test_handshake_and_records(self):
        v = load("streams")
        ends = self.ends(v["handshake"])
        for i in range(3):
            message = ends[i % 2].write()
            self.assertEqual(message.hex(), v["handshake"][f"message_{i}"])
            ends[1 - i % 2].read(message[2:])
        self.assertEqual([end.protocol() for end in ends], [v["handshake"]["protocol"]] * 2)
        self.assertEqual(ends[1].peer, ends[0].identity.id)
        large = bytes((i * 7 + i // 256) & 255 for i in range(20000))
        keys = [end.split() for end in ends]
        for i, name in enumerate(("records_of_initiator", "records_of_responder")):
            sealer, opener, r = Sealer(keys[i][0]), Opener(keys[1 - i][1]), v[name]
            small = raw(r["small"])
            self.assertEqual(sealer.message(small).hex(), r["small_sealed"])
            sealed = sealer.message(large)
            self.assertEqual(sealed[:23].hex(), r["large_begin"])
            self.assertEqual(hashlib.blake2b(sealed, digest_size=32).hexdigest(), r["large_sealed_blake2b_256"])
            self.assertEqual(list(opener.feed(raw(r["small_sealed"]) + sealed)), [small, large])
            for _ in range(4, 65536):
                opened = list(opener.feed(sealer.message(small)))
            self.assertEqual(sealer.message(small).hex(), r["record_65536"])
            self.assertEqual(list(opener.feed(raw(r["record_65536"]))) + opened, [small] * 2)

    def test_a_changed_handshake_does_not_open(self):
        v = load("streams")["handshake"]
        for i in range(0, 52, 7):
            message = bytearray(raw(v["message_0"])[2:])
            message[i] ^= 1
            with self.assertRaises(Refused):
                self.ends(v)[1].read(bytes(message))

    def test_datagrams(self):
        v, keys = load("datagrams")["datagram"], load("keys")
        a, b = (Identity(raw(keys[end]["seed"])) for end in ("initiator", "responder"))
        psks = [raw(keys["psk"]["psk"])]
        sender = Datagrams(a, psks, v["cluster"], v["generation_of_sender"], raw(v["entropy"]))
        receiver = Datagrams(b, psks, v["cluster"], v["generation_of_receiver"], bytes(8))
        receiver.know(a.id, a.exchange_public)
        for name in "first", "second":
            sealed = sender.seal(b.id, b.exchange_public, v["generation_of_receiver"], raw(v["plain"]))
            self.assertEqual(sealed.hex(), v[name])
            self.assertEqual(receiver.open(sealed), (a.id, raw(v["plain"])))
        with self.assertRaises(Refused):
            receiver.open(raw(v["first"]))  # a replay

    def test_records_packets_and_the_view(self):
        v, keys = load("membership"), load("keys")
        records = []
        for name, end in ("plain_record", "initiator"), ("full_record", "responder"):
            data = raw(v[name]["bytes"])
            cursor = rec.Cursor(data)
            r = rec.take_record(cursor)
            self.assertEqual(cursor.at, len(data))
            self.assertTrue(r.verifies())
            self.assertEqual(r.packed(), data)
            self.assertEqual(r.sign(Identity(raw(keys[end]["seed"]))).packed(), data)
            records.append(r)
        self.assertEqual(records[0].ways, rec.REACHABLE)
        self.assertEqual(records[1].flags, rec.HELD | rec.STOPPING | rec.PAUSED)
        self.assertEqual(rec.view_hash(records[:1]), v["view"]["hash_of_plain"])
        self.assertEqual(rec.view_hash(records), v["view"]["hash_of_both"])
        for name, data in v["packets"].items():
            packet = rec.take_packet(raw(data))
            self.assertEqual(packet.packed().hex(), data, name)
            self.assertEqual((packet.round, packet.step, packet.view_age), (41, 164, 12))
            suspicions = packet.suspicions + [s for _, told in packet.dead for s in told]
            self.assertTrue(all(s.verifies() for s in suspicions))

    def test_messages(self):
        for name, case in load("messages").items():
            data = raw(case["bytes"])
            message = wire.decode(data)
            self.assertEqual(wire.NAMES[message.kind], name)
            self.assertEqual(wire.encode(message), data)
            for length in range(2, len(data)):
                with self.assertRaises(Refused):
                    wire.decode(data[:length])
            with self.assertRaises(Refused):
                wire.decode(data + b"\0")

    def test_hashes(self):
        v = load("hashes")
        data = v["bytes"]["data"].encode()
        self.assertEqual([codec.hash_bytes(0, b""), codec.hash_bytes(1, data[:8]), codec.hash_bytes(2, data)],
                         [v["bytes"][f"seed_{i}_of_{n}_bytes"] for i, n in ((0, 0), (1, 8), (2, 17))])
        vectors, others, schemas = v["vectors"], v["others"], v["schemas"]
        values = floats(vectors["values"])
        self.assertEqual(codec.hash_vector(values), vectors["hash"])
        self.assertEqual(codec.hash_vector(values, magnitudes=True), vectors["hash_of_magnitudes"])
        self.assertEqual(codec.hash_element(2**32, codec.bits_of(2.5)), vectors["element_at_2_to_32"])
        self.assertEqual(codec.hash_keys(vectors["indices"]), vectors["hash_of_indices"])
        tensors = [("layers.0.weight", (784, 32), 0), ("layers.0.bias", (32,), 25088), ("layers.1.weight", (32, 10), 25120),
                   ("layers.1.bias", (10,), 25440)]
        self.assertEqual(codec.hash_schema(schemas["kind_of_mlp"], tensors), schemas["mlp_784_32_10"])
        self.assertEqual(codec.hash_schema(schemas["kind_of_mlp"], tensors, loss=schemas["loss_of_mse"]), schemas["mlp_784_32_10_mse"])
        id = raw(load("keys")["initiator"]["id"])
        self.assertEqual(codec.hash_graph([("a", "b"), ("b", "c")]), others["graph_a_b_b_c"])
        self.assertEqual(codec.hash_blob(raw(others["blob"])), others["scaling_of_blob"])
        self.assertEqual(codec.merge_key(id, 3, 4), others["merge_key_of_generation_3_instance_4"])
        self.assertEqual(struct.pack("<Hh", rec.news_tag(id), -5).hex(), others["news_of_round_95_at_100"])

    def test_packets(self):
        for name, case in load("codec").items():
            if "packet" not in case:
                continue
            packet, d, form = raw(case["packet"]), case["elements"], case["format"]
            known = case["indices"] if name.endswith("same_keys") else None
            indices, values = codec.take_packet(packet, d, known)
            self.assertEqual((list(indices), values.tobytes().hex()), (case["indices"], case["decoded"]), name)
            if form in (codec.FP32, codec.FP16, codec.INT8, codec.BF16):
                self.assertEqual(codec.put_packet(case["indices"], list(floats(case["values"])), d, form, known), packet, name)
            for length in range(len(packet)):
                with self.assertRaises((Refused, KeyError), msg=(name, length)):
                    codec.take_packet(packet[:length], d, known)

    def test_second_moments(self):
        case = load("codec")["log8"]
        self.assertEqual(codec.take_log8(raw(case["bytes"]), 20).tobytes().hex(), case["decoded"])
        self.assertEqual(codec.put_log8(list(floats(case["values"]))).hex(), case["bytes"])


class Edges(unittest.TestCase):
    """Both ends of the edge in exchange.json, in this client: each request and answer has the bytes of the C code, and so have r and x."""

    FILE, BF16 = "exchange", False

    def setUp(self):
        self.v = load(self.FILE)
        self.owners, self.ends = [], []
        for i in range(2):
            model = floats(self.v["ends"][f"model_of_{i}"])
            owner = SimpleNamespace(id=raw(self.v["ends"][f"id_of_{i}"]), parameters=len(model), model=model, standing=PRESENT, clock=0,
                                    values=codec.INT8, entries=len(model) // 8, scaling=0, bf16=self.BF16, drift=(2.0, 0.25), slices=0, step_scale=0.0,
                                    second=None, model_to_send=lambda edge: edge.owner.model,
                                    packet_to_send=self.like_logged, hear_clock=lambda peer, clock: None)
            self.owners.append(owner)
            self.ends.append(None)
        self.logged = [None, None]  # the next packet of each end
        for i in range(2):
            self.begin_edge(i)

    def like_logged(self, edge, packet):
        """Step scale and progress depend on the history of a node, and in bf16 so does the choice of entries."""
        logged = self.logged[self.ends.index(edge)]
        return {**packet, "step_scale": logged.step_scale, "progress": logged.progress, **({"delta": logged.delta} if self.BF16 else {})}

    def begin_edge(self, i):
        """At the seed model, which is zero here."""
        edge = self.ends[i] = Edge(self.owners[i], self.owners[1 - i].id)
        edge.reference, edge.hash = array("f", bytes(4 * edge.offset)), codec.hash_zeros(edge.offset)

    def play(self, name):
        """Lets this client's ends say what the C code's ends have said. Requests of one name cross: both are made before either is taken."""
        log = [(int(key[-1]), wire.decode(raw(data))) for key, data in self.v[name].items()]
        said = [[], []]
        for end, message in log:
            if message.kind == wire.XCHG and message.form == 0:
                self.owners[end].clock, self.logged[end] = message.clock, message
                said[end] += self.ends[end].ask()
        for at, (end, message) in enumerate(log):
            if message.kind in (wire.XCHG, wire.XACK):
                ours = next(m for m in said[end] if m.kind == message.kind)
                said[end].remove(ours)
                self.assertEqual(wire.encode(ours).hex(), wire.encode(message).hex(), f"{name}: message {at}")
            answer = next((m for e, m in log[at + 1:] if e != end and m.kind in (wire.XCHG, wire.XACK)), None)
            if answer:
                self.owners[1 - end].clock, self.logged[1 - end] = answer.clock, answer
            said[1 - end] += self.ends[1 - end].take(message)

    def agree(self, name):
        after = self.v[name]
        for i, edge in enumerate(self.ends):
            self.assertEqual((edge.hash, edge.sequence), (after[f"hash_of_{i}"], after[f"sequence_of_{i}"]))
            self.assertEqual(codec.hash_vector(edge.reference), edge.hash)
            self.assertEqual(edge.owner.model.tobytes().hex(), after[f"model_of_{i}"])
            self.assertEqual(edge.correction_hash(), after[f"hash_of_correction_of_{i}"])

    def test_an_edge_from_hello_to_resync(self):
        for edge in self.ends:
            edge.link_up()
        self.play("hello")
        for name in "crossed", "answered":
            self.play(name)
            self.agree(f"after_{name}")
        self.begin_edge(1)
        for edge in self.ends:
            edge.link_up()
        self.play("resync")
        self.agree("after_resync")


class EdgesInBf16(Edges):
    FILE, BF16 = "exchange_bf16", True


if __name__ == "__main__":
    unittest.main(verbosity=2)
