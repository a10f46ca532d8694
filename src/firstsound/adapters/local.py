"""The default stack: everything local, everything offline, every pool sized by the container's quota."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from firstsound import prompt
from firstsound.adapters import llama_server, models
from firstsound.adapters.bm25_retriever import Bm25Retriever
from firstsound.adapters.faster_whisper_recognizer import FasterWhisperRecognizer
from firstsound.adapters.incremental_transcription import IncrementalTranscription
from firstsound.adapters.piper_synthesizer import PiperSynthesizer
from firstsound.adapters.requantized import cache_folder, q4_0
from firstsound.adapters.webrtcvad_endpointer import WebrtcvadEndpointer
from firstsound.clock import MonotonicClock
from firstsound.completeness import reads_complete
from firstsound.stages import Setup, Stack

_PACKAGES = (
    "ctranslate2",
    "faster-whisper",
    "llama-cpp-python",
    "onnxruntime",
    "piper-tts",
    "rank-bm25",
    "webrtcvad",
)


LEAD_IN_MS = 10
"""Of the silence before an answer's first audible window, one more, so that a soft onset is not cut."""

_M_ARENA_MAX = -8
"""From glibc's malloc.h."""


def _share_one_heap() -> None:
    """Let all threads of this process allocate from one heap.

    glibc gives each thread a heap of its own, up to eight a core of the host, and what one has freed no other can use:
    32 MiB here, for no measurable time. Other C libraries have no such heaps.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


@dataclass(frozen=True, slots=True)
class Settings:
    """What was chosen by measurement, and can be chosen otherwise to measure it again."""

    requantize: bool = True
    """The language model in Q4_0; else in Q4_1, as it is shipped."""
    whole_window: bool = False
    """The recognizer encodes all 30 s of its window, not only the frames at hand."""
    decode_threads: int = 1
    """The language model's; a token is bound by memory, and a second thread takes a core from the synthesizer."""
    niceness: int = llama_server.NICENESS


@contextmanager
def stack(setup: Setup, settings: Settings = Settings()) -> Iterator[Stack]:
    """Start the local stack and stop it in the end.

    Raises:
        FirstsoundError: a package or model is missing or altered, the corpus is empty, or the server does not come up.
    """
    _share_one_heap()
    whisper = [file.verified() for file in models.WHISPER_TINY_EN]
    voice, voice_config = (file.verified() for file in models.JOE_MEDIUM)
    shipped = models.SMOLLM2_135M_Q4_1
    llm = q4_0(shipped, cache_folder(), setup.threads) if settings.requantize else shipped.verified()
    threads = llama_server.ServerThreads(decode=min(settings.decode_threads, setup.threads), prefill=setup.threads)
    retriever = Bm25Retriever(setup.passages)
    # A second thread does not make so small a model faster: 40 and 40 ms a query on a Xeon, 130 and 165 ms on an EPYC.
    recognizer = FasterWhisperRecognizer(whisper[0].parent, threads=1, whole_window=settings.whole_window)
    synthesizer = PiperSynthesizer(voice, voice_config, setup.threads)
    files = [*whisper, voice, voice_config, llm]
    with llama_server.running(
        llm,
        threads,
        MonotonicClock(),
        niceness=settings.niceness,
        warm_up=prompt.build("Ready?", setup.passages[:1]),
    ) as server:
        yield Stack(
            name="local",
            new_endpointer=WebrtcvadEndpointer,
            recognizer=recognizer,
            retriever=retriever,
            llm=server,
            synthesizer=synthesizer,
            new_transcription=lambda: IncrementalTranscription(recognizer),
            reads_complete=reads_complete,
            prefill=server.prefill,
            lead_in_ms=LEAD_IN_MS,
            pids=lambda: (server.pid,),
            facts={
                "models": {file.name: models.sha256_of(file) for file in files},
                "threads": {
                    "ctranslate2": recognizer.threads,
                    "onnxruntime": synthesizer.threads,
                    "llama_decode": server.threads().decode,
                    "llama_prefill": server.threads().prefill,
                },
                "packages": {name: version(name) for name in _PACKAGES},
            },
        )


VARIANTS = {
    "speculative, Q4_1 as shipped": partial(stack, settings=Settings(requantize=False)),
    "speculative, 30 s encoded": partial(stack, settings=Settings(whole_window=True)),
    "speculative, two threads write": partial(stack, settings=Settings(decode_threads=2)),
    "speculative, no priorities": partial(stack, settings=Settings(niceness=0)),
}
"""The same stack with one choice made otherwise, for `make levers`."""
