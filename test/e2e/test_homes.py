"""The routers of netns.py let through what routers of their kind let through: plain sockets, no node.

That nothing arrives is known without waiting: a second packet, sent later on the same way, has arrived.

Needs root, iproute2 and nftables."""

import contextlib
import re
import select
import socket
import unittest

import netns

PATIENCE = 60.0
PORT = netns.PORT
RECEIVE_ERRORS = 11  # IP_RECVERR: those of routers, too
NATS = ("full-cone", "port-restricted", "symmetric", "double")


class HomesTest(unittest.TestCase):
    """Hosts 0, 1 and 2 are open."""

    def setUp(self):
        self.after = contextlib.ExitStack()
        self.addCleanup(self.after.close)

    def homes(self, behind):
        self.net = netns.Homes(3 + len(behind), {3 + i: kind for i, kind in enumerate(behind)})
        self.after.callback(self.net.close)
        return self.net

    def socket(self, i, port=0, kind=socket.SOCK_DGRAM):
        """In the namespace of host i, with its listen port or any other."""
        with self.net.spaces[i].inside():
            made = self.after.enter_context(socket.socket(socket.AF_INET, kind))
        made.settimeout(PATIENCE)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((self.net.address(i), port))
        return made

    def stream(self, i, port=0):
        return self.socket(i, port, socket.SOCK_STREAM)

    def listener(self, i, port=0):
        made = self.stream(i, port)
        made.listen()
        return made

    def call(self, a, b):
        """Sends the first packet of a connection; whether it can be one is seen later."""
        a.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            a.connect(b)
        return a

    def called(self, *calls):
        """All of these get a connection."""
        for one in calls:
            self.assertTrue(select.select([], [one], [], PATIENCE)[1], "no answer")
            self.assertEqual(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            one.settimeout(PATIENCE)

    def pair(self, a, b):
        """A connection from the stream `a` to the listener `b`: (end that called, end that was called)."""
        a.connect(b.getsockname())
        other = self.after.enter_context(b.accept()[0])
        other.settimeout(PATIENCE)
        return a, other

    def seen(self, a, b):
        """The address from which the datagrams of `a` come to `b`."""
        a.sendto(b"here", b.getsockname())
        return b.recvfrom(100)[1]

    def passed(self, a, there, b, marker):
        """Whether a datagram of `a` to an address arrives at `b` before one that `marker` sends to b's own outside address."""
        a.sendto(b"first", there)
        marker()
        return b.recv(100) == b"first" and b.recv(100) == b"marker"

    def marker(self, inside, outside):
        """A datagram that answers `inside`, so that it is let in."""
        back = self.seen(inside, outside)
        return lambda: outside.sendto(b"marker", back)

    # -- each kind

    def test_who_may_come_in(self):
        """After the host has sent to one: another port of that host, and a third host that knows the address."""
        for kind in netns.Homes.KINDS:
            with self.subTest(kind=kind):
                self.homes([kind])
                inside, friend, stranger = self.socket(3, PORT), self.socket(0, PORT), self.socket(1, PORT)
                marker = self.marker(inside, friend)
                there = self.seen(inside, friend)
                for who in self.socket(0), stranger:
                    self.assertEqual(self.passed(who, there, inside, marker), kind in ("open", "full-cone"))

    def test_nobody_comes_in_before_the_host_has_sent(self):
        for kind in netns.Homes.KINDS:
            with self.subTest(kind=kind):
                net = self.homes([kind])
                listener, inside = self.listener(3, PORT), self.socket(3)
                marker = self.marker(inside, self.socket(0))
                call = self.call(self.stream(1), (net.outside(3), PORT))
                self.assertEqual(self.passed(self.socket(1), (net.outside(3), inside.getsockname()[1]), inside, marker), kind == "open")
                listener.setblocking(False)
                if kind == "open":
                    self.called(call)
                    self.after.enter_context(listener.accept()[0])
                else:
                    self.assertRaises(BlockingIOError, listener.accept)
                    self.assertEqual(select.select([], [call], [], 0)[1], [], "a router answered or refused; it must be silent")

    def test_a_call_that_left_the_listen_port_opens_a_full_cone(self):
        net = self.homes(["full-cone"])
        listener = self.listener(3, PORT)
        self.pair(self.stream(3, PORT), self.listener(0))
        call = self.stream(1)
        call.connect((net.outside(3), PORT))
        self.after.enter_context(listener.accept()[0])

    def test_outgoing_connections_and_the_address_that_others_see(self):
        for kind in netns.Homes.KINDS:
            with self.subTest(kind=kind):
                net = self.homes([kind])
                inside, outside = self.pair(self.stream(3, PORT), self.listener(0))
                outside.sendall(b"answer")
                self.assertEqual(inside.recv(100), b"answer")
                address, port = outside.getpeername()
                self.assertEqual(address, net.outside(3))
                self.assertEqual(address == net.address(3), kind in ("open", "firewall"))
                self.assertEqual(port == PORT, kind != "symmetric")

    def test_the_outside_port_is_the_same_for_all_unless_symmetric(self):
        for kind in netns.Homes.KINDS:
            with self.subTest(kind=kind):
                self.homes([kind])
                inside = self.socket(3, PORT)
                ports = {self.seen(inside, self.socket(i))[1] for i in range(3)}
                self.assertEqual(ports == {PORT}, kind != "symmetric")
                self.assertEqual(len(ports) > 1, kind == "symmetric")

    # -- two homes

    def open_at_once(self, kinds):
        """Both call the address that host 0 saw, from the ports from which they had called it."""
        net = self.homes(kinds)
        seen = []
        for i in 3, 4:
            _, outside = self.pair(self.stream(i, PORT), self.listener(0))
            seen.append(outside.getpeername())
        calls = self.call(self.stream(3, PORT), seen[1]), self.call(self.stream(4, PORT), seen[0])
        self.assertEqual({seen[0][0], seen[1][0]}, {net.outside(3), net.outside(4)})
        return calls

    def test_simultaneous_open(self):
        """A full cone needs none: the call of the other comes in."""
        sorts = ("port-restricted", "firewall", "double")
        for kinds in [(a, b) for a in sorts for b in sorts if a <= b]:
            with self.subTest(kinds=kinds):
                calls = self.open_at_once(kinds)
                self.called(*calls)
                calls[0].sendall(b"from 3")
                self.assertEqual(calls[1].recv(100), b"from 3")

    def test_no_simultaneous_open_with_a_symmetric_one(self):
        """The packets of both calls were sent, and dropped, before the markers."""
        for kind in "port-restricted", "symmetric", "double":
            with self.subTest(kind=kind):
                calls = self.open_at_once(("symmetric", kind))
                for i in 3, 4:
                    inside = self.socket(i)
                    self.marker(inside, self.socket(0))()
                    self.assertEqual(inside.recv(100), b"marker")
                self.assertEqual(select.select([], calls, [], 0)[1], [])

    def test_private_addresses_lead_nowhere_from_outside(self):
        """Homes 3 and 6 have the same private addresses, home 4 has others."""
        net = self.homes(["port-restricted"] * 4)
        self.assertEqual(net.address(3), net.address(6))
        self.assertNotEqual(net.address(3), net.address(4))
        inside = self.socket(4, PORT)
        marker = self.marker(inside, self.socket(0))
        for who in self.socket(0), self.socket(3):
            who.setsockopt(socket.IPPROTO_IP, RECEIVE_ERRORS, 1)
            who.connect((net.address(4), PORT))
            who.send(b"first")
            marker()
            self.assertEqual(inside.recv(100), b"marker")
            self.assertEqual(who.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "it was refused; it must vanish")
        own = self.socket(6, PORT)  # that private address is the host itself
        self.socket(6).sendto(b"own", (net.address(3), PORT))
        self.assertEqual(own.recv(100), b"own")

    def test_hosts_of_one_home(self):
        """They talk directly, and share the outside address."""
        for kind in (*NATS, "firewall"):
            with self.subTest(kind=kind):
                net = self.homes([kind, 3, 3])
                self.pair(self.stream(4), self.listener(5))
                self.pair(self.stream(3), self.listener(4))
                seen = [self.seen(self.socket(i, PORT), self.socket(0)) for i in (3, 4, 5)]
                self.assertEqual([a for a, _ in seen], [net.outside(i) for i in (3, 4, 5)])
                self.assertEqual(len({a for a, _ in seen}), 3 if kind == "firewall" else 1)
                if kind == "full-cone":
                    self.assertEqual([p for _, p in seen], [PORT, PORT + 1, PORT + 2])

    # -- what changes

    def test_a_router_that_forgets(self):
        """What was let in is not any more, an old connection is dead in both directions, and new ones are possible."""
        for kind in (*NATS, "firewall"):
            with self.subTest(kind=kind):
                net = self.homes([kind])
                inside, outside = self.pair(self.stream(3), self.listener(0))
                old, friend = self.socket(3, PORT), self.socket(0)
                there = self.seen(old, friend)
                net.forget(3)
                inside.sendall(b"nobody hears this")
                outside.sendall(b"nor this")
                other = self.socket(3)
                marker = self.marker(other, self.socket(0))
                friend.sendto(b"first", there)
                marker()
                self.assertEqual(other.recv(100), b"marker")
                for end in old, inside, outside:
                    end.setblocking(False)
                    self.assertRaises(BlockingIOError, end.recv, 100)
                self.pair(self.stream(3), self.listener(1))

    def test_another_address(self):
        for kind in NATS:
            with self.subTest(kind=kind):
                net = self.homes([kind, 3])
                inside, outside = self.pair(self.stream(3), self.listener(0))
                datagrams, friend = self.socket(3, PORT), self.socket(0)
                before = self.seen(datagrams, friend)[0]
                net.move(3)
                after = self.seen(datagrams, friend)
                self.assertNotEqual(after[0], before)
                self.assertEqual(after[0], net.outside(4))
                inside.sendall(b"over the old address")
                friend.sendto(b"answer", after)
                self.assertEqual(datagrams.recv(100), b"answer")
                outside.setblocking(False)
                self.assertRaises(BlockingIOError, outside.recv, 100)
                self.pair(self.stream(4), self.listener(1))

    def test_large_packets_vanish(self):
        for behind in [], ["port-restricted"], ["double"]:
            with self.subTest(behind=behind):
                net = self.homes(behind)
                i = 3 if behind else 2
                net.swallow(i, 1280)
                inside, outside = self.socket(i), self.socket(0)
                there = self.seen(inside, outside)
                for a, b, address in (inside, outside, outside.getsockname()), (outside, inside, there):
                    a.sendto(bytes(1400), address)
                    a.sendto(b"small", address)
                    self.assertEqual(b.recv(2000), b"small")
                self.assertEqual(self.swallowed(), 2)
                self.whole(i, 1160, 200_000)
                self.assertEqual(self.swallowed(), 2)
                net.swallow(i, None)
                self.whole(i, 1460, 200_000)

    def swallowed(self):
        return sum(map(int, re.findall(r"counter packets (\d+)", self.net.router.run("nft", "list", "chain", "ip", "chaos", "way"))))

    def whole(self, i, segment, count):
        """So many bytes go both ways in segments of that size."""
        call, listener = self.stream(i), self.listener(0)
        call.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        ends = self.pair(call, listener)
        listener.close()
        for a, b in (ends, ends[::-1]):
            left = count
            a.settimeout(0)
            sent = 0
            while left:
                if sent < count:
                    with contextlib.suppress(BlockingIOError):
                        sent += a.send(bytes(min(count - sent, 10_000)))
                if select.select([b], [], [], 0 if sent < count else PATIENCE)[0]:
                    left -= len(b.recv(1 << 16))
            a.settimeout(PATIENCE)

    def test_the_line_of_a_home_is_slow_not_the_wire_inside(self):
        net = self.homes(["double", 3])
        net.limit_one(4, 2)
        for space, device, slow in ((net.router, "host3", True), (net.routers[3][0], "wan", True), (net.routers[3][1], "wan", False),
                                    (net.spaces[3], "net", False), (net.spaces[4], "net", False)):
            self.assertEqual("tbf" in space.run("tc", "qdisc", "show", "dev", device), slow, device)

    def test_a_home_that_is_cut_off(self):
        """The faults of the router in the middle hit the whole home, by its outside address."""
        net = self.homes(["port-restricted", "firewall"])
        for i in 3, 4:
            inside, outside = self.socket(i), self.socket(0)
            self.marker(inside, outside)
            net.silence(i)
            inside.sendto(b"lost", outside.getsockname())
            net.silence()
            inside.sendto(b"found", outside.getsockname())
            self.assertEqual(outside.recv(100), b"found")

    def test_an_unknown_kind_is_named(self):
        with self.assertRaisesRegex(ValueError, "no router is cone; there are open, full-cone"):
            netns.Homes(1, {0: "cone"})


def main():
    netns.skip_if_missing()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
