"""What a learner has besides the flat vectors, and what happens to it (docs/EMBEDDING.md, "What happens to a learner's state"): the
optimiser's own state, the buffers of the model, and the program's schedule.

Bytes of two kinds: what travels with the model to a late joiner (schedule, rate, buffers), and what is kept in this node's checkpoints
(the same, and the optimiser's state)."""

from __future__ import annotations

import math
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch

from . import _c
from ._flat import Named
from ._pack import pack, unpack
from ._schedule import Schedule

_FAR = 16.0  # a learning rate so many times another's is told
_DIRECTIONS = ("exp_avg", "momentum_buffer", "grad_avg", "prev")  # of the steps of one model; sizes of gradients stay when it is replaced
_SQUARE_MAX = 1e18  # a first moment beyond it has no finite square


class Averaged:
    """Buffers that the nodes average: they follow the parameters in the vector, and no correction is added to them."""

    def __init__(self, model: torch.nn.Module):
        self._buffers = Buffers(model)
        self.tensors = [(name, tuple(b.shape)) for name, b in self._buffers.all().items() if b.is_floating_point() and b.numel()]
        self._size = sum(math.prod(shape) for _, shape in self.tensors)

    def _parts(self, node: Any) -> Iterator[Tuple[str, torch.Tensor, torch.Tensor, Optional[torch.Tensor]]]:
        """Name, buffer, part of the vector, and what that part lacks. The buffers lack nothing."""
        now, vector = self._buffers.all(), torch.frombuffer(node.buffer(_c.MODEL), dtype=torch.float32)
        held = None if node.buffer(_c.HELD) is None else torch.frombuffer(node.buffer(_c.HELD), dtype=torch.float32)
        at = vector.numel() - self._size
        for name, shape in self.tensors:
            size = math.prod(shape)
            if name in now:  # else the program has dropped the model
                yield name, now[name], vector[at:at + size].view(shape), None if held is None else held[at:at + size].view(shape)
            at += size

    def to_vector(self, node: Any) -> None:
        self._buffers.undo()
        for _, b, view, held in self._parts(node):
            view.copy_(b)
            if held is not None:
                view.sub_(held)

    def from_vector(self, node: Any, another: bool) -> None:
        """``another``: the vector holds another state, not this node's and the neighbours' changes. These are sent in few bits, and would
        make a small variance negative: it at most halves."""
        for name, b, view, held in self._parts(node):
            if held is not None:
                view = view + held
            if name.endswith("running_var") and not another:
                torch.maximum(view, b.to("cpu", torch.float32) / 2, out=view)
            with torch.no_grad():
                b.copy_(view)
        self._buffers.remember()


class Buffers:
    """Of the model. Only those that have changed since the model was attached are passed on: masks and tables are constants."""

    def __init__(self, model: torch.nn.Module):
        kept = set(model.state_dict(keep_vars=True))
        self._names = {name for name, _ in model.named_buffers() if name in kept}
        owners = {name.rpartition(".")[0] for name in self._names}  # weak: an attachment lives as long as its model
        self._modules = [(weakref.ref(module), prefix + "." if prefix else "") for prefix, module in model.named_modules() if prefix in owners]
        self._last = {name: b.clone() for name, b in self.all().items()}  # at the latest boundary
        self._variable: Set[str] = set()

    def all(self) -> Dict[str, torch.Tensor]:
        return {prefix + name: b for module, prefix in ((weak(), prefix) for weak, prefix in self._modules) if module is not None
                for name, b in module._buffers.items() if b is not None and prefix + name in self._names}

    def changed(self) -> Dict[str, torch.Tensor]:
        mine = self.all()
        for name, b in mine.items():  # not by torch's count of changes: batch norm's kernels do not count theirs
            if name not in self._variable and not (name in self._last and b.dtype == self._last[name].dtype and torch.equal(b, self._last[name])):
                self._variable.add(name)
        return {name: b for name, b in mine.items() if name in self._variable}

    def remember(self) -> None:
        """A boundary: what :meth:`undo` goes back to."""
        self._last.update((name, b.clone()) for name, b in self.changed().items())

    def take(self, values: Dict[str, torch.Tensor]) -> None:
        mine = self.all()
        for name, value in values.items():
            b = mine.get(name)
            if b is not None and b.shape == value.shape and (not value.is_floating_point() or bool(torch.isfinite(value).all())):
                with torch.no_grad():
                    b.copy_(value)
                self._variable.add(name)
        self.remember()

    def undo(self) -> None:
        """Those that are not finite are again those of the latest boundary."""
        changed = [(name, b) for name, b in self.changed().items() if b.is_floating_point() and name in self._last]
        finite = torch.stack([torch.isfinite(b).all().to("cpu") for _, b in changed]) if changed else torch.empty(0)
        for (name, b), fine in zip(changed, finite.tolist()):
            if not fine:
                with torch.no_grad():
                    b.copy_(self._last[name])


def _reset(key: str, value: torch.Tensor, group: Dict[str, Any], p: torch.Tensor) -> None:
    """To what this state is before the first step."""
    if key == "ax":  # ASGD's average of the parameter
        value.copy_(p.detach())
    else:
        value.fill_(float(group["lr"]) if key == "step_size" else float(group.get("initial_accumulator_value", 0.0)) if key == "sum" else 0.0)


def _fits(key: str, value: torch.Tensor) -> bool:
    limit = _SQUARE_MAX if key == "exp_avg" else float("inf")
    return bool(torch.isfinite(value).all()) and (limit == float("inf") or not value.numel() or float(value.abs().max()) < limit)


class State:
    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, named: Named, scheduler: Any, shared: Optional[str]):
        self._optimizer, self._named, self._shared = optimizer, named, shared
        self._buffers = Buffers(model)
        self.schedule = Schedule(scheduler, optimizer) if scheduler is not None else None
        self._told: List[str] = []

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.append(text)
            warnings.warn(text, RuntimeWarning, stacklevel=5)

    # -- what is passed on

    def _small(self, step: int, rate: float) -> Dict[str, Any]:
        small: Dict[str, Any] = {"step": step, "rate": rate, "buffers": self._buffers.changed()}
        if self.schedule is not None:
            small["schedule"] = self.schedule.state(step)
        return small

    def _pack(self, value: Dict[str, Any], parts: List[str]) -> bytes:
        """Without those of ``parts`` that bytes cannot express."""
        for part in parts:
            try:
                pack(value.get(part))
            except TypeError as why:
                self._tell(f"the state of the {part} is neither sent nor kept: it holds {why}")
                value.pop(part, None)
        return pack(value)

    def travels(self, step: int, rate: float, most: int) -> bytes:
        """For a late joiner, at most ``most`` bytes."""
        small = self._small(step, rate)
        packed = self._pack(small, ["schedule"])
        if len(packed) > most:
            size = sum(b.numel() * b.element_size() for b in small["buffers"].values())
            self._tell(f"the buffers of the model have {size} bytes, more than the {most} that travel with it: a node that joins late begins "
                       "with its own")
            packed = self._pack(dict(small, buffers={}), ["schedule"])
        return packed if len(packed) <= most else b""

    def keeps(self, step: int, rate: float) -> bytes:
        """For this node's checkpoint."""
        states = {name: {key: value for key, value in self._optimizer.state[p].items() if key != self._shared}
                  for name, p in self._named if self._optimizer.state.get(p)}
        return self._pack(dict(self._small(step, rate), optimizer=type(self._optimizer).__name__, states=states), ["schedule", "states"])

    def remember(self) -> None:
        self._buffers.undo()  # a bad batch may leave NaN there and nowhere else
        self._buffers.remember()

    # -- what happens to it

    def take(self, data: bytes, step: int, within: bool) -> Optional[float]:
        """The model is a member's, and ``data`` came with it. Returns the member's learning rate."""
        told = self._read(data)
        self._drop_directions()
        self._buffers.take(told.get("buffers", {}))
        self._take_schedule(told, step, within)
        return told.get("rate")

    def _drop_directions(self) -> None:
        for _, p in self._named:
            state = self._optimizer.state.get(p) or {}
            if any(isinstance(value, list) for value in state.values()):  # LBFGS
                state.clear()
            for key in _DIRECTIONS:
                if isinstance(state.get(key), torch.Tensor):
                    state[key].zero_()

    def restore(self, data: bytes, step: int, second: Optional[List[torch.Tensor]]) -> bool:
        """The model is that of this node's checkpoint, which held ``data``. ``second``: the shared second moments."""
        told = self._read(data)
        self._buffers.take(told.get("buffers", {}))
        self._take_schedule(told, step, False)
        if "states" not in told:
            return False
        if told.get("optimizer") != type(self._optimizer).__name__:
            self._tell(f"the checkpoint is of the optimiser {told.get('optimizer')}, this is {type(self._optimizer).__name__}: its state "
                       "begins anew")
            return False
        for i, (name, p) in enumerate(self._named):
            state = told["states"].get(name)
            if state is not None:
                if self._shared is not None and second is not None:
                    first = state.get("exp_avg")  # the vector is fp32, whatever the optimiser has
                    state[self._shared] = second[i].to(p.dtype if first is None else first.dtype, copy=True)
                self._optimizer.state[p] = {key: self._placed(key, value, p) for key, value in state.items()}
        return True

    def _read(self, data: bytes) -> Dict[str, Any]:
        if not data:
            return {}
        try:
            told = unpack(data)
            return told if isinstance(told, dict) else {}
        except ValueError as why:
            self._tell(f"the state that came with the model is left out: {why}")
            return {}

    def _take_schedule(self, told: Dict[str, Any], step: int, within: bool) -> None:
        if self.schedule is None:
            return
        if "schedule" in told:
            self.schedule.take(told["schedule"], step, within)
        else:
            self.schedule.begin_at(step)

    def _placed(self, key: str, value: Any, p: torch.nn.Parameter) -> Any:
        if not isinstance(value, torch.Tensor) or value.dim() > 0:
            return value.to(p.device) if isinstance(value, torch.Tensor) else value
        group = self._group(p)
        return value.to(p.device) if key != "step" or group.get("capturable") or group.get("fused") else value

    def _group(self, p: torch.nn.Parameter) -> Dict[str, Any]:
        return next(g for g in self._optimizer.param_groups if any(q is p for q in g["params"]))

    def undo(self) -> None:
        """The steps were not finite and are undone: nothing that is not finite stays."""
        self._buffers.undo()
        for _, p in self._named:
            state = self._optimizer.state.get(p) or {}
            unfit = [(key, one) for key, value in state.items() for one in (value if isinstance(value, list) else [value])
                     if isinstance(one, torch.Tensor) and one.is_floating_point() and not _fits(key, one)]
            if unfit and any(isinstance(value, list) for value in state.values()):  # LBFGS: its history is of no use in part
                state.clear()
                continue
            for key, one in unfit:
                _reset(key, one, self._group(p), p)


def compare_rates(own: float, other: Optional[float]) -> Optional[str]:
    """Words if a node's learning rate is far from that of the cluster it joins."""
    if other is None or not isinstance(other, (int, float)) or not other > 0 or not own > 0 or 1 / _FAR < own / other < _FAR:
        return None
    return (f"this node's learning rate is {own:g}, that of the cluster it joins {other:g}: its steps will move the others' model "
            "far from where it is; give attach the scheduler (scheduler=), and the schedule continues where the cluster is")
