import math

import pytest

from firstsound.percentile import nearest_rank, rank


@pytest.mark.parametrize(
    ("p", "n", "expected"),
    [
        (95, 1, 1),
        (95, 10, 10),
        (95, 19, 19),
        (95, 20, 19),
        (95, 21, 20),
        (95, 24, 23),
        (95, 100, 95),
        (95, 101, 96),
        (50, 1, 1),
        (50, 2, 1),
        (50, 3, 2),
        (50, 24, 12),
        (50, 100, 50),
        (7, 100, 7),
        (1, 1, 1),
        (1, 200, 2),
        (100, 1, 1),
        (100, 7, 7),
    ],
)
def test_rank(p: int, n: int, expected: int) -> None:
    assert rank(p, n) == expected


@pytest.mark.parametrize(
    ("values", "p", "expected"),
    [
        (range(100), 7, 6),
        (range(1, 11), 95, 10),
        (range(1, 11), 50, 5),
        ([3.5], 1, 3.5),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([0.2, 0.2, 0.1], 95, 0.2),
    ],
)
def test_nearest_rank(values: list[float], p: int, expected: float) -> None:
    assert nearest_rank(values, p) == expected


@pytest.mark.parametrize("p", [0, 101, -5, 95.0, "95", None, True])
def test_a_percent_is_a_whole_number_from_1_to_100(p: int) -> None:
    with pytest.raises(ValueError, match="an integer from 1 to 100, not"):
        rank(p, 10)


@pytest.mark.parametrize("n", [0, -1])
def test_no_samples_have_no_rank(n: int) -> None:
    with pytest.raises(ValueError, match="no percentile of no samples"):
        rank(95, n)


def test_no_samples_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no percentile of no samples"):
        nearest_rank([], 95)


@pytest.mark.parametrize(("bad", "told"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_sample_that_is_not_finite_is_named(bad: float, told: str) -> None:
    with pytest.raises(ValueError, match=f"^sample 2 is {told}: "):
        nearest_rank([1.0, 2.0, bad], 1)
