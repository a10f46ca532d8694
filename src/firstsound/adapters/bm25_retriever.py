"""Retrieval by BM25 (rank-bm25's Okapi variant)."""

import re
from collections.abc import Sequence
from itertools import islice

import numpy as np

try:
    from rank_bm25 import BM25Okapi
except ImportError as e:
    from firstsound.errors import MissingExtraError

    raise MissingExtraError("rank-bm25", "local") from e

from firstsound.errors import FirstsoundError
from firstsound.stages import Passage

_WORD = re.compile(r"[a-z0-9']+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


class Bm25Retriever:
    """Searches a fixed list of passages."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Index the passages.

        Raises:
            FirstsoundError: no passage holds a word.
        """
        self._passages = [passage for passage in passages if _words(passage.text)]
        if not self._passages:
            raise FirstsoundError("the corpus is empty: BM25 needs at least one passage with a word in it")
        words = [_words(passage.text) for passage in self._passages]
        self._index = BM25Okapi(words)
        self._vocabularies = [frozenset(w) for w in words]

    def search(self, query: str, k: int) -> list[Passage]:
        """The best `k` passages that share a word with the query, best first; among equals the earlier first."""
        words = _words(query)
        ranked = np.argsort(-self._index.get_scores(words), kind="stable")
        # Not "score above 0": in a tiny corpus Okapi's weights are zero or negative for words that do match.
        matching = (i for i in ranked if not self._vocabularies[i].isdisjoint(words))
        return [self._passages[i] for i in islice(matching, k)]
