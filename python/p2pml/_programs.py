"""The programs inside the wheel: ``p2pml`` and ``p2pml-node``."""

import os
import sys

from . import _c


def _run(name: str) -> None:
    path = os.path.join(_c.folder(), name)
    if not os.path.exists(path):
        sys.exit(f"{name} is not in {_c.folder()}: this package was installed without it")
    os.execv(path, [path] + sys.argv[1:])


def p2pml() -> None:
    _run("p2pml")


def p2pml_node() -> None:
    _run("p2pml-node")
