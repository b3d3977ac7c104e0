"""The exchange of p2pml (gossip/exchange, sync mode) in numpy, for a selection and a filter of your own. With the built-in ones it gives the
models of the library's nodes; a test compares them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple, Union

from ._packets import Filter, Packer, Selection, entries_of
from ._world import World

_MESSAGE = 48  # bytes of a message besides its packet: header and seal
_ABSENT_ROUNDS = 16


class _End:
    """A node at an edge: its progress at the latest exchange, and what it has not exchanged since an absence."""

    def __init__(self) -> None:
        self.progress = self.absence = 0.0


class EdgeRef:
    def __init__(self, pack: Packer, drift_correction: bool, drift_gain: float, drift_limit: float):
        self._pack = pack
        self._drift, self._gain, self._limit = drift_correction, drift_gain, drift_limit
        self._reference: Dict[Tuple[int, int], Any] = {}
        self._ends: Dict[Tuple[int, int], _End] = {}  # (node, other)
        self._progress = 0.0

    def __call__(self, world: World) -> None:
        self._progress += world.rate * world.local_steps
        if world.correction is None and self._drift:
            world.correction = 0 * world.x
        for a, b, weight in world.meetings():
            self._exchange(world, min(a, b), max(a, b), weight)

    def _exchange(self, world: World, a: int, b: int, weight: float) -> None:
        r = self._reference.setdefault((a, b), world.start.copy())
        (mine, n_mine, cost_mine), (theirs, n_theirs, cost_theirs) = (self._pack(world.x[i] - r, world.random) for i in (a, b))
        world.bytes += round(cost_mine + cost_theirs) + 2 * _MESSAGE
        gain = self._gain_of(world, a, b, 0.5 * (n_mine + n_theirs) / world.d)
        update = weight * (theirs - mine)
        world.x[a] += update
        world.x[b] -= update
        r += 0.5 * (mine + theirs)
        if self._drift:
            world.correction[a] += gain * update
            world.correction[b] -= gain * update

    def _gain_of(self, world: World, a: int, b: int, part: float) -> float:
        scale = 0.5 * (self._scale(world, a, b) + self._scale(world, b, a))
        return min(self._gain * part, self._limit) / scale

    def _scale(self, world: World, node: int, other: int) -> float:
        """How far the node has trained since its latest exchange over this edge, divided by the number of its edges
        (gossip/exchange/averaging.c has the reasons)."""
        end = self._ends.setdefault((node, other), _End())
        edges = max(sum(node == a for a, _ in self._ends), len(world.neighbours(node)))
        own = world.rate * world.local_steps
        part = entries_of(self._pack.ratio, world.d) / world.d
        since: float = max((self._progress - end.progress) / edges, own)
        scale: float = max(since, own + 2 * part * end.absence)
        end.absence -= 0.5 * part * end.absence
        if since > _ABSENT_ROUNDS * own:
            end.absence += since
        end.progress = self._progress
        return scale


def edge_ref(ratio: Any = "auto", selection: Union[str, Selection] = "top", filter: Union[str, Filter] = "int8", drift_correction: bool = True,
             drift_gain: float = 2, drift_limit: float = 0.25) -> Callable[[World], None]:
    return EdgeRef(Packer(ratio, selection, filter), drift_correction, drift_gain, drift_limit)
