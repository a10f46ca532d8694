"""The passages that retrieval searches: JSON lines of `{"id": ..., "text": ...}`."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firstsound.errors import FirstsoundError
from firstsound.stages import Passage


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)


def load(path: Path) -> list[Passage]:
    """The passages in the file at `path`, in its order.

    Raises:
        FirstsoundError: the file is missing or empty, a line is not a passage, or an id is given twice.
    """
    try:
        # Not splitlines(): JSON strings may hold characters at which that cuts.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as e:
        raise FirstsoundError(f"{path}: cannot be read: {e}") from e
    passages: dict[str, Passage] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate_json(line)
        except ValidationError as e:
            fault = e.errors()[0]
            raise FirstsoundError(
                f'{path}:{number}: not {{"id": ..., "text": ...}}: {".".join(map(str, fault["loc"]))} {fault["msg"]}'
            ) from e
        if row.id in passages:
            raise FirstsoundError(f"{path}:{number}: passage id {row.id!r} is given twice")
        passages[row.id] = Passage(row.id, row.text)
    if not passages:
        raise FirstsoundError(f"{path}: the corpus is empty; it needs at least one passage to search")
    return list(passages.values())
