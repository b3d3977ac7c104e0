"""The parameters of a PyTorch model as parts of a node's flat vector.

On the CPU fp32 parameters become views of the vector: an exchange copies nothing here. Parameters in other formats or on another device
keep an fp32 master in the vector, and are copied only at a boundary."""

from __future__ import annotations

import contextlib
import operator
import warnings
from typing import Any, Dict, Iterator, List, Tuple

import torch

from . import _c, errors

_LARGEST = torch.finfo(torch.float32).max
Named = List[Tuple[str, torch.nn.Parameter]]


def order(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Named:
    """The parameters that ``optimizer`` trains, in the optimiser's order. In a compiled model they have the names of the original model."""
    names = {id(p): name.replace("_orig_mod.", "") for name, p in model.named_parameters()}
    named: Named = []
    for number, group in enumerate(optimizer.param_groups):
        for p in group["params"]:
            if not p.requires_grad:
                continue
            if id(p) not in names:
                raise errors.ConfigurationError(f"group {number} of the optimiser has a parameter of shape {tuple(p.shape)} that is not "
                                                "in the model")
            if p.is_meta:
                raise errors.ConfigurationError(f"parameter '{names[id(p)]}' is on the device 'meta', where it has no values; materialise the model "
                                                "first (model.to_empty(device=...), then load or initialise it)")
            if "lr" not in group:
                raise errors.ConfigurationError(f"group {number} of the optimiser has no learning rate 'lr', only {', '.join(sorted(group))}; "
                                                "attach scales the others' pull with it")
            if not p.is_floating_point():
                raise errors.ConfigurationError(f"parameter '{names[id(p)]}' is {p.dtype}, expected a floating-point type")
            named.append((names[id(p)], p))
    if not named:
        raise errors.ConfigurationError("the optimiser has no parameter that is trained")
    return named


def parts(vector: torch.Tensor, params: List[torch.nn.Parameter]) -> List[torch.Tensor]:
    return [part.view(p.shape) for part, p in zip(torch.split(vector, [p.numel() for p in params]), params)]


class Parameters:
    """Owner of the vector's layout. ``to_vector`` before an exchange, ``from_vector`` after it, ``correct`` after every step."""

    def __init__(self, named: Named, optimizer: torch.optim.Optimizer, node: Any):
        self.names, self.params = [name for name, _ in named], [p for _, p in named]
        self.known = {id(p) for p in self.params}
        self._optimizer, self._node = optimizer, node
        self._kinds = [(p.dtype, p.device) for p in self.params]
        self._shapes = [p.shape for p in self.params]
        self.direct = [p.dtype == torch.float32 and p.device.type == "cpu" for p in self.params]
        self._copied = [i for i, direct in enumerate(self.direct) if not direct]  # parameters with a master in the vector
        self._count = sum(p.numel() for p in self.params)  # averaged buffers follow
        self._in_vector = [p for p, direct in zip(self.params, self.direct) if direct]
        self._last: List[Any] = [None] * len(named)
        self._remember_groups()
        self._map()
        self._pointers = [view.data_ptr() for view, direct in zip(self._views, self.direct) if direct]
        correction = node.buffer(_c.CORRECTION)
        self._correction = None if correction is None else torch.frombuffer(correction, dtype=torch.float32)[:self._count]
        held = node.buffer(_c.HELD)
        self._held = None if held is None else torch.frombuffer(held, dtype=torch.float32)[:self._count]
        for i, (p, view) in enumerate(zip(self.params, self._views)):
            view.copy_(p.detach())
            if self.direct[i]:
                p.data = view
            else:
                self._last[i] = p.detach().clone()
        self._of_device = {} if self._correction is None else \
            {p.device: torch.zeros_like(self._vector, device=p.device) for p in self.params if p.device.type != "cpu"}

    def _map(self) -> None:
        buffer = self._node.buffer(_c.MODEL)
        self._vector = torch.frombuffer(buffer, dtype=torch.float32)[:self._count]
        self._views = parts(self._vector, self.params)
        self._address = self._vector.data_ptr()

    # -- what the program may have changed

    def _remember_groups(self) -> None:
        self._lists = [list(group["params"]) for group in self._optimizer.param_groups]
        self._sizes = [sum(p.numel() for p in group if id(p) in self.known) for group in self._lists]
        self._frozen = [p for group in self._lists for p in group if id(p) not in self.known]

    def _groups_are_the_same(self) -> bool:
        groups, lists = self._optimizer.param_groups, self._lists
        return len(groups) == len(lists) and all(len(g["params"]) == len(before) and all(map(operator.is_, g["params"], before))
                                                 for g, before in zip(groups, lists))

    def check_groups(self) -> None:
        if not self._groups_are_the_same():
            self._remember_groups()
        if not any(p.requires_grad for p in self._frozen):
            return
        for number, group in enumerate(self._lists):
            for p in group:
                if id(p) not in self.known and p.requires_grad:
                    raise errors.MismatchError(f"group {number} of the optimiser has a parameter of shape {tuple(p.shape)} that it did "
                                               "not have when the model was attached; attach the changed model to a node of its own")

    def _check_kinds(self) -> None:
        for name, p, shape, kind in zip(self.names, self.params, self._shapes, self._kinds):
            if p.shape != shape:
                now, then = str(tuple(p.shape)), str(tuple(shape))
            elif (p.dtype, p.device) != kind:
                now, then = f"{p.dtype} on {p.device}", f"{kind[0]} on {kind[1]}"
            else:
                continue
            raise errors.MismatchError(f"parameter '{name}' is {now} now, it was {then} when the model was attached; attach the changed "
                                       "model to a node of its own")

    def lie_in_vector(self) -> bool:
        """Whether all parameters without a master are in place."""
        return list(map(torch.Tensor.data_ptr, self._in_vector)) == self._pointers

    def _take_back(self) -> None:
        """The program gave parameters other memory: copies the values into the vector, and puts the parameters back there."""
        self._check_kinds()
        if self._vector.data_ptr() != self._address:
            self._map()
            warnings.warn("the model's memory was shared with another process; p2pml gives the parameters their own memory again, so the "
                          "other process does not see further changes: send it copies", RuntimeWarning, stacklevel=4)
        for p, view, direct in zip(self.params, self._views, self.direct):
            if direct and p.data_ptr() != view.data_ptr():
                view.copy_(p.detach())
                p.data = view

    # -- what is held back

    def held(self) -> Dict[int, torch.Tensor]:
        """What each parameter lacks, by its id; empty without ``average.hold``, and while the vectors are the node's."""
        if self._held is None or self._node.lent:
            return {}
        return {id(p): part for p, part in zip(self.params, parts(self._held, self.params))}

    def _add_held(self) -> None:
        held = self.held()
        with torch.no_grad():
            for p in self.params:
                if id(p) in held:
                    p.add_(held[id(p)].to(p.device, p.dtype))

    # -- another model

    @contextlib.contextmanager
    def replaced(self, vector: torch.Tensor) -> Iterator[None]:
        """Meanwhile the parameters are those of ``vector``."""
        before = [p.data for p in self.params]
        try:
            for p, part in zip(self.params, parts(vector[:self._count], self.params)):
                p.data = part.to(device=p.device, dtype=p.dtype)
            yield
        finally:
            for p, data in zip(self.params, before):
                p.data = data

    # -- a boundary

    def to_vector(self) -> None:
        """Before an exchange. If a low-precision parameter has not changed, its fp32 master does not change either."""
        if not self.lie_in_vector():
            self._take_back()
        elif [p.shape for p in self.params] != self._shapes or self._copied:
            self._check_kinds()
        for i in self._copied:
            now, view = self.params[i].detach(), self._views[i]
            moved = torch.ne(now, self._last[i])
            view.copy_(torch.where(moved.to("cpu"), now.to("cpu", torch.float32), view))

    def from_vector(self) -> None:
        for i in self._copied:
            p = self.params[i].detach()
            p.copy_(self._views[i])
            self._last[i] = p.clone()
        if self._correction is not None:
            for copy in self._of_device.values():
                copy.copy_(self._correction)

    # -- a step

    def rate(self) -> float:
        """The mean learning rate of the parameters."""
        groups = self._optimizer.param_groups
        if len(groups) != len(self._sizes):
            self._remember_groups()
        if not groups:
            raise errors.MismatchError("the optimiser has no groups of parameters any more; attach the changed model to a node of its own")
        rates: List[float] = [float(group["lr"]) for group in groups]
        mean = rates[0]
        if any(rate != mean for rate in rates):
            mean = sum(rate * size for rate, size in zip(rates, self._sizes)) / max(1, sum(self._sizes))
        if mean > _LARGEST:
            raise errors.ConfigurationError(f"the optimiser's learning rate is {mean:g}, expected a number that fp32 can hold")
        return max(mean, 0.0)  # a schedule may end at -1e-20

    def correct(self, rate: float) -> None:
        """model += rate * correction, outside the optimiser."""
        if self._correction is None:
            return
        if not self.lie_in_vector():
            self._take_back()
        if not self._copied:
            self._vector.add_(self._correction, alpha=rate)
            return
        at = 0
        for p in self.params:
            source = self._of_device.get(p.device, self._correction)
            p.detach().add_(source[at:at + p.numel()].view(p.shape).to(p.dtype), alpha=rate)
            at += p.numel()

    def release(self) -> None:
        """Gives the parameters their own memory. When the last view of the vector is gone, the node's directory is free again."""
        for p, direct, view in zip(self.params, self.direct, self._views):
            if direct and p.data_ptr() == view.data_ptr():
                p.data = p.data.clone()
        self._add_held()
        self._vector, self._correction, self._held, self._views = torch.empty(0), None, None, []
