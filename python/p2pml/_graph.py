"""The graphs of `p2pml.lab`: which nodes may meet, and who meets in which round. `p2pml topology show` makes them, so they are those of the nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import errors
from ._command import environment, program
from ._temporary import Temporary

Meeting = Tuple[int, int, float]  # two nodes, the weight of their exchange
NODES = 8

_OPTIONS = {"seed": ["--seed", "{}"], "rings": ["--param", "rings={}"], "base_k": ["--param", "base_k={}"], "group_size": ["--group-size", "{}"]}


class Graph:
    """A graph of nodes 0 to n - 1. ``keys``: the same for nodes of the library; None: they cannot have it."""

    def __init__(self, label: str, names: Sequence[str], edges: Sequence[Tuple[int, int]], schedule: Callable[[int], List[Meeting]],
                 keys: Optional[Dict[str, Any]]):
        self.label, self.names, self.edges, self.meetings, self.keys = label, list(names), list(edges), schedule, keys
        self.n = len(self.names)

    def keys_of(self, node: int) -> Dict[str, Any]:
        """Of one node of the library."""
        if self.keys is None:
            raise errors.ConfigurationError(f"graph {self.label}: the library's nodes have no schedule of your own; give \"edge-ref\" a selection or a "
                                            "filter (\"top\", \"int8\"), and it runs in numpy")
        keys = {"node__name": self.names[node], **self.keys}
        size = keys.pop("group_size", None)
        return {**keys, "node__group": f"group-{node // size}"} if size else keys


def make(given: Any, nodes: Optional[int], rounds: int) -> Graph:
    """given: a kind of topology, (kind, options), a file, a graph of networkx, a function ``(round, nodes) -> pairs``, or a Graph."""
    if isinstance(given, Graph):
        return given
    kind, options = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if isinstance(kind, os.PathLike) or isinstance(kind, str) and re.search(r"[./]", kind):
        graph = _of_file(os.fspath(kind), rounds)
    elif isinstance(kind, str):
        graph = _of_kind(kind, NODES if nodes is None else nodes, rounds, options)
    elif hasattr(kind, "nodes") and hasattr(kind, "edges"):
        graph = _of_networkx(kind, rounds)
    elif callable(kind):
        graph = _of_function(kind, NODES if nodes is None else nodes)
    else:
        raise errors.ConfigurationError(f"graph: found {given!r}, expected a kind such as \"ring\", a pair of a kind and its options, a file, a graph of "
                                        "networkx, or a function of the round and the number of nodes")
    if nodes is not None and graph.n != nodes:
        raise errors.ConfigurationError(f"graph {graph.label}: found {graph.n} nodes, expected nodes={nodes}")
    return graph


def _of_kind(kind: str, nodes: int, rounds: int, options: Any) -> Graph:
    if not isinstance(options, dict) or set(options) - set(_OPTIONS):
        raise errors.ConfigurationError(f"graph {kind}: found the options {options!r}, expected a dict of {', '.join(_OPTIONS)}")
    arguments = [part.format(value) for key, value in options.items() for part in _OPTIONS[key]]
    shown = _show(kind, "--nodes", str(nodes), *arguments, rounds=rounds)
    label = " ".join([kind, *(f"{key}={value}" for key, value in options.items())])
    return _planned(label, [f"node-{i:02}" for i in range(nodes)], shown,
                    {"topology__kind": kind, **{key if key == "group_size" else f"topology__{key}": value for key, value in options.items()}})


def _of_file(path: str, rounds: int) -> Graph:
    shown = _show("file", "--file", path, rounds=rounds)
    names = sorted({name for edge in shown["edges"] for name in edge}, key=lambda name: (len(name), name))
    return _planned(os.path.basename(path), names, shown, {"topology__kind": "file", "topology__file": os.path.abspath(path)})


def _of_networkx(graph: Any, rounds: int) -> Graph:
    place = {label: i for i, label in enumerate(graph.nodes)}
    what = f"graph of networkx with {len(place)} nodes"
    if graph.is_directed() or graph.is_multigraph():
        raise errors.ConfigurationError(f"{what}: found directed or parallel edges, expected a networkx.Graph")
    owner = Temporary()
    path = os.path.join(owner.name, "graph")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"node-{place[a]:02} node-{place[b]:02}\n" for a, b in graph.edges)
    shown = _show("file", "--file", path, "--nodes", str(len(place)), rounds=rounds, what=what)
    made = _planned(str(graph.name or what), [f"node-{i:02}" for i in range(len(place))], shown,
                    {"topology__kind": "file", "topology__file": path})
    setattr(made, "_owner", owner)  # of the file
    return made


def _of_function(function: Callable[[int, int], Any], nodes: int) -> Graph:
    label = getattr(function, "__name__", repr(function))

    def meetings(round: int) -> List[Meeting]:
        pairs = [tuple(pair) for pair in function(round, nodes)]
        for pair in pairs:
            if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= end < nodes for end in pair):
                raise errors.ConfigurationError(f"graph {label}: found {pair} in round {round}, expected pairs of two different nodes from 0 to {nodes - 1}")
        return [(int(a), int(b), 0.5) for a, b in pairs]
    return Graph(label, [f"node-{i:02}" for i in range(nodes)], [], meetings, None)


def _planned(label: str, names: List[str], shown: Dict[str, Any], keys: Dict[str, Any]) -> Graph:
    place = {name: i for i, name in enumerate(names)}
    rounds = [[(place[a], place[b], float(weight)) for a, b, weight in meetings] for meetings in shown["rounds"]]
    return Graph(label, names, [(place[a], place[b]) for a, b in shown["edges"]], lambda round: rounds[round - 1], keys)


def _show(*arguments: str, rounds: int, what: str = "graph") -> Dict[str, Any]:
    done = subprocess.run([program(), "topology", "show", *arguments, "--json", "--rounds", str(rounds)], capture_output=True, text=True,
                          env=environment(), check=False)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"p2pml ended with {done.returncode}"]
        raise errors.ConfigurationError(f"{what}: {words[0].replace('p2pml topology show: ', '')}")
    shown: Dict[str, Any] = json.loads(done.stdout)
    return shown
