"""What reasons of decisions tell: where the guard overruled the optimizer, and how often HARP retuned."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

GUARD = "guard: "
"""How the reason of a decision begins that is the guard's."""
FREED = ", forgotten; "
"""What the reason has beside it where the guard only tells that the optimizer decides again."""
ESTIMATED = " parameters after "
"""What HARP's reason has where its models were asked, whether that changed something or not."""
CLASS = re.compile(r"(?:tiny|small|medium|large) \d+ x \d+ pipelining \d+")
"""The parameters of a class of files in HARP's reasons."""


def is_guards(reason: str) -> bool:
    """Whether a decision with that reason is the guard's in the place of the optimizer's."""
    return reason.startswith(GUARD) and FREED not in reason


def overruled(report: dict[str, Any]) -> list[bool]:
    """Of each interval of a report, whether the guard had overruled the optimizer there."""
    decisions = [(tuned["elapsed_s"], tuned["decision"]["reason"]) for tuned in report["decisions"]]
    found = []
    for sample in report["timeline"]:
        # What was in force is what was decided last before the interval ended.
        reason = next((reason for made_s, reason in reversed(decisions) if made_s < sample["elapsed_s"]), "")
        found.append(is_guards(reason))
    return found


def retuned(report: dict[str, Any]) -> int:
    """How often HARP's own parameters changed after its first estimate, whatever the guard put in their place."""
    parameters: list[list[str]] = []
    for tuned in report["decisions"]:
        reason = tuned["decision"]["reason"]
        if not is_guards(reason) and (parameters or ESTIMATED in reason):
            parameters.append(CLASS.findall(reason))
    return sum(one != next_one for one, next_one in pairwise(parameters))
