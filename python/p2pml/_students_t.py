"""The 95% confidence interval of a mean, by Student's t."""

from __future__ import annotations

import math
from typing import Any


def inside(t: float, degrees: int) -> float:
    """The probability of -t to t (Abramowitz, Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = total = math.cos(theta) if odd else 1.0
    for k in range(3 if odd else 2, degrees, 2):
        term *= (k - 1) / k * math.cos(theta) ** 2
        total += term
    if odd:
        return 2 / math.pi * (theta + (math.sin(theta) * total if degrees > 1 else 0.0))
    return math.sin(theta) * total


def quantile(degrees: int, probability: float = 0.95) -> float:
    """t with this probability of -t to t."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle, degrees) < probability else (low, middle)
    return high


def half_width(values: Any) -> float:
    """Half of the interval; NaN of fewer than two values."""
    n = len(values)
    return quantile(n - 1) * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
