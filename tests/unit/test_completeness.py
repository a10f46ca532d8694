import pytest

from firstsound.completeness import reads_complete


@pytest.mark.parametrize(
    "transcript",
    [
        "How long should coffee steep in a French press?",
        "Make me a latte with soy milk.",
        "Can you turn it on?",
        "What is the difference between them?",
        "What is the difference between a flat white and a cappuccino?",
        "Yes.",
    ],
)
def test_what_may_end_here_reads_complete(transcript: str) -> None:
    assert reads_complete(transcript)


@pytest.mark.parametrize(
    "transcript",
    [
        "Can I freeze coffee beans and?",
        "What water temperature should I use for the?",
        "Can you tell me why my um?",
        "How much caffeine is left in A?",
        "How many grams of coffee do I need for one?",
        "My number is 5 5 2",
        "How often should I clean the grinder,",
        "I would like \N{HORIZONTAL ELLIPSIS}",
        "Well...",
        "What is the difference between a flat white?",
        "I'd like",
    ],
)
def test_what_cannot_be_all_does_not(transcript: str) -> None:
    assert not reads_complete(transcript)


@pytest.mark.parametrize("transcript", ["", " ", "...", "?"])
def test_nothing_is_not_complete(transcript: str) -> None:
    assert not reads_complete(transcript)
