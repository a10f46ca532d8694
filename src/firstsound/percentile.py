"""Nearest-rank percentiles, in integer arithmetic.

Nearest rank (Hyndman & Fan 1996, definition 1) returns a member of the sample: the smallest value that at least p
percent of the sample do not exceed. No interpolation, and no floating point in the rank.
"""

import math
from collections.abc import Sequence


def rank(p: int, n: int) -> int:
    """The 1-based nearest rank of the p-th percentile among n samples: ceil(p * n / 100).

    Raises:
        ValueError: `p` is not an integer in 1..100, or `n` is less than 1.
    """
    if type(p) is not int or not 1 <= p <= 100:  # noqa: PLR2004 - percent
        raise ValueError(f"a percentile is an integer from 1 to 100, not {p!r}")
    if n < 1:
        raise ValueError("there is no percentile of no samples")
    return (p * n + 99) // 100


def nearest_rank(values: Sequence[float], p: int) -> float:
    """The p-th percentile of `values` by nearest rank; a member of `values`.

    Raises:
        ValueError: `values` is empty or holds a NaN or an infinity, or `p` is not an integer in 1..100.
    """
    r = rank(p, len(values))
    for i, value in enumerate(values):
        if not math.isfinite(value):
            raise ValueError(f"sample {i} is {value}: a percentile needs finite numbers")
    return sorted(values)[r - 1]
