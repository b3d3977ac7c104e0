"""Methods of the literature that only the lab in numpy has. python/README.md has their formulas; each is checked against them, none against the
program of its authors."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

from . import errors
from ._packets import Filter, Packer, Selection
from ._world import World

Method = Callable[[World], None]


def two_way(ratio: Any = "auto", selection: Union[str, Selection] = "top", filter: Union[str, Filter] = "int8") -> Method:
    """An all-reduce both halves of which are compressed with error feedback (DoubleSqueeze, Tang et al. 2019). Bytes: of what a node sends each
    owner of a part gets that part, and every owner sends what it sends to all; headers of the parts are not counted."""
    pack = Packer(ratio, selection, filter)

    def mix(world: World) -> None:
        common, unsent, rest = world.state.setdefault("two-way", (world.start.copy(), 0 * world.x, 0 * world.start))
        unsent += world.x - common
        total = 0.0
        for error in unsent:
            sent, _, cost = pack(error, world.random)
            error -= sent
            rest += sent / world.n
            total += cost / world.n
        sent, _, cost = pack(rest, world.random)
        rest -= sent
        common += sent
        world.bytes += round((world.n - 1) * (total + cost))
        world.x[:] = common
    return mix


def gradient_tracking() -> Method:
    """With local steps (K-GT, Liu et al. 2023); with one, DSGT (Pu, Nedic 2021). The correction of a node goes towards the difference of its
    steps from those of its neighbours; two vectors to each neighbour."""
    def mix(world: World) -> None:
        began = world.state.setdefault("began", 0 * world.x + world.start)
        if world.correction is None:
            world.correction = 0 * world.x
        weights = world.weights.astype(world.x.dtype)
        step = (began - world.x) / (world.rate * world.local_steps)
        world.correction += step - weights @ step
        world.send(2 * world.d)
        began[:] = weights @ world.x
        world.x[:] = began
    return mix


def gasloc(outer_rate: float = 1.0, gossip_rate: float = 1.0, momentum: float = 0.5) -> Method:
    """Gossip with an outer momentum on the proposed models (Cagnasso, Belilovsky, Oyallon 2026), in the pairs of the schedule."""
    def mix(world: World) -> None:
        began, before = world.state.setdefault("gasloc", (0 * world.x + world.start, 0 * world.x + world.start))
        proposed = began + outer_rate * (world.x - began)
        world.x[:] = proposed + momentum * (proposed - before)
        for a, b, weight in world.meetings():
            world.bytes += 2 * 4 * world.d
            update = gossip_rate * weight * (proposed[b] - proposed[a])
            world.x[a] += update
            world.x[b] -= update
        before[:], began[:] = proposed, world.x
    return mix


def powergossip(shapes: Sequence[Sequence[int]] = ()) -> Method:
    """Pairs that average the leading singular direction of the difference of each matrix, by one step of power iteration from the last one
    (Vogels, Karimireddy, Jaggi 2020, rank 1). shapes: of the tensors in the vector; what is no matrix travels whole."""
    def mix(world: World) -> None:
        parts = _tensors(shapes, world.d)
        for a, b, weight in world.meetings():
            for number, (at, shape) in enumerate(parts):
                mine, theirs = (world.x[i, at:at + _size(shape)] for i in (a, b))
                difference = (theirs - mine).reshape(shape)
                low, entries = _leading(difference, world.state, (min(a, b), max(a, b), number), world.random)
                mine += weight * low.ravel()
                theirs -= weight * low.ravel()
                world.bytes += 2 * 4 * entries
    return mix


def _leading(difference: Any, known: Dict[Any, Any], key: Any, random: Any) -> Tuple[Any, int]:
    """Of rank 1, and how many numbers each end sends for it. Both ends compute with the products of their own models, which are linear."""
    import numpy
    if difference.ndim != 2 or min(difference.shape) < 2:
        return difference, difference.size
    right = known.get(key)
    if right is None:
        right = random.normal(size=difference.shape[1])
    left = difference @ right
    left = left / (numpy.linalg.norm(left) or 1)
    right = difference.T @ left
    if numpy.linalg.norm(right) > 0:
        known[key] = right / numpy.linalg.norm(right)
    return numpy.outer(left, right).astype(difference.dtype), sum(difference.shape)


def _tensors(shapes: Sequence[Sequence[int]], d: int) -> List[Tuple[int, Tuple[int, ...]]]:
    parts, at = [], 0
    for shape in [tuple(shape) for shape in shapes] or [(d,)]:
        parts.append((at, shape))
        at += _size(shape)
    if at != d:
        raise errors.ConfigurationError(f"shapes: found {at} elements in all, expected the {d} of the model")
    return parts


def _size(shape: Sequence[int]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


TABLE: Dict[str, Callable[..., Method]] = {"two-way": two_way, "gradient-tracking": gradient_tracking, "gasloc": gasloc, "powergossip": powergossip}
