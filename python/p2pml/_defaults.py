"""What ``attach`` chooses where the program does not. It depends on the size of the model only, so all nodes choose the same."""

from __future__ import annotations

from typing import Any, Dict, Optional

_STEPS_MOST = 30
_A_STEP = 1 << 21  # parameters: a boundary makes several passes over them, a step of a small model is rarely shorter
_SMALL = 1 << 19   # parameters: up to here second moments cost little beside the changes
_TINY = 1 << 14    # parameters: up to here an exchange costs little beside its packets


def steps_between(parameters: int) -> int:
    """Local steps between two exchanges. At equal bytes one step with a smaller part is best; if an exchange takes longer than a step, the
    node trains on meanwhile (``average.local_steps`` in ``p2pml-node --help``)."""
    return min(_STEPS_MOST, max(1, -(-parameters // _A_STEP)))


def rounds_of_moments(parameters: int, every: Any) -> int:
    """Rounds in which each second moment is shared once: Adam with moments that hardly travel settles at another point."""
    if parameters > _SMALL:
        return 20
    return 4 if every == 1 and parameters > _TINY else 2


def settings(node: Any, parameters: int, every: Optional[int], shares: bool, steps: int) -> Dict[str, Any]:
    """Keys for ``node.open``. With a configuration file, the file decides what the program does not."""
    found = {"train__optimizer": "adamw" if shares else "sgd", "train__rate": 0.001, "train__steps": steps}
    if every is None and not node.has_file:
        every = steps_between(parameters)
    if every is not None:
        found["average__local_steps"] = every
        if shares:
            found["average__share_second_moment"] = rounds_of_moments(parameters, every)
    return found
