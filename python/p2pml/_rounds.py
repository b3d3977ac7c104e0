"""Rounds in lock-step, for your own models and methods: `p2pml.lab.rounds`.

A method works on the models of all nodes at once; its bytes are those that it reports. For comparison, "edge-ref" is p2pml itself with
the same model and random numbers: library nodes in this process, whose bytes are real."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _graph, _methods, _optimizers, errors
from ._module import Module, is_module
from ._nodes import Nodes
from ._settings import count, number
from ._world import World

Model = Callable[[Any, int, Any], Tuple[float, Any]]
Rate = Union[float, Callable[[float], float]]
_METHOD = 2 ** 32  # the random numbers of the method: those of no node


def rounds(model: Any, start: Any = None, method: Union[str, Callable[..., None]] = "edge-ref", *, nodes: Optional[int] = None,
           rounds: int = 50, local_steps: int = 4, rate: Rate = 0.1, optimizer: _optimizers.Optimizer = "sgd", topology: Any = "ring",
           seed: int = 0, every: int = 5, loss: Any = None, measure: Optional[Callable[[Any], float]] = None, **settings: Any) -> Any:
    """A frame of measurements, one row per ``every`` rounds.

    model: ``(x, node, random) -> (loss, gradient)`` of a batch of that node, with the node's own numpy generator. start: the initial vector
    of all nodes, or a function of a numpy generator that draws it. Or model: a PyTorch module with ``loss(module, node, random)``, a
    tensor; it begins at its own parameters. method: ``method(world)`` after every ``local_steps`` steps, see :class:`World`; "edge-ref",
    p2pml itself, with ``settings`` (keys with ``__`` for the dot); or one of "choco", "dpsgd", "model-average", "allreduce", "diloco",
    "noloco", "sparseloco", "two-way", "gradient-tracking", "gasloc", "powergossip", "local" in numpy, and "edge-ref" in numpy with settings
    ``selection`` or ``filter``. optimizer: "sgd", "momentum" or "adamw", or a pair of one and its settings. rate: a number, or a function
    of the part of the rounds that is done, 0 to 1. topology: as ``topology.kind``, or ``(kind, options)``, a file, a graph of networkx, or
    a function ``(round, nodes) -> pairs``. nodes: 8, or those of the file or graph. measure: a function of a vector (of the module), such
    as its accuracy on test examples.

    Columns: round, step, loss (mean over the local steps), bytes (sent by all nodes), consensus (here: the mean squared distance of the
    models from their mean, not divided by its norm). With ``measure`` also measure (of the averaged model), worst (of the worst node: the
    smallest) and mean (of the nodes)."""
    import numpy
    import pandas  # type: ignore[import-untyped, unused-ignore]
    for name, value in (("rounds", rounds), ("local_steps", local_steps), ("every", every)):
        count(name, value)
    rate_at = _rate_of(rate)
    graph = _graph.make(topology, nodes if nodes is None else count("nodes", nodes), rounds)
    step = _optimizers.make(optimizer)
    model, measure = _prepared(model, loss, measure)
    randoms = [numpy.random.default_rng([count("seed", seed, 0), node]) for node in [*range(graph.n), _METHOD]]
    first = _start(model, start, randoms[-1])
    table: List[Dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        world: Any = (stack.enter_context(Nodes(first, graph, rate_at(0), local_steps, settings)) if _methods.is_library(method, settings) else
                      _Lockstep(World(numpy.tile(first, (graph.n, 1)), graph, rate_at(0), local_steps, randoms[-1]), _methods.make(method, settings)))
        for done in range(1, rounds + 1):
            world.rate = now = rate_at((done - 1) / rounds)
            losses = [_local_step(model, world, node, randoms[node], step, now) for _ in range(local_steps) for node in range(graph.n)]
            world.mix()
            if done % every == 0 or done == rounds:
                table.append(_measured(world, done, local_steps, losses, measure))
    return pandas.DataFrame(table)


def _rate_of(rate: Rate) -> Callable[[float], float]:
    if not callable(rate):
        number("rate", rate, 0)
        return lambda done: rate
    return lambda done: number("rate", rate(done), 0)


def _prepared(model: Any, loss: Any, measure: Any) -> Tuple[Any, Any]:
    """As a function of a vector, with the measure of a vector."""
    if measure is not None and not callable(measure):
        raise errors.ConfigurationError(f"measure: found {measure!r}, expected a function")
    if is_module(model):
        module = Module(model, loss)
        return module, measure and module.measured(measure)
    if not callable(model) or loss is not None:
        raise errors.ConfigurationError(f"model: found {str(model)[:60]!r} and loss={loss!r}, expected a function (x, node, random) -> (loss, gradient), or a "
                                        "PyTorch module with a loss")
    return model, measure


def _start(model: Any, start: Any, random: Any) -> Any:
    import numpy
    if isinstance(model, Module):
        if start is not None:
            raise errors.ConfigurationError("start: found one beside a PyTorch module, which begins at its own parameters")
        return model.start
    try:
        first = numpy.asarray(start(random) if callable(start) else start, dtype=numpy.float32).ravel()
    except (TypeError, ValueError) as error:
        raise errors.ConfigurationError(f"start: found {start!r}, expected a vector of numbers: {error}") from None
    if first.size == 0 or not numpy.isfinite(first).all():
        raise errors.ConfigurationError(f"start: found {str(start)[:60]}, expected a vector of finite numbers")
    return first


def _local_step(model: Model, world: Any, node: int, random: Any, step: _optimizers.Step, rate: float) -> float:
    import numpy
    x, correction = world.view(node)
    result = model(x, node, random)
    if not isinstance(result, tuple) or len(result) != 2 or numpy.shape(result[1]) != x.shape:
        what = f"a gradient of shape {numpy.shape(result[1])}" if isinstance(result, tuple) and len(result) == 2 else type(result).__name__
        raise errors.ConfigurationError(f"model: found {what} for node {node}, expected (loss, gradient) with a gradient of shape {x.shape}")
    step(node, x, result[1], rate)
    if correction is not None:
        x += rate * correction
    return float(result[0])


def _measured(world: Any, done: int, local_steps: int, losses: List[float], measure: Any) -> Dict[str, Any]:
    import numpy
    models = world.models()
    mean = models.mean(0)
    row = {"round": done, "step": done * local_steps, "loss": float(numpy.mean(losses)), "bytes": world.sent(),
           "consensus": float(((models - mean) ** 2).sum(1).mean())}
    if measure is not None:
        row["measure"] = float(measure(mean))
        of_nodes = [float(measure(x)) for x in models]
        row.update(worst=min(of_nodes), mean=float(numpy.mean(of_nodes)))
    return row


class _Lockstep:
    """A method that is a function of a world."""

    def __init__(self, world: World, method: Callable[[World], None]):
        self._world, self._method = world, method

    def view(self, node: int) -> Tuple[Any, Any]:
        world = self._world
        return world.x[node], None if world.correction is None else world.correction[node]

    @property
    def rate(self) -> float:
        return self._world.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._world.rate = rate

    def mix(self) -> None:
        self._world.begin()
        before = self._world.x
        self._method(self._world)
        if self._world.x is before:
            return
        import numpy
        if numpy.shape(self._world.x) != before.shape:
            raise errors.ConfigurationError(f"method: found models of shape {numpy.shape(self._world.x)} in world.x, expected {before.shape}")
        before[:] = self._world.x  # all users expect its type, too
        self._world.x = before

    def models(self) -> Any:
        return self._world.x

    def sent(self) -> int:
        return self._world.bytes

