"""p2pml set: a setting is changed on all nodes of a running cluster at one round, while nodes die, come back and join."""

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

from cluster import PROGRAM, ClusterTest, free_ports, signal, unittest, wait_until

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "daemon", "examples", "trainer.py")
P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
BEFORE = 0.1


class Set(ClusterTest):
    def begin(self, count=3):
        self.ports = free_ports(2 * count + 2)
        return [self.start(i) for i in range(count)]

    def start(self, i, **settings):
        return self.node(f"n{i}", self.ports[2 * i], self.ports[2 * i + 1], peers=self.peers(), train__steps=100000000,
                         train__schedule="", train__eval_rounds=0, node__start_members=3, topology__kind="ring",
                         train__alone="stop", **settings).start()

    def peers(self):
        return ",".join(f"127.0.0.1:{p}" for p in self.ports[0:6:2])

    def address(self, node):
        return next(c.split("=", 1)[1] for c in node.command if c.startswith("node.http="))

    def set(self, node, key, value, *more):
        return subprocess.run([P2PML, "set", key, str(value), self.address(node), *more], capture_output=True, text=True,
                              timeout=120, check=False)

    def accepted(self, node, key, value):
        """The round from which on it counts. A node refuses while it has just begun, or an earlier change is under way."""
        def done():
            self.said = self.set(node, key, value)
            return self.said if self.said.returncode == 0 else None
        try:
            said = wait_until(done, "an answer")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said}") from None
        match = re.fullmatch(rf"{key}: {value:g} instead of (\S+) from round (\d+) on, on all nodes; this one is at round (\d+)\n",
                             said.stdout)
        self.assertTrue(match, said)
        self.assertLess(int(match[3]), int(match[2]))
        return int(match[2])

    def wait_round(self, node, round_):
        wait_until(lambda: any(row["round"] >= round_ for row in node.rows()[-1:]), f"round {round_} of {node.name}\n{node.last_words()}")

    def rates(self, nodes):
        """The rate of each round, which is the same on all nodes."""
        rates = {}
        for node in nodes:
            for row in node.rows():
                if row.get("rate") is None or row["state"] != "training":
                    continue
                first = rates.setdefault(row["round"], (row["rate"], node.name))
                self.assertAlmostEqual(first[0], row["rate"], places=7,
                                       msg=f"round {row['round']} of {node.name} and {first[1]}\n{node.last_words()}")
        return {round_: rate for round_, (rate, _) in rates.items()}

    def check(self, nodes, changes):
        """`changes`: (round, rate), ascending."""
        for round_, rate in self.rates(nodes).items():
            expected = [r for first, r in [(0, BEFORE), *changes] if first <= round_][-1]
            self.assertAlmostEqual(rate, expected, places=7, msg=f"round {round_}, {changes}")

    def end(self, nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def test_all_nodes_change_at_one_round_whoever_dies_comes_back_or_joins(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            nodes = self.begin()
            for node in nodes:
                node.wait_rows(20)
            first = self.accepted(nodes[1], "train.rate", 0.02)
            for node in nodes:
                node.wait_log(rf"set train\.rate: 0\.02 instead of 0\.1 from round {first} on")
            nodes[2].process.kill()
            nodes[2].process.wait()
            self.wait_round(nodes[0], first + 10)
            nodes[2].start("--resume")  # it was away at that round
            late = self.start(3, train__rate=0.7)  # its own configuration says something else
            nodes.append(late)
            for node in nodes[2:]:
                node.wait_log(rf"set train\.rate: 0\.02 instead of \S+ from round {first} on")
                node.wait_rows(len(node.rows()) + 20)
            second = self.accepted(late, "train.rate", 0.05)
            for node in nodes:
                self.wait_round(node, second + 5)
            self.check(nodes, [(first, 0.02), (second, 0.05)])
            self.end(nodes)
            seen = [max(row["round"] for row in node.rows()) for node in nodes]
            for node in nodes:
                node.start("--resume")  # all stop, and go on with what they had
            for node, last in zip(nodes, seen):
                self.wait_round(node, last + 5)
            self.check(nodes, [(first, 0.02), (second, 0.05)])
            self.end(nodes)
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_of_two_changes_at_one_moment_all_nodes_take_the_same(self):
        nodes = self.begin()
        for node in nodes:
            node.wait_rows(40)
        def call():  # until they have trained for some seconds
            calls = [subprocess.Popen([P2PML, "set", "train.rate", value, self.address(node)], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True) for node, value in zip(nodes, ("0.02", "0.03"))]
            said = [call.communicate(timeout=120)[0] for call in calls]
            return [int(r) for text in said for r in re.findall(r"from round (\d+) on", text)]
        rounds = wait_until(call, "an answer")
        for node in nodes:
            self.wait_round(node, max(rounds) + 5)
        rates = self.rates(nodes)
        self.assertIn(round(rates[max(rates)], 7), (0.02, 0.03))
        self.end(nodes)

    def test_a_program_that_trains_keeps_its_own_rate(self):
        ports, path = free_ports(2), os.path.join(self.directory, "socket")
        node = self.node("n0", ports[0], ports[1], arguments=("--trainer", f"unix:{path}")).start()
        node.wait_log("waiting for a trainer")
        program = subprocess.Popen([sys.executable, EXAMPLE, path, "100000", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: os.path.exists(os.path.join(node.directory, "token")), f"the node begins\n{node.last_words()}")
            done = wait_until(lambda: (lambda d: d if "no answer" not in d.stderr else None)(self.set(node, "train.rate", 0.5)),
                              "an answer")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("a program of its own trains here and chooses train.rate: change it there", done.stderr)
        finally:
            program.kill()
            program.wait()

    def test_a_joiner_with_another_rate_is_told_on_both_ends(self):
        self.ports = free_ports(8)
        nodes = [self.start(i, train__rate=0.002) for i in range(3)]
        for node in nodes:
            node.wait_rows(20)
        late = self.start(3, train__rate=0.1)  # 50 times; a much higher one diverges and ends before it has met others eight times
        nodes.append(late)
        late.wait_log(r"warn .*rates the learning rate of this node is [3-9]\d(\.\d)? times that of n[012]: ")
        wait_until(lambda: any("rates the learning rate of n3 is" in node.log() for node in nodes[:3]), "a word of a member")
        for node in nodes[:3]:
            self.assertNotRegex(node.log(), r"rates the learning rate of n[012] ")
        self.end(nodes)

    def request(self, node, method, path, body=None, **headers):
        request = urllib.request.Request(f"http://{self.address(node)}{path}", data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_nothing_is_changed_without_the_token_or_by_a_wrong_value(self):
        nodes = self.begin()
        for node in nodes:
            node.wait_rows(5)
        path = os.path.join(nodes[0].directory, "token")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path) as f:
            token = f.read()
        body = b"train.rate=0.5"
        for headers in ({}, {"Authorization": "Bearer " + "0" * 64}, {"Authorization": "Bearer " + token[:-1]},
                        {"Authorization": "Bearer " + token[:-1] + ("0" if token[-1] != "0" else "1")},
                        {"Authorization": "Basic " + token}):
            status, text = self.request(nodes[0], "POST", "/set", body, **headers)
            self.assertEqual(status, 401, text)
            self.assertIn(os.path.join(nodes[0].directory, "token"), text)
            self.assertNotIn(token, text)
        self.assertEqual(self.request(nodes[0], "GET", "/set")[0], 404)
        self.assertEqual(self.request(nodes[0], "POST", "/status", body, Authorization="Bearer " + token)[0], 405)
        self.assertEqual(self.request(nodes[0], "POST", "/set", body, Authorization="Bearer " + token, Host="evil.example")[0], 403)
        for text, said in ((b"train.rate=2000", "expected a number from 0 to 1000"), (b"train.rate=fast", 'found "fast"'),
                           (b"train.batch=3", "only train.rate and train.weight_decay can"), (b"", "expected key=value"),
                           (b"\xff\x00=1", "KEY VALUE: found"), (b"x" * 5000, "KEY VALUE: found")):
            status, answer = self.request(nodes[0], "POST", "/set", text, Authorization="Bearer " + token)
            self.assertEqual(status, 400, answer)
            self.assertIn(said, answer)
        for arguments, said in ((("train.rate", "2000"), "p2pml set: KEY VALUE: train.rate: found"), (("train.mode", "1"), "unknown key"),
                                (("average.mode", "sync"), "stop all nodes, change it on each")):
            done = self.set(nodes[0], *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(said, done.stderr)
        done = self.set(nodes[0], "train.rate", "0.5", "--dir", nodes[1].directory)  # another node's token
        self.assertEqual(done.returncode, 1)
        self.assertIn("the token is not the one in", done.stderr)
        done = self.set(nodes[0], "train.rate", "0.5", "--dir", self.directory)
        self.assertRegex(done.stderr, r"p2pml set: the token of the node \(give its node\.dir with --dir\): .*No such file")
        done = subprocess.run([P2PML, "set", "train.rate", "0.5", "127.0.0.1.invalid:80"], capture_output=True, text=True, timeout=60)
        self.assertIn("127.0.0.1.invalid:80 is on another host: give a copy of the node's directory", done.stderr)
        for node in nodes:
            self.assertFalse(os.path.exists(os.path.join(node.directory, "settings")))
        first = self.accepted(nodes[0], "train.weight_decay", 0.001)
        done = self.set(nodes[0], "train.weight_decay", "0.002")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"train.weight_decay is being changed at round {first}", done.stderr)
        for node in nodes:
            self.wait_round(node, first)
        self.check(nodes, [])
        self.end(nodes)


if __name__ == "__main__":
    unittest.main()
