"""The processes of one host, as torchrun starts them, are one node of the cluster.

They hold one model (DistributedDataParallel, or gradients averaged by hand). The first of them exchanges with other hosts, and passes
on to the others what came of it. All of them make the same calls of an attachment, as is usual in torch.distributed; an error in the first
one is raised in all."""

from __future__ import annotations

import ctypes
import datetime
import math
import os
from typing import Any, Callable, List, Optional, Union

import torch
import torch.distributed as dist

from . import _c, errors
from .node import Node, Round

_PATIENCE = datetime.timedelta(days=365)  # how long the first process waits for other hosts has its bounds in the node
_VECTORS = (_c.MODEL, _c.SECOND_MOMENT, _c.CORRECTION)


def within(node: Node, group: Any = None) -> Union[Node, "Leader", "Follower"]:
    """``node`` itself in a program of one process. ``group``: a gloo group of the processes that hold one model; None: those of this
    host; False: every process is a node of its own."""
    if group is False or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return node
    if group is None:
        group = _host()
    if dist.get_world_size(group) == 1:
        return node
    return Leader(node, group) if dist.get_rank(group) == 0 else Follower(node, group)


def _host() -> Any:
    """torchrun numbers processes host by host. A group of p2pml's own: vectors are on the CPU, whatever the gradients travel with."""
    world = dist.get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if local < 1 or world % local:
        raise errors.ConfigurationError(f"found {world} processes, {local} on this host; expected as many on each host, or attach with "
                                        "group=, a gloo group of the processes that hold one model")
    mine = None
    for first in range(0, world, local):  # all processes make all groups
        ranks = list(range(first, first + local))
        group = dist.new_group(ranks, timeout=_PATIENCE, backend="gloo")
        if dist.get_rank() in ranks:
            mine = group
    return mine


class _Member:
    def __init__(self, group: Any):
        self._group, self._first = group, dist.get_global_rank(group, 0)
        self._vectors: List[torch.Tensor] = []

    def _hold(self) -> None:
        buffers = (self.buffer(which) for which in _VECTORS)  # type: ignore[attr-defined]
        self._vectors = [torch.frombuffer(b, dtype=torch.float32) for b in buffers if b is not None]

    def _pass_vectors(self) -> None:
        for vector in self._vectors:
            dist.broadcast(vector, self._first, self._group)

    def _pass(self, what: Any = None) -> Any:
        box = [what]
        dist.broadcast_object_list(box, self._first, self._group)
        return box[0]


class Leader(_Member):
    """The first process of a host: the node, whose results the others hear."""

    def __init__(self, node: Node, group: Any):
        super().__init__(group)
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def _tell(self, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except BaseException as error:  # Ctrl-C, too: the others wait for this word
            self._pass((None, error, self._node.lent))
            raise
        self._pass((result, None, self._node.lent))
        return result

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
        round: Optional[Round] = self._tell(without_lists)
        if round is not None:
            self._pass_vectors()
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

    def close(self) -> None:
        self._vectors = []
        self._node.close()


class Follower(_Member):
    """Another process of the host: vectors of its own, filled by the first one."""

    def __init__(self, node: Node, group: Any):
        super().__init__(group)
        node._elsewhere = True
        self._node = node
        self.lent = False  # as in the first process
        self._buffers: List[Any] = []
        self.parameters = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)  # which says where to ask

    def _hear(self) -> Any:
        result, error, self.lent = self._pass()
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

    def _round(self) -> Any:
        round = self._hear()
        if round is not None:
            self._pass_vectors()
        return round

    def start(self, timeout: Optional[float] = None) -> Any:
        return self._round()

    def exchange(self, *_: Any, **__: Any) -> Any:
        return self._round()

    def recover(self) -> Any:
        return self._round()

    def restore(self, step: int, checkpoint: bytes) -> None:
        self._hear()

    def stamp(self) -> Any:
        return self._hear()

    def checkpoint(self) -> Any:
        return self._hear()

    def save(self) -> None:
        pass

    def leave(self, timeout: Optional[float] = None) -> None:
        pass

    def close(self) -> None:
        self._vectors = []
