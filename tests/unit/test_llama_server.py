"""The client against a server of ours that says what it is told, and the process that does not come up."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from sse_starlette.sse import EventSourceResponse

from firstsound.adapters import llama_server
from firstsound.adapters.llama_server import LlamaServer
from firstsound.clock import MonotonicClock
from firstsound.errors import FirstsoundError, StageError
from firstsound.stages import Delta, Finish, Prompt

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
PROMPT = Prompt("Be brief.", "Why?")


def event(text: str | None, finish: str = "null") -> bytes:
    delta = '{"role": "assistant"}' if text is None else f'{{"content": "{text}"}}'
    return f'data: {{"choices": [{{"delta": {delta}, "finish_reason": {finish}}}]}}\n\n'.encode()


REUSED = "Llama.generate: 40 prefix-match hit, remaining 9 prompt tokens to eval\n"


@contextmanager
def serving(tmp_path: Path, *said: bytes | float, logs: str = REUSED) -> Iterator[LlamaServer]:
    """A server that answers one request with these bytes, sleeping where a number of seconds stands."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        # The client may hang up first.
        with suppress(OSError), listener.accept()[0] as connection:
            connection.recv(65_536)
            log.write_text(logs)
            for what in said:
                if isinstance(what, bytes):
                    connection.sendall(what)
                else:
                    time.sleep(what)
            # Closed with something unread, the socket would be reset and what was sent lost.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass

    log = tmp_path / "server.log"
    log.touch()
    threading.Thread(target=serve, daemon=True).start()
    process = SimpleNamespace(pid=1, wait=lambda timeout: 0 if timeout is None else -9)
    server = LlamaServer(f"http://127.0.0.1:{listener.getsockname()[1]}", "key", process, log)  # type: ignore[arg-type]
    yield server
    server.close()
    listener.close()


def test_comments_roles_and_blanks_pass_through_in_order(tmp_path: Path) -> None:
    said = (
        OK,
        b": ping\n\n",
        event(None),
        event(""),
        event("\\n"),
        event("Hi"),
        event("", '"stop"'),
        b"data: [DONE]\n\n",
    )
    with serving(tmp_path, *said) as server:
        assert list(server.reply(PROMPT)) == [Delta("\n"), Delta("Hi"), Finish("stop", 49, 40)]


def test_an_event_arrives_when_it_is_sent_not_with_the_next(tmp_path: Path) -> None:
    with serving(tmp_path, OK, event("Hi"), 1.0, event("", '"stop"')) as server:
        start = time.monotonic()
        next(iter(server.reply(PROMPT)))
        assert time.monotonic() - start < 0.5


def test_a_character_that_is_cut_between_its_bytes_arrives_whole(tmp_path: Path) -> None:
    said = 'data: {"choices": [{"delta": {"content": "é"}, "finish_reason": "stop"}]}\n\n'.encode()
    cut = said.index("é".encode()) + 1
    with serving(tmp_path, OK, said[:cut], 0.05, said[cut:]) as server:
        assert next(iter(server.reply(PROMPT))) == Delta("é")


def test_a_stream_without_a_finish_reason_has_no_finish(tmp_path: Path) -> None:
    with serving(tmp_path, OK, event("Hi"), b"data: [DONE]\n\n") as server:
        assert list(server.reply(PROMPT)) == [Delta("Hi")]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nlost",), "HTTP 500: lost"),
        ((OK, b"data: {not json}\n\n"), "no chat completion chunk"),
        ((OK, b'data: {"choices": []}\n\n'), "no chat completion chunk"),
        ((OK, b"data: 7\n\n"), "no chat completion chunk"),
        ((OK, b"data: \xff\xfe\n\n"), "no chat completion chunk"),
        ((b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>",), "SSEError"),
        (
            (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n", event("Hi")),
            "RemoteProtocolError",
        ),
        ((b"",), "RemoteProtocolError"),
    ],
)
def test_what_cannot_be_read_is_an_error_in_words(tmp_path: Path, said: tuple[bytes, ...], told: str) -> None:
    with serving(tmp_path, *said) as server, pytest.raises(StageError, match=told):
        list(server.reply(PROMPT))


def test_a_server_that_stalls_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "READ_TIMEOUT_S", 0.2)
    with serving(tmp_path, OK, event("Hi"), 2.0) as server, pytest.raises(StageError, match="sent nothing for"):
        list(server.reply(PROMPT))


def test_a_dead_server_is_told_with_its_signal(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("its last words")
    dead = SimpleNamespace(pid=1, wait=lambda timeout: -9)  # noqa: ARG005 - a process's signature
    server = LlamaServer(f"http://127.0.0.1:{llama_server.free_port()}", "key", dead, log)  # type: ignore[arg-type]
    with pytest.raises(StageError, match=r"ConnectError.*ended with signal 9 \(SIGKILL.*\nits last words"):
        list(server.reply(PROMPT))
    server.close()


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (REUSED, (49, 40)),
        ("Llama.generate: 1 prefix-match hit, remaining 8 prompt tokens to eval\n" + REUSED, (49, 40)),
        ("Llama.generate: full prompt already cached, skipping reset\n", (1, 1)),
        ("llama_perf_context_print: prompt eval time =      99.00 ms /    57 tokens (1 ms per token)\n", (57, 0)),
    ],
)
def test_the_servers_log_says_how_much_was_reused(tmp_path: Path, said: str, tokens: tuple[int, int]) -> None:
    with serving(tmp_path, OK, event("Hi", '"stop"'), logs=said) as server:
        assert list(server.reply(PROMPT)) == [Delta("Hi"), Finish("stop", *tokens)]


def test_a_log_that_does_not_say_what_was_cached_is_an_error_and_not_a_cold_prompt(tmp_path: Path) -> None:
    with (
        serving(tmp_path, OK, event("Hi", '"stop"'), logs="") as server,
        pytest.raises(StageError, match="log does not say how much of the prompt was cached"),
    ):
        list(server.reply(PROMPT))


def test_a_model_that_is_none_is_told_with_the_servers_last_words(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"not a model")
    threads = llama_server.ServerThreads(1, 1)
    with pytest.raises(FirstsoundError, match=r"did not come up on 127.0.0.1:\d+: exit status"):  # noqa: SIM117
        with llama_server.running(model, threads, MonotonicClock(), warm_up=PROMPT):
            pass


def test_a_busy_port_is_told_before_anything_is_started(tmp_path: Path) -> None:
    threads = llama_server.ServerThreads(1, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        starting = llama_server.running(tmp_path / "none", threads, MonotonicClock(), port=port, warm_up=PROMPT)
        with pytest.raises(FirstsoundError, match=r"port \d+ on 127.* is busy"):
            starting.__enter__()


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit status 0"), (3, "exit status 3"), (-15, "signal 15"), (-9, "signal 9 (SIGKILL")]
)
def test_exit_codes_are_told_in_words(code: int, words: str) -> None:
    assert llama_server.exit_in_words(code).startswith(words)


def test_a_server_that_hangs_is_given_up_before_its_ping_passes_for_life() -> None:
    assert EventSourceResponse.DEFAULT_PING_INTERVAL > llama_server.READ_TIMEOUT_S


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("import time\ntime.sleep(60)", r"was not ready on 127.0.0.1:\d+ after 1 s"),
        (
            (
                "import socket, sys, time\nat = ('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1]))\n"
                "with socket.create_server(at):\n    time.sleep(60)"
            ),
            r"on 127.0.0.1:\d+ answers no request: the server sent nothing for 0 s",
        ),
    ],
)
def test_a_server_that_comes_up_and_does_not_answer_is_told_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, told: str
) -> None:
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "server.py").write_text(server)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(llama_server, "START_TIMEOUT_S", 1.0)
    monkeypatch.setattr(llama_server, "READ_TIMEOUT_S", 0.3)
    threads = llama_server.ServerThreads(1, 1)
    starting = llama_server.running(tmp_path / "none", threads, MonotonicClock(), warm_up=PROMPT)
    with pytest.raises(FirstsoundError, match=told):
        starting.__enter__()


def test_a_prompt_is_read_ahead_and_what_is_wrong_is_told(tmp_path: Path) -> None:
    answer = b'{"choices": []}'
    with serving(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + answer) as server:
        server.prefill(PROMPT)
    with (
        serving(tmp_path, b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nlost") as server,
        pytest.raises(StageError, match="HTTP 500: lost"),
    ):
        server.prefill(PROMPT)
    with serving(tmp_path, b"") as server, pytest.raises(StageError, match="RemoteProtocolError"):
        server.prefill(PROMPT)
