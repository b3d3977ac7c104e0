from __future__ import annotations

import shutil
import tempfile
import weakref


class Temporary:
    """A directory that is removed when the last object that uses it is gone."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="p2pml-lab-")
        weakref.finalize(self, shutil.rmtree, self.name, True)
