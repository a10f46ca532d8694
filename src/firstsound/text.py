"""How texts are compared."""

import re


def words(text: str) -> str:
    """The text as it is compared: lower case, letters, digits and apostrophes only, a space between words."""
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))
