"""What the language model is asked.

The fixed part comes first, so that a server that keeps the last prompt's prefix has it ready; what differs from query
to query, the passage and the question, comes last.
"""

from collections.abc import Sequence

from firstsound.stages import Passage, Prompt

SYSTEM = "Repeat what the note says in answer to the question, in one short sentence."


def build(question: str, passages: Sequence[Passage]) -> Prompt:
    """The prompt for one question and the passages that may answer it, best first."""
    notes = "\n".join(f"Note: {passage.text}" for passage in passages)
    return Prompt(SYSTEM, f"{notes}\nQuestion: {question}")
