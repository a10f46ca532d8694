from firstsound.text import same, words


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert words("Don't, I SAID: 12-ounce!") == "don't i said 12 ounce"
    assert words("...") == ""


def test_words_of_any_script_count() -> None:
    assert words("\u041a\u0430\u043a \u0434\u0435\u043b\u0430?") == "\u043a\u0430\u043a \u0434\u0435\u043b\u0430"
    assert words("Wie sp\u00e4t ist's?") == "wie sp\u00e4t ist's"
    assert words("snake_case") == "snake case"


def test_texts_are_the_same_where_words_and_signs_are() -> None:
    assert same("What is 5 plus 3?", "what is 5 plus 3")
    for one, other in (
        ("What is -5 plus 3?", "What is 5 plus 3?"),
        ("5% off", "$5 off"),
        ("a 12-ounce", "a 12"),
        ("1/2 of 8", "1.2 of 8"),
    ):
        assert not same(one, other)
    assert same("a 12-ounce latte", "A 12 ounce latte.")
