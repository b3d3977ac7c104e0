"""The program's learning rate scheduler, at the cluster's step.

The program steps it, as without p2pml. A process that is restarted or joins late sets it to where the cluster is; one that skips rounds
moves it on by as much."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Dict, Optional

import torch

from . import errors


def _inner(scheduler: Any) -> Any:
    return getattr(scheduler, "scheduler", scheduler)  # accelerate's wrapper skips calls


def check_scheduler(scheduler: Any, optimizer: torch.optim.Optimizer) -> None:
    scheduler = _inner(scheduler)
    if not all(hasattr(scheduler, name) for name in ("step", "state_dict", "load_state_dict")):
        raise errors.ConfigurationError(f"scheduler: found {type(scheduler).__name__}, expected one of torch.optim.lr_scheduler's kind")
    of = getattr(scheduler, "optimizer", optimizer)
    if optimizer not in (of, getattr(of, "optimizer", None)):
        raise errors.ConfigurationError("scheduler: it sets the rates of another optimiser than the one that is attached")


def _needs_a_measure(scheduler: Any) -> bool:
    return isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)


class Schedule:
    def __init__(self, scheduler: Any, optimizer: torch.optim.Optimizer):
        self._scheduler, self._optimizer = _inner(scheduler), optimizer
        self._seen = self._count()            # calls of scheduler.step() until the optimiser's latest step
        self._calls: Optional[int] = None     # between its two latest ones
        self._stepped = False                 # the optimiser, since the schedule was taken

    def _count(self) -> int:
        first = self._scheduler
        while getattr(first, "last_epoch", None) is None and getattr(first, "_schedulers", None):
            first = first._schedulers[0]
        return int(getattr(first, "last_epoch", 0) or 0)

    def before_step(self) -> None:
        now = self._count()
        self._calls, self._seen = now - self._seen if self._stepped else None, now
        self._stepped = True

    def state(self, step: int) -> Dict[str, Any]:
        """``pending``: the program has not yet called ``scheduler.step()`` for its latest step of the optimiser, and is about to."""
        each = self._calls is None or self._calls == 1
        rates = [{key: group[key] for key in ("lr", "initial_lr") if key in group} for group in self._optimizer.param_groups]
        return {"state": self._scheduler.state_dict(), "rates": rates, "count": self._count(), "step": step, "each": each,
                "pending": each and self._stepped and self._count() == self._seen}

    def take(self, state: Dict[str, Any], step: int, within: bool) -> None:
        """``within``: within a step of the optimiser, after which the program calls ``scheduler.step()`` itself."""
        groups, rates = self._optimizer.param_groups, state["rates"]
        if len(groups) != len(rates):
            warnings.warn(f"the schedule is of an optimiser with {len(rates)} groups, this one has {len(groups)}; the schedule begins anew",
                          RuntimeWarning, stacklevel=4)
            return
        self._scheduler.load_state_dict(copy.deepcopy(state["state"]))
        for group, rate in zip(groups, rates):
            for key, value in rate.items():
                if isinstance(group.get(key), torch.Tensor):
                    group[key].copy_(torch.as_tensor(value))
                else:
                    group[key] = value
        self._seen, self._calls, self._stepped = self._count(), None, within
        ahead = max(0, step - state["step"])
        calls = ahead if state["each"] else state["count"] * ahead // max(1, state["step"])
        self.forward(calls + (1 if state["pending"] and not within else 0))

    def begin_at(self, step: int) -> None:
        """Nobody told where the schedule is: one call for each of the cluster's steps."""
        if self._count() == 0 and step > 0 and not _needs_a_measure(self._scheduler):
            warnings.warn(f"the cluster is at step {step}, and the model came without a schedule (its node was attached without "
                          "scheduler=): this node's scheduler is stepped once for each of these steps", RuntimeWarning, stacklevel=4)
            self.forward(step)

    def skip(self, steps: int) -> None:
        """The cluster has taken ``steps`` that this node did not."""
        if steps > 0 and (self._calls is None or self._calls == 1):
            self.forward(steps)

    def forward(self, calls: int) -> None:
        if not _needs_a_measure(self._scheduler):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "lr_scheduler.step() before optimizer.step()": the cluster has taken those steps
                for _ in range(calls):
                    self._scheduler.step()
                    self._seen += 1
