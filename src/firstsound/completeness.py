"""Whether an English utterance may be over, by its words."""

import re

_WORD = re.compile(r"[\w']+")
_OPEN = frozenset(
    _WORD.findall("""
    a an the this these those my your his her its our their some any every each no another which what whose
    and or but nor so because if when while that than as although unless until whether since like
    of to for from with without in into at by between among against during per about than via
    is are was were am be been being do does did have has had can could will would shall should may might must
    i'm i'd i'll you're we're they're very too really quite more most just also
    i we they he she
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand point half
    um uh er erm uhm hmm mm well
    """)
)
"""Words after which another must come, line by line: articles and what else stands before a noun; conjunctions;
prepositions, but for those that are adverbs too ("turn it on"), so that the wait is long after "What is it for?"; what
stands before a verb or an adjective; who is about to do something; numbers, which may have more digits; and what one
says while looking for a word."""
_GOES_ON = re.compile("(,|-|\u2013|\u2014|\u2026|\\.\\.\\.)\\s*$")


def reads_complete(transcript: str) -> bool:
    """Whether an utterance that is understood as `transcript` so far may end here.

    It may not after a word that asks for another, after a number, which may have more digits, after a comma or a dash,
    nor after "between" without "and". The recognizer's full stop says little: it puts one wherever it hears the end.
    """
    words = _WORD.findall(transcript.lower())
    if not words or _GOES_ON.search(transcript):
        return False
    if words[-1] in _OPEN or words[-1].isdecimal():
        return False
    last_between = max((i for i, word in enumerate(words) if word == "between"), default=None)
    # "Between them" is complete, and so is whatever else is one word.
    return last_between is None or len(words) - last_between <= 2 or "and" in words[last_between:]  # noqa: PLR2004
