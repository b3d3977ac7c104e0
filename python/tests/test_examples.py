"""The examples, as processes. Needs numpy."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")


class Examples(unittest.TestCase):
    def test_logistic_regression_in_numpy(self):
        sockets = [socket.socket() for _ in range(2)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        ports = [str(s.getsockname()[1]) for s in sockets]
        for s in sockets:
            s.close()
        with tempfile.TemporaryDirectory(prefix="p2pml-example-") as folder:
            both = [subprocess.Popen([sys.executable, os.path.join(EXAMPLES, "logistic.py"), os.path.join(folder, str(i)), ports[i],
                                      ports[1 - i], str(i)], stdout=subprocess.PIPE, text=True) for i in range(2)]
            for process in both:
                self.addCleanup(process.kill)
            for process in both:
                text, _ = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0)
                self.assertGreater(float(re.search(r"accuracy ([0-9.]+)", text)[1]), 0.85)  # without a class: two thirds


if __name__ == "__main__":
    unittest.main(verbosity=2)
