"""The slow definitions of lane `hour` and of the onset: one series, one instant, plain loops."""

from math import inf, log, nan, sqrt

from relevanced.daemon.changes import HOUR_MS, MINUTE_MS, ScoreNoise, ScoreTimeline


def columns(timeline: ScoreTimeline, series: int) -> list[dict[str, float]]:
    """The bins of one series."""
    return [
        {
            "start": float(timeline.starts[index]),
            "end": float(timeline.ends[index]),
            "n": float(timeline.scored[index, series]),
            "sum": float(timeline.sums[index, series]),
            "squares": float(timeline.squares[index, series]),
            "hourly": float(timeline.hourly[index]),
            "usual": nan if timeline.usual is None else float(timeline.usual[index, series]),
        }
        for index in range(len(timeline.starts))
    ]


def side(bins: list[dict[str, float]]) -> tuple[float, float, float, float]:
    """(scored, mean, sample variance, usual); the usual is NaN where any scored bin has none."""
    n = sum(each["n"] for each in bins)
    if not n:
        return 0, nan, 0, nan
    mean = sum(each["sum"] for each in bins) / n
    spread = max(sum(each["squares"] for each in bins) - n * mean**2, 0)
    usual = sum(each["n"] * each["usual"] for each in bins if each["n"]) / n
    return n, mean, spread / (n - 1) if n > 1 else 0.0, usual


def z_and_loss(
    bins: list[dict[str, float]], at: int, direction: float, noise: ScoreNoise
) -> tuple[float, float] | None:
    """(z, loss) of the change at the start of a bin; None where it is not looked at."""
    end, instant = bins[-1]["end"], bins[at]["start"]
    longest = max(60 * MINUTE_MS, end - instant)
    base = [each for each in bins[:at] if each["start"] >= instant - longest]
    covered = sum(each["end"] - each["start"] for each in base)
    if end - instant < MINUTE_MS or covered < 5 * MINUTE_MS:
        return None
    n0, m0, v0, u0 = side(base)
    n1, m1, v1, u1 = side(bins[at:])
    if min(n0, n1) < 100 or m0 == 0:
        return None
    v1 = max(v0, v1)
    middles = (end + instant) / 2 - (instant + base[0]["start"]) / 2
    drift = noise.drift_ratio * min(1 + middles / HOUR_MS, 5)
    if not u0 == u0 or not u1 == u1 or u0 == 0 or u1 == 0:
        spread = v0 / n0 + v1 / n1
    else:
        m0, m1 = m0 / u0, m1 / u1
        spread = (1 + 1 / 3) * (v0 / n0 / u0**2 + v1 / n1 / u1**2)
        drift = noise.drift_ratio * sqrt(2)
    loss = direction * (m0 - m1) / abs(m0)
    error = sqrt(noise.design_effect * spread / m0**2 + drift**2)
    return -loss / error, loss


def scan(
    timeline: ScoreTimeline, directions: list[float], noise: ScoreNoise
) -> list[tuple[float, ...]]:
    """(z, loss, since) of each series that is called, () of the others."""
    judged = sum(1 for direction in directions if direction)
    limit = -(6 + max(log(max(judged, 1) / 240), 0) / 6)
    answers: list[tuple[float, ...]] = []
    for series, direction in enumerate(directions):
        bins, best = columns(timeline, series), (inf, nan, nan)
        for at in range(len(bins)):
            found = z_and_loss(bins, at, direction, noise) if direction else None
            if found and found[0] < limit and found[1] > 0.05 and found[0] < best[0]:
                best = (*found, bins[at]["start"])
        answers.append(best if best[0] < inf else ())
    return answers


def log_likelihood_ratios(
    timeline: ScoreTimeline, series: int, direction: float, noise: ScoreNoise
) -> list[tuple[float, float]]:
    """(instant, log likelihood ratio) of every instant that is tried, by two regressions each."""
    bins = [each for each in columns(timeline, series) if each["n"]]
    total = sum(each["n"] for each in bins)
    mean = sum(each["sum"] for each in bins) / total
    spread = sum(each["squares"] - each["sum"] ** 2 / each["n"] for each in bins) / total
    known = all(each["usual"] == each["usual"] for each in bins)
    levels, variances = [], []
    for each in bins:
        own = noise.design_effect * spread / each["n"]
        hour = own * 4 / 3 + 2 * (noise.drift_ratio * mean) ** 2
        levels.append(each["sum"] / each["n"] - (each["usual"] if known else 0))
        variances.append(hour if each["hourly"] else own)
    answers = []
    for each in columns(timeline, series):
        step = 5 * MINUTE_MS if each["hourly"] else each["end"] - each["start"]
        instant = each["start"]
        while instant < each["end"]:
            behind = [part_behind(each, instant) for each in bins]
            if instant > bins[0]["start"] and min(behind) < max(behind):
                answers.append((instant, gain(levels, variances, behind, direction)))
            instant += step
    return answers


def part_behind(bin_: dict[str, float], instant: float) -> float:
    length = bin_["end"] - bin_["start"]
    return min(max((bin_["end"] - instant) / length, 0), 1)


def gain(
    levels: list[float], variances: list[float], behind: list[float], direction: float
) -> float:
    """Half of what the step takes off the weighted squares, 0 where it is for the better."""
    weights = [1 / variance for variance in variances]
    total = sum(weights)
    level = sum(w * y for w, y in zip(weights, levels, strict=True)) / total
    x_mean = sum(w * x for w, x in zip(weights, behind, strict=True)) / total
    rows = list(zip(weights, levels, behind, strict=True))
    slope = sum(w * (y - level) * (x - x_mean) for w, y, x in rows)
    slope /= sum(w * (x - x_mean) ** 2 for w, _, x in rows)
    without = sum(w * (y - level) ** 2 for w, y, _ in rows)
    within = sum(w * (y - level - slope * (x - x_mean)) ** 2 for w, y, x in rows)
    return (without - within) / 2 if slope * direction < 0 else 0.0
