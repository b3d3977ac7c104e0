"""The program `p2pml` as a child of this process."""

from __future__ import annotations

import os
import shutil
from typing import Dict

from . import _c, errors

OWN = ("P2PML_LIBRARY", "P2PML_PROGRAM", "P2PML_PYTHON")  # variables of this package; the program would take these for keys


def program() -> str:
    own = os.path.join(_c.folder(), "p2pml")
    found = os.environ.get("P2PML_PROGRAM") or (own if os.path.exists(own) else shutil.which("p2pml"))
    if not found:
        raise errors.EnvironmentFailed(f"the program p2pml is neither in {_c.folder()} nor in PATH; set P2PML_PROGRAM to its path")
    return found


def environment() -> Dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in OWN}
