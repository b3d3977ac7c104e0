"""The methods that `p2pml.lab.rounds` has by name, in numpy: the formulas are those of lab/methods/README.md. Each function takes the
settings of average.* and returns a method, a function of a world. "edge-ref" without a selection and a filter is not here: it is the library."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Union

from . import _baselines, errors
from ._edge_ref import edge_ref
from ._packets import FILTERS, Filter, Packer, Selection, named
from ._settings import call
from ._world import World

Method = Callable[[World], None]


def local() -> Method:
    return lambda world: None


def allreduce() -> Method:
    def mix(world: World) -> None:
        _ring(world, 4 * world.d)
        world.x[:] = world.x.mean(0, dtype=float)
    return mix


def dpsgd() -> Method:
    def mix(world: World) -> None:
        world.send(world.d)
        world.x[:] = world.weights.astype(world.x.dtype) @ world.x
    return mix


def model_average() -> Method:
    def mix(world: World) -> None:
        for a, b, w in world.meetings():
            world.bytes += 2 * 4 * world.d
            update = w * (world.x[b] - world.x[a])
            world.x[a] += update
            world.x[b] -= update
    return mix


def choco(ratio: Any = "auto", selection: Union[str, Selection] = "top", filter: Union[str, Filter] = "int8", step_size: float = 0) -> Method:
    """step_size 0: half of a moving average of |C(v)|^2 / |v|^2, as in the simulator."""
    pack, kept = Packer(ratio, selection, filter), [0.0]

    def mix(world: World) -> None:
        y = world.state.setdefault("y", 0 * world.x + world.start)
        whole = ((world.x - y) ** 2).sum(dtype=float)
        sent = _to_neighbours(world, pack, world.x - y)
        now = (sent ** 2).sum(dtype=float) / whole if whole > 0 else 1.0
        kept[0] = 0.9 * kept[0] + 0.1 * now if kept[0] else now
        y += sent
        world.x += (step_size or 0.5 * kept[0]) * (world.weights.astype(y.dtype) @ y - y)
    return mix


def diloco(outer_rate: float = 0.7, outer_nesterov: float = 0.9, filter: Union[str, Filter] = "fp32") -> Method:
    """filter: of the changes that travel, with error feedback. The sums on their way are taken to be as short."""
    coded: Filter = named("filter", filter, FILTERS)

    def mix(world: World) -> None:
        outer, momentum, unsent = world.state.setdefault("outer", (world.start.copy(), 0 * world.start, 0 * world.x))
        unsent += outer - world.x
        sent, cost = 0 * unsent, 0.0
        for i, change in enumerate(unsent):
            sent[i], size = coded(change)
            cost += size / world.n
        unsent -= sent
        _ring(world, cost)
        delta = sent.mean(0, dtype=float)
        momentum *= outer_nesterov
        momentum += delta
        outer -= outer_rate * (delta + outer_nesterov * momentum)
        world.x[:] = outer
    return mix


def noloco(outer_rate: float = 0.7, outer_nesterov: float = 0.5) -> Method:
    gamma = (outer_nesterov + (2 + outer_nesterov ** 2) ** 0.5) / 2

    def mix(world: World) -> None:
        slow, momentum = world.state.setdefault("slow", (0 * world.x + world.start, 0 * world.x))
        mean, mean_x = slow.copy(), world.x.copy()
        for a, b, _ in world.meetings():
            world.bytes += 2 * 2 * 4 * world.d
            mean[[a, b]], mean_x[[a, b]] = (slow[a] + slow[b]) / 2, (world.x[a] + world.x[b]) / 2
        momentum *= outer_nesterov
        momentum -= outer_rate * (mean - mean_x) + gamma * (slow - mean)
        slow += momentum
        world.x[:] = slow
    return mix


def sparseloco(ratio: Any = "auto", selection: Union[str, Selection] = "top", filter: Union[str, Filter] = "int8", outer_rate: float = 0.7,
               outer_nesterov: float = 0.95) -> Method:
    pack = Packer(ratio, selection, filter)

    def mix(world: World) -> None:
        error, outer = world.state.setdefault("error", (0 * world.x, world.start.copy()))
        error *= outer_nesterov
        error += outer - world.x
        sent = _packed(world, pack, error, [world.n - 1] * world.n)
        error -= sent
        outer -= outer_rate * sent.mean(0, dtype=float)
        world.x[:] = outer
    return mix


def _ring(world: World, size: float) -> None:
    """Counts a ring all-reduce of this many bytes: 2 (n - 1) steps, in each of which every node sends the n-th part."""
    world.bytes += round(2 * (world.n - 1) * size)


def _to_neighbours(world: World, pack: Packer, vectors: Any) -> Any:
    return _packed(world, pack, vectors, [len(world.neighbours(i)) for i in range(world.n)])


def _packed(world: World, pack: Packer, vectors: Any, receivers: Any) -> Any:
    import numpy
    sent = numpy.empty_like(vectors)
    for i, (vector, count) in enumerate(zip(vectors, receivers)):
        sent[i], _, cost = pack(vector, world.random)
        world.bytes += round(cost) * count
    return sent


TABLE: Dict[str, Callable[..., Method]] = {"edge-ref": edge_ref, "choco": choco, "dpsgd": dpsgd, "model-average": model_average,
                                           "allreduce": allreduce, "diloco": diloco, "noloco": noloco, "sparseloco": sparseloco,
                                           **_baselines.TABLE, "local": local}


def is_library(method: Any, settings: Dict[str, Any]) -> bool:
    return isinstance(method, str) and method == "edge-ref" and not {"selection", "filter"} & set(settings)


def make(method: Any, settings: Dict[str, Any]) -> Method:
    """method: a name with the settings of average.*, or a function of a world with its own."""
    if isinstance(method, str) and method in TABLE:
        made: Method = call(f"method {method}", TABLE[method], {_short(key): value for key, value in settings.items()})
        return made
    if not callable(method):
        raise errors.ConfigurationError(f"method: found {method!r}, expected a function of a world, or one of {', '.join(TABLE)}")
    try:
        inspect.signature(method).bind(None, **settings)
    except TypeError as error:
        raise errors.ConfigurationError(f"method {label(method, {})}: expected a function of a world and of {list(settings)}, found otherwise: {error}")
    return functools.partial(method, **settings) if settings else method


def _short(key: str) -> str:
    return key[len("average__"):] if key.startswith("average__") else key


def label(method: Any, settings: Dict[str, Any]) -> str:
    name = method if isinstance(method, str) else getattr(method, "__name__", repr(method))
    return " ".join([name, *(f"{_short(key).replace('__', '.')}={_value(value)}" for key, value in settings.items())])


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(getattr(value, "__name__", value))
