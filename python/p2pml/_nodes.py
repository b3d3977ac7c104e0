"""p2pml's own exchange for `p2pml.lab.rounds`: sync nodes of the library, all in this process, whose bytes are real."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from typing import Any, Dict, List, Tuple

from ._graph import Graph
from ._temporary import Temporary
from .node import Node, join

_PATIENCE = 300.0  # seconds that nodes of one process wait for each other


class Nodes:
    def __init__(self, start: Any, graph: Graph, rate: float, local_steps: int, settings: Dict[str, Any]):
        self._folder = Temporary()
        self.rate, self._local_steps = rate, local_steps
        with contextlib.ExitStack() as claims:
            addresses = [f"127.0.0.1:{_claim(claims)}" for _ in range(graph.n)]
            self._open(start, addresses, graph, settings)

    def _open(self, start: Any, addresses: List[str], graph: Graph, settings: Dict[str, Any]) -> None:
        keys = {"average__mode": "sync", "log__level": "error", "node__http": "", **settings}
        self._nodes = [join([a for a in addresses if a != mine], listen=mine, dir=f"{self._folder.name}/{i}", **{**graph.keys_of(i), **keys})
                       for i, mine in enumerate(addresses)]
        for node in self._nodes:
            node.open([("model", start.shape)], average__local_steps=self._local_steps, train__optimizer="sgd")
            node.model[:] = start
        self._views = [(node.model, node.correction) for node in self._nodes]
        self._held = [node.held for node in self._nodes]

    def __enter__(self) -> "Nodes":
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

    def view(self, node: int) -> Tuple[Any, Any]:
        """The model of a node, and the correction that each of its local steps adds, times the rate; or None."""
        return self._views[node]

    def mix(self) -> None:
        for node in self._nodes:
            node.begin(self._local_steps, self.rate * self._local_steps)
        for node in self._nodes:
            node.end(_PATIENCE)

    def models(self) -> Any:
        import numpy
        return numpy.stack([y if held is None else y + held for (y, _), held in zip(self._views, self._held)])

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
