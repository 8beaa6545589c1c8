"""Draws a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edt.optimizer import PerStage
    from edt.report import Report


def draw(report: Report) -> Figure:
    """Draws throughput above concurrency, over the same seconds."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "could not plot the report: matplotlib is not installed\nhint: pip install 'edt[plot]'", name=error.name
        ) from error
    figure, axes = pyplot.subplots(2, 1, sharex=True, layout="constrained")
    times = [sample.elapsed_s for sample in report.timeline]
    gigabits = [sample.throughput.map(lambda rate: rate * 8 / 1e9) for sample in report.timeline]
    _stages(axes[0], times, gigabits)
    axes[0].set_ylabel("throughput (Gbit/s)")
    axes[0].set_title(f"{report.source} → {report.destination}", fontsize="medium")
    _stages(axes[1], times, [sample.concurrency for sample in report.timeline])
    axes[1].set_ylabel("concurrency")
    axes[1].set_xlabel("time (s)")
    axes[0].legend()
    return figure


def _stages(axes: Axes, times: list[float], values: list[PerStage[float]]) -> None:
    axes.plot(times, [value.read for value in values], label="read")
    axes.plot(times, [value.network for value in values], label="network")
    axes.plot(times, [value.write for value in values], label="write")
    axes.set_ylim(bottom=0)
