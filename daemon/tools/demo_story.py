"""What the terminal of the demo tells, and when the ranking breaks: that follows from when the
history is read, which is known only then."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rich.console import Console

from ..backoff import stopped_within
from ..commands.app import Service
from ..events import span_text
from ..http import Headline, Judged, JudgedScore, headline, judged
from ..views import Report, Score
from .traffic import Regression, TrafficStream

METRIC: Final = "RR@10"
WINDOW: Final = "1m"
READ_WITHIN_MS: Final = 10_000
"""The history is read once the windows end so long ago."""
LOOK_EVERY_S: Final = 1.0
READING_EVERY_S: Final = 3.0
STORY_EVERY_S: Final = 10.0
URLS: Final = (
    ("/", "the web page: how good search is now"),
    ("/metrics", "the series for Prometheus"),
    ("/api/v1/scores", "the scores as JSON"),
    ("/api/v1/queries?order=worst&window=now", "the worst queries"),
    ("/api/v1/judged", "the scores by judgements, which need no clicks"),
    ("/api/v1/experiments", "what the experiment shows so far"),
)


@dataclass(frozen=True)
class DemoStory:
    """Traffic whose first `history_s` seconds are read first; `breaks_after_s` after they are, its
    ranking breaks, and `repaired_after_s` later it is repaired (None: never)."""

    stream: TrafficStream
    history_s: int
    breaks_after_s: float
    repaired_after_s: float | None

    def begin(self, now_ms: int) -> None:
        """Note that the history is read: from now on it is known when the ranking breaks."""
        breaks_s = (now_ms - self.stream.start_ms) / 1000 + self.breaks_after_s
        if self.repaired_after_s is None:
            self.stream.regression = Regression(breaks_s)
        else:
            self.stream.regression = Regression(breaks_s, until_s=breaks_s + self.repaired_after_s)


def is_read(as_of_ms: int | None, now_ms: int) -> bool:
    """Whether windows that end then have the whole history."""
    return as_of_ms is not None and now_ms - as_of_ms <= READ_WITHIN_MS


def reading_text(story: DemoStory, as_of_ms: int | None, now_ms: int) -> str:
    """How much of the history is left to read, where the windows end at `as_of_ms`."""
    begin_ms = story.stream.start_ms
    left_ms = now_ms - max(begin_ms, begin_ms if as_of_ms is None else as_of_ms)
    whole = span_text(story.history_s * 1000)
    return f"{_clock(now_ms)}  reading {whole} of history: {span_text(left_ms)} of it left"


def story_text(report: Report, regression: Regression, start_ms: int, now_ms: int) -> str:
    """The metric over all traffic and in the segment that breaks, and what is broken now."""
    live = [s for s in report.scores if (s.metric, s.window, s.view) == (METRIC, WINDOW, "live")]
    means = ", ".join(_means(live, regression))
    state = _state(regression, (now_ms - start_ms) / 1000)
    where = ", ".join(f"{name}={value}" for name, value in regression.segment.items())
    return f"{_clock(now_ms)}  {METRIC} over {WINDOW}: {means}  (ranking of {where} {state})"


def _state(regression: Regression, time_s: float) -> str:
    if time_s < regression.after_s:
        return f"breaks in {_span(regression.after_s - time_s)}"
    if time_s >= regression.until_s:
        return f"was repaired {_span(time_s - regression.until_s)} ago"
    if regression.until_s == float("inf"):
        return "is broken"
    return f"is broken, repair in {_span(regression.until_s - time_s)}"


def judged_text(judged: Judged, regression: Regression) -> str:
    """The first judged metric over all traffic and in the segment that breaks; nothing where
    nothing is judged yet."""
    metric = next(iter(judged.judged_metrics), "")
    found = [s for s in judged.scores if (s.judged_metric, s.window) == (metric, WINDOW)]
    if not found:
        return ""
    return f"          by judgements, {metric}: {', '.join(_means(found, regression))}"


def page_news(said: Headline | None, headline: Headline) -> str:
    """What the page says now, where it says something else than `said`; else nothing. Beside that
    search is good stands which change is over."""
    if said is not None and _gist(said) == _gist(headline):
        return ""
    more = headline.detail if headline.tone == "good" else ""
    return f"          {headline.text} {more}".rstrip()


def _gist(headline: Headline) -> tuple[object, ...]:
    """What it says, but for its numbers, which differ each time."""
    parts = headline.parts
    told = () if parts is None else (parts.far, parts.state, parts.metric, parts.final is None)
    return headline.tone, headline.change, told


def _means(scores: Iterable[Score | JudgedScore], regression: Regression) -> Iterator[str]:
    found = {(score.grouping, score.segment): score.mean for score in scores}
    for names in (("all", "all"), *regression.segment.items()):
        mean = found.get(names)
        known = "undefined" if mean is None else f"{mean:.3f}"
        yield f"{names[1]} {known if names in found else 'no traffic'}"


def _clock(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%H:%M:%S")


def _span(seconds: float) -> str:
    return span_text(round(seconds * 1000))


async def tell(service: Service, story: DemoStory, more: str) -> None:
    """Print how much history is left, where to look, and `more`; then, every few seconds, how far
    it is read, and after that the story."""
    console = Console()

    def say(line: str) -> None:
        console.print(line, soft_wrap=True, highlight=False)

    now_ms = _now_ms()
    say(reading_text(story, None, now_ms))
    host, port = service.config.http.host, service.http.port
    for path, text in URLS:
        say(f"http://{host}:{port}{path}  {text}")
    rate = story.stream.traffic.rate
    say(f"{rate:g} events/s of simulated search traffic. Press Ctrl-C to stop.")
    say(more)
    due_ms = now_ms + READING_EVERY_S * 1000
    said: Headline | None = None
    while not await stopped_within(service.stop, LOOK_EVERY_S):
        now_ms, published = _now_ms(), service.http.published
        report, reading = published.report, published.reading
        as_of_ms = None if reading is None else reading.snapshot.as_of_ms
        if story.stream.regression is None and is_read(as_of_ms, now_ms):
            story.begin(now_ms)
            due_ms = now_ms
        if now_ms < due_ms:
            continue
        regression = story.stream.regression
        if regression is None:
            due_ms = now_ms + READING_EVERY_S * 1000
            say(reading_text(story, as_of_ms, now_ms))
        elif report is not None and reading is not None:
            due_ms += STORY_EVERY_S * 1000
            now = headline(reading)
            lines = [
                story_text(report, regression, story.stream.start_ms, now_ms),
                judged_text(judged(reading, {}), regression),
                page_news(said, now),
            ]
            for line in filter(None, lines):
                say(line)
            said = now


def _now_ms() -> int:
    return int(time.time() * 1000)
