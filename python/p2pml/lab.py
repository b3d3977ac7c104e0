"""Experiments from Python, with results as pandas frames:

    from p2pml import lab
    result = lab.sim(experiment__nodes=8, train__steps=400, sweep=[{"average.ratio": [1 / 32, 1 / 100]}], experiment__repeats=3)
    result.results.groupby("average.ratio")["accuracy"].mean()

``sim`` and ``run`` run the commands `p2pml sim` (a cluster in virtual time) and `p2pml run` (real processes on this machine). `p2pml sim
--help` lists the keys; write ``__`` for the dot. ``rounds`` is a simulator of rounds for models and methods of your own, and ``compare`` runs it
over methods, graphs and seeds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from . import errors
from ._command import environment, program
from ._compare import Comparison, compare
from ._rounds import rounds
from ._temporary import Temporary
from ._world import World

__all__ = ["sim", "run", "load", "rounds", "compare", "Result", "World", "Comparison", "Failed"]

Experiment = Union[str, "os.PathLike[str]", Dict[str, Any]]


class Failed(errors.Error):
    """A node, a baseline or a run of a sweep failed, or time ran out; ``result`` has the files so far."""

    def __init__(self, text: str, result: "Result"):
        super().__init__(text)
        self.result = result


class Result:
    """The directory of an experiment. Frames are read on access."""

    def __init__(self, directory: Union[str, "os.PathLike[str]"], owner: Any = None):
        self.directory = Path(directory)
        self._owner = owner

    def __repr__(self) -> str:
        return f"<p2pml.lab.Result of {self.directory}>"

    @property
    def summary(self) -> Dict[str, Any]:
        """summary.json of a single run."""
        if not (self.directory / "summary.json").exists():
            raise errors.OrderError(f"{self.directory} has no summary.json: it is not the directory of a single run, or the run has not ended; a sweep's runs "
                                    "are in `results` and `runs`")
        with open(self.directory / "summary.json", encoding="utf-8") as f:
            summary: Dict[str, Any] = json.load(f)
            return summary

    @property
    def results(self) -> Any:
        """One row per run, of a sweep or a single run. The keys that a sweep varies are columns, and so are the costs of reaching a target
        (``to_93.averaged_bytes``)."""
        rows = _lines(self.directory / "results.jsonl")
        for row in rows:
            for target in row.pop("targets", None) or []:
                row[f"to_{100 * target.pop('accuracy'):g}"] = target
        frame = _frame(rows)
        return frame.rename(columns=lambda c: c[len("settings."):] if c.startswith("settings.") else c)

    @property
    def rounds(self) -> Any:
        """The curve, one row per measurement: accuracy of the averaged model, of the worst node, consensus, bytes."""
        return self._of_runs("rounds.jsonl", per_node=False)

    @property
    def metrics(self) -> Any:
        """One row per round and node: step, loss, rate, bytes."""
        return self._of_runs("metrics.jsonl", per_node=True)

    @property
    def events(self) -> Any:
        """One row per event of a node: deaths, fetches, refusals."""
        return self._of_runs("events.jsonl", per_node=True)

    @property
    def runs(self) -> Dict[str, "Result"]:
        """The runs of a sweep by their labels; empty for a single run."""
        found = sorted((self.directory / "runs").glob("*/summary.json"))
        return {path.parent.name: Result(path.parent, self._owner) for path in found}

    @property
    def averaged(self) -> Path:
        """The averaged model of a single run, as safetensors."""
        return self.directory / "averaged.safetensors"

    def _of_runs(self, name: str, per_node: bool) -> Any:
        rows: List[Dict[str, Any]] = []
        for label, run in self.runs.items() or [(None, self)]:
            for node, path in run._files(name, per_node):
                for row in _lines(path):
                    rows.append({**({"run": label} if label else {}), **({"node": node} if per_node else {}), **row})
        return _frame(rows)

    def _files(self, name: str, per_node: bool) -> Iterator[Tuple[Optional[str], Path]]:
        paths = sorted(self.directory.glob(f"*/{name}")) if per_node else [self.directory / name]
        return ((path.parent.name if per_node else None, path) for path in paths if path.exists())


def sim(experiment: Optional[Experiment] = None, *, out: Union[str, "os.PathLike[str]", None] = None, fresh: bool = False, **settings: Any) -> Result:
    """`p2pml sim`: the whole cluster in one process in virtual time.

    experiment: a YAML file, or the same as nested dicts; None: only ``settings``. settings: keys with ``__`` for the dot; they override the
    file. out: the directory of the run (``fresh=True`` replaces an earlier result there); None: a temporary one, which lives as long as
    the result.

    :class:`ConfigurationError`: a key or a value, with its place. :class:`Failed`: the experiment did not succeed."""
    return _command("sim", experiment, out, fresh, settings)


def run(experiment: Optional[Experiment] = None, *, out: Union[str, "os.PathLike[str]", None] = None, fresh: bool = False, **settings: Any) -> Result:
    """`p2pml run`: real processes on this machine. Arguments and errors as in :func:`sim`."""
    return _command("run", experiment, out, fresh, settings)


def load(directory: Union[str, "os.PathLike[str]"]) -> Result:
    """The result of an earlier experiment."""
    if not (Path(directory) / "results.jsonl").exists():
        raise errors.ConfigurationError(f"{os.fspath(directory)}: found no results.jsonl, expected the directory of an experiment")
    return Result(directory)


def _command(command: str, experiment: Optional[Experiment], out: Any, fresh: bool, settings: Dict[str, Any]) -> Result:
    owner = Temporary()
    given = {key.replace("__", "."): value for key, value in settings.items()}
    if isinstance(experiment, (str, os.PathLike)):
        file = os.fspath(experiment)
    else:
        file = os.path.join(owner.name, "experiment.yaml")
        with open(file, "w", encoding="utf-8") as f:
            json.dump(experiment or {}, f)  # JSON is YAML
    directory = os.fspath(out) if out is not None else os.path.join(owner.name, "run")
    arguments = [program(), command, file, "--out", directory] + ["--fresh"] * fresh
    for key, value in given.items():
        arguments += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    status, words = _wait(arguments)
    result = Result(directory, owner)
    if status == 2:
        raise errors.ConfigurationError(words)
    if status != 0:
        raise Failed(words or f"p2pml {command} ended with {status}", result)
    return result


def _wait(arguments: List[str]) -> Tuple[int, str]:
    """Ctrl-C lets the nodes leave in order, as at a terminal."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
                                   env=environment())
        try:
            process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        log.seek(0)
        return process.returncode, log.read()[-2000:].strip()


def _lines(path: Path) -> List[Dict[str, Any]]:
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]  # the last one may be incomplete


def _frame(rows: List[Dict[str, Any]]) -> Any:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    return pandas.json_normalize(rows)
