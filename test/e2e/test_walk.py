"""The commands of README: three nodes by hand, one of which is killed and resumed; a fourth that joins with only --peers; the
use of a model. test/roots.sh runs the first two commands."""

import os
import random
import re
import shlex
import subprocess

from cluster import PROGRAM, ClusterTest, Node, free_ports, signal, unittest, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = os.path.join(ROOT, "README.md")
TYPED = {"Two commands": 1, "Three nodes by hand": 2, "Use the model": 1}  # number of command blocks of a section


P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")


def blocks(section):
    """The command blocks of a section of README, one text for each."""
    with open(README) as f:
        text = f.read().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [block for block in re.findall(r"^```\n(.*?)^```", text, re.S | re.M) if re.match(r"(\./|p2pml)", block)]


class Typed(Node):
    """A command of README; only ports and directories are replaced by free ones."""

    def __init__(self, directory, name, words):
        super().__init__(directory, name, {}, ())
        assert words[0] == "p2pml-node", words
        self.command = [PROGRAM, *words[1:]]


class Walk(ClusterTest):
    def setUp(self):
        super().setUp()
        self.three, self.fourth = (block.replace("\\\n", " ") for block in blocks("Three nodes by hand"))
        ports = free_ports(6)
        self.exchanged = {str(typed): str(port) for typed, port in zip((7400, 7401, 7402, 7480, 7481, 7482), ports)}

    def typed(self, name, line):
        line = re.sub(r"\b74\d\d\b", lambda m: self.exchanged[m.group()], line)
        node = Typed(self.directory, name, shlex.split(line.replace("/tmp/", self.directory + "/")))
        self.nodes.append(node)
        return node

    def one_of_three(self, number):
        """According to README: "The other two use b, /tmp/b, 7401, 7481, shard 1"."""
        name, line = "abc"[number], self.three
        for old, new in (("node.name=a", f"node.name={name}"), ("/tmp/a", f"/tmp/{name}"),
                         ("node.listen=127.0.0.1:7400", f"node.listen=127.0.0.1:740{number}"),
                         ("node.http=127.0.0.1:7480", f"node.http=127.0.0.1:748{number}"),
                         ("data.shard=0", f"data.shard={number}")):
            self.assertIn(old, line)
            line = line.replace(old, new)
        return self.typed(name, line)

    def test_readme(self):
        three = [self.one_of_three(i).start() for i in range(3)]
        a, b, c = three
        for node in three:
            node.wait_log(r"checkpoint step \d+")
        b.signal(signal.SIGKILL)  # as early as possible
        b.process.wait()
        a.wait_log(r"dead b")
        b.start("--resume")
        b.wait_log(r"resume from step \d+")
        b.wait_log(r"start training begins|this node counts in the graph")  # with its own model, or that of another
        # the fourth node: only --peers and a directory
        d = self.typed("d", self.fourth).start()
        taken = d.wait_log(r"takes its settings and starts again: (.*)").group(1)
        self.assertIn("train.steps=0", taken)
        self.assertIn("data.shards=4", taken)
        self.assertIn("data.shard=3", taken)
        d.wait_log(r"shard 3 of 4")
        d.wait_log(r"fetched the model is complete")
        d.wait_log(r"checkpoint step \d+")
        d.wait_rows(3)
        top = [P2PML, "top", "--once", f"127.0.0.1:{self.exchanged['7480']}"]
        wait_until(lambda: "4 of 4 nodes answer" in subprocess.run(top, capture_output=True, text=True, check=False).stdout, "all in the table")
        # again: killed at once, and resumed with the same command
        d.signal(signal.SIGKILL)
        d.process.wait()
        d.start("--resume")
        d.wait_log(r"resume from step \d+")
        d.wait_log(r"shard 3 of 4")
        d.wait_log(r"start training begins|this node counts in the graph")
        # the training of the other nodes has not changed or ended
        steps = {node: node.rows()[-1]["step"] for node in three}
        for node in three:
            self.assertIsNone(node.process.poll(), node.last_words())
            wait_until(lambda: node.rows()[-1]["step"] > steps[node], f"{node.name} trains on")
            self.assertNotRegex(node.log(), r" error ")
        for node in (*three, d):
            node.signal(signal.SIGTERM)
        for node in (*three, d):
            self.assertNotRegex(node.wait_exit(0), r" error ")

    def test_two_nodes_that_join_at_once_take_two_shards(self):
        a = self.typed("a", "p2pml-node --set node.name=a --set node.dir=/tmp/a --set node.listen=127.0.0.1:7400 "
                       "--set node.http= --set train.steps=0 --set data.shards=3 --set data.shard=1").start()
        a.wait_log(r"start training begins")
        late = [self.typed(name, f"p2pml-node --set node.dir=/tmp/{name} --set node.http= --peers 127.0.0.1:7400")
                for name in ("h", "i")]
        for node in late:
            node.start()
        for node in late:
            node.wait_rows(2)
        shards = [int(re.findall(r"shard (\d+) of 3", node.log())[-1]) for node in late]
        self.assertEqual(sorted(shards), [0, 2], "\n".join(node.log() for node in late))

    def test_a_late_node_follows_a_cluster_that_resumed_with_another_setting(self):
        """All nodes are stopped, and resumed with another setting while they wait for each other."""
        a = self.typed("l", "p2pml-node --set node.name=l --set node.dir=/tmp/l --set node.listen=127.0.0.1:7400 "
                       "--set node.http=").start("--set", "train.steps=0")
        a.wait_log(r"start training begins")
        late = self.typed("m", "p2pml-node --set node.dir=/tmp/m --set node.http= --peers 127.0.0.1:7400").start()
        late.wait_rows(2)
        for node in (late, a):
            node.signal(signal.SIGTERM)
            node.wait_exit(0)
        a.start("--resume", "--set", "train.steps=1000000", "--set", "node.start_members=2")
        late.start("--resume")
        self.assertIn("train.steps=1000000", late.wait_log(r"takes its settings and starts again: (.*)").group(1))
        for node in (late, a):
            node.wait_log(r"resume from step \d+")
            node.wait_log(r"start training begins")
            self.assertNotRegex(node.log(), r" error ")

    def test_a_node_that_never_meets_another_fails(self):
        nowhere = f"--set train.steps=40 --set node.start_timeout=1s --set node.http= --peers 127.0.0.1:{free_ports(1)[0]}"
        j = self.typed("j", f"p2pml-node --set node.dir=/tmp/j {nowhere}").start()
        self.assertIn("the only listed peer has never answered", j.wait_exit(1))
        k = self.typed("k", f"p2pml-node --set node.dir=/tmp/k {nowhere} --set train.alone=go-on").start()
        self.assertNotIn(" error ", k.wait_exit(0))

    def test_a_different_setting_is_refused_with_both_values(self):
        a = self.typed("a", "p2pml-node --set node.name=a --set node.dir=/tmp/a --set node.listen=127.0.0.1:7400 "
                       "--set node.http= --set train.steps=0").start()
        a.wait_log(r"start training begins")
        e = self.typed("e", "p2pml-node --set node.name=e --set node.dir=/tmp/e --set node.http= --set train.steps=9 "
                       "--set node.start_timeout=1s --peers 127.0.0.1:7400").start()
        log = e.wait_exit(1)
        self.assertIn("its train.steps: 0, here it is 9", log)
        self.assertNotIn("begins anew", log)
        a.wait_log(r"its train.steps: 9, here it is 0")
        steps = a.rows()[-1]["step"]
        wait_until(lambda: a.rows()[-1]["step"] > steps, "a trains on")

    def test_two_nodes_on_one_shard_are_reported(self):
        ports = free_ports(2)
        peers = ",".join(f"127.0.0.1:{port}" for port in ports)
        nodes = [self.node(name, port, peers=peers, data__shard=1, data__shards=2, train__steps=0, train__schedule="").start()
                 for name, port in zip(("f", "g"), ports)]
        nodes[0].wait_log(r"same_shard g trains on shard 1 of 2, as this node does")
        nodes[1].wait_log(r"same_shard f trains on shard 1 of 2, as this node does")

    def test_two_nodes_share_the_default_port(self):
        # Whichever process has port 7400, two nodes without a configured port both start.
        nodes = [self.typed(name, f"p2pml-node --set node.name={name} --set node.dir=/tmp/{name} --set train.steps=0").start()
                 for name in ("x", "y")]
        ports = [tuple(node.wait_log(r"listening .*\(port (\d+)\).*\(port (\d+)\)").groups()) for node in nodes]
        self.assertEqual(len({*ports[0], *ports[1]}), 4, ports)


class Readme(ClusterTest):
    def test_readme_has_no_other_commands(self):
        with open(README) as f:
            sections = re.findall(r"^## (.*)$", f.read(), re.M)
        self.assertEqual({s: len(blocks(s)) for s in sections if blocks(s)}, TYPED)
        scripts = re.findall(r"^\./\S+", "".join(blocks("Two commands")), re.M)
        self.assertEqual([os.access(os.path.join(ROOT, script), os.X_OK) for script in scripts], [True, True])

    def test_the_documents_that_readme_names_exist(self):
        folder = os.path.join(ROOT, "docs")
        for document in (README, *(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".md"))):
            with open(document) as f:
                for link in re.findall(r"\]\((?!https?:)([^)#]+)", f.read()):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(document), link)), f"{document}: {link}")

    def test_use_the_model(self):
        chance = random.Random(5)
        with open(os.path.join(self.directory, "flowers.csv"), "w") as f:
            f.write("length,width,colour,kind\n")
            for _ in range(300):
                kind = chance.randrange(3)
                f.write(f"{chance.gauss(4 + kind, 0.4):.2f},{chance.gauss(2 * kind, 0.5):.2f},{chance.choice(('red', 'white'))},"
                        f"{('daisy', 'iris', 'tulip')[kind]}\n")
        os.symlink(os.path.join(ROOT, "configs"), os.path.join(self.directory, "configs"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        environment["PATH"] = os.path.dirname(PROGRAM) + ":" + environment["PATH"]
        for line in blocks("Use the model")[0].splitlines():
            done = subprocess.run(["bash", "-c", line], cwd=self.directory, env=environment, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
            if line.startswith("p2pml eval"):
                self.assertGreater(float(re.search(r"accuracy +([\d.]+)", done.stdout).group(1)), 85)
        with open(os.path.join(self.directory, "answers.csv")) as f:
            self.assertEqual(len(f.readlines()), 301)
        for name in ("averaged.safetensors", "report.html"):
            self.assertTrue(os.path.exists(os.path.join(self.directory, "run/flowers", name)), name)
        self.assertGreater(os.path.getsize(os.path.join(self.directory, "flowers.onnx")), 500)


if __name__ == "__main__":
    unittest.main()
