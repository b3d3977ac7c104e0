"""Garbage, silence and dripping bytes on both ports: closed without an answer, and no other peer is delayed."""

import contextlib
import os
import random
import resource
import selectors
import shutil
import socket
import subprocess
import threading
import time

from cluster import ClusterTest, free_ports, signal, unittest, wait_until


def ended(s, patience=30):
    """Everything received until the other end closes; a reset counts as an end, too."""
    s.settimeout(patience)
    got = b""
    try:
        while chunk := s.recv(65536):
            got += chunk
    except (ConnectionResetError, BrokenPipeError):
        pass
    return got


class FewDescriptors(ClusterTest):
    def test_a_node_without_free_descriptors_does_not_spin(self):
        peer_port, http_port = free_ports(2)
        node = self.node("few", peer_port, http=http_port, peers="127.0.0.1:1", node__start_timeout="1h")
        node.start(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        node.wait_log("listening")
        hanging = [socket.create_connection(("127.0.0.1", http_port), timeout=30) for _ in range(40)]
        hanging += [socket.create_connection(("127.0.0.1", peer_port), timeout=30) for _ in range(40)]
        for s in hanging:
            ended(s)
            s.close()
        self.assertEqual(self.status(node)["state"], "waiting")  # connections are accepted again
        self.assertLess(len(node.log().splitlines()), 30)
        self.assertEqual(node.log().count("Too many open files"), 1)
        self.assertLess(self.cpu(node), 5.0)  # it did not spin
        node.signal(signal.SIGTERM)
        node.wait_exit(0)

    def test_the_limit_of_descriptors_is_raised_for_every_peer(self):
        node = self.node("many", 0, peers="127.0.0.1:1", node__start_timeout="1h")
        node.start(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)))
        node.wait_log("listening")
        with open(f"/proc/{node.process.pid}/limits") as f:
            self.assertRegex(f.read(), r"Max open files +22\d\d +4096")
        node.signal(signal.SIGTERM)
        node.wait_exit(0)

    def cpu(self, node):
        with open(f"/proc/{node.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Strangers(ClusterTest):
    def setUp(self):
        super().setUp()
        self.ports = free_ports(3)
        self.alive = self.node("alive", self.ports[0], http=self.ports[2], peers=f"127.0.0.1:{self.ports[1]}",
                               node__start_timeout="1h").start()
        self.alive.wait_log("listening")

    def connect(self, port):
        return socket.create_connection(("127.0.0.1", port), timeout=30)

    def finish(self):
        """A real peer is still accepted, and both train to the end."""
        peer = self.node("peer", self.ports[1], peers=f"127.0.0.1:{self.ports[0]}").start()
        for node in (self.alive, peer):
            node.wait_exit(0)
            self.assertGreater(node.rows()[-1]["exchanges"], 0)

    def test_garbage_on_the_peer_port_is_closed(self):
        rng = random.Random(int(os.environ.get("P2PML_SEED", "7")))
        pieces = [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xff" * 70000, b"\x00" * 300, bytes(rng.randbytes(5000))]
        pieces += [bytes(rng.randbytes(rng.randrange(1, 400))) for _ in range(12)]
        for piece in pieces:
            with self.connect(self.ports[0]) as s:
                try:
                    s.sendall(piece)
                except (ConnectionResetError, BrokenPipeError):
                    continue
                self.assertEqual(ended(s), b"", piece[:40])
        self.alive.wait_log(r"stranger .* was closed without an answer")
        self.finish()

    def test_half_open_connections_are_limited(self):
        sockets = [self.connect(self.ports[0]) for _ in range(100)]
        try:
            self.alive.wait_log(r"half_open_limit")
            status = self.status(self.alive)
            self.assertEqual(status["state"], "waiting")
            for s in sockets:
                self.assertEqual(ended(s), b"")
        finally:
            for s in sockets:
                s.close()
        metrics = self.get(self.alive, "/metrics")
        self.assertIn("p2pml_half_open_connections 0\n", metrics)
        self.finish()

    def test_a_thousand_silent_connections_keep_no_peer_out(self):
        """From 250 addresses, held open and renewed: the oldest ones are closed, also to make room for a peer that calls."""
        stop = threading.Event()
        selector = selectors.DefaultSelector()

        def call(i):
            source = (f"127.0.1.{i % 250 + 1}", 0)
            selector.register(socket.create_connection(("127.0.0.1", self.ports[0]), 30, source), selectors.EVENT_READ, i)

        def renew():
            while not stop.is_set():
                for key, _ in selector.select(0.1):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    if not stop.wait(0.01):
                        try:
                            call(key.data)
                        except OSError:
                            return  # the node has finished

        for i in range(1000):
            call(i)
        self.alive.wait_log(r"half_open_limit")
        thread = threading.Thread(target=renew)
        thread.start()
        try:
            self.finish()
        finally:
            stop.set()
            thread.join()
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def test_a_peer_is_accepted_while_strangers_hang(self):
        stop = threading.Event()

        def harass():
            while not stop.is_set():
                try:
                    with self.connect(self.ports[0]) as s:
                        s.sendall(b"\x00")
                        ended(s)
                except OSError:
                    stop.wait(0.05)

        threads = [threading.Thread(target=harass, daemon=True) for _ in range(10)]
        for thread in threads:
            thread.start()
        try:
            self.finish()
        finally:
            stop.set()

    def test_dripping_connections_on_both_ports_are_closed(self):
        answers = {}

        def drip(port, piece):
            got = b""
            with self.connect(port) as s:
                s.settimeout(0.5)
                try:
                    while True:  # until the other side closes it
                        s.sendall(piece)
                        try:
                            chunk = s.recv(4096)
                        except socket.timeout:
                            continue
                        if not chunk:
                            break
                        got += chunk
                except (ConnectionResetError, BrokenPipeError):
                    pass
            answers[port] = got

        threads = [threading.Thread(target=drip, args=(port, b"0"), daemon=True) for port in (self.ports[0], self.ports[2])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(answers[self.ports[0]], b"")
        self.assertNotIn(b"200 OK", answers[self.ports[2]])
        self.finish()

    def test_half_open_http_connections_are_closed(self):
        slow = [self.connect(self.ports[2]) for _ in range(50)]
        for s in slow[:25]:
            s.sendall(b"GET /status HTTP/1.1\r\nX-Slow: ")
        with self.connect(self.ports[2]) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(ended(s, 60).startswith(b"HTTP/1.1 200"))
        for s in slow:
            s.close()
        self.finish()

    def test_a_page_among_dripping_connections(self):
        """Each of them could last for 10 s, 32 at a time: the probe of a service manager would wait for 40 s."""
        slow = [self.connect(self.ports[2]) for _ in range(128)]
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for s in slow:
                    with contextlib.suppress(OSError):
                        s.send(b"G")
        threading.Thread(target=drip, daemon=True).start()
        begun = time.monotonic()
        try:
            self.assertTrue(self.http(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\nok\n"))
            self.assertLess(time.monotonic() - begun, 20)
        finally:
            stop.set()
        for s in slow:
            s.close()
        self.finish()

    def http(self, request):
        with self.connect(self.ports[2]) as s:
            try:
                s.sendall(request)
            except (ConnectionResetError, BrokenPipeError):
                return b""
            return ended(s, 60)

    def test_http_answers_are_valid(self):
        self.assertTrue(self.http(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\nok\n"))
        self.assertTrue(self.http(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 404"))
        for method in (b"POST", b"PUT", b"DELETE", b"OPTIONS"):
            answer = self.http(method + b" /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 405"), answer)
        whole = self.http(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b"\r\n\r\n", 1)
        head = self.http(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b"\r\n\r\n", 1)
        length = f"Content-Length: {len(whole[1])}".encode()
        self.assertIn(length, whole[0])
        self.assertIn(length, head[0])
        self.assertEqual(head[1], b"")
        for host, status in ((b"evil.example", 403), (b"localhost.evil.example:80", 403), (b"evillocalhost", 403), (b"a.localhost:7", 200),
                             (b"127.0.0.1:7", 200), (b"[::1]:7", 200), (b"LOCALHOST", 200)):
            answer = self.http(b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            self.assertTrue(answer.startswith(f"HTTP/1.1 {status}".encode()), (host, answer))
        huge = self.http(b"GET /status HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n")
        self.assertFalse(huge.startswith(b"HTTP/1.1 200"), huge[:80])
        self.http(b"\x00\xff\x00garbage\r\n\r\n")
        page = self.get(self.alive, "/")
        self.assertIn("<title>", page)
        self.assertNotRegex(page, r"(src|href)=\"?https?:")
        status = self.status(self.alive)
        self.check_metrics(self.get(self.alive, "/metrics"))
        for key in ("name", "id", "cluster", "version", "state", "round", "step", "loss", "accuracy", "parameters", "model",
                    "consensus", "bytes_sent", "bytes_received", "uptime_s", "members", "edges", "membership", "events"):
            self.assertIn(key, status)
        self.assertEqual(status["name"], "alive")
        self.assertEqual([(m["name"], m["state"], m["self"]) for m in status["members"]], [("alive", "alive", True)])
        self.assertEqual([(p["entry"], p["state"]) for p in status["peers"]], [(f"127.0.0.1:{self.ports[1]}", "unknown")])
        self.finish()

    def check_metrics(self, text):
        self.assertRegex(text, r"(?m)^# TYPE p2pml_own_steps_total counter$")
        promtool = shutil.which("promtool")
        if not promtool:
            print("promtool is not installed (Debian: prometheus): the format of /metrics was not checked")
            return
        checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_the_status_of_a_linked_pair_is_complete(self):
        self.alive.signal(signal.SIGTERM)
        self.alive.wait_exit(0)
        self.alive.command += ["--set", "train.steps=1000000"]  # for both, otherwise they refuse each other
        self.alive.start().wait_log("listening")
        peer = self.node("peer", self.ports[1], peers=f"127.0.0.1:{self.ports[0]}", train__steps=1000000).start()
        live = wait_until(lambda: [e for e in self.status(self.alive)["edges"] if e["state"] == "live"], "a live edge")
        self.assertEqual(live[0]["name"], "peer")
        member = next(m for m in self.status(self.alive)["members"] if m["name"] == "peer")
        self.assertEqual((member["state"], member["id"]), ("alive", live[0]["peer"]))
        self.assertEqual((member["self"], member["linked"], member["neighbour"], member["eligible"]), (False, True, True, True))
        self.assertGreater(wait_until(lambda: self.status(self.alive)["edges"][0]["bytes_sent"], "bytes"), 0)
        peer.signal(signal.SIGTERM)
        peer.wait_exit(0)
        self.alive.wait_log(r"link_down .*peer at .*it left")


if __name__ == "__main__":
    unittest.main(verbosity=2)
