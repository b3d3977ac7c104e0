from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from . import errors
from ._graph import Graph, Meeting


class World:
    """The state of all nodes, for a method to read and change."""

    def __init__(self, x: Any, graph: Graph, rate: float, local_steps: int, random: Any):
        self.x = x                        #: [nodes, parameters], the models after their local steps; to be changed in place
        self.start = x[0].copy()          #: where all began
        self.n, self.d = x.shape
        self.rate, self.local_steps = rate, local_steps
        self.random = random              #: a numpy generator, for the method
        self.round = 0                    #: from 1
        self.bytes = 0                    #: sent by all nodes so far
        self.state: Dict[str, Any] = {}   #: the method's own
        self.correction: Any = None       #: [nodes, parameters]; every local step adds it, times the rate
        self.edges: List[Tuple[int, int]] = []    #: pairs of nodes that may meet; with a graph of your own, of this round
        self.weights: Any = None          #: Metropolis-Hastings: symmetric, rows sum to 1
        self._graph = graph
        self._set_edges(graph.edges)

    def begin(self) -> None:
        """The next round."""
        self.round += 1
        if not self._graph.edges:
            self._set_edges([(a, b) for a, b, _ in self._graph.meetings(self.round)])

    def _set_edges(self, edges: Sequence[Tuple[int, int]]) -> None:
        import numpy
        self.edges = list(edges)
        degree = numpy.bincount(numpy.array(self.edges, dtype=int).ravel(), minlength=self.n)
        self.weights = numpy.eye(self.n)
        for a, b in self.edges:
            w = 1 / (1 + max(degree[a], degree[b]))
            self.weights[a, b] = self.weights[b, a] = w
            self.weights[a, a] -= w
            self.weights[b, b] -= w

    def neighbours(self, node: int) -> List[int]:
        return [b if a == node else a for a, b in self.edges if node in (a, b)]

    def meetings(self) -> List[Meeting]:
        """Who meets in this round: (node, node, weight); a node at most once."""
        meetings = self._graph.meetings(self.round)
        ends = [end for a, b, _ in meetings for end in (a, b)]
        if len(set(ends)) < len(ends):
            raise errors.ConfigurationError(f"graph {self._graph.label}: a node meets two others in round {self.round}, expected one: this method is an "
                                            "exchange of two nodes")
        return meetings

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
