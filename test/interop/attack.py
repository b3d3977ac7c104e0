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

try:
    import numpy
except ImportError:
    numpy = None  # Finished, Stall and those that lie in messages need none

HUGE = 5e4
DENSE_NOISE = 0.05
STORM_S = 1 / 24
TOLD = 50  # records in one packet
GOOD_EXCHANGES = 60  # before it lies
THROWN_OUT = "your messages break the protocol", "refused for a while"


def vector(model):
    return numpy.frombuffer(model, numpy.float32)


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
    times = 1.0

    def model_to_send(self, edge):
        return vector(self.model) * numpy.float32(-self.times)


class Drift(Member):
    """Each packet pulls a little further the same way."""

    pulls, by = 0, 1e-3

    def model_to_send(self, edge):
        self.pulls += 1
        return vector(self.model) + numpy.float32(self.pulls * self.by)


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
        return vector(self.model) + numpy.float32(DENSE_NOISE) * numpy.random.standard_normal(len(self.model)).astype(numpy.float32)


class FarAhead(Noise):
    """Says that it makes enormous progress in each round, so that others shall let it move them far."""

    def packet_to_send(self, edge, packet):
        return {**packet, "progress": 1e30}


class NoLimit(Member):
    """Says that it takes nothing, so that corrections do not learn."""

    def packet_to_send(self, edge, packet):
        return {**packet, "limit": 0.0}


class Moments(Member):
    """Second moments that are far too large, so that AdamW's steps become small."""

    times = 5000.0

    def second_to_send(self):
        return [self.times * v for v in self.second]


class NotFinite(Member):
    """Its blocks of a RESYNC are not finite."""

    def packet_to_send(self, edge, packet):
        packet["delta"] = b"\0\0\xc0\x7f" * (len(packet["delta"]) // 4) if packet["form"] == DENSE else packet["delta"]
        return packet


class NewAfterBan(NotFinite):
    """A new identity each time that it is thrown out."""

    def over(self):
        return any(words in line for line in self.log for words in THROWN_OUT)


class OneShot(Member):
    """Exchanges once and is gone, without a word. A new identity follows."""

    def over(self):
        return any(edge.exchanges for edge in self.edges.values())


class Heavy(Member):
    """Wants twice its part of the mean."""

    def packet_to_send(self, edge, packet):
        return {**packet, "weight": 2.0}


class Resync(Member):
    """Honest for a while; then it orders one RESYNC of each edge, and its blocks have one number everywhere."""

    value, ordered = 10.0, False

    def timers(self):
        super().timers()
        if not self.ordered and sum(edge.exchanges for edge in self.edges.values()) > GOOD_EXCHANGES:
            self.ordered = True
            order_resyncs(self)

    def packet_to_send(self, edge, packet):
        lies = self.ordered and packet["form"] == DENSE
        return {**packet, "delta": array("f", [self.value] * (len(packet["delta"]) // 4)).tobytes()} if lies else packet


class Mute(Member):
    """Answers probes, but no request."""

    def take_exchange(self, link, message):
        if message.kind == wire.HELLO:
            super().take_exchange(link, message)


class Stall(Mute):
    """Reports a low clock that grows slowly, too."""

    def progress(self):
        return int(self.now() - self.begun), 4 * int(self.now() - self.begun)


class Silent(Mute):
    """Claims to train before the others begin, and has no model."""

    early = True

    def call(self, address):
        self.flags = rec.ELIGIBLE | rec.TRAINING
        super().call(address)


class Boast(Member):
    """Trains, it says, and has done all steps but the last. Whoever asks gets a model of noise."""

    late = True  # a node that comes now asks somebody

    def begin(self):
        super().begin()
        self.steps = steps_of(self)
        self.lie = array("f", (random.gauss(0, 0.1) for _ in self.model))

    def progress(self):
        steps = getattr(self, "steps", 0)
        return (steps // 4, steps) if steps else super().progress()

    def snapshot_to_send(self):
        return self.lie


class BadDonor(Boast):
    """Where the others are, but gives a model of noise."""

    def begin(self):
        super().begin()
        self.steps = 0


def steps_of(member):
    return next(int(rule[13:]) for rule in member.greeting_of_cluster["rules"].split("; ") if rule.startswith("train.steps: "))


class Finished(Member):
    """Claims to have done its last step, and gives a model of noise to whoever asks."""

    steps = 0  # train.steps of the cluster, set when the rules are known

    def begin(self):
        self.steps = steps_of(self)
        self.model = array("f", (random.gauss(0, 0.1) for _ in self.model))
        self.standing = FINISHED
        self.set_flags(rec.ELIGIBLE | rec.FINISHED)

    def progress(self):
        return self.steps // 4, self.steps


class Ghosts(Member):
    """Says that there are others, in records that verify, at addresses where nobody is."""

    made_up = 10

    def begin(self):
        super().begin()
        ghosts = [ghost(i) for i in range(self.made_up)]
        for first in range(0, len(ghosts), TOLD):
            self.tell_all(ghosts[first:first + TOLD])


def ghost(i):
    identity = Identity(os.urandom(32))
    return rec.Record(id=identity.id, name=f"ghost-{i}", flags=rec.ELIGIBLE | rec.TRAINING, group=i, exchange_public=identity.exchange_public,
                      addresses=[("127.0.0.1", 1)]).sign(identity)


def order_resyncs(member):
    for peer, edge in member.edges.items():
        if edge.live and peer in member.active:
            edge.resync(edge.epoch + 1)
            member.active[peer].send(Message(wire.HELLO, **edge.hello().fields()))


class HelloStorm(Member):
    """Orders one RESYNC after the other: each HELLO names a higher epoch."""

    stormed = 0.0

    def timers(self):
        super().timers()
        if self.now() - self.stormed > STORM_S and self.counts_in_graph():
            self.stormed = self.now()
            order_resyncs(self)


def like(kind, **changes):
    return type(kind.__name__, (kind,), changes)


KINDS = {"none": (), "freeride": (FreeRide,), "nan": (NotFinite,), "ban": (NewAfterBan,), "heavy": (Heavy,), "big": (Big,),
         "one-entry": (OneEntry,), "resync-1e4": (like(Resync, value=1e4),), "resync-10": (Resync,), "noise": (Noise,),
         "far-ahead": (FarAhead,), "no-limit": (NoLimit,), "flip": (Flip,), "flip-10": (like(Flip, times=10.0),), "drift-1e-4": (like(Drift, by=1e-4),), "drift-1e-3": (Drift,),
         "drift-1e-2": (like(Drift, by=1e-2),), "replay-first": (ReplayFirst,), "moments": (Moments,), "boast": (Boast,),
         "bad-donor": (BadDonor,), "finished": (Finished,) * 3, "stall": (Stall,), "mute": (Mute,), "silent": (Silent,),
         "ghosts": (Ghosts,), "ghosts-merge": (Ghosts,), "ghosts-4000": (like(Ghosts, made_up=4000),),
         "hello-storm": (HelloStorm,), "churn": (OneShot,)}
