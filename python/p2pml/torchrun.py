"""The processes of one host, as torchrun starts them, are one node of the cluster.

They hold one model (DistributedDataParallel, or gradients averaged by hand). The first of them exchanges with other hosts, and passes the
results on to the others. All of them call the same methods of an attachment in the same order, as is usual in torch.distributed; an error in the
first one is raised in all."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import math
import os
import signal
import threading
import time
from typing import Any, Callable, Iterator, List, Optional, Union

import torch
import torch.distributed as dist

from . import _c, errors
from .node import Node, Round

PATIENCE = 1800.0  # seconds that a process waits for another one of its host, as long as torch.distributed's own groups do
_WORD = 10.0  # seconds between two messages that the first process still waits for other hosts
_WAITS = "the first process waits"
_VECTORS = (_c.MODEL, _c.SECOND_MOMENT, _c.CORRECTION, _c.HELD)


def within(node: Node, group: Any = None, patience: float = PATIENCE) -> Union[Node, "Leader", "Follower"]:
    """This process's part of the host's node; in a program of one process, ``node`` itself. ``group``: a gloo group of the processes that
    hold one model; None: the processes of this host, in a group that is made here; False: every process is its own node. ``patience``:
    in that new group, a process that waits for another one for so many seconds raises an exception; the end of a process is noticed at once."""
    if group is False or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return node
    own = group is None
    if own:
        group = _host(datetime.timedelta(seconds=patience))
    if dist.get_world_size(group) == 1:
        if own:
            dist.destroy_process_group(group)
        return node
    return Leader(node, group, own) if dist.get_rank(group) == 0 else Follower(node, group, own)


def _host(patience: datetime.timedelta) -> Any:
    """A gloo group of the processes of this host: torchrun numbers processes host by host. p2pml needs its own group because its vectors are
    on the CPU, whatever backend carries the gradients."""
    world = dist.get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if local < 1 or world % local:
        raise errors.ConfigurationError(f"found {world} processes, {local} on this host; expected as many on each host, or attach with "
                                        "group=, a gloo group of the processes that hold one model")
    mine = None
    for first in range(0, world, local):  # all processes make all groups
        ranks = list(range(first, first + local))
        group = dist.new_group(ranks, timeout=patience, backend="gloo")
        if dist.get_rank() in ranks:
            mine = group
    return mine


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Ctrl-C takes effect after the block: half a broadcast would leave the others waiting for the rest."""
    held: List[Any] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


class _Member:
    def __init__(self, group: Any, own: bool):
        self._group, self._first, self._own = group, dist.get_global_rank(group, 0), own
        self._vectors: List[torch.Tensor] = []

    def _hold(self) -> None:
        buffers = (self.buffer(which) for which in _VECTORS)  # type: ignore[attr-defined]
        self._vectors = [torch.frombuffer(b, dtype=torch.float32) for b in buffers if b is not None]

    def _pass_vectors(self) -> None:
        for vector in self._vectors:
            dist.broadcast(vector, self._first, self._group)

    def release(self) -> None:
        """From now on no results are passed on."""
        self._vectors = []
        if self._own and dist.is_initialized():
            dist.destroy_process_group(self._group)
        self._own = False

    def _pass(self, what: Any = None) -> Any:
        box = [what]
        dist.broadcast_object_list(box, self._first, self._group)
        return box[0]


class Leader(_Member):
    """The first process of a host: the node, which passes its results to the others."""

    def __init__(self, node: Node, group: Any, own: bool):
        super().__init__(group, own)
        self._node = node
        self._told = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def _tell(self, call: Callable[[], Any], vectors: bool = False) -> Any:
        self._told = time.monotonic()
        before, self._node.meanwhile = self._node.meanwhile, self._reassure  # only here: elsewhere the others do not listen
        try:
            result = call()
        except BaseException as error:  # also for Ctrl-C: the others wait for this message
            with _whole():
                self._pass((None, error, self._node.lent))
                if vectors and isinstance(error, errors.Ended):  # the last exchange may have changed them
                    self._pass_vectors()
            raise
        finally:
            self._node.meanwhile = before
        with _whole():
            self._pass((result, None, self._node.lent))
            if vectors and result is not None:
                self._pass_vectors()
        return result

    def _reassure(self) -> None:
        """Tells the others at intervals that this process is alive and waits for other hosts."""
        if time.monotonic() - self._told > _WORD:
            with _whole():
                self._pass(_WAITS)
            self._told = time.monotonic()

    def open(self, tensors: Any, **options: Any) -> "Leader":
        def opened() -> Any:
            self._node.open(tensors, **options)
            return self._node.tensors, [self._node.buffer(which) is not None for which in _VECTORS]
        self._tell(opened)
        self._hold()
        return self

    def _round(self, call: Callable[[], Optional[Round]]) -> Optional[Round]:
        def without_lists() -> Optional[Round]:
            round = call()
            return None if round is None else round._replace(changes=None)
        round: Optional[Round] = self._tell(without_lists, vectors=True)
        return round

    def start(self, timeout: Optional[float] = None) -> Optional[Round]:
        return self._round(lambda: self._node.start(timeout))

    def exchange(self, steps: int, step_scale: float, loss: float = math.nan, timeout: Optional[float] = None) -> Optional[Round]:
        return self._round(lambda: self._node.exchange(steps, step_scale, loss, timeout))

    def recover(self) -> Optional[Round]:
        return self._round(self._node.recover)

    def restore(self, step: int, checkpoint: bytes) -> None:
        self._tell(lambda: self._node.restore(step, checkpoint))

    def stamp(self) -> Any:
        return self._tell(self._node.stamp)

    def checkpoint(self) -> Any:
        return self._tell(self._node.checkpoint)

    def came(self) -> Any:
        return self._tell(self._node.came)

    def close(self) -> None:
        self.release()
        self._node.close()


class Follower(_Member):
    """Another process of the host. It has its own vectors, which the first process fills."""

    def __init__(self, node: Node, group: Any, own: bool):
        super().__init__(group, own)
        node._elsewhere = True
        self._node = node
        self.lent = False  # as in the first process
        self._buffers: List[Any] = []
        self.parameters = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)  # raises an error that names the first process

    def _hear(self, vectors: bool = False) -> Any:
        with _whole():
            word = self._pass()
            while word == _WAITS:
                word = self._pass()
            result, error, self.lent = word
            if vectors and (result is not None or isinstance(error, errors.Ended)):
                self._pass_vectors()
        if error is not None:
            raise error
        return result

    def open(self, tensors: Any, **_: Any) -> "Follower":
        theirs, present = self._hear()
        mine = [(name, tuple(shape)) for name, shape in tensors]
        if mine != theirs:
            raise errors.MismatchError(f"the first process of this host attached {len(theirs)} tensors, this one {len(mine)}, or with other "
                                       "names or shapes; the processes of a host hold one model")
        self.parameters = sum(math.prod(shape) for _, shape in mine)
        self._buffers = [(ctypes.c_float * self.parameters)() if there else None for there in present]
        self._hold()
        return self

    def buffer(self, which: int) -> Any:
        return self._buffers[which]

    def _round(self, *_: Any, **__: Any) -> Any:
        return self._hear(vectors=True)

    start = exchange = recover = _round

    def _result(self, *_: Any, **__: Any) -> Any:
        return self._hear()

    restore = stamp = checkpoint = came = _result
    ended: Optional[str] = None

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    save = leave = travel = keep = report = begin = before_leave = _nothing

    def travel_most(self) -> int:
        return _c.BLOB_MOST

    def close(self) -> None:
        self.release()
