"""p2pml topology show: figures, pictures, and what is refused with which message."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = os.path.join(os.path.dirname(os.environ["P2PML_E2E_NODE"]), "p2pml")
KINDS = ["ring", "butterfly", "random", "torus", "exponential", "one-peer", "complete", "star", "matchings", "base"]


def show(*arguments, status=0, environment=None):
    done = subprocess.run([PROGRAM, "topology", "show", *arguments], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


class Topology(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-topology-")
        self.addCleanup(shutil.rmtree, self.directory)

    def file(self, text):
        path = os.path.join(self.directory, "graph")
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_the_figures_of_a_graph_are_right(self):
        ring = json.loads(show("ring", "--nodes", "16", "--json"))
        self.assertEqual((ring["rounds_to_consensus"], ring["diameter"], ring["degree"]["max"]), (60, 8, 2))
        self.assertEqual(len(ring["edges"]), 16)
        self.assertEqual(ring["one_death"]["torn"]["worst"], 0)
        self.assertEqual(ring["one_death"]["new"]["mean"], 1)
        torus = json.loads(show("torus", "--nodes", "25", "--json"))
        self.assertAlmostEqual(torus["gap"], 0.276, places=3)
        base = json.loads(show("base", "--nodes", "25", "--json"))
        self.assertEqual((base["period"], base["rounds_to_consensus"], base["halves"]), (9, 9, False))
        self.assertIn("60 rounds until |P - J| < 0.01", show("ring", "--nodes", "16"))

    def test_the_meetings_of_rounds_are_listed(self):
        """Of a ring of four: two matchings in turn, which together are its edges."""
        ring = json.loads(show("ring", "--nodes", "4", "--json", "--rounds", "5"))
        rounds = [[tuple(pair) for *pair, _ in meetings] for meetings in ring["rounds"]]
        self.assertEqual(rounds, [rounds[0], rounds[1]] * 2 + [rounds[0]])
        self.assertEqual(sorted(rounds[0] + rounds[1]), sorted(map(tuple, ring["edges"])))
        for meetings in rounds:
            self.assertEqual(sorted(name for pair in meetings for name in pair), ["node-00", "node-01", "node-02", "node-03"])
        self.assertEqual({weight for meetings in ring["rounds"] for *_, weight in meetings}, {0.5})
        self.assertEqual(json.loads(show("ring", "--nodes", "4", "--json"))["rounds"], [])
        self.assertIn("--rounds goes with --json only", show("ring", "--nodes", "4", "--rounds", "5", status=2))

    def test_the_bytes_of_a_meeting_are_right(self):
        dense = json.loads(show("ring", "--nodes", "4", "--parameters", "1000", "--ratio", "1", "--json"))
        self.assertEqual(dense["bytes_a_meeting"], 1000)  # int8
        hundredth = json.loads(show("ring", "--nodes", "4", "--parameters", "100000", "--ratio", "1/100", "--json"))
        self.assertAlmostEqual(hundredth["bytes_a_meeting"], 1000 * (8 + 8.11) / 8, delta=2)

    def test_every_kind_works_with_every_size(self):
        for kind in KINDS + ["hierarchical"]:
            more = ["--group-size", "4"] if kind == "hierarchical" else []
            for nodes in (1, 2, 3, 7, 12):
                with self.subTest(kind, nodes=nodes):
                    facts = json.loads(show(kind, "--nodes", str(nodes), "--json", *more))
                    self.assertTrue(facts["connected"])
                    self.assertEqual(facts["one_death"]["disconnected"], 0)
                    self.assertEqual(show(kind, "--nodes", str(nodes), *more), show(kind, "--nodes", str(nodes), *more))

    def test_dot_has_every_edge(self):
        dot = show("torus", "--nodes", "16", "--dot")
        self.assertEqual(len(re.findall(r"n\d+ -- n\d+", dot)), 32)

    def test_pictures_are_written(self):
        for environment in ({}, {"PATH": "/nonexistent"}):
            for kind in ("ring", "star"):
                xml.etree.ElementTree.fromstring(show(kind, "--nodes", "9", "--svg", environment=environment))
        bare = show("random", "--nodes", "9", "--svg", environment={"PATH": "/nonexistent"})
        self.assertEqual(bare.count("<circle"), 9)

    def test_a_graph_from_a_file(self):
        path = self.file("# a square with a tail\na b\nb c\nc d\nd a\na <tail>\n")
        facts = json.loads(show("file", "--file", path, "--json"))
        self.assertEqual((facts["nodes"], len(facts["edges"]), facts["diameter"]), (5, 5, 3))
        self.assertEqual(facts["one_death"]["disconnected"], 0)
        xml.etree.ElementTree.fromstring(show("file", "--file", path, "--svg", environment={"PATH": "/nonexistent"}))
        self.assertIn("of 3 nodes", show("file", "--nodes", "3", "--file", self.file("node-00 node-01\nnode-01 node-02")))

    def test_wrong_graphs_name_file_and_line(self):
        for text, words in (("a b\nc d\n", r"graph:2: not connected"), ("a b\nb c\nb a\n", r"graph:2: not symmetric"),
                            ("a b\nb b\n", r"graph:2: an edge from 'b' to itself"),
                            ("a b\na b\n", r"graph:2: the edge .* is already in line 1"),
                            ("a\n", r"graph:1: expected an edge"), ("", r"graph: no edges")):
            with self.subTest(text):
                self.assertRegex(show("file", "--file", self.file(text), status=2), words)
        path = self.file("node-00 node-01\nnode-01 node-07\n")
        self.assertRegex(show("file", "--nodes", "3", "--file", path, status=2), r"graph:2: there is no node 'node-07'")
        self.assertIn("nowhere", show("file", "--file", "/nowhere", status=2))

    def test_wrong_arguments_are_refused(self):
        for arguments, words in (
            (["tours", "--nodes", "4"], "no topology is called 'tours'; expected ring"), (["ring"], "expected --nodes"),
            (["ring", "--nodes", "0"], "found '0', expected a number from 1"), ([], "expected a kind"),
            (["ring", "--nodes", "99999"], "found '99999'"), (["ring", "star", "--nodes", "4"], "one kind only"),
            (["file"], "needs --file"), (["ring", "--nodes", "4", "--file", "x"], "--file goes with"),
            (["hierarchical", "--nodes", "4"], "needs --group-size"),
            (["base", "--nodes", "4", "--param", "base_k=8"], "base_k=1 to base_k=7"),
            (["ring", "--nodes", "4", "--param", "base_k=2"], "goes with the kind base only"),
            (["ring", "--nodes", "4", "--param", "x=1"], "found 'x=1'"),
            (["ring", "--nodes", "4", "--ratio", "2"], "found '2'"),
            (["ring", "--nodes", "4", "--json", "--dot"], "only one of"),
        ):
            with self.subTest(arguments):
                self.assertIn(words, show(*arguments, status=2))


if __name__ == "__main__":
    unittest.main()
