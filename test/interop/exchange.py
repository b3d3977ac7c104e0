"""One end of an edge: the reference that both ends hold bit for bit, and the messages that move it (docs/PROTOCOL.md, section 9)."""

import math
from array import array

import codec
from noise import Refused
from wire import BUSY, HELLO, PARKED, XACK, XCHG, Message

PRESENT, AWAY, FINISHED = range(3)
SPARSE, DENSE = 0, 1
BLOCK_MOST = 65536  # elements of a RESYNC block
COUNT_MOST = 2**62 - 1
SCALES_APART = 1e6  # of two step scales: beyond, nothing is known of the drift


def weight_of(ours, theirs, weight):
    """What an end applies to its own model."""
    if ours == theirs and ours != FINISHED:
        return weight
    if ours == AWAY:
        return 1.0
    return weight if ours == PRESENT and theirs == FINISHED else 0.0


def adopts(ours, theirs):
    """RESYNC with an end that was away. 1: this end takes the other's model; -1: the other way round; 0: both take the mean."""
    return (ours == AWAY) - (theirs == AWAY)


def has_not_begun(theirs):
    """It stays at the first model, so no end moves."""
    return not theirs.limit > 0 and not theirs.progress > 0


def is_whole(entries, weight, theirs):
    """This client applies every update; the other end says up to which norm it does. c learns from what both apply."""
    return math.isinf(theirs.limit) or weight * math.sqrt(math.fsum((t - m) ** 2 for _, m, t in entries)) <= theirs.limit


class Edge:
    """`owner` has: id, parameters, model (an array of fp32), standing, clock, step_scale, values, entries, scaling, bf16, drift (gain and
    limit, or None), slices, second (an array or None), model_to_send(edge), packet_to_send(edge, message)."""

    def __init__(self, owner, peer):
        self.owner, self.peer = owner, peer
        self.epoch, self.sequence = 0, 0
        self.reference, self.hash = None, 0  # None: the seed model, which this client does not know
        self.correction = None  # None: zeros
        self.offset = owner.parameters
        self.request = self.answer = self.received = None
        self.question = self.asked = 0
        self.live = False
        self.exchanges = self.blocks = self.resyncs = self.crossed = self.replays = 0

    def leads(self):
        return self.owner.id < self.peer

    def place(self):
        return self.epoch, self.sequence

    # -- HELLO

    def correction_hash(self):
        if not self.owner.drift:
            return 0
        return codec.hash_vector(self.correction, magnitudes=True) if self.correction else codec.hash_zeros(self.owner.parameters)

    def hello(self, answer=0):
        return Message(HELLO, epoch=self.epoch, sequence=self.sequence, reference_hash=self.hash, correction_hash=self.correction_hash(),
                       resync_offset=self.offset, answer=answer, standing=self.owner.standing, scaling=self.owner.scaling)

    def link_up(self):
        self.live, self.asked = False, 0
        return [self.ask_place()] if self.reference else []

    def ask_place(self):
        self.question = self.question % 127 + 1
        self.asked = self.question
        return self.hello(self.question)

    def resync(self, epoch):
        self.epoch, self.sequence, self.offset = epoch, 0, 0
        self.reference = array("f", bytes(4 * self.owner.parameters))
        self.hash = codec.hash_zeros(self.owner.parameters)
        self.request = self.answer = self.received = self.correction = None
        self.resyncs += 1
        self.live = True

    def same_place(self, theirs):
        return self.reference and (theirs.epoch, theirs.sequence, theirs.resync_offset, theirs.reference_hash) == (
            *self.place(), self.offset, self.hash)

    def settle(self):
        """The other end is at the same place: it has never seen an open request."""
        self.request, self.live = None, True

    def compare(self, theirs, settles):
        """True: the stored answer is to be sent again."""
        if theirs.epoch > self.epoch and theirs.sequence == 0 and theirs.resync_offset == 0:
            self.resync(theirs.epoch)
        elif theirs.epoch < self.epoch and self.sequence == 0 and self.offset == 0:
            self.live = self.live or self.request is None
        elif self.same_place(theirs):
            if settles:
                if not self.live and theirs.correction_hash != self.correction_hash():
                    self.correction = None
                self.settle()
        elif theirs.epoch == self.epoch and theirs.sequence == self.sequence + 1 and self.request:
            pass  # it has committed our request, and sends its answer again
        elif (theirs.epoch, theirs.sequence + 1) == self.place() and self.answer:
            if settles:
                self.request = None
            self.live = self.live or self.request is None
            return True
        else:
            self.resync(max(theirs.epoch, self.epoch) + 1)
        return False

    def take_hello(self, theirs):
        asks, answers = 1 <= theirs.answer <= 127, theirs.answer > 128
        waits = self.asked > 0
        settles = waits and theirs.answer == 128 + self.asked or not self.live and not self.request
        if answers and not waits and theirs.epoch <= self.epoch:
            return []
        epoch = self.epoch
        again = self.compare(theirs, settles)
        if answers and theirs.answer == 128 + self.asked or self.live:
            self.asked = 0
        out = [self.hello(128 + theirs.answer)] if asks else [self.hello()] if self.epoch not in (epoch, theirs.epoch) else []
        if again:
            self.replays += 1
            out.append(Message(XACK, **self.answer))
        return out + self.next_block()

    # -- packets

    def base_of(self, form):
        owner = self.owner
        return dict(epoch=self.epoch, sequence=self.sequence, clock=owner.clock, standing=owner.standing, step_scale=owner.step_scale, weight=0.5,
                    limit=math.inf, bound=math.inf, progress=0.0, pace_ns=0, form=form, offset=0, keys=0, delta=b"", moment=b"", news=b"")

    def sparse(self, slice_clock):
        owner = self.owner
        model = owner.model_to_send(self)
        a = array("f", (x - r for x, r in zip(model, self.reference)))
        indices = codec.select(a, owner.entries)
        packet = self.base_of(SPARSE)
        packet["delta"] = codec.put_packet(indices, [a[i] for i in indices], owner.parameters, owner.values)
        if owner.second and owner.slices:
            first, count = codec.moment_slice(slice_clock, owner.slices, owner.parameters)
            packet["moment"] = codec.put_moments(owner.second_to_send()[first:first + count])
        return owner.packet_to_send(self, packet)

    def dense(self, count):
        packet = self.base_of(DENSE)
        packet["offset"] = self.offset
        packet["delta"] = self.owner.model_to_send(self)[self.offset:self.offset + count].tobytes()
        return self.owner.packet_to_send(self, packet)

    def next_block(self):
        """In a RESYNC the end with the lower id asks, block by block."""
        if not self.live or self.offset == self.owner.parameters or not self.leads() or self.request:
            return []
        self.request = self.dense(min(BLOCK_MOST, self.owner.parameters - self.offset))
        return [Message(XCHG, **self.request)]

    def ask(self):
        """A request of our own."""
        if not self.live or self.request or self.offset < self.owner.parameters:
            return []
        self.request = self.sparse(self.owner.clock)
        return [Message(XCHG, **self.request)]

    def take_request(self, theirs):
        if not self.live:
            return [self.busy(theirs)]
        if (theirs.epoch, theirs.sequence) != self.place():
            return [self.busy(theirs), self.ask_place()]
        if self.request:
            return self.take_crossed(theirs)
        if (theirs.form == DENSE) != (self.offset < self.owner.parameters):
            raise Refused("a request of another form")
        answer = self.dense(len(theirs.delta) // 4) if theirs.form == DENSE else self.sparse(theirs.clock)
        answer["weight"] = theirs.weight
        try:
            self.commit(answer, theirs, theirs.clock)
        except KeyError:  # over indices that we do not remember: it comes again with them
            return [self.hello(), self.busy(theirs)]
        self.answer = answer
        out = [Message(XACK, **answer)]
        return out + ([self.hello()] if self.sequence == 1 else [])

    def take_crossed(self, theirs):
        """Both ends have asked at once: each request answers the other, with the weight of the lower id."""
        request = dict(self.request)
        if theirs.clock != request["clock"]:
            request["moment"] = theirs.moment = b""
        request["weight"] = theirs.weight = request["weight"] if self.leads() else theirs.weight
        self.commit(request, theirs, max(theirs.clock, request["clock"]))
        self.request, self.answer = None, request
        self.crossed += 1
        return ([self.hello()] if self.sequence == 1 else []) + self.next_block()

    def take_answer(self, theirs):
        if not self.request or (theirs.epoch, theirs.sequence) != (self.request["epoch"], self.request["sequence"]):
            return []  # it was sent once too often
        if theirs.form != self.request["form"]:
            raise Refused("an answer of another form")
        try:
            self.commit(self.request, theirs, self.request["clock"])
        except KeyError:
            return [self.ask_place()]
        self.request, self.live = None, True
        return self.next_block()

    def busy(self, theirs):
        return Message(BUSY, epoch=theirs.epoch, sequence=theirs.sequence)

    def take(self, message):
        """The answers to a message of the other end."""
        if message.kind in (XCHG, XACK):
            if message.clock > COUNT_MOST:
                raise Refused("a clock that no training reaches")
            self.owner.hear_clock(self.peer, message.clock)
        if message.kind == HELLO:
            return self.take_hello(message)
        if message.kind == XCHG:
            return self.take_request(message)
        if message.kind == XACK:
            return self.take_answer(message)
        if message.kind == BUSY and self.request and (message.epoch, message.sequence) == (self.request["epoch"], self.request["sequence"]):
            self.request = None
        if message.kind == PARKED:
            self.owner.hear_clock(self.peer, message.round)
        return []

    # -- what both ends do with the two packets

    def commit(self, mine, theirs, slice_clock):
        if theirs.form == DENSE:
            self.commit_dense(mine, theirs)
        else:
            self.commit_sparse(mine, theirs, slice_clock)
        self.sequence += 1

    def move(self, entries, weight, moves_reference=True, gain=0.0):
        """`entries`: (index, q of this end, q of the other end). Each sum and product is rounded to fp32."""
        model, reference, change = self.owner.model, self.reference, 0
        bits, hash_element = memoryview(reference).cast("B").cast("I"), codec.hash_element
        total, force = array("f", (m + t for _, m, t in entries)), array("f", (t - m for _, m, t in entries))
        step = array("f", (weight * f for f in force))
        for (i, _, _), t, s in zip(entries, total, step):
            if moves_reference:
                before = bits[i]
                reference[i] += 0.5 * t
                if self.owner.bf16:
                    reference[i] = codec.round_bf16(reference[i])
                change += hash_element(i, bits[i]) - hash_element(i, before)
            if weight > 0:
                model[i] += s
        if gain > 0:
            self.correct([i for i, _, _ in entries], array("f", (gain * s for s in step)))
        self.hash = self.hash + change & codec.MASK

    def correct(self, indices, steps):
        """Drift correction. In bf16 it is rounded at random, with the same bits at both ends."""
        if not self.correction:
            self.correction = array("f", bytes(4 * self.owner.parameters))
        rounding = codec.mix(self.hash ^ codec.mix(self.sequence))
        for i, step in zip(indices, steps):
            self.correction[i] += step
            if self.owner.bf16:
                chance = codec.mix(rounding + i & codec.MASK) >> 48
                self.correction[i] = codec.round_bf16_up(self.correction[i], chance)

    def gain(self, mine, theirs, entries):
        """What c grows by, for each unit of force. `entries`: of both packets."""
        low, high = sorted((mine["step_scale"], theirs.step_scale))
        if not self.owner.drift or not low > 0 or high > codec.f32(SCALES_APART * low):
            return 0.0
        if mine["standing"] != theirs.standing or theirs.standing == FINISHED:
            return 0.0
        gain, limit = map(codec.f32, self.owner.drift)
        beta = codec.f32(codec.f32(gain * 0.5 * entries) / self.owner.parameters)
        return codec.f32(min(beta, limit) / codec.f32(0.5 * codec.f32(low + high)))

    def keep(self, mine, theirs, cut):
        """What both ends keep of c: it has a bound, and halves where the other end cuts the update."""
        bound, d = min(mine["bound"], theirs.bound), self.owner.parameters
        if not self.correction or mine["standing"] != theirs.standing or theirs.standing == FINISHED:
            return 1.0
        if cut or math.isinf(bound):
            return 0.5 if cut else 1.0
        part, seed = d // 128, codec.mix(self.epoch ^ codec.mix(self.sequence))
        runs = [(i * part + codec.mix(128 * seed + i & codec.MASK) % (part - 127), 128) for i in range(128)] if part > 128 else [(0, d)]
        energy = math.fsum(c * c for first, count in runs for c in self.correction[first:first + count])
        norm = math.sqrt(energy * d / 16384 if part > 128 else energy)
        return max(codec.f32(bound / norm), 0.5) if norm > bound else 1.0

    def commit_sparse(self, mine, theirs, slice_clock):
        d = self.owner.parameters
        ours = dict(zip(*codec.take_packet(mine["delta"], d)))
        indices, values = codec.take_packet(theirs.delta, d, self.received)
        other = dict(zip(indices, values))
        weight = weight_of(mine["standing"], theirs.standing, theirs.weight)
        entries = [(i, ours.get(i, 0.0), other.get(i, 0.0)) for i in sorted(ours.keys() | other.keys())]
        whole = is_whole(entries, weight, theirs)
        kept = self.keep(mine, theirs, not whole and theirs.limit > 0)
        weight = 0.0 if has_not_begun(theirs) else weight
        if kept < 1:
            self.correction = array("f", (kept * c for c in self.correction))
        self.move(entries, weight, gain=self.gain(mine, theirs, len(ours) + len(other)) if whole else 0.0)
        self.received = indices if theirs.keys else None
        if self.owner.second and self.owner.slices and mine["moment"] and theirs.moment:
            self.move_moments(mine["moment"], theirs.moment, slice_clock)
        self.exchanges += 1

    def move_moments(self, mine, theirs, slice_clock):
        """v += (Q(v_j) - Q(v_i)) / 2, but to no less than a quarter of v."""
        first, count = codec.moment_slice(slice_clock, self.owner.slices, self.owner.parameters)
        for i, (m, t) in enumerate(zip(codec.take_moments(mine, count), codec.take_moments(theirs, count)), first):
            v = self.owner.second[i]
            self.owner.second[i] = max(v + 0.5 * (t - m), 0.25 * v)

    def commit_dense(self, mine, theirs):
        count = len(mine["delta"]) // 4
        if theirs.offset != self.offset or theirs.moment:
            raise Refused("a block of another place")
        ours, other = codec.take_floats(mine["delta"], count), codec.take_floats(theirs.delta, count)
        side = adopts(mine["standing"], theirs.standing)
        entries = list(zip(range(self.offset, self.offset + count), ours, other))
        if side == 0:
            self.move(entries, 0.0 if mine["standing"] == FINISHED else 0.5)
        else:
            fresh = other if side > 0 else ours
            self.move([(i, v, v) for i, v in enumerate(fresh, self.offset)], 0.0)
            if side > 0:
                self.move(entries, 1.0, moves_reference=False)
        self.offset += count
        self.blocks += 1
