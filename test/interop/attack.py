"""Members that have the secret and lie. Each says something else than `Member` would; the bytes are right, so that honest nodes take it for
one of them. test/trial/attack runs each beside honest nodes."""

import os
import random
from array import array

import record as rec
import wire
from exchange import DENSE, FINISHED
from member import Member
from noise import Identity
from wire import Message

HUGE = 5e4
DENSE_NOISE = 0.05
DRIFT = 1e-3
STORM_S = 1 / 24
GHOSTS = 10


class FreeRide(Member):
    """Takes part and trains nothing."""


class OneEntry(Member):
    """One entry of its model is far away: the last one, in an MLP the bias of the last class."""

    def model_to_send(self, edge):
        lie = array("f", self.model)
        lie[-1] = HUGE
        return lie


class Big(Member):
    def model_to_send(self, edge):
        return array("f", [HUGE]) * len(self.model)


class Flip(Member):
    def model_to_send(self, edge):
        return array("f", (-x for x in self.model))


class Drift(Member):
    """Each packet pulls a little further the same way."""

    pulls = 0

    def model_to_send(self, edge):
        self.pulls += 1
        return array("f", (x + self.pulls * DRIFT for x in self.model))


class ReplayFirst(Member):
    """The first sparse packet of each edge, for ever."""

    def __init__(self, *positional, **named):
        super().__init__(*positional, **named)
        self.first = {}

    def packet_to_send(self, edge, packet):
        if packet["form"] == 0:
            packet["delta"] = self.first.setdefault(edge.peer, packet["delta"])
        return packet


class Noise(Member):
    def model_to_send(self, edge):
        return array("f", (x + random.gauss(0, DENSE_NOISE) for x in self.model))


class NotFinite(Member):
    """Its blocks of a RESYNC are not finite."""

    def packet_to_send(self, edge, packet):
        packet["delta"] = b"\0\0\xc0\x7f" * (len(packet["delta"]) // 4) if packet["form"] == DENSE else packet["delta"]
        return packet


class Heavy(Member):
    """Wants twice its part of the mean."""

    def packet_to_send(self, edge, packet):
        return {**packet, "weight": 2.0}


class Stall(Member):
    """Reports a low clock that grows slowly, and answers probes, but no request."""

    def progress(self):
        return int(self.now() - self.begun), 4 * int(self.now() - self.begun)

    def take_exchange(self, link, message):
        if message.kind == wire.HELLO:
            super().take_exchange(link, message)


class Finished(Member):
    """Claims to have done its last step, and gives a model of noise to whoever asks."""

    steps = 0  # train.steps of the cluster, set when the rules are known

    def begin(self):
        self.steps = next(int(rule[13:]) for rule in self.greeting_of_cluster["rules"].split("; ") if rule.startswith("train.steps: "))
        self.model = array("f", (random.gauss(0, 0.1) for _ in self.model))
        self.standing = FINISHED
        self.set_flags(rec.ELIGIBLE | rec.FINISHED)

    def progress(self):
        return self.steps // 4, self.steps


class Ghosts(Member):
    """Says that there are others, in records that verify, at addresses where nobody is."""

    def begin(self):
        super().begin()
        self.ghosts = []
        for i in range(GHOSTS):
            identity = Identity(os.urandom(32))
            self.ghosts.append(rec.Record(id=identity.id, name=f"ghost-{i}", flags=rec.ELIGIBLE | rec.TRAINING, group=i,
                                          exchange_public=identity.exchange_public, addresses=[("127.0.0.1", 1)]).sign(identity))
        self.tell_all(self.ghosts)


class HelloStorm(Member):
    """Orders one RESYNC after the other: each HELLO names a higher epoch."""

    stormed = 0.0

    def timers(self):
        super().timers()
        if self.now() - self.stormed > STORM_S and self.counts_in_graph():
            self.stormed = self.now()
            for peer, edge in self.edges.items():
                if edge.live and peer in self.active:
                    edge.resync(edge.epoch + 1)
                    self.active[peer].send(Message(wire.HELLO, **edge.hello().fields()))


KINDS = {"none": (), "freeride": (FreeRide,), "one-entry": (OneEntry,), "big": (Big,), "flip": (Flip,), "drift": (Drift,),
         "replay-first": (ReplayFirst,), "noise": (Noise,), "stall": (Stall,), "finished": (Finished,) * 3, "ghosts": (Ghosts,),
         "hello-storm": (HelloStorm,), "nan": (NotFinite,), "heavy": (Heavy,)}
