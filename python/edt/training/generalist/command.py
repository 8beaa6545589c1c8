"""`edt train --generalist`: trains and assesses the policy for all paths, and writes the files that the core has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tqdm import tqdm

from edt.training.generalist.assess import assess
from edt.training.generalist.files import POLICY, REPORT, save
from edt.training.generalist.train import Options, Point, train


def run(folder: Path, seed: int, *, as_json: bool, quiet: bool, episodes: int | None = None) -> int:
    """Trains, assesses and writes; returns the exit code."""
    options = Options(seed=seed) if episodes is None else Options(seed=seed, episodes=episodes)
    silent = True if quiet else None
    with tqdm(total=options.episodes, disable=silent, leave=False, unit="episode") as bar:

        def show(point: Point) -> None:
            bar.set_postfix_str(f"{point.utility:.3f} of the best utility", refresh=False)
            bar.update()

        trained = train(options, show)
    assessment = assess(trained.policy)
    save(trained, assessment, folder)
    if as_json:
        print(json.dumps({"folder": str(folder), **trained.report(), **assessment.to_dict()}, allow_nan=False))
    if not quiet:
        for name, score in assessment.scores.items():
            print(
                f"{name}: {score.utility:.3f} of the best utility, {score.constant:.3f} with 8 streams", file=sys.stderr
            )
        print(f"kept in {folder / POLICY}, and how it does in {folder / REPORT}", file=sys.stderr)
    return 0
