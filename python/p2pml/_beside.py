"""What a node carries besides the vectors: the program's blob, the bytes of an attachment, and numbers for people."""

from __future__ import annotations

import ctypes
import json
import math
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from . import _c, errors

_BESIDE = b"p2pml blob 1\n"  # a blob of an attachment: this, 4 bytes with the size of the program's part, that part, the attachment's part


class Beside:
    """A part of :class:`p2pml.Node`."""

    _settings: Dict[str, Any]
    _travels = b""  # an attachment's part of the blob

    def _pointer(self) -> Any:
        raise NotImplementedError

    def _check(self, code: int) -> None:
        raise NotImplementedError

    @property
    def blob(self) -> bytes:
        """At most 65,536 bytes that are stored with the model, such as the state of a schedule or the hash of a tokenizer. A late joiner
        gets them from a member, a resumed node from its checkpoint."""
        return self._blob_parts()[0]

    @blob.setter
    def blob(self, data: bytes) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"blob: found {type(data).__name__}, expected bytes")
        self._set_blob(bytes(data), self._travels)

    def _blob_parts(self) -> Tuple[bytes, bytes]:
        """The program's, and an attachment's."""
        data = self._read_bytes(_c.library().blob)
        start = len(_BESIDE) + 4
        if not data.startswith(_BESIDE) or len(data) < start:
            return data, b""
        end = start + int.from_bytes(data[start - 4:start], "little")
        return data[start:end], data[end:]

    def _set_blob(self, program: bytes, travels: bytes) -> None:
        if travels and len(_BESIDE) + 4 + len(program) + len(travels) <= _c.BLOB_MOST:
            program = _BESIDE + len(program).to_bytes(4, "little") + program + travels
        self._check(_c.library().blob(self._pointer(), program, len(program), None, None))

    def _read_bytes(self, call: Any) -> bytes:
        at, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(call(self._pointer(), None, 0, ctypes.byref(at), ctypes.byref(size)))
        return ctypes.string_at(at, size.value) if at.value else b""

    # An attachment's own bytes. The first ones travel with the model to a late joiner, the others are part of this node's checkpoints.

    def travel_most(self) -> int:
        return _c.BLOB_MOST - len(_BESIDE) - 4 - len(self._blob_parts()[0])

    def travel(self, data: bytes) -> None:
        self._travels = data
        self._set_blob(self._blob_parts()[0], data)

    def keep(self, data: bytes) -> None:
        """For the checkpoint that the next exchange or :meth:`leave` writes, and for no later one."""
        self._check(_c.library().state(self._pointer(), data, len(data), None, None))

    def came(self) -> Tuple[bytes, bytes]:
        """What travelled with the model, and what was kept in the checkpoint that was resumed."""
        return self._blob_parts()[1], self._read_bytes(_c.library().state)

    def report(self, accuracy: Optional[float] = None, **values: float) -> None:
        """``accuracy``, 0 to 1, appears on the page, in /status and in /metrics. All values are appended to ``reported.jsonl`` in ``dir``."""
        values = {name: float(value) for name, value in values.items()}
        if accuracy is not None:
            self._check(_c.library().accuracy(self._pointer(), float(accuracy)))
            values["accuracy"] = float(accuracy)
        folder = self._settings.get("node.dir")
        if folder is not None and values:
            row = {name: value if math.isfinite(value) else None for name, value in values.items()}
            with open(os.path.join(str(folder), "reported.jsonl"), "a", encoding="utf-8") as f:
                f.write(json.dumps({"time": time.time(), **row}) + "\n")


class Reports:
    """A part of the attachments: what a program reports of its training."""

    node: Any
    _losses: List[float]  # reported since the last exchange

    def _place(self) -> Optional[int]:
        """The cluster's step; None: the node has ended."""
        raise NotImplementedError

    def _mean_loss(self) -> float:
        return sum(self._losses) / len(self._losses) if self._losses else math.nan

    def report(self, loss: Any = None, accuracy: Any = None, **values: Any) -> None:
        """Numbers for people: the page, /status and metrics.jsonl show the mean ``loss`` of a round and the latest ``accuracy`` (0 to 1);
        other values are only written to ``reported.jsonl`` in the node's ``dir``. Tensors of one element are read (on a GPU, that waits)."""
        loss = math.nan if loss is None else errors.number(loss, "loss")
        if math.isfinite(loss):
            self._losses.append(loss)
        step = self._place()
        if step is not None and (accuracy is not None or values):
            self.node.report(accuracy if accuracy is None else errors.number(accuracy, "accuracy"),
                             **{"step": step, **{name: errors.number(value, name) for name, value in values.items()}})
