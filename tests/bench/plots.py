"""The curves of how cost grows, as one SVG."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from tests.bench.findings import Curve


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Plot events per second of CPU time against each quantity, both on logarithmic axes."""
    with rc_context({"svg.hashsalt": "growth", "font.size": 9}):
        figure = Figure(figsize=(11, 6.5))
        axes = figure.subplots(2, 3, sharey=True)
        for axis, curve in zip(axes.flat, curves):
            rates = [1e6 / cost for cost in curve.cpu_us]
            axis.loglog(curve.x, rates, marker="o")
            axis.set_xlabel(curve.words)
            axis.set_title(f"cost grows with exponent {curve.slope:.2f}", fontsize=9)
            axis.grid(True, which="both", alpha=0.3)
            axis.set_xticks(curve.x, [f"{x:,.10g}" for x in curve.x])
            axis.xaxis.set_minor_formatter(NullFormatter())
        for axis in axes.flat[len(curves) :]:
            axis.set_axis_off()
        for axis in axes[:, 0]:
            axis.set_ylabel("events per second of CPU")
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
