"""A member of a cluster that trains nothing: it joins, keeps membership, takes part in exchanges with its own model, and leaves.

One thread, one call: `poll` waits for bytes and timers and handles them. What a member says of itself and of its model are methods of their
own (`record`, `progress`, `model_to_send`, `packet_to_send`, `snapshot_to_send`), so that a test can make one that lies."""

import os
import selectors
import socket
import struct
import time
from array import array

import codec
import record as rec
import wire
from exchange import FINISHED, PRESENT, Edge
from noise import CHACHAPOLY, AESGCM_256, Datagrams, Handshake, Identity, Opener, Refused, Sealer, psk_of
from wire import Message

PROTOCOL = 20
SNAPSHOT_BLOCK = 4096
GREETING_S, SYNC_S, DOUBT_S, CALL_S, PATIENCE_S, HELPER_S = 10.0, 1.0, 4.0, 0.3, 300.0, 0.3
DATAGRAM_PLAIN = 1152
PART_MODEL, PART_SECOND = 0, 2


class Link:
    """A stream: handshake, then greeting, then messages."""

    def __init__(self, member, sock, caller, address=None):
        self.member, self.sock, self.caller, self.address = member, sock, caller, address
        self.handshake = Handshake(member.identity, caller, member.cluster, member.psks, os.urandom(32), (PROTOCOL, PROTOCOL),
                                   1 << CHACHAPOLY | 1 << AESGCM_256)
        self.raw, self.out = bytearray(), bytearray()
        self.sealer = self.opener = self.peer = self.theirs = None
        self.greeted = self.active = self.closed = self.closing = False
        self.begun = member.now()
        if caller:
            self.out += self.handshake.write()

    def read(self):
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        if self.opener:
            self.take(data)
            return
        self.raw += data
        while not self.opener and len(self.raw) >= 2 and not self.closed:
            length = struct.unpack_from("<H", self.raw)[0]
            if length != self.expected():
                raise Refused("a handshake message of another length")
            if len(self.raw) < 2 + length:
                return
            message = bytes(self.raw[2:2 + length])
            del self.raw[:2 + length]
            self.handshake.read(message)
            if self.handshake.writes():
                self.out += self.handshake.write()
            if self.handshake.done():
                self.establish()
        if self.opener and self.raw:
            data, self.raw = bytes(self.raw), bytearray()
            self.take(data)

    def expected(self):
        return (52, 197, 161)[self.handshake.number]

    def establish(self):
        send, receive = self.handshake.split()
        self.sealer, self.opener, self.peer = Sealer(send), Opener(receive), self.handshake.peer
        if not self.handshake.protocol():
            raise Refused(f"protocols {self.handshake.peer_protocols} only")
        self.member.authenticated(self)

    def take(self, data):
        for message in self.opener.feed(data):
            if self.closed:
                return
            self.member.heard(self, wire.decode(message))

    def send(self, message):
        self.member.count("sent", wire.NAMES[message.kind])
        if not self.closed and not self.closing:
            self.out += self.sealer.message(wire.encode(message))

    def flush(self):
        try:
            while self.out:
                sent = self.sock.send(self.out)
                del self.out[:sent]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if self.closing:
            self.close()

    def bye(self, reason):
        if self.sealer:
            self.send(Message(wire.BYE, reason=reason))
        self.closing = True
        self.flush()

    def close(self):
        if not self.closed:
            self.closed = True
            self.member.ended(self)
            self.sock.close()


class Member:
    def __init__(self, seed, name, cluster="p2pml", secret=None, address=("127.0.0.1", 0), values=codec.INT8, generation=1,
                 clock=time.monotonic):
        self.identity, self.name, self.cluster, self.psks = Identity(seed), name, cluster, [psk_of(secret)]
        self.id, self.generation, self.clock_of_host = self.identity.id, generation, clock
        self.begun, self.instance_id, self.incarnation = clock(), int.from_bytes(os.urandom(8), "little"), 0
        self.flags, self.shard, self.slot = 0, rec.NONE, rec.NONE
        self.values, self.standing = values, PRESENT
        self.greeting_of_cluster = None  # of the first member that greeted us: we take its settings, as a late node does
        self.listen(address)
        self.datagrams = Datagrams(self.identity, self.psks, cluster, generation, os.urandom(8))
        self.records, self.dead, self.signed = {}, {}, None
        self.links, self.active, self.edges, self.clocks, self.progress_of = [], {}, {}, {}, {}
        self.called, self.helping = {}, []
        self.view_hash, self.view_since, self.synced = 0, 0.0, 0.0
        self.model, self.second, self.parameters = None, None, 0
        self.clip, self.scaling, self.bf16, self.drift, self.slices, self.entries = False, 0, False, None, 0, 1
        self.step_scale = 0.0  # it trains nothing, so there is no drift, and c stays zero
        self.snapshot = None
        self.counts, self.log = {}, []

    def listen(self, address):
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(address)
        self.address = self.listener.getsockname()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(self.address)
        for sock in (self.listener, self.udp):
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ)

    def now(self):
        return self.clock_of_host()

    def say(self, text):
        self.log.append(f"{self.now() - self.begun:8.3f} {text}")

    def count(self, way, kind):
        self.counts[way, kind] = self.counts.get((way, kind), 0) + 1

    # -- what this member says of itself

    def record(self):
        """Not signed yet."""
        return rec.Record(id=self.id, generation=self.generation, instance_id=self.instance_id, incarnation=self.incarnation,
                          flags=self.flags, name=self.name, slot=self.slot, shard=self.shard, group=rec.group_of("", self.id),
                          age_ms=int((self.now() - self.begun) * 1000), exchange_public=self.identity.exchange_public,
                          addresses=[self.address], ways=rec.REACHABLE)

    def progress(self):
        """(round, step). It trains nothing, and is where the others are, so that nobody waits for it."""
        return max(self.progress_of.values(), default=(0, 0))

    def model_to_send(self, edge):
        """The vector whose difference from the reference is sent."""
        return self.model

    def packet_to_send(self, edge, packet):
        """The fields of an XCHG or XACK, before both ends apply them."""
        return packet

    def snapshot_to_send(self):
        return self.model

    def answers_pings(self):
        return True

    @property
    def clock(self):
        return max(self.clocks.values(), default=0)

    def hear_clock(self, peer, clock):
        self.clocks[peer] = clock

    def own_record(self, changed=False):
        if changed or not self.signed:
            self.incarnation += changed
            self.signed = self.record().sign(self.identity)
            self.look_at_view()
        return self.signed

    def set_flags(self, flags):
        self.flags = flags
        self.own_record(changed=True)
        self.tell_all([self.signed])

    # -- links

    def call(self, address):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex(address)
        self.add_link(sock, True, address)
        self.called[address] = self.now()

    def add_link(self, sock, caller, address=None):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self, sock, caller, address)
        self.links.append(link)
        self.selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, link)

    def decides(self, peer):
        """Which link of a pair is used: the lower id says so, by its greeting."""
        return self.id < peer

    def greeting(self, link):
        like = self.greeting_of_cluster or dict(version="interop", model="unknown", schema=0, parameters=0, rules="", told="", own0=0,
                                                own1=0, shard=0)
        ip, port = link.sock.getpeername()[:2]
        return Message(wire.GREETING, **{**like, "version": "interop", "name": self.name, "instance_id": self.instance_id, "begun": 0,
                                         "own0": 0, "own1": 0, "seen": f"{ip}:{port}"})

    def greet(self, link):
        link.greeted = True
        link.send(self.greeting(link))

    def authenticated(self, link):
        self.say(f"authenticated {link.peer.hex()[:8]} {'called' if link.caller else 'accepted'}")
        if link.caller and link.peer in self.active:
            link.bye("replaced")
        elif not self.decides(link.peer):
            self.greet(link)

    def take_greeting(self, link, theirs):
        if link.theirs:
            raise Refused("a second greeting")
        link.theirs = theirs
        if not self.greeting_of_cluster:
            self.adopt_settings(theirs)
        mine = self.greeting_of_cluster
        if any(getattr(theirs, key) != mine[key] for key in ("schema", "parameters", "rules")):
            if not link.greeted:
                self.greet(link)
            link.bye("another model or other settings")
            return
        old = self.active.get(link.peer)
        if self.decides(link.peer):
            if old:
                link.bye("replaced")
                return
            self.greet(link)
        elif old:
            old.bye("replaced")
        self.activate(link)

    def adopt_settings(self, theirs):
        self.greeting_of_cluster = theirs.fields()
        rules = dict(rule.split(": ", 1) for rule in theirs.rules.split("; ") if ": " in rule)
        self.parameters, self.entries = theirs.parameters, codec.count_auto(theirs.parameters)
        self.clip = rules.get("average.robust") in ("clip", "clip+probe")
        self.bf16 = rules.get("average.reference") == "bf16"
        if rules.get("average.drift_correction") == "true":
            self.drift = float(rules["average.drift_gain"]), float(rules["average.drift_limit"])
        self.slices = int(rules.get("average.share_second_moment", "0"))

    def activate(self, link):
        self.say(f"link to {link.theirs.name}")
        self.active[link.peer], link.active = link, True
        own = self.own_record()
        self.send_packet(link, rec.Packet(rec.SYNC_TELL, records=[own, *(r for i, r in self.records.items() if i not in self.dead)]))
        self.send_packet(link, rec.Packet(rec.SYNC_ASK))
        if self.counts_in_graph():
            self.say_edge(link.peer, self.edge(link.peer).link_up())

    def ended(self, link):
        self.selector.unregister(link.sock)
        self.links.remove(link)
        if self.active.get(link.peer) is link:
            del self.active[link.peer]
            if link.peer in self.edges:
                self.edges[link.peer].live = False

    def heard(self, link, message):
        self.count("heard", wire.NAMES[message.kind])
        if message.kind == wire.GREETING:
            self.take_greeting(link, message)
        elif message.kind == wire.BYE:
            self.say(f"bye of {link.peer.hex()[:8]}: {message.reason}")
            link.close()
        elif not link.active:
            raise Refused("a message before the greeting")
        elif message.kind == wire.MEMBERS:
            self.take_packet(link.peer, rec.take_packet(message.packet), link)
        elif message.kind == wire.SNAPSHOT_ASK:
            self.tell_block(link, message)
        elif message.kind == wire.SNAPSHOT_TELL:
            self.take_block(link.peer, message)
        elif message.kind in (wire.HELLO, wire.XCHG, wire.XACK, wire.BUSY, wire.PARKED):
            self.take_exchange(link, message)

    # -- membership

    def counts_in_graph(self):
        return bool(self.flags & (rec.ELIGIBLE | rec.HELD)) and self.model is not None

    def here(self):
        return [self.own_record()] + [r for i, r in self.records.items() if i not in self.dead and not r.flags & rec.LEFT]

    def look_at_view(self):
        now = rec.view_hash(self.here()) if self.signed else 0
        if now != self.view_hash:
            self.view_hash, self.view_since = now, self.now()

    def stamp(self, packet, receiver):
        round_, step = self.progress()
        packet.view_hash, packet.view_age = self.view_hash, int((self.now() - self.view_since) * 10)
        packet.round, packet.step = round_, step
        packet.bits = rec.DEAD_BIT if receiver in self.dead else 0
        return packet.packed()

    def send_packet(self, link, packet):
        link.send(Message(wire.MEMBERS, packet=self.stamp(packet, link.peer)))

    def send_datagram(self, peer, packet):
        r = self.records.get(peer)
        data = self.stamp(packet, peer)
        if r and len(data) <= DATAGRAM_PLAIN:
            self.udp.sendto(self.datagrams.seal(peer, r.exchange_public, r.generation, data), tuple(r.addresses[0]))

    def reply(self, peer, packet, link):
        if link:
            self.send_packet(link, packet)
        else:
            self.send_datagram(peer, packet)

    def tell_all(self, records):
        for peer, link in list(self.active.items()):
            if not link.closed:
                self.send_packet(link, rec.Packet(rec.GOSSIP, records=records))

    def take_packet(self, peer, packet, link):
        for record in packet.records:
            self.take_record(record, peer, link)
        for record, suspicions in packet.dead:
            self.take_dead(record, suspicions)
        for suspicion in packet.suspicions:
            if suspicion.subject == self.id:
                self.refute(suspicion.version, peer, link)
        if packet.bits & rec.DEAD_BIT:
            self.refute(self.own_record().version(), peer, link)
        self.progress_of[peer] = packet.round, packet.step
        self.answer(peer, packet, link)
        differs = packet.view_hash != self.view_hash and min(packet.view_age / 10, self.now() - self.view_since) >= 0.5
        if differs and packet.kind not in (rec.SYNC_ASK, rec.SYNC_TELL) and self.now() - self.synced >= SYNC_S and peer in self.active:
            self.synced = self.now()
            self.full_sync(self.active[peer])

    def full_sync(self, link):
        self.send_packet(link, rec.Packet(rec.SYNC_TELL, records=self.here()))
        self.send_packet(link, rec.Packet(rec.SYNC_ASK))

    def take_record(self, record, teller, link):
        if record.id == self.id:
            if record.instance_id == self.instance_id and record.incarnation > self.incarnation:
                self.incarnation = record.incarnation
            return
        known = self.records.get(record.id)
        if known and record.version() <= known.version() or not record.verifies():
            return
        self.records[record.id] = record
        self.dead.pop(record.id, None)
        self.datagrams.know(record.id, record.exchange_public)
        self.look_at_view()

    def take_dead(self, record, suspicions):
        """This member judges nobody: it believes two suspectors, or one whose evidence is a broken stream, as long as nothing newer comes."""
        self.take_record(record, None, None)
        known = self.records.get(record.id)
        if known and record.id != self.id and known.version() == record.version() and all(s.verifies() for s in suspicions):
            self.dead[record.id] = suspicions
            self.look_at_view()

    def refute(self, version, peer, link):
        if tuple(version) >= self.own_record().version():
            self.incarnation = version[2]
            self.own_record(changed=True)
        self.reply(peer, rec.Packet(rec.GOSSIP, records=[self.signed]), link)
        self.tell_all([self.signed])

    def answer(self, peer, packet, link):
        if packet.kind == rec.PING and self.answers_pings():
            self.count("answered", "ping")
            self.reply(peer, rec.Packet(rec.ACK, number=packet.number), link)
        elif packet.kind == rec.PING_REQUEST and packet.target in self.records:
            self.helping.append((packet.target, peer, packet.number, link, self.now()))
            self.send_datagram(packet.target, rec.Packet(rec.PING, number=packet.number))
        elif packet.kind == rec.ACK:
            for target, asker, number, way, _ in [h for h in self.helping if h[0] == peer]:
                self.reply(asker, rec.Packet(rec.RELAYED, number=number, target=target), way)
            self.helping = [h for h in self.helping if h[0] != peer]
        elif packet.kind == rec.SYNC_ASK:
            told = rec.Packet(rec.SYNC_TELL, records=self.here(), dead=[(self.records[i], s) for i, s in self.dead.items()])
            self.reply(peer, told, link)

    def help_timers(self):
        for target, asker, number, way, since in self.helping:
            if self.now() - since > HELPER_S:
                self.reply(asker, rec.Packet(rec.NACK, number=number, target=target), way)
        self.helping = [h for h in self.helping if self.now() - h[4] <= HELPER_S]

    # -- a model from a donor

    def fetch(self, peer):
        """Begins; `model` is there when all blocks are, and `second` if the donor has second moments."""
        self.snapshot = dict(peer=peer, number=0, parts=[PART_MODEL], blocks={})
        self.ask_block()

    def next_block(self):
        for part in self.snapshot["parts"]:
            for block in range((self.parameters + SNAPSHOT_BLOCK - 1) // SNAPSHOT_BLOCK):
                if (part, block) not in self.snapshot["blocks"]:
                    return part, block
        return None

    def ask_block(self):
        part, block = self.next_block()
        self.active[self.snapshot["peer"]].send(Message(wire.SNAPSHOT_ASK, snapshot=self.snapshot["number"], part=part, block=block))

    def take_block(self, peer, tell):
        s = self.snapshot
        if not s or peer != s["peer"] or (tell.part, tell.block) != self.next_block():
            return
        values = codec.take_floats(tell.values, len(tell.values) // 4)
        if tell.hash != codec.hash_vector(values):
            raise Refused("a block that does not have its hash")
        s["number"], s["blocks"][tell.part, tell.block] = tell.snapshot, values.tobytes()
        s["parts"] = [part for part in (PART_MODEL, PART_SECOND) if tell.parts >> part & 1]
        if self.next_block():
            self.ask_block()
            return
        whole = {part: array("f", b"".join(v for (p, _), v in sorted(s["blocks"].items()) if p == part)) for part in s["parts"]}
        self.model, self.second = whole[PART_MODEL], whole.get(PART_SECOND)
        self.clocks[peer], self.progress_of[peer] = tell.round, (tell.round, tell.step)
        self.snapshot = None
        self.say(f"has the model of round {tell.round}")

    def tell_block(self, link, ask):
        model = self.snapshot_to_send()
        first = ask.block * SNAPSHOT_BLOCK
        if model is None or ask.part != PART_MODEL or first >= len(model):
            return
        values = model[first:first + SNAPSHOT_BLOCK]
        round_, step = self.progress()
        link.send(Message(wire.SNAPSHOT_TELL, snapshot=max(1, ask.snapshot), parts=1 << PART_MODEL, part=PART_MODEL, block=ask.block,
                          round=round_, step=step, hash=codec.hash_vector(values), values=values.tobytes()))

    # -- exchanges

    def edge(self, peer):
        if peer not in self.edges:
            self.edges[peer] = Edge(self, peer)
        return self.edges[peer]

    def say_edge(self, peer, messages):
        for message in messages:
            if peer in self.active:
                self.active[peer].send(message)
        if any(m.kind in (wire.XCHG, wire.HELLO) for m in messages):
            self.edges[peer].said = self.now()

    def take_exchange(self, link, message):
        if self.counts_in_graph():
            self.say_edge(link.peer, self.edge(link.peer).take(message))
        elif message.kind == wire.XCHG:
            link.send(Message(wire.BUSY, epoch=message.epoch, sequence=message.sequence))

    def ask(self, peer):
        """Opens an exchange over a live edge."""
        self.say_edge(peer, self.edge(peer).ask())

    def begin(self):
        """Counts in the graph, as one that trains: the others put it into their plan when they hear of it."""
        self.set_flags(rec.ELIGIBLE | rec.TRAINING)
        for peer in self.active:
            self.say_edge(peer, self.edge(peer).link_up())

    def others_are_done(self):
        others = [r for i, r in self.records.items() if i not in self.dead]
        return bool(others) and all(r.flags & (rec.FINISHED | rec.LEFT) for r in others)

    def finish(self):
        self.standing = FINISHED
        self.set_flags(rec.ELIGIBLE | rec.FINISHED)

    # -- the loop

    def poll(self, wait=0.05):
        self.call_missing()
        self.timers()
        for link in list(self.links):
            self.selector.modify(link.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if link.out else 0), link)
        for key, mask in self.selector.select(wait):
            if key.fileobj is self.listener:
                self.add_link(self.listener.accept()[0], False)
            elif key.fileobj is self.udp:
                self.read_datagrams()
            else:
                self.serve(key.data, mask)
        for link in list(self.links):
            if link.out and not link.closed:
                link.flush()

    def serve(self, link, mask):
        try:
            if mask & selectors.EVENT_WRITE:
                link.flush()
            if mask & selectors.EVENT_READ and not link.closed:
                link.read()
        except Refused as why:
            self.say(f"refused {link.peer.hex()[:8] if link.peer else 'a stranger'}: {why}")
            self.count("refused", str(why))
            link.close()

    def read_datagrams(self):
        while True:
            try:
                data = self.udp.recv(2048)
            except BlockingIOError:
                return
            try:
                peer, plain = self.datagrams.open(data)
                self.count("heard", "datagram")
                self.take_packet(peer, rec.take_packet(plain), None)
            except Refused as why:
                self.count("dropped", str(why))

    def call_missing(self):
        """Every living member without a link is called, unless it may be calling, or this member leaves."""
        if self.flags & rec.LEFT:
            return
        calling = {link.address for link in self.links}
        for id, record in self.records.items():
            address = tuple(record.addresses[0])
            gone = id in self.dead or record.flags & rec.LEFT
            if not gone and id not in self.active and address not in calling and self.now() - self.called.get(address, 0) > CALL_S:
                self.call(address)

    def timers(self):
        self.help_timers()
        for link in list(self.links):
            if not link.active and self.now() - link.begun > GREETING_S:
                link.close()
        for peer, edge in self.edges.items():
            if peer in self.active and (edge.request or edge.asked) and self.now() - getattr(edge, "said", 0) > DOUBT_S:
                self.say_edge(peer, [edge.ask_place()])

    def until(self, condition, what, patience=PATIENCE_S):
        end = self.now() + patience
        while not condition():
            if self.now() > end:
                raise AssertionError(f"{self.name}: not within {patience} s: {what}\n" + "\n".join(self.log[-40:]))
            self.poll()

    def join(self, address, patience=PATIENCE_S):
        """Until a member that trains has given its model, and this member counts."""
        self.call(address)
        self.until(lambda: self.active, "a link", patience)
        self.until(lambda: any(self.records[p].flags & rec.TRAINING for p in self.active if p in self.records), "a member that trains", patience)
        donor = next(p for p in self.active if p in self.records and self.records[p].flags & rec.TRAINING)
        self.fetch(donor)
        self.until(lambda: self.model, "a model", patience)
        self.begin()

    def leave(self):
        self.set_flags(rec.LEFT)
        self.selector.unregister(self.listener)  # who calls now gets no answer
        for link in list(self.active.values()):
            link.bye("leaving")
        self.until(lambda: not self.links, "the end of its links", 10.0)

    def close(self):
        for link in list(self.links):
            link.close()
        for sock in (self.listener, self.udp):
            sock.close()
