"""What the other tests report about a program that does not end."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import processes
import ending  # noqa: E402, of test/e2e

WAITS = """
import threading, time
there = threading.Event()
def waits_for_a_neighbour():
    there.set()
    time.sleep(600)
def waits_for_it():
    there.wait()
    print("waits", flush=True)
    time.sleep(600)
threading.Thread(target=waits_for_a_neighbour, daemon=True).start()
waits_for_it()
"""


class Late(processes.Processes):
    def test_a_program_that_does_not_end_is_told_with_its_log(self):
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        with open(self.log(0), "w", encoding="utf-8") as log:
            log.write("waits for nobody")
        with unittest.mock.patch.object(processes, "_DEADLINE", 0):
            with self.assertRaisesRegex(AssertionError, "has not ended.*waits for nobody"):
                self.result(program, 0)
            with self.assertRaisesRegex(AssertionError, "no 'accuracy'.*waits for nobody"):
                self.wait_for(0, "accuracy")
            with self.assertRaises(unittest.SkipTest):
                self.setUp()

    def test_tests_that_do_not_end_are_told_with_their_lines(self):
        program = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, PYTHONFAULTHANDLER="1"))
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "waits\n")
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(ending.status(program, "test_of_mine.py", time.monotonic()), -signal.SIGABRT)
        self.assertIn("test_of_mine.py has not ended; where it waits:", said.getvalue())
        lines = program.communicate()[1]
        for where in "waits_for_it", "waits_for_a_neighbour":
            self.assertIn(f"in {where}", lines)

    def test_tests_that_end_have_their_status(self):
        program = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
        self.assertEqual(ending.status(program, "test_of_mine.py", time.monotonic() + processes.patience()), 7)


if __name__ == "__main__":
    unittest.main()
