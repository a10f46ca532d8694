import ast
import inspect
import math
import random
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import percents, samples, spoilt_samples

from firstsound import percentile
from firstsound.percentile import nearest_rank, rank


def naive(values: list[float], p: int) -> float:
    """By definition: the smallest value that at least p percent of the sample do not exceed."""
    return min(v for v in values if sum(w <= v for w in values) * 100 >= p * len(values))


@given(samples, percents)
@example([float(n) for n in range(100)], 7)
@example([float(n) for n in range(1, 11)], 95)
def test_a_percentile_is_what_the_definition_says(values: list[float], p: int) -> None:
    assert nearest_rank(values, p) == naive(values, p)


@given(percents, st.integers(1, 10**30))
def test_the_rank_is_exact_however_many_samples_there_are(p: int, n: int) -> None:
    r = rank(p, n)
    assert (r - 1) * 100 < p * n <= r * 100


@given(samples, percents)
def test_a_percentile_is_a_member_of_its_sample(values: list[float], p: int) -> None:
    assert nearest_rank(values, p) in values


@given(samples, percents, st.randoms(use_true_random=False))
def test_the_order_of_the_sample_does_not_matter(values: list[float], p: int, chance: random.Random) -> None:
    shuffled = chance.sample(values, len(values))
    assert nearest_rank(shuffled, p) == nearest_rank(values, p)


@given(samples)
def test_percentiles_rise_with_p_up_to_the_slowest(values: list[float]) -> None:
    rising = [nearest_rank(values, p) for p in range(1, 101)]
    assert rising == sorted(rising)
    assert rising[-1] == max(values)


@given(samples, percents)
def test_the_sample_is_left_as_it_was(values: list[float], p: int) -> None:
    before = list(values)
    nearest_rank(values, p)
    assert values == before


@pytest.mark.parametrize("n", range(1, 201))
def test_the_rank_is_exact(n: int) -> None:
    values = [float(i) for i in range(n, 0, -1)]
    for p in range(1, 101):
        exact = math.ceil(Fraction(p, 100) * n)
        assert rank(p, n) == exact
        assert nearest_rank(values, p) == exact


@given(spoilt_samples(), percents)
def test_a_sample_that_is_not_finite_is_refused(values: list[float], p: int) -> None:
    with pytest.raises(ValueError, match=r"^sample \d+ is (nan|inf|-inf): a percentile needs finite numbers$"):
        nearest_rank(values, p)


@given(percents)
def test_no_sample_is_refused(p: int) -> None:
    with pytest.raises(ValueError, match="no samples"):
        nearest_rank([], p)


@given(samples, st.integers(max_value=0) | st.integers(min_value=101))
@example([1.0], 0)
@example([1.0], 101)
def test_a_percent_outside_1_to_100_is_refused(values: list[float], p: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 100"):
        nearest_rank(values, p)


def test_no_numpy_has_a_hand_in_it() -> None:
    tree = ast.parse(inspect.getsource(percentile))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"math", "collections.abc"}
