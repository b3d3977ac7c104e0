"""Wrong configurations, wrong peers, a broken environment: a clear message, the right exit status, nothing changed."""

import os
import subprocess
import socket

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

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            log = self.node("a", port).start().wait_exit(1)
            self.assertRegex(log, rf"node\.listen: 127\.0\.0\.1:{port} is in use")
            log = self.node("b", 0, http=port).start().wait_exit(1)
            self.assertRegex(log, rf"node\.http: 127\.0\.0\.1:{port} is in use")

    def test_a_directory_that_cannot_be(self):
        path = os.path.join(self.directory, "file")
        with open(path, "w"):
            pass
        log = self.node("a", 0, node__dir=os.path.join(path, "below")).start().wait_exit(1)
        self.assertIn("node.dir", log)

    def test_one_directory_for_two(self):
        first = self.node("a", 0, peers="127.0.0.1:1").start()
        first.wait_log("listening")
        second = self.node("a", 0).start()
        self.assertIn("is in use by another p2pml-node", second.wait_exit(1))
        first.signal(signal.SIGTERM)
        first.wait_exit(0)

    def test_an_identity_that_others_can_read(self):
        path = os.path.join(self.directory, "identity")
        with open(path, "w") as f:
            f.write("00" * 32 + "\n")
        os.chmod(path, 0o644)
        self.assertIn("chmod", self.node("a", 0, node__identity=path).start().wait_exit(1))

    def test_resume_with_only_damaged_checkpoints(self):
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

    def pair(self, first=None, second=None, **both):
        ports = free_ports(2)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports)
        a = self.node("a", ports[0], peers=peers, **{**both, **(first or {})}).start()
        b = self.node("b", ports[1], peers=peers, **{**both, **(second or {})}).start()
        return a, b

    def test_own_address_duplicates_and_unknown_names(self):
        ports = free_ports(2)
        # Bound to all addresses, a node has several: 127.0.0.2 is the same one, too.
        peers = ",".join([f"127.0.0.{host}:{port}" for port in ports for host in (1, 2)] + ["does-not-exist.invalid:7400"])
        settings = {"peers": peers, "node__start_timeout": "5s",
                    "cluster__secret_file": self.secret("secret", "a secret of more than sixteen")}
        a = self.node("a", ports[0], node__listen=f"0.0.0.0:{ports[0]}", **settings).start()
        b = self.node("b", ports[1], node__listen=f"0.0.0.0:{ports[1]}", **settings).start()
        for node, own, other in ((a, ports[0], ports[1]), (b, ports[1], ports[0])):
            node.wait_log(rf"peers: 127\.0\.0\.2:{own} is this node itself; left out")
            node.wait_log(rf"peers: 127\.0\.0\.[12]:{other} reaches the same node as another entry; left out")
            node.wait_log(r"does-not-exist\.invalid:7400 can't be resolved")
            node.wait_log(r"training begins without 1 of the listed peers: does-not-exist\.invalid:7400")
        for node in (a, b):
            log = node.wait_exit(0)
            self.assertEqual(log.count("link_up"), 1, log)
            self.assertEqual(log.count("can't be resolved"), 1, log)
            self.assertGreater(node.rows()[-1]["exchanges"], 0)

    def test_another_secret_is_a_stranger(self):
        one, two = self.secret("one", "a secret of more than sixteen"), self.secret("two", "another that is long enough")
        a, b = self.pair({"cluster__secret_file": one}, {"cluster__secret_file": two})
        for node in (a, b):
            node.wait_log(r"peer_missing .*same cluster\.name, secret and version")
            node.wait_log(r"stranger .* was closed without an answer")
            self.assertNotIn("link_up", node.log())
        self.stop(a, b)

    def test_the_same_secret_links(self):
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

    def test_other_rules(self):
        a, b = self.pair({"topology__seed": 1}, {"topology__seed": 2})
        a.wait_log(r"peer_refused .*topology\.seed")
        b.wait_log(r"peer_refused .*topology\.seed")
        self.stop(a, b)

    def test_two_of_one_name(self):
        a, b = self.pair({}, {"node__name": "a"})
        a.wait_log(r"peer_refused .*it has the name of this node, 'a'")
        b.wait_log(r"peer_refused .*it has the name of this node, 'a'")
        self.stop(a, b)

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
