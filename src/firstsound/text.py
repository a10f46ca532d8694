"""How texts are compared."""

import re

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*'?|'[^\W_]+")
_SIGN = re.compile(r"[-+$\u20ac\u00a3](?=\d)|(?<=\d)%|(?<=\d)[.,:/](?=\d)")
"""What makes another number, or another amount, of one."""


def words(text: str) -> str:
    """The text as it is compared: lower case, letters of any script, digits and apostrophes, a space between words."""
    return " ".join(_WORD.findall(text.lower()))


def same(one: str, other: str) -> bool:
    """Whether two texts ask for the same: the same words, and the same signs at their numbers."""
    return words(one) == words(other) and _SIGN.findall(one) == _SIGN.findall(other)
