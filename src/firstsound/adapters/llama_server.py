"""Answers by llama-cpp-python's own server, a second process on a free loopback port, streamed over HTTP (SSE)."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

try:
    import httpx
    from httpx_sse import SSEError, connect_sse
except ImportError as e:
    from firstsound.errors import MissingExtraError

    raise MissingExtraError("httpx and httpx-sse", "local") from e

from firstsound.clock import NS_PER_MS, Clock, Deadline
from firstsound.errors import FirstsoundError, StageError
from firstsound.stages import Delta, Finish, Prompt

HOST = "127.0.0.1"
CONTEXT_TOKENS = 1024
BATCH_TOKENS = 128
"""About a prompt; the server keeps this many rows of logits, 192 KiB each, and buffers to match."""
MAX_ANSWER_TOKENS = 32
START_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 10.0
"""Nothing for this long, and the turn fails. The server pings every 15 s (sse-starlette's default) even when its model
hangs; a longer wait would take that for life."""
STOP_TIMEOUT_S = 5.0

NICENESS = 5
"""The words after the first can wait; the recognizer and the synthesizer, on the same cores, cannot. On two cores a
decode beside them takes 45 to 185 ms without it, and the endpoint that waits for it comes up to 80 ms later."""

_REUSED = re.compile(r"Llama\.generate: (\d+) prefix-match hit, remaining (\d+) prompt tokens to eval")
_EVALUATED = re.compile(r"prompt eval time =.*?/\s*(\d+) tokens")
_ALL_REUSED = "full prompt already cached"


@dataclass(frozen=True, slots=True)
class ServerThreads:
    """llama.cpp's two pools."""

    decode: int
    prefill: int


class LlamaServer:
    """A running server, asked one thing at a time."""

    def __init__(self, url: str, api_key: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        """Talk to the server at `url`; `log` is the file that its output goes to."""
        self.pid = process.pid
        self._process = process
        self._log = log
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=READ_TIMEOUT_S),
            trust_env=False,  # a proxy of the environment has no business on the loopback interface
        )

    def threads(self) -> ServerThreads:
        """The sizes of its pools, as the process itself was started with.

        Raises:
            OSError: the process is gone.
        """
        command = Path(f"/proc/{self.pid}/cmdline").read_text(encoding="utf-8").split("\0")
        decode, prefill = (int(command[command.index(f"--{name}") + 1]) for name in ("n_threads", "n_threads_batch"))
        return ServerThreads(decode, prefill)

    def close(self) -> None:
        """Close the connection; the process goes on."""
        self._client.close()

    def reply(self, prompt: Prompt) -> Iterator[Delta | Finish]:
        """Stream the answer to `prompt`: greedy, one line of at most 32 tokens.

        Raises:
            StageError: the server is gone, refused, stalled, broke off or sent what cannot be read.
        """
        log_start = self._log.stat().st_size
        body = {
            **_messages(prompt),
            "max_tokens": MAX_ANSWER_TOKENS,
            "temperature": 0,
            "stop": ["\n"],  # a small model goes on with a question of its own
            "stream": True,
        }
        try:
            with connect_sse(self._client, "POST", "/v1/chat/completions", json=body) as source:
                if source.response.status_code != httpx.codes.OK:
                    source.response.read()
                    raise StageError(f"HTTP {source.response.status_code}: {source.response.text[:200]}")
                finish_reason = None
                for event in source.iter_sse():
                    if event.data == "[DONE]":
                        break
                    text, reason = _read_event(event.data)
                    finish_reason = reason or finish_reason
                    if text:
                        yield Delta(text)
        except httpx.ReadTimeout as e:
            raise StageError(f"the server sent nothing for {READ_TIMEOUT_S:.0f} s{self._state()}") from e
        except (httpx.HTTPError, SSEError, UnicodeDecodeError) as e:
            raise StageError(f"{type(e).__name__}: {e}{self._state()}") from e
        if finish_reason is not None:
            yield Finish(finish_reason, *self._prompt_tokens(log_start))

    def prefill(self, prompt: Prompt) -> None:
        """Read `prompt`, so that a later one need only be read from where it differs.

        Raises:
            StageError: the server is gone, refused or stalled.
        """
        try:
            # The server has no request that only reads: a token is written, and thrown away.
            response = self._client.post("/v1/chat/completions", json={**_messages(prompt), "max_tokens": 1})
        except httpx.HTTPError as e:
            raise StageError(f"{type(e).__name__}: {e}{self._state()}") from e
        if response.status_code != httpx.codes.OK:
            raise StageError(f"HTTP {response.status_code}: {response.text[:200]}")

    def _state(self) -> str:
        """What became of the process, for an error message."""
        # A killed server's socket closes a moment before the process can be reaped.
        try:
            code = self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return ""
        return f"; the server process ended with {exit_in_words(code)}\n{tail(self._log)}"

    def _prompt_tokens(self, log_start: int) -> tuple[int, int]:
        """The prompt's length in tokens and how many of them were reused, as the server's own log says."""
        with self._log.open("rb") as log:
            log.seek(log_start)
            said = log.read().decode(errors="replace")
        # The last: one that was hung up on may still have been read before it.
        if matches := _REUSED.findall(said):
            reused, remaining = map(int, matches[-1])
            return reused + remaining, reused
        if _ALL_REUSED in said:
            return 1, 1
        if match := _EVALUATED.search(said):
            return int(match[1]), 0
        raise StageError(f"the server's log does not say how much of the prompt was cached: {said[-200:]!r}")


def _messages(prompt: Prompt) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]}


def _read_event(data: str) -> tuple[str, str | None]:
    try:
        choice = json.loads(data)["choices"][0]
        return choice["delta"].get("content") or "", choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError) as e:
        raise StageError(f"the server sent an event that is no chat completion chunk: {data[:200]!r}") from e


def exit_in_words(code: int) -> str:
    """An exit code as a reader knows it; a negative one is a signal."""
    if code == -9:  # noqa: PLR2004 - SIGKILL
        return "signal 9 (SIGKILL: by hand, or by the kernel when memory runs out)"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of the server's output."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _answers(port: int) -> bool:
    """Whether anything listens on this loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    model: Path,
    threads: ServerThreads,
    clock: Clock,
    *,
    port: int | None = None,
    niceness: int = NICENESS,
    warm_up: Prompt,
) -> Iterator[LlamaServer]:
    """Start a server, yield it once it has answered a real request, and stop it in the end.

    Raises:
        FirstsoundError: the server did not come up, or not within a minute; the message ends with its last output.
    """
    port = free_port() if port is None else port
    if _answers(port):
        raise FirstsoundError(f"port {port} on {HOST} is busy: another program listens there; stop it or name another")
    api_key = secrets.token_urlsafe(32)
    # The environment, unlike the command line, is not for every user of the machine to read.
    environment = {
        **os.environ,
        "API_KEY": api_key,
        "OMP_NUM_THREADS": str(threads.prefill),
        # Threads that wait for each other must sleep: on two cores a spinning one takes the synthesizer's turn.
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONUNBUFFERED": "1",
    }
    settings: dict[str, Any] = {
        "model": model,
        "host": HOST,
        "port": port,
        "n_ctx": CONTEXT_TOKENS,
        "n_batch": BATCH_TOKENS,
        "n_threads": threads.decode,
        "n_threads_batch": threads.prefill,
        "interrupt_requests": False,  # on, any second request ends a stream as if it were complete
        "logits_all": False,  # on, logits of every prompt token are kept
        "use_mlock": False,  # fails in containers
        "verbose": True,  # its log tells how much of a prompt was reused
    }
    command = [sys.executable, "-m", "llama_cpp.server"]
    for name, value in settings.items():
        command += [f"--{name}", str(value)]
    with TemporaryDirectory(prefix="firstsound-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            # A session of its own: Ctrl-C must reach the run first, which then stops the server.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and settings
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        server = LlamaServer(f"http://{HOST}:{port}", api_key, process, log)
        try:
            _let_others_go_first(process.pid, niceness)
            _wait_until_ready(server, process, log, clock, port, warm_up)
            yield server
        finally:
            server.close()
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _let_others_go_first(pid: int, niceness: int) -> None:
    """Lower a process's priority before it starts its threads, which inherit it."""
    # It may be lower already, and nobody may raise it.
    niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    # A session of its own is a scheduling group of its own, where the kernel has such (sched(7), autogroup).
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness), encoding="ascii")


def _wait_until_ready(
    server: LlamaServer, process: "subprocess.Popen[bytes]", log: Path, clock: Clock, port: int, warm_up: Prompt
) -> None:
    """Return once a real request was answered."""
    deadline = Deadline(clock, START_TIMEOUT_S)
    while True:
        code = process.poll()
        if code is not None:
            raise FirstsoundError(
                f"the language model's server did not come up on {HOST}:{port}: {exit_in_words(code)}\n{tail(log)}"
            )
        if _answers(port):
            break
        if not deadline.remaining_s():
            raise FirstsoundError(
                f"the language model's server was not ready on {HOST}:{port} after {START_TIMEOUT_S:.0f} s\n{tail(log)}"
            )
        clock.sleep_ns(50 * NS_PER_MS)
    try:
        for _event in server.reply(warm_up):
            pass
    except StageError as e:
        raise FirstsoundError(f"the language model's server on {HOST}:{port} answers no request: {e}") from e
