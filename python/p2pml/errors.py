"""The exceptions of p2pml; the text of each is the reason given by the library, or what an argument must be."""

from __future__ import annotations

import operator
from typing import Any

from . import _c


class Error(Exception):
    """The base of all exceptions of p2pml."""


class ConfigurationError(Error, ValueError):
    """An invalid key, value or tensor; the text names it."""


class OrderError(Error):
    """A call at the wrong time."""


class ForkError(Error):
    """The node belongs to the process that this one was forked from."""


class Ended(Error):
    """The node has left the cluster, or has ended by itself; the model keeps what was learned."""


class EnvironmentFailed(Error, OSError):
    """A port in use, a directory in use, a file that cannot be read."""


class MismatchError(Error, ValueError):
    """Parameters that are no longer those that were attached, or a state of another model."""


_KINDS = {_c.EINVAL: ConfigurationError, _c.EFORMAT: ConfigurationError, _c.ELIMIT: ConfigurationError,
          _c.EORDER: OrderError, _c.EFORK: ForkError, _c.ENDED: Ended, _c.EIO: EnvironmentFailed, _c.EAUTH: EnvironmentFailed,
          _c.EMISMATCH: MismatchError}


def of(code: int, reason: str) -> Exception:
    if code == _c.ENOMEM:
        return MemoryError(reason)
    return _KINDS.get(code, Error)(reason)


_FLOAT_MAX = 3.4028234e38


def whole(value: Any, what: str) -> int:
    """An argument that must be a whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigurationError(f"{what}: found {value!r}, expected a whole number") from None


def examples(value: Any) -> int:
    """How many examples this node trains on. None: not told, which is 0 for the library."""
    if value is not None and whole(value, "examples") < 1:
        raise ConfigurationError(f"examples: found {value}, expected how many this node trains on, at least 1")
    return whole(value or 0, "examples")


def number(value: Any, what: str) -> float:
    """An argument that must be a number, such as a tensor of one element."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigurationError(f"{what}: found {value!r}, expected a number") from None


def rate(value: Any) -> float:
    """A learning rate. The library has floats: a larger double would be infinite there."""
    found = number(value, "rate")
    if not abs(found) <= _FLOAT_MAX:
        raise ConfigurationError(f"rate: found {found:g}, expected a number that fp32 can hold")
    return found
