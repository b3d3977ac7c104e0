"""Two processes that train together: pair.py PYTHON [PROGRAM]

PYTHON: has p2pml and what PROGRAM needs. PROGRAM: an example with the arguments of logistic.py (the default), or worker.py, which needs
torch. Each process lacks some of the classes, and reaches an accuracy that neither can reach alone."""

import os
import subprocess
import sys
import tempfile

from processes import ROOT, free_ports

CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "P2PML_LIBRARY")}
LEAST = 0.85  # accuracy


def arguments(program, folder, i, ports):
    if os.path.basename(program) == "worker.py":
        return [folder, i, "all4000", 0, *ports]
    return [os.path.join(folder, str(i)), ports[i], ports[1 - i], i]


def train(python, program=None):
    program = program or os.path.join(ROOT, "python", "examples", "logistic.py")
    ports = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="p2pml-pair-") as folder:
        both = [subprocess.Popen([python, program, *map(str, arguments(program, folder, i, ports))], stdout=subprocess.PIPE, text=True,
                                 env=CLEAN) for i in range(2)]
        for process in both:
            said = process.communicate()[0]
            if process.returncode != 0 or float(said.split()[-1]) < LEAST:
                raise SystemExit(f"the two have not trained together: status {process.returncode}, {said!r}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    train(*sys.argv[1:])
    print("two processes have trained together")
