from pathlib import Path

import pytest

from firstsound import corpus
from firstsound.errors import FirstsoundError

ROOT = Path(__file__).parents[2]


def test_the_projects_own_corpus_is_large_enough() -> None:
    assert len(corpus.load(ROOT / "fixtures/corpus/passages.jsonl")) >= 300


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the corpus is empty"),
        ("\n \n", "the corpus is empty"),
        ('{"id": "a", "text": "x"}\nnot json', "passages.jsonl:2: not"),
        ('{"id": "a"}', "passages.jsonl:1: not"),
        ('{"id": "a", "text": ""}', "passages.jsonl:1: not"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', "passages.jsonl:2: passage id 'a' is given twice"),
    ],
)
def test_a_wrong_corpus_is_refused_with_its_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "passages.jsonl"
    path.write_text(content)
    with pytest.raises(FirstsoundError) as e:
        corpus.load(path)
    assert told in str(e.value)


def test_a_missing_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FirstsoundError, match="cannot be read"):
        corpus.load(tmp_path / "passages.jsonl")
