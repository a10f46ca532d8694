from firstsound.text import words


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert words("Don't, I SAID: 12-ounce!") == "don't i said 12 ounce"
    assert words("...") == ""
