"""What an exchange in numpy sends: a selection of entries, and a filter through which their values go. Both may be functions of the user."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple, Union

from . import errors
from ._settings import number

Selection = Callable[[Any, int, Any], Any]  # (difference, number of entries, random) -> indices
Filter = Callable[[Any], Tuple[Any, float]]  # values -> the values as the receiver has them, bytes
HEADER = 6
_BLOCK = 256


def top(difference: Any, k: int, random: Any) -> Any:
    """The largest; of equal ones those with the lower index. No zeros."""
    import numpy
    size = abs(difference)
    if k >= size.size:
        return numpy.flatnonzero(size)
    least = numpy.partition(size, size.size - k)[size.size - k]
    above, equal = numpy.flatnonzero(size > least), numpy.flatnonzero(size == least)
    chosen = numpy.concatenate([above, equal[:k - above.size]])
    return chosen[difference[chosen] != 0]


def random(difference: Any, k: int, random: Any) -> Any:
    return random.choice(difference.size, k, replace=False)


def fp32(values: Any) -> Tuple[Any, float]:
    return values, 4 * values.size


def fp16(values: Any) -> Tuple[Any, float]:
    import numpy
    return values.astype(numpy.float16).astype(numpy.float32), 2 * values.size


def int8(values: Any) -> Tuple[Any, float]:
    """127 levels on both sides of zero, with a scale for each block of 256 values."""
    return _levels(values, 127), 4 * _blocks(values) + values.size


def uniform4(values: Any) -> Tuple[Any, float]:
    """As int8, with 7 levels. p2pml's int4 has other levels."""
    return _levels(values, 7), 4 * _blocks(values) + values.size / 2


def sign(values: Any) -> Tuple[Any, float]:
    """The signs, times the mean magnitude of each block of 256 values."""
    import numpy
    padded = _padded(values)
    counts = numpy.minimum(_BLOCK, values.size - _BLOCK * numpy.arange(len(padded)))
    scale = (abs(padded).sum(1) / counts).astype(numpy.float32)
    return numpy.where(values < 0, -1, 1).astype(numpy.float32) * numpy.repeat(scale, _BLOCK)[:values.size], 4 * len(padded) + values.size / 8


def _levels(values: Any, most: int) -> Any:
    import numpy
    padded = _padded(values)
    scale = abs(padded).max(1, keepdims=True) / numpy.float32(most)
    code = numpy.clip(numpy.rint(padded / numpy.where(scale > 0, scale, 1)), -most, most)
    return (code * scale).astype(numpy.float32).ravel()[:values.size]


def _blocks(values: Any) -> int:
    return int(-(-values.size // _BLOCK))


def _padded(values: Any) -> Any:
    import numpy
    padded: Any = numpy.zeros(_blocks(values) * _BLOCK, numpy.float32)
    padded[:values.size] = values
    return padded.reshape(-1, _BLOCK)


SELECTIONS: Dict[str, Selection] = {"top": top, "random": random}
FILTERS: Dict[str, Filter] = {"fp32": fp32, "fp16": fp16, "int8": int8, "uniform4": uniform4, "sign": sign}


def named(what: str, given: Union[str, Callable[..., Any]], table: Dict[str, Any]) -> Any:
    if callable(given):
        return given
    if given not in table:
        raise errors.ConfigurationError(f"{what}: found {given!r}, expected a function, or one of {', '.join(table)}")
    return table[given]


def entries_of(ratio: Any, d: int) -> int:
    """As `average.ratio`."""
    k: float = max(d / 32, min(d / 8, 16384)) if ratio == "auto" else number("average.ratio", ratio, 0, 1) * d
    return max(1, int(k + 0.5))


def index_bytes(chosen: Any, d: int) -> int:
    """Of the shorter of the two codes of p2pml: a bitmap, or gaps in Rice code (compress/LAYOUT.md). chosen: ascending."""
    import numpy
    n = chosen.size
    if n in (0, d):
        return 0
    gaps = numpy.diff(chosen, prepend=-1) - 1
    rice = min((int((gaps >> p).sum()) + n + 7) // 8 + (n * p + 7) // 8 for p in range(1, 31))
    return int(min(chosen[-1] // 8 + 1, rice))


class Packer:
    """Makes packets: a dense vector of the values as the receiver has them, the number of entries, bytes."""

    def __init__(self, ratio: Any, selection: Union[str, Selection], filter: Union[str, Filter]):
        self.ratio = ratio
        self.selection: Selection = named("selection", selection, SELECTIONS)
        self.filter: Filter = named("filter", filter, FILTERS)

    def __call__(self, difference: Any, random: Any) -> Tuple[Any, int, float]:
        import numpy
        d = difference.size
        chosen = self._chosen(difference, entries_of(self.ratio, d), random)
        got, cost = self._filtered(difference[chosen])
        sent = numpy.zeros(d, numpy.float32)
        sent[chosen] = got
        return sent, chosen.size, HEADER + index_bytes(chosen, d) + cost

    def _chosen(self, difference: Any, k: int, random: Any) -> Any:
        import numpy
        chosen = numpy.asarray(self.selection(difference, k, random))
        chosen = chosen.astype(int) if chosen.size == 0 else chosen
        if chosen.ndim != 1 or not numpy.issubdtype(chosen.dtype, numpy.integer):
            raise errors.ConfigurationError(f"selection: found an array of shape {chosen.shape} and type {chosen.dtype}, expected a list of indices")
        ascending = numpy.sort(chosen)  # numpy.unique takes ten times as long
        if (numpy.diff(ascending) == 0).any() or ascending.size and not 0 <= ascending[0] <= ascending[-1] < difference.size:
            raise errors.ConfigurationError(f"selection: found an index twice, or outside 0 to {difference.size - 1}, expected each index at most once")
        return ascending

    def _filtered(self, values: Any) -> Tuple[Any, float]:
        import numpy
        result = self.filter(values)
        if not isinstance(result, tuple) or len(result) != 2 or numpy.shape(result[0]) != values.shape or not result[1] >= 0:
            raise errors.ConfigurationError(f"filter: found {_brief(result)}, expected the {values.size} values as the receiver has them, and their bytes")
        return result


def _brief(result: Any) -> str:
    import numpy
    if isinstance(result, tuple):
        return "(" + ", ".join(_brief(part) for part in result) + ")"
    return f"an array of shape {result.shape}" if isinstance(result, numpy.ndarray) else repr(result)[:60]
