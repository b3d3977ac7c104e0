"""Adam's second moment in the node's vector.

The optimiser's state appears with its first step, or with a loaded state_dict. From the next boundary on, each ``exp_avg_sq`` that is fp32
on the CPU is a view of the vector; the others are copied at each boundary. If all are views, each ``exp_avg`` becomes a view of one vector,
too: then a boundary takes a few calls, not a few for each parameter."""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Optional

import torch

from . import _c
from ._flat import Parameters, parts

_KEY, _FIRST = "exp_avg_sq", "exp_avg"
_PIECE = 1 << 16  # entries that stay in a processor's cache between two calls


def is_adam(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW))


class SecondMoments:
    def __init__(self, parameters: Parameters, optimizer: torch.optim.Optimizer, node: Any):
        self._params, self._direct, self._optimizer, self._node = parameters.params, parameters.direct, optimizer, node
        self._bound: Optional[Any] = None  # the optimiser's state, if all its second moments are in the vector
        self._states: List[Any] = []       # what it held then, and the states of the shared parameters
        self._mine: List[Dict[str, Any]] = []
        self._first = torch.empty(0)  # the first moments, if the optimiser is bound
        self._first_views: List[torch.Tensor] = []
        self._counts: List[Any] = [None] * len(self._params)  # the optimiser's own step counters
        self._map()

    def _map(self) -> None:
        self._vector = torch.frombuffer(self._node.buffer(_c.SECOND_MOMENT), dtype=torch.float32)[:sum(p.numel() for p in self._params)]
        self._views = parts(self._vector, self._params)
        self._address = self._vector.data_ptr()

    def _are_bound(self) -> bool:
        state: Dict[Any, Any] = self._optimizer.state
        return (self._bound is state and len(state) == len(self._states) and all(map(operator.is_, state.values(), self._states))
                and all(map(operator.is_, [held.get(_KEY) for held in self._mine], self._views))
                and all(map(operator.is_, [held.get(_FIRST) for held in self._mine], self._first_views))
                and self._vector.data_ptr() == self._address)

    def to_vector(self) -> None:
        """Before an exchange."""
        if not self._are_bound():
            self._bind()

    def _bind(self) -> None:
        if self._vector.data_ptr() != self._address:  # another process was given the optimiser's state
            self._map()
        state, bound = self._optimizer.state, True
        for i, (p, view, direct) in enumerate(zip(self._params, self._views, self._direct)):
            held = state.get(p, {}).get(_KEY)
            if held is not None and held is not view and self._counts[i] is not None:
                self._correct_bias(p, state[p], self._counts[i])
            direct = direct and held is not None and held.dtype == torch.float32
            bound = bound and direct and state[p][_FIRST].dtype == held.dtype
            if held is None:
                continue
            self._counts[i] = state[p].get("step")
            if held is view:
                continue
            view.copy_(held)
            if direct:
                state[p][_KEY] = view
        self._bound = None
        if bound:
            self._states, self._mine = list(state.values()), [state[p] for p in self._params]
            self._gather_first()
            self._bound = state

    def _gather_first(self) -> None:
        first = torch.empty_like(self._vector)
        views = parts(first, self._params)
        for held, view in zip(self._mine, views):
            view.copy_(held[_FIRST])
        for held, view in zip(self._mine, views):
            held[_FIRST] = view
        self._first, self._first_views = first, views

    def _correct_bias(self, p: torch.nn.Parameter, state: Dict[str, Any], before: Any) -> None:
        """If the program has reset the state of ``p``, its step count starts from 0 again, and its second moment has the initial bias. Other
        nodes, whose counts are higher, would not correct that bias, so this node does it, once."""
        now = state.get("step")
        if now is before or now is None or not 0 < float(now) < float(before):
            return
        group = next(g for g in self._optimizer.param_groups if any(q is p for q in g["params"]))
        for key, beta in zip((_FIRST, _KEY), group["betas"]):
            state[key].div_(1 - float(beta) ** float(now))
        now += before

    def views(self) -> List[torch.Tensor]:
        """The second moments of the shared parameters, in the vector."""
        return self._views

    def from_vector(self, another: int, steps_done: int) -> None:
        """After an exchange. ``another``: the vector holds the moments of a member (TAKEN) or of a checkpoint (RESTORED); parameters without
        state take these, too."""
        if another:
            self._take(steps_done, another == _c.TAKEN)
            self._bind()
        elif self._bound is None:
            self._copy_to_state()
        self._bound_steps()

    def _take(self, steps_done: int, member: bool) -> None:
        self._counts = [None] * len(self._params)
        for p, view in zip(self._params, self._views):
            state = self._optimizer.state.get(p)
            if not state and bool(view.any()):
                state = self._new_state(p, steps_done)
            if state and _KEY in state:
                if member:  # where its second moment is tiny, the old first moment would make a huge step
                    state[_FIRST].zero_()
                    if float(state["step"]) < steps_done:  # a member's moment has no initial bias left
                        state["step"] = torch.full_like(torch.as_tensor(state["step"], dtype=torch.float32), steps_done)
                if state[_KEY].data_ptr() != view.data_ptr():
                    state[_KEY].copy_(view)

    def _new_state(self, p: torch.nn.Parameter, steps_done: int) -> Any:
        group = next(g for g in self._optimizer.param_groups if any(q is p for q in g["params"]))
        on = p.device if group.get("capturable") or group.get("fused") else "cpu"
        keys = (_FIRST, _KEY) + (("max_exp_avg_sq",) if group.get("amsgrad") else ())
        state: Dict[str, Any] = {key: torch.zeros_like(p, memory_format=torch.preserve_format) for key in keys}
        self._optimizer.state[p] = {"step": torch.tensor(float(steps_done), device=on), **state}  # one assignment, so that Ctrl-C leaves no partial state
        return self._optimizer.state[p]

    def _copy_to_state(self) -> None:
        """Updates the moments that cannot be in the vector."""
        for p, view in zip(self._params, self._views):
            held = self._optimizer.state.get(p, {}).get(_KEY)
            if held is not None and held is not view:
                held.copy_(view)

    def _bound_steps(self) -> None:
        """Second moments are sent in few bits, so a small one may arrive as zero while the first moment is unchanged; the next step would be
        huge. Without an exchange v >= m^2 (1 - b2) (1 - b1^2 / b2) / (1 - b1)^2 (Cauchy-Schwarz). This function restores that bound."""
        betas = [tuple(map(float, group["betas"])) for group in self._optimizer.param_groups]
        least = min((1 - second) * max(0.0, 1 - first * first / second) / (1 - first) ** 2 for first, second in betas)
        if self._bound is not None:
            pairs = zip(torch.split(self._first, _PIECE), torch.split(self._vector, _PIECE))
        else:
            states = [s for s in map(self._optimizer.state.get, self._params) if s and _KEY in s]
            pairs = zip([s[_FIRST] for s in states], [s[_KEY] for s in states])
        for first, second in pairs:
            square = torch.mul(first, least ** 0.5)
            square.mul_(square)
            torch.fmax(second, square, out=second)  # what is not finite is not shared

    def release(self) -> None:
        for p, view in zip(self._params, self._views):
            state = self._optimizer.state.get(p, {})
            if state.get(_KEY) is view:
                state[_KEY] = view.clone()
        for held, first in zip(self._mine, self._first_views):
            if _FIRST in held and held[_FIRST] is first:
                held[_FIRST] = first.clone()
        self._vector, self._views, self._mine, self._states, self._bound = torch.empty(0), [], [], [], None
        self._first, self._first_views = torch.empty(0), []
