"""Rounds in lock-step, for your own models and methods: `p2pml.lab.rounds`.

Your own method works on the models of all nodes at once; its bytes are those that it reports. For comparison, "edge-ref" is p2pml itself with
the same model and random numbers: library nodes in this process, whose bytes are real."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import errors
from ._command import environment, program
from .node import Node, join

_PATIENCE = 300.0  # seconds that nodes of one process wait for each other

Model = Callable[[Any, int, Any], Tuple[float, Any]]


class Temporary:
    """A directory that is removed when the last object that uses it is gone."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="p2pml-lab-")
        weakref.finalize(self, shutil.rmtree, self.name, True)


class World:
    """The state of all nodes, for a method to read and change."""

    def __init__(self, x: Any, edges: Sequence[Tuple[int, int]], rate: float, local_steps: int):
        import numpy
        self.x = x                        #: [nodes, parameters], the models after their local steps; to be changed in place
        self.n, self.d = x.shape
        self.edges = list(edges)          #: pairs of nodes that may meet
        self.rate, self.local_steps = rate, local_steps
        self.round = 0                    #: from 1
        self.bytes = 0                    #: sent by all nodes so far
        self.state: Dict[str, Any] = {}   #: the method's own
        degree = numpy.bincount(numpy.array(self.edges, dtype=int).ravel(), minlength=self.n)
        self.weights = numpy.eye(self.n)  #: Metropolis-Hastings: symmetric, rows sum to 1
        for a, b in self.edges:
            w = 1 / (1 + max(degree[a], degree[b]))
            self.weights[a, b] = self.weights[b, a] = w
            self.weights[a, a] -= w
            self.weights[b, b] -= w

    def send(self, entries: int, bytes_each: int = 4) -> None:
        """Counts a message with this number of entries from every node to each of its neighbours."""
        self.bytes += 2 * len(self.edges) * entries * bytes_each

    def top(self, vectors: Any, ratio: float) -> Any:
        """Keeps the largest ``ratio`` of the entries of each row and sets the others to 0. Counts the message to the neighbours, with its indices."""
        import numpy
        keep = max(1, int(ratio * self.d))
        chosen = numpy.argpartition(-abs(vectors), keep - 1, axis=1)[:, :keep]
        out = numpy.zeros_like(vectors)
        numpy.put_along_axis(out, chosen, numpy.take_along_axis(vectors, chosen, 1), 1)
        self.send(keep, 8)
        return out


def rounds(model: Model, start: Any, method: Union[str, Callable[[World], None]] = "edge-ref", *, nodes: int = 8, rounds: int = 50,
           local_steps: int = 4, rate: float = 0.1, topology: str = "ring", seed: int = 0, every: int = 5,
           measure: Optional[Callable[[Any], float]] = None, **settings: Any) -> Any:
    """A frame of measurements of the averaged model, one row per ``every`` rounds.

    model: ``(x, node, random) -> (loss, gradient)`` of a batch of that node, with the node's own numpy generator. start: the initial vector
    of all nodes. method: ``method(world)`` after every ``local_steps`` of SGD, see :class:`World`; or "edge-ref" with ``settings`` (keys
    with ``__`` for the dot). topology: as ``topology.kind``. measure: a function of a vector, such as its accuracy on test examples.

    Columns: round, step, loss (mean over the local steps), bytes (sent by all nodes), consensus (here: the mean squared distance of the
    models from their mean, not divided by its norm). With ``measure`` also measure (of the averaged model) and worst (of the worst
    node: the smallest)."""
    import numpy
    import pandas  # type: ignore[import-untyped, unused-ignore]
    randoms = [numpy.random.default_rng([seed, node]) for node in range(nodes)]
    start = numpy.asarray(start, dtype=numpy.float32).ravel()
    table: List[Dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if method == "edge-ref":
            world: Any = stack.enter_context(_Nodes(start, nodes, local_steps, topology, settings))
        elif callable(method) and not settings:
            world = _Lockstep(start, nodes, local_steps, topology, rate, method)
        else:
            raise errors.ConfigurationError(f"method: found {method!r} with settings {list(settings)}, expected a function of a world, or 'edge-ref' "
                                            "with keys of p2pml-node")
        for done in range(1, rounds + 1):
            losses = [world.step(node, rate, lambda x, node=node: model(x, node, randoms[node]))
                      for _ in range(local_steps) for node in range(nodes)]
            world.mix(rate)
            if done % every == 0 or done == rounds:
                table.append(_measured(world, done, local_steps, losses, measure))
    return pandas.DataFrame(table)


def _measured(world: Any, done: int, local_steps: int, losses: List[float], measure: Any) -> Dict[str, Any]:
    import numpy
    models = world.models()
    mean = models.mean(0)
    row = {"round": done, "step": done * local_steps, "loss": float(numpy.mean(losses)), "bytes": world.sent(),
           "consensus": float(((models - mean) ** 2).sum(1).mean())}
    if measure is not None:
        row.update(measure=float(measure(mean)), worst=min(float(measure(x)) for x in models))
    return row


class _Lockstep:
    """A method of your own."""

    def __init__(self, start: Any, nodes: int, local_steps: int, topology: str, rate: float, method: Callable[[World], None]):
        import numpy
        self._world = World(numpy.tile(start, (nodes, 1)), _edges(topology, nodes), rate, local_steps)
        self._method = method

    def step(self, node: int, rate: float, gradient: Any) -> float:
        x = self._world.x[node]
        loss, g = gradient(x)
        x -= rate * g
        return float(loss)

    def mix(self, rate: float) -> None:
        self._world.round += 1
        before = self._world.x
        self._method(self._world)
        if self._world.x is not before:  # all users expect its shape and type
            before[:] = self._world.x
            self._world.x = before

    def models(self) -> Any:
        return self._world.x

    def sent(self) -> int:
        return self._world.bytes


class _Nodes:
    """p2pml's own exchange: sync nodes of the library, all in this process."""

    def __init__(self, start: Any, nodes: int, local_steps: int, topology: str, settings: Dict[str, Any]):
        self._folder = Temporary()
        with contextlib.ExitStack() as claims:
            addresses = [f"127.0.0.1:{_claim(claims)}" for _ in range(nodes)]
            self._open(start, addresses, local_steps, topology, settings)

    def _open(self, start: Any, addresses: List[str], local_steps: int, topology: str, settings: Dict[str, Any]) -> None:
        keys = {"average__mode": "sync", "topology__kind": topology, "log__level": "error", **settings}
        self._local_steps = local_steps
        self._nodes = [join([a for a in addresses if a != mine], listen=mine, dir=f"{self._folder.name}/{i}", name=f"node-{i:02}", **keys)
                       for i, mine in enumerate(addresses)]
        for node in self._nodes:
            node.open([("model", start.shape)], average__local_steps=local_steps, train__optimizer="sgd")
            node.model[:] = start
        self._views = [(node.model, node.correction) for node in self._nodes]

    def __enter__(self) -> "_Nodes":
        waiting, deadline = self._nodes, time.monotonic() + _PATIENCE
        try:
            while waiting := [node for node in waiting if not _starts(node)]:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(waiting)} of {len(self._nodes)} nodes have not begun within {_PATIENCE:g} s")
                time.sleep(0.005)
        except BaseException:
            self.__exit__()
            raise
        return self

    def step(self, node: int, rate: float, gradient: Any) -> float:
        x, correction = self._views[node]
        loss, g = gradient(x)
        x -= rate * g
        if correction is not None:
            x += rate * correction
        return float(loss)

    def mix(self, rate: float) -> None:
        for node in self._nodes:
            node.begin(self._local_steps, rate * self._local_steps)
        for node in self._nodes:
            node.end(_PATIENCE)

    def models(self) -> Any:
        import numpy
        return numpy.stack([x for x, _ in self._views])

    def sent(self) -> int:
        return sum(node.status()["bytes_sent"] for node in self._nodes)

    def __exit__(self, *_: Any) -> None:
        self._views = []
        for node in self._nodes:
            node.close()


def _claim(claims: contextlib.ExitStack) -> int:
    """A free port below those that the kernel assigns by itself. `p2pml run` claims its ports with the same names, so the two never take the same port."""
    while True:
        port = random.SystemRandom().randrange(10240, 32768)
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(f"\0p2pml-port-{port}")
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            name.close()
        else:
            claims.enter_context(name)
            return port


def _starts(node: Node) -> bool:
    try:
        node.start(timeout=0)
        return True
    except TimeoutError:
        return False


def _edges(kind: str, nodes: int) -> List[Tuple[int, int]]:
    """The edges of `p2pml topology show`."""
    done = subprocess.run([program(), "topology", "show", kind, "--nodes", str(nodes), "--json"], capture_output=True, text=True,
                          env=environment(), check=False)
    if done.returncode != 0:
        raise errors.ConfigurationError(done.stderr.strip())
    return [(int(a[5:]), int(b[5:])) for a, b in json.loads(done.stdout)["edges"]]
