"""Draws the training curve of one agent or several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from edt.training.ppo import Point


def training_curves(
    file: str | os.PathLike[str], curves: Mapping[str, Sequence[Point]], convergence: float = 0.9
) -> None:
    """Writes the mean reward by episodes, each curve with its name; the format follows the file's ending."""
    with mpl.rc_context({"svg.hashsalt": "edt", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for name, curve in curves.items():
            episodes = [point.episodes for point in curve]
            rewards = np.array([point.reward for point in curve])
            axes.plot(episodes, smoothed(rewards), label=name, linewidth=1.2)
        axes.axhline(convergence, color="grey", linestyle="--", linewidth=0.8)
        axes.annotate(f"{convergence:g} of R_max", (0, convergence), color="grey", va="bottom", fontsize=8)
        axes.set_xlabel("episodes")
        axes.set_ylabel("mean reward, share of R_max")
        axes.legend(frameon=False)
        figure.savefig(file, dpi=110)


def smoothed(rewards: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    """Means over up to a hundredth of the curve."""
    width = max(1, len(rewards) // 100)
    sums = np.cumsum(np.insert(rewards, 0, 0.0))
    begin = np.maximum(0, np.arange(len(rewards)) + 1 - width)
    end = np.arange(len(rewards)) + 1
    means: list[float] = ((sums[end] - sums[begin]) / (end - begin)).tolist()
    return means
