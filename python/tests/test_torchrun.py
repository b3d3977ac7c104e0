"""What the first process of a host tells the others of that host, without a group. P2PML_LIBRARY names libp2pml.so."""

import importlib.util
import os
import types
import unittest

from processes import Processes, free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")


@needs_torch
class Words(unittest.TestCase):
    def setUp(self):
        from p2pml import torchrun
        self.waits, self.words = torchrun._WAITS, []
        self.node = types.SimpleNamespace(lent=False, meanwhile=self.of_the_node)
        self.leader = torchrun.Leader.__new__(torchrun.Leader)
        self.leader._node, self.leader._told, self.leader._vectors = self.node, 0.0, []
        self.leader._pass = self.words.append

    def of_the_node(self):
        self.fail("the node's own wait is not the group's")

    def wait(self, seconds):
        """What a call into the library does at intervals while it waits for other hosts."""
        self.leader._told -= seconds
        self.node.meanwhile()

    def test_a_long_wait_is_told_and_a_short_one_is_not(self):
        def call():
            self.wait(1)
            self.wait(11)  # behind the ten seconds: a word
            self.wait(1)
            return 7
        self.assertEqual(self.leader._tell(call), 7)
        self.assertEqual(self.words, [self.waits, (7, None, False)])

    def test_outside_of_a_call_nobody_listens_and_nothing_is_told(self):
        self.leader._tell(lambda: None)
        self.assertEqual(self.node.meanwhile, self.of_the_node)
        with self.assertRaises(ValueError):
            self.leader._tell(lambda: int("not a number"))
        self.assertEqual(self.node.meanwhile, self.of_the_node)
        self.assertIsInstance(self.words[-1][1], ValueError)


@needs_torch
class Patience(Processes):
    def follow(self, patience, first):
        """What the second process of a host reports about a first one that sends nothing, and how long it waited."""
        port = free_ports(1)[0]
        both = [self.start_program(os.path.join(HERE, "silent_worker.py"), i, self.folder, patience, first,
                                   environment={"RANK": str(i), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for i in range(2)]
        waited = self.result(both[1], 1, "waited")
        self.assertEqual(both[0].wait(60), 0, self.read(0))
        self.assertRegex(self.read(1), r"raised \w*Error")
        return waited

    def test_a_process_that_hears_nothing_raises_after_its_patience(self):
        waited = self.follow(8, "sleeps")
        self.assertGreaterEqual(waited, 7)
        self.assertLess(waited, 300)

    def test_a_first_process_that_ended_is_known_before(self):
        self.assertLess(self.follow(3000, "ends"), 300)


if __name__ == "__main__":
    unittest.main()
