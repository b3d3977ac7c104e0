"""Wrong configurations, wrong peers, a broken environment: each gives a clear message and the right exit status, and changes nothing."""

import gzip
import os
import re
import socket
import struct
import subprocess

from cluster import PROGRAM, ClusterTest, free_ports, signal, unittest, wait_until


class Start(ClusterTest):
    def run_once(self, *arguments, environment=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        env.update(environment or {})
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, env=env)
        return done.returncode, done.stdout, done.stderr

    def test_usage(self):
        self.assertEqual(self.run_once("--nonsense")[0], 2)
        self.assertEqual(self.run_once("stray")[0], 2)
        status, out, _ = self.run_once("--help")
        self.assertEqual(status, 0)
        self.assertIn("average.ratio", out)
        status, out, _ = self.run_once("--version")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"^p2pml-node \d+\.\d+\.\d+\n$")

    def test_check_changes_nothing(self):
        directory = os.path.join(self.directory, "never")
        status, out, err = self.run_once("--set", f"node.dir={directory}", "--check")
        self.assertEqual((status, out), (0, "configuration is fine\n"), err)
        self.assertFalse(os.path.exists(directory))

    def test_configuration_errors_have_status_2(self):
        path = os.path.join(self.directory, "node.yaml")
        with open(path, "w") as f:
            f.write("average:\n  ratio: 2\n")
        status, _, err = self.run_once("--config", path, "--check")
        self.assertEqual(status, 2)
        self.assertIn("node.yaml:2: average.ratio", err)
        status, _, err = self.run_once("--set", "average.rato=0.5", "--check")
        self.assertEqual(status, 2)
        self.assertIn("average.ratio", err)
        status, _, err = self.run_once("--check", environment={"P2PML_TRAIN_STEPS": "many"})
        self.assertEqual(status, 2)
        self.assertIn("P2PML_TRAIN_STEPS", err)
        status, _, err = self.run_once("--set", "node.listen=0.0.0.0:0", "--check")
        self.assertEqual(status, 2)
        self.assertIn("cluster.secret_file", err)

    def test_a_port_in_use_is_reported(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            log = self.node("a", port).start().wait_exit(1)
            self.assertRegex(log, rf"node\.listen: 127\.0\.0\.1:{port} is in use")
            log = self.node("b", 0, http=port).start().wait_exit(1)
            self.assertRegex(log, rf"node\.http: 127\.0\.0\.1:{port} is in use")

    def test_an_impossible_directory_is_reported(self):
        path = os.path.join(self.directory, "file")
        with open(path, "w"):
            pass
        log = self.node("a", 0, node__dir=os.path.join(path, "below")).start().wait_exit(1)
        self.assertIn("node.dir", log)

    def test_a_directory_that_is_not_writable_is_reported(self):
        log = self.node("a", 0, node__dir="/proc/p2pml-node").start().wait_exit(1)
        self.assertRegex(log, r"node\.dir: .*/proc/p2pml-node")

    def files(self, **contents):
        paths = {}
        for name, content in contents.items():
            paths[name] = os.path.join(self.directory, name)
            with open(paths[name], "wb") as f:
                f.write(content)
        return paths

    def refused_data(self, pattern, **settings):
        settings = {"data__train_count": 0, "data__test_count": 0, **settings}
        node = self.node("data", 0, train__steps=10, **settings).start()
        self.assertRegex(node.wait_exit(1), pattern)
        self.assertEqual((node.rows(), node.checkpoints()), ([], []))

    def test_wrong_idx_files(self):
        images, labels = struct.pack(">4I", 2051, 10, 3, 3) + bytes(90), struct.pack(">2I", 2049, 10) + bytes(10)
        wide = struct.pack(">4I", 2051, 10, 4, 4) + bytes(160)
        huge = struct.pack(">4I", 2051, 0xffffffff, 0xffff, 0xffff)
        wrong = {
            "truncated": (images[:-1], labels, images, r"train: truncated, fewer bytes than the 10 images of 3 x 3"),
            "long": (images + b"x", labels, images, r"train: more bytes than the 10 images"),
            "swapped": (labels, images, images, r"train: .*are the names of images and labels swapped"),
            "magic": (b"GIF8" + images[4:], labels, images, r"train: starts with 47494638, expected 00000803"),
            "huge": (huge, labels, images, r"train: the header states more than the limit"),
            "fewer": (images, struct.pack(">2I", 2049, 9) + bytes(9), images, r"10 images, but .* 9 labels"),
            "label": (images, labels[:-1] + b"\x0a", images, r"label 9 is 10, expected 0 to 9"),
            "gzip": (gzip.compress(images)[:-9], labels, images, r"train: .*truncated"),
            "empty": (b"", labels, images, r"train: the file is empty"),
            "shape": (images, labels, wide, r"the test examples have 16 features, the training examples 9"),
        }
        for name, (train, train_labels, test, pattern) in wrong.items():
            with self.subTest(name):
                paths = self.files(train=train, train_labels=train_labels, test=test, test_labels=labels)
                self.refused_data(pattern, data__kind="idx", data__train_images=paths["train"],
                                  data__train_labels=paths["train_labels"], data__test_images=paths["test"],
                                  data__test_labels=paths["test_labels"])

    def test_wrong_libsvm_files(self):
        fine = b"1 1:0.5 3:1\n-1 2:1\n" * 5
        wrong = {
            "nan": (fine + b"1 1:nan\n", r'train:11: value "nan" of index 1'),
            "index": (fine + b"1 4:1\n", r"train:11: index 4, but the data set was said to have 3"),
            "label": (fine + b"2 1:1\n", r"labels from -1 to 2"),
            "cut": (fine + b"1 1:0.5 3", r'train:11: "3" where index:value was expected'),
            "empty": (b"", r"train: the file is empty"),
        }
        for name, (train, pattern) in wrong.items():
            with self.subTest(name):
                paths = self.files(train=train, test=fine)
                self.refused_data(pattern, data__kind="libsvm", data__train_file=paths["train"],
                                  data__test_file=paths["test"], data__features=3, data__classes=2)

    def test_a_hangup_during_the_start_ends_the_node(self):
        path = os.path.join(self.directory, "config")
        os.mkfifo(path)
        node = self.node("a", 0, arguments=("--config", path), train__steps=20).start()
        with open(path, "w") as f:  # the node waits for the rest of its configuration
            node.signal(signal.SIGHUP)
            f.write("train:\n  rate: 0.1\n")
        node.wait_exit(0)

    def test_two_nodes_cannot_use_one_directory(self):
        first = self.node("a", 0, peers="127.0.0.1:1").start()
        first.wait_log("listening")
        second = self.node("a", 0).start()
        self.assertIn("is in use by another p2pml-node", second.wait_exit(1))
        first.signal(signal.SIGTERM)
        first.wait_exit(0)

    def test_an_identity_that_others_can_read_is_refused(self):
        path = os.path.join(self.directory, "identity")
        with open(path, "w") as f:
            f.write("00" * 32 + "\n")
        os.chmod(path, 0o644)
        self.assertIn("chmod", self.node("a", 0, node__identity=path).start().wait_exit(1))

    def test_a_resume_with_only_damaged_checkpoints_fails(self):
        node = self.node("a", 0, train__steps=40)
        node.start().wait_exit(0)
        path = os.path.join(node.directory, node.checkpoints()[0])
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        size = os.path.getsize(path)
        self.assertIn("--resume", node.start("--resume").wait_exit(1))
        self.assertEqual(os.path.getsize(path), size)


class Peers(ClusterTest):
    def secret(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, 0o600)
        return path

    def stop(self, *nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def pair(self, first=None, second=None, names="ab", **both):
        ports = free_ports(2)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports)
        a = self.node(names[0], ports[0], peers=peers, **{**both, **(first or {})}).start()
        b = self.node(names[1], ports[1], peers=peers, **{**both, **(second or {})}).start()
        return a, b

    def test_own_addresses_duplicates_and_unknown_names_are_reported(self):
        ports = free_ports(2)
        # A node that is bound to all addresses has several: 127.0.0.2 is this node, too.
        peers = ",".join([f"127.0.0.{host}:{port}" for port in ports for host in (1, 2)] + ["does-not-exist.invalid:7400"])
        settings = {"peers": peers, "node__start_timeout": "5s", "node__port_mapping": "off",
                    "cluster__secret_file": self.secret("secret", "a secret of more than sixteen")}
        a = self.node("a", ports[0], node__listen=f"0.0.0.0:{ports[0]}", **settings).start()
        b = self.node("b", ports[1], node__listen=f"0.0.0.0:{ports[1]}", **settings).start()
        for node, own in ((a, ports[0]), (b, ports[1])):
            for host in (1, 2):
                node.wait_log(rf"peers: 127\.0\.0\.{host}:{own} is this node itself; left out")
            node.wait_log(r"does-not-exist\.invalid:7400 cannot be resolved")
            node.wait_log(r"training begins without 1 listed peer: does-not-exist\.invalid:7400")
        for node in (a, b):
            log = node.wait_exit(0)
            self.assertEqual(log.count("link_up"), 1, log)
            self.assertEqual(log.count("cannot be resolved"), 1, log)
            self.assertGreater(node.rows()[-1]["exchanges"], 0)

    def test_a_peer_with_another_secret_is_a_stranger(self):
        one, two = self.secret("one", "a secret of more than sixteen"), self.secret("two", "another that is long enough")
        a, b = self.pair({"cluster__secret_file": one}, {"cluster__secret_file": two})
        for node in (a, b):
            node.wait_log(r"peer_missing .*same cluster\.name and secret")
            node.wait_log(r"stranger .* was closed without an answer")
            self.assertNotIn("link_up", node.log())
        self.stop(a, b)

    def test_peers_with_the_same_secret_are_linked(self):
        one = self.secret("one", "a secret of more than sixteen")
        a, b = self.pair(cluster__secret_file=one)
        for node in (a, b):
            node.wait_exit(0)
            self.assertGreater(node.rows()[-1]["exchanges"], 0)

    def test_another_model_is_named_on_both_ends(self):
        a, b = self.pair({"model__hidden": 16}, {"model__hidden": 24})
        a.wait_log(r"peer_refused .*mlp 784-24-10 .* there, mlp 784-16-10 .* here")
        b.wait_log(r"peer_refused .*mlp 784-16-10 .* there, mlp 784-24-10 .* here")
        for node in (a, b):
            self.assertNotIn("link_up", node.log())
        self.stop(a, b)

    def test_different_rules_are_reported_with_both_values_and_end_a_node(self):
        pairs = [(key, one, two, self.pair({key: one}, {key: two}, ("a-" + key, "b-" + key), node__start_timeout="10s"))
                 for key, one, two in (("topology__seed", 1, 2), ("train__steps", 400, 4000), ("average__local_steps", 4, 5),
                                       ("data__seed", 1, 7), ("train__schedule", "[]", "[0.5:0.1]"),
                                       ("average__reference", "fp32", "bf16"))]
        for key, one, two, (a, b) in pairs:
            name = key.replace("__", r"\.")
            with self.subTest(name):
                here, there = (rf'(\[\]|\["0.5:0.1"\])',) * 2 if "schedule" in key else (one, two)
                a.wait_log(rf"peer_refused .*its {name}: {there}, here it is {here}; make it the same")
                b.wait_log(rf"peer_refused .*its {name}: {here}, here it is {there}; make it the same")
                for node in (a, b):  # neither trains alone beside the other
                    words = node.wait_exit(1)
                    self.assertRegex(words, r"refused .*cannot train with its only listed peer")
                    for event in ("peer_refused", "refused"):  # both have called, so each has refused two links
                        self.assertEqual(len(re.findall(rf"(?m)^\S+ error \S+ {event} ", words)), 1, words)
                    self.assertEqual((node.rows(), node.checkpoints()), ([], []))

    def test_different_rules_do_not_end_a_node_that_trains(self):
        ports = free_ports(3)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:2])
        a, b = (self.node(name, port, peers=peers, train__steps=100000).start() for name, port in zip("ab", ports))
        for node in (a, b):
            node.wait_rows(5)
        late = self.node("c", ports[2], peers=peers, train__steps=40, node__start_timeout="2s").start()
        self.assertRegex(late.wait_exit(1), r"its train\.steps: 100000, here it is 40")
        for node in (a, b):
            rows = len(node.rows())
            node.wait_rows(rows + 5)
        self.stop(a, b)

    def test_two_nodes_with_one_name_are_reported(self):
        a, b = self.pair({}, {"node__name": "a"})
        for node in (a, b):
            node.wait_log(r"same_name .*has the name of this node, 'a'")
        for node in (a, b):
            node.wait_exit(0)

    def test_the_allow_list_is_read_again(self):
        allow = os.path.join(self.directory, "allow")
        with open(allow, "w") as f:
            f.write("00" * 32 + "\n")
        a, b = self.pair({"cluster__allow_file": allow})
        a.wait_log(r"peer_refused .*not on the allow-list")
        b.wait_log(r"refused_by_peer .*not on the allow-list")
        ident = b.wait_log(r"id ([0-9a-f]{64})").group(1)
        with open(allow, "w") as f:
            f.write("# b\n" + ident + "\n")
        a.signal(signal.SIGHUP)
        a.wait_log(r"the allow-list has 1 ids now")
        for node in (a, b):  # the next call comes within half a minute
            node.wait_log("link_up")
        wait_until(lambda: a.process.poll() is not None and b.process.poll() is not None, "the end of both")
        self.assertEqual((a.process.returncode, b.process.returncode), (0, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
