"""200 small files as people have them: each is read right, or refused with the reason; none is misread in silence.

    python3 test_corpus.py --count PROGRAM     what another build says, for figures
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import corpus
import corpus_judge

PROGRAM = os.path.join(os.path.dirname(os.environ.get("P2PML_E2E_NODE", "")), "p2pml")


class CorpusTest(unittest.TestCase):
    def test_no_file_is_misread(self):
        directory = tempfile.mkdtemp(prefix="p2pml-corpus-")
        self.addCleanup(shutil.rmtree, directory)
        cases = corpus.cases(directory)
        self.assertGreaterEqual(len(cases), 200)
        for case in cases:
            with self.subTest(case.name):
                wrong = corpus_judge.judge(PROGRAM, case)
                if wrong:
                    self.fail(f"{'misread' if wrong[0] else 'refused for another reason'}, expected {case.right}: {wrong[1]}")


def count(program):
    """Prints how many files a build reads right, refuses and misreads. Keys that it does not know are left out."""
    keys = subprocess.run([os.path.join(os.path.dirname(program), "p2pml-node"), "--help"], capture_output=True, text=True).stdout
    known = set(re.findall(r"data\.\w+", keys))
    silent, refused, right, total = [], [], 0, 0
    with tempfile.TemporaryDirectory(prefix="p2pml-corpus-") as directory:
        for case in corpus.cases(directory):
            wrong = corpus_judge.judge(program, case, lambda setting: setting.split("=")[0] in known)
            total += 1
            right += not wrong
            if wrong:
                (silent if wrong[0] else refused).append(case.name)
    print(f"{total} files: {right} as expected, {len(silent)} misread, {len(refused)} refused otherwise")
    print("misread:", *silent, sep="\n  ")
    print("refused otherwise:", *refused, sep="\n  ")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--count":
        count(sys.argv[2])
    else:
        unittest.main()
