"""Calls what `p2pml.lab` has by name, with settings of the user."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Dict

from . import errors


def call(what: str, function: Callable[..., Any], settings: Dict[str, Any]) -> Any:
    """With the error of a setting that the function does not have."""
    known = inspect.signature(function).parameters
    for key in settings if isinstance(settings, dict) else [settings]:
        if key not in known:
            raise errors.ConfigurationError(f"{what}: found the setting {key!r}, expected " + (f"some of {', '.join(known)}" if known else "none"))
    return function(**settings)


def count(what: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise errors.ConfigurationError(f"{what}: found {value!r}, expected a whole number of at least {least}")
    return int(value)


def number(what: str, value: Any, least: float, most: float = math.inf) -> float:
    """Above ``least``, at most ``most``."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__") or not least < float(value) <= most or math.isinf(float(value)):
        raise errors.ConfigurationError(f"{what}: found {value!r}, expected a number above {least:g}" + (f" and at most {most:g}" if most < math.inf else ""))
    return float(value)
