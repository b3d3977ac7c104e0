"""What the other tests say of a program that does not end."""

import subprocess
import sys
import unittest
import unittest.mock

import processes


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


if __name__ == "__main__":
    unittest.main()
