import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstsound.fragment import fragments


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Four minutes, then press.", ["Four minutes,", "then press."]),
        ("Dr. Brown says so. Then he leaves.", ["Dr. Brown says", "so. Then he leaves."]),
        ("Yes, it is fine to freeze them once.", ["Yes, it is", "fine to freeze them once."]),
        ("Use 3.5 g of it.", ["Use 3.5 g", "of it."]),
        ("- Well now, it is", ["- Well now,", "it is"]),
        ("Hello", ["Hello"]),
        ("", []),
        ("  \n ", []),
        (
            "One two three four five six seven, eight nine ten eleven twelve thirteen.",
            ["One two three", "four five six seven, eight nine ten eleven twelve thirteen."],
        ),
    ],
)
def test_fragments_end_where_one_can_pause(answer: str, expected: list[str]) -> None:
    assert list(fragments([answer])) == expected


@given(st.text(alphabet="ab1.,!? -\n\té…"), st.integers(1, 5))
def test_nothing_is_lost_however_the_text_is_cut_into_pieces(text: str, size: int) -> None:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    whole = list(fragments([text]))
    assert list(fragments(pieces)) == whole
    assert " ".join(whole).split() == text.split()
    assert all(fragment.strip() == fragment and fragment for fragment in whole)


def test_the_first_fragment_comes_before_the_answer_is_complete() -> None:
    def pieces() -> object:
        yield from ["Brew", " it", " for", " four", " min"]
        pytest.fail("the first fragment was there already")

    assert next(fragments(pieces())) == "Brew it for"  # type: ignore[arg-type]
