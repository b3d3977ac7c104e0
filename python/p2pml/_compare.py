"""Methods beside each other, over graphs and seeds: `p2pml.lab.compare`."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _graph, _methods, errors
from ._rounds import rounds
from ._settings import count
from ._students_t import half_width

_MEASURED = ("measure", "worst", "mean", "consensus", "loss", "bytes", "seconds")


class Comparison:
    """``frame``: a row for each graph, method and seed, at the end. ``curves``: the same over the rounds."""

    def __init__(self, frame: Any, curves: Any):
        self.frame, self.curves = frame, curves
        self._quantities = [name for name in _MEASURED if name in frame]

    def __repr__(self) -> str:
        return str(self.summary.to_string(index=False))

    @property
    def summary(self) -> Any:
        """A row for each graph and method: means over the seeds, and in ``..._95`` half of their 95% confidence interval (Student's t)."""
        return self._rows(self.frame, {})

    @property
    def differences(self) -> Any:
        """A row for each graph and method but the first: what it has more than the first method with the same seed, as in ``summary``."""
        import pandas  # type: ignore[import-untyped, unused-ignore]
        first = self.frame["method"].iloc[0]
        by_run = self.frame.set_index(["graph", "method", "seed"])[self._quantities]
        others = [method for method in self.frame["method"].unique() if method != first]
        paired = [(by_run.xs(method, level="method") - by_run.xs(first, level="method")).reset_index().assign(method=method) for method in others]
        if not paired:
            raise errors.OrderError(f"there is no difference: '{first}' is the only method")
        return self._rows(pandas.concat(paired), {"against": first})

    def figure(self, quantity: str = "measure", x: str = "bytes", path: Union[str, "os.PathLike[str]", None] = None) -> Any:
        """A figure of matplotlib: the curves of each graph, with the 95% confidence intervals over the seeds. path: where to store it."""
        for name in (quantity, x):
            if name not in self.curves:
                raise errors.ConfigurationError(f"figure: found {name!r}, expected one of {', '.join(self.curves.select_dtypes('number').columns)}")
        try:
            from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise errors.EnvironmentFailed("a figure needs matplotlib: pip install matplotlib") from None
        graphs = list(self.curves["graph"].unique())
        figure = Figure(figsize=(4.5 * len(graphs), 3.6), layout="constrained")
        for axes, graph in zip(figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0], graphs):
            self._draw(axes, graph, quantity, x)
        if path is not None:
            figure.savefig(path)
        return figure

    def _draw(self, axes: Any, graph: str, quantity: str, x: str) -> None:
        of_graph = self.curves[self.curves["graph"] == graph]
        for method, runs in of_graph.groupby("method", sort=False):
            by_round = runs.groupby("round")
            middle, width = by_round[quantity].mean(), by_round[quantity].agg(half_width)
            line, = axes.plot(by_round[x].mean(), middle, label=method)
            axes.fill_between(by_round[x].mean(), middle - width, middle + width, alpha=0.2, color=line.get_color())
        axes.set(title=graph, xlabel=x, ylabel=quantity)
        axes.legend()

    def _rows(self, frame: Any, more: Dict[str, Any]) -> Any:
        import pandas
        rows: List[Dict[str, Any]] = []
        for (graph, method), runs in frame.groupby(["graph", "method"], sort=False):
            row = {"graph": graph, "method": method, **more, "seeds": len(runs)}
            for name in self._quantities:
                row[name], row[f"{name}_95"] = runs[name].mean(), half_width(runs[name])
            rows.append(row)
        return pandas.DataFrame(rows)


def compare(model: Any, start: Any = None, *, methods: Sequence[Any], graphs: Sequence[Any] = ("ring",), seeds: Union[int, Sequence[int]] = 10,
            nodes: Optional[int] = None, rounds: int = 50, progress: Optional[Callable[[str], None]] = None, **common: Any) -> Comparison:
    """Runs every method on every graph with every seed.

    methods: names, functions of a world, and pairs of one and its settings: ``"edge-ref"``, ``("choco", {"ratio": 1 / 10})``,
    ``("edge-ref", {"selection": mine})``, ``(mine, {"fanout": 2})``. graphs: as ``topology`` of :func:`rounds`. seeds: how many, or which:
    the batches, the method's random numbers and a start that is drawn; the same for all methods. progress: a function that is told each
    run. model, start, common: as in :func:`rounds`."""
    import pandas
    for name in ("topology", "seed"):
        if name in common:
            raise errors.ConfigurationError(f"{name}: found one, expected {name.replace('topology', 'graph')}s, a list")
    count("rounds", rounds)
    numbers = range(count("seeds", seeds)) if not isinstance(seeds, (list, tuple, range)) else [count("seeds", seed, 0) for seed in seeds]
    if len(set(numbers)) < len(numbers) or not numbers:
        raise errors.ConfigurationError(f"seeds: found {seeds!r}, expected a number, or different numbers")
    made = [_graph.make(graph, nodes if nodes is None else count("nodes", nodes), rounds) for graph in _listed("graphs", graphs)]
    tried = [_pair(method) for method in _listed("methods", methods)]
    names = _different([_methods.label(*method) for method in tried])
    curves = [_run(model, start, graph, method, seed, {"graph": label, "method": name, "seed": seed}, {"rounds": rounds, **common}, progress)
              for label, graph in zip(_different([graph.label for graph in made]), made) for name, method in zip(names, tried) for seed in numbers]
    last = pandas.DataFrame([curve.iloc[-1] for curve in curves]).reset_index(drop=True)
    return Comparison(last.rename(columns={"round": "rounds"}).infer_objects(), pandas.concat(curves, ignore_index=True))


def _run(model: Any, start: Any, graph: Any, method: Tuple[Any, Dict[str, Any]], seed: int, place: Dict[str, Any], common: Dict[str, Any],
         progress: Optional[Callable[[str], None]]) -> Any:
    if progress:
        progress(f"{place['graph']}, {place['method']}, seed {seed}")
    began = time.perf_counter()
    curve = rounds(model, start, method[0], topology=graph, seed=seed, **{**common, **method[1]})
    for column, value in reversed(list(place.items())):
        curve.insert(0, column, value)
    return curve.assign(seconds=time.perf_counter() - began)


def _listed(what: str, given: Any) -> List[Any]:
    if isinstance(given, (str, os.PathLike)) or not hasattr(given, "__iter__") or hasattr(given, "edges") or not list(given):
        raise errors.ConfigurationError(f"{what}: found {given!r}, expected a list of at least one")
    return list(given)


def _pair(method: Any) -> Tuple[Any, Dict[str, Any]]:
    found, settings = method if isinstance(method, tuple) and len(method) == 2 else (method, {})
    if not isinstance(settings, dict):
        raise errors.ConfigurationError(f"methods: found {method!r}, expected a method, or a pair of one and a dict of its settings")
    if not _methods.is_library(found, settings):
        _methods.make(found, settings)  # its errors now, not after an hour
    return found, settings


def _different(labels: List[str]) -> List[str]:
    def numbered() -> Iterator[str]:
        for i, label in enumerate(labels):
            earlier = labels[:i].count(label)
            yield f"{label} ({earlier + 1})" if earlier else label
    return list(numbered())
