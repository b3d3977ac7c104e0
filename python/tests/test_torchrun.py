"""What the first process of a host tells the others of it, without a group. P2PML_LIBRARY names libp2pml.so."""

import importlib.util
import types
import unittest


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
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
        """What a call into the library does now and then while it waits for other hosts."""
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


if __name__ == "__main__":
    unittest.main()
