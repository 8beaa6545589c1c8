"""Replays of the search of ASM on passes that it never saw: what counts as sampled, and what is predicted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("sklearn", reason="learning needs scikit-learn: pip install 'edt[learn]'")

from gridftp_logs import Pass
from replays import SAMPLES, Archive, Tried, replayed

POWERS = (1, 2, 4, 8, 16)
DAY_S = 86_400.0


def made(number: int, factor: float, files_in_flight: int = 8) -> Pass:
    """A pass whose throughput is highest with 4 streams for each of so many files and pipelining 4."""

    def throughput(p: int, cc: int, pp: int) -> float:
        off = (math.log2(p) - 2) ** 2 + math.log2(cc / files_in_flight) ** 2 + (math.log2(pp) - 2) ** 2
        return factor * 1e8 * math.exp(-off / 8)

    settings = [(p, cc, pp) for p in POWERS for cc in POWERS for pp in POWERS]
    began_s = number * DAY_S
    rows = [(setting, throughput(*setting)) for setting in settings]
    return Pass(number, "a", "b", began_s, began_s, 1.25e9, 0.04, 4e6, 1e6, 1000, rows)


@pytest.mark.parametrize(("factor", "agreement"), [(1.0, 1.0), (0.4, 0.4), (1.5, 0.5), (3.0, -1.0)])
def test_a_search_that_has_ended_predicts_what_it_sampled(factor: float, agreement: float) -> None:
    passes = [made(0, 1.0), made(1, factor)]
    archive = Archive(passes)
    found = replayed(passes[1], archive.knowledge(passes[:1]))
    assert found.known == 1
    assert [each.setting for each in found.samples] == [(4, 8, 4)], "there is no other surface to go to"
    assert [found.had_ended(samples) for samples in (1, 2, 3)] == [False, True, True]
    assert found.fresh == [False] * SAMPLES
    assert found.agreement == pytest.approx([agreement] * SAMPLES, abs=0.01)
    assert found.accuracy == pytest.approx([max(0.0, agreement)] * SAMPLES, abs=0.01)
    assert found.others == pytest.approx([max(0.0, agreement)] * SAMPLES, abs=0.01)
    assert [each.fraction for each in found.kept] == [1.0] * SAMPLES
    assert [each.streams for each in found.kept] == [32] * SAMPLES


def test_a_prediction_is_new_until_its_setting_was_sampled() -> None:
    passes = [made(0, 1.0), made(1, 0.3, 2), made(2, 0.3, 2)]
    found = replayed(passes[2], Archive(passes).knowledge(passes[:2]))
    assert found.known == 2
    assert [each.setting for each in found.samples] == [(4, 8, 4), (4, 2, 4)]
    assert found.samples[0].fraction == pytest.approx(math.exp(-4 / 8))
    assert found.fresh == [True, False, False, False]
    assert found.agreement[0] == found.agreement[1] == pytest.approx(1.0, abs=0.1)
    assert [each.setting for each in found.kept] == [(4, 2, 4)] * SAMPLES
    assert found.candidates == [1] * SAMPLES


def test_fewer_streams_are_kept_where_they_give_about_as_much_unless_that_is_not_enough() -> None:
    rows = [(setting, 0.99e8 if setting == (4, 4, 4) else throughput) for setting, throughput in made(0, 1.0).rows]
    passes = [replace(made(number, 1.0), rows=rows) for number in (0, 1)]
    knowledge = Archive(passes).knowledge(passes[:1])
    assert replayed(passes[1], knowledge).kept == [Tried((4, 4, 4), 0.99)] * SAMPLES
    assert replayed(passes[1], knowledge, enough=1.0).kept == [Tried((4, 8, 4), 1.0)] * SAMPLES


def test_a_search_may_begin_where_the_surfaces_lie_furthest_apart() -> None:
    passes = [made(0, 1.0), made(1, 0.9, 2), made(2, 0.9, 2)]
    knowledge = Archive(passes).knowledge(passes[:2])
    first = tuple(knowledge["clusters"][0]["separating"][0])
    found = replayed(passes[2], knowledge, "separating")
    assert found.samples[0].setting == first
    assert found.kept[-1].setting == (4, 2, 4)
    alone = replayed(passes[2], Archive(passes).knowledge(passes[:1]), "separating")
    assert alone.samples[0].setting == (4, 8, 4), "nothing is to be told apart"
