"""firstsound: how long a voice assistant's user waits for the first sound, held to a written budget."""

__all__: list[str] = []
