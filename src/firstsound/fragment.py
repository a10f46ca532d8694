"""Cut an answer, as it is being written, into fragments that can be spoken.

The first fragment is kept short, since the user waits for it; the later ones follow whole clauses, since each is spoken
while the next is being written. Nothing is lost: the fragments, joined by spaces, are the answer's words.
"""

import re
from collections.abc import Iterable, Iterator

FIRST_MIN_WORDS = 2
"""A clause this long may be spoken first; never one word alone, which is often "Yes," or "Dr."."""
FIRST_MAX_WORDS = 3
"""Without a clause's end, the first fragment ends after this many words."""
LATER_MIN_WORDS = 6
"""Later fragments end at the first clause's end after this many words."""

_ABBREVIATIONS = frozenset({"dr.", "mr.", "mrs.", "ms.", "st.", "no.", "vs.", "e.g.", "i.e.", "etc.", "approx."})
_CLAUSE_END = re.compile(r"""[.!?;:,…]["')\]]*$""")


def _ends_clause(word: str) -> bool:
    return bool(_CLAUSE_END.search(word)) and word.lower() not in _ABBREVIATIONS


def fragments(pieces: Iterable[str]) -> Iterator[str]:
    """Yield fragments of the text that arrives in `pieces`, each as soon as it is complete.

    A word is complete only when white space or the end follows it, so "3.5" is never cut at its point.
    """
    words: list[str] = []
    tail = ""
    first = True
    for piece in pieces:
        *complete, tail = re.split(r"\s+", tail + piece)
        for word in complete:
            if not word:
                continue
            words.append(word)
            if not any(c.isalnum() for w in words for c in w):
                continue  # nothing to say yet: a dash or dots go with the words that follow
            at_clause_end = _ends_clause(word) and len(words) >= (FIRST_MIN_WORDS if first else LATER_MIN_WORDS)
            if at_clause_end or (first and len(words) >= FIRST_MAX_WORDS):
                yield " ".join(words)
                words, first = [], False
    if tail:
        words.append(tail)
    if words:
        yield " ".join(words)
