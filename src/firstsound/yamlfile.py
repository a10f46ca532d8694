"""Read a YAML file strictly: safe tags only, no key twice, and one clear message for whatever is wrong with it."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from firstsound.errors import FirstsoundError

Schema = TypeVar("Schema", bound=BaseModel)


_WORDS = {"extra_forbidden": "unknown key; is it misspelt?", "missing": "is missing"}
"""What pydantic says in words of its own."""


class _Loader(yaml.SafeLoader):
    """SafeLoader, except that a key given twice is an error rather than the last one winning."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (key_node, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
        return super().construct_mapping(node, deep=deep)


def load(path: Path, schema: type[Schema], hint: str = "") -> Schema:
    """The content of the YAML file at `path`, checked against `schema`; `hint` says what to do if it is missing.

    Raises:
        FirstsoundError: the file is missing, empty, not UTF-8, not YAML, or does not fit the schema; every fault that
            the schema finds is named with its place in the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise FirstsoundError(f"{path}: no such file{hint}") from e
    except (OSError, UnicodeDecodeError) as e:
        raise FirstsoundError(f"{path}: cannot be read: {e}") from e
    try:
        content = yaml.load(text, _Loader)  # noqa: S506 - _Loader is a SafeLoader
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as e:  # PyYAML raises all of them
        raise FirstsoundError(f"{path}: not valid YAML: {e}") from e
    if content is None:
        raise FirstsoundError(f"{path}: the file is empty")
    try:
        return schema.model_validate(content)
    except ValidationError as e:
        faults = "; ".join(
            f"{'.'.join(map(str, f['loc'])) or 'the file'}: {_WORDS.get(f['type'], f['msg'])}" for f in e.errors()
        )
        raise FirstsoundError(f"{path}: {faults}") from e
