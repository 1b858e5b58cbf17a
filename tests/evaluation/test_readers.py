"""Readers and combinations: nine slides whose numbers were worked out by hand, and scikit-learn for the rest."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, cohen_kappa_score, roc_auc_score

from aspirate.core.errors import TableError
from aspirate.core.records import SlideEntry
from aspirate.evaluation.estimates import Bootstrap
from aspirate.evaluation.readers import (
    Reader,
    Rule,
    combine,
    combine_with_readers,
    compare_with_readers,
    pair_agreements,
    readers_of,
)

FEW = Bootstrap(resamples=200)

BY_HAND = {  # malignant, reader, algorithm; decided by the reader or as both say (R), the algorithm (A), the rule (?)
    "a": (1, 6, 5),  # R
    "b": (1, 4, 6),  # A
    "c": (1, 3, 5),  # ?
    "d": (1, 2, 6),  # R, a conflict
    "e": (0, 2, 3),  # R
    "f": (0, 4, 2),  # A
    "g": (0, 4, 3),  # ?
    "h": (0, 3, 3),  # R
    "i": (0, 5, 4),  # ?
}
TRUTH: dict[str, bool | None] = {slide: bool(row[0]) for slide, row in BY_HAND.items()}
READER = Reader("ann", {slide: row[1] for slide, row in BY_HAND.items()})
ALGORITHM = {slide: row[2] for slide, row in BY_HAND.items()}


def test_combined_by_hand() -> None:
    """Won pairs of 4 × 5. Reader {6,4,3,2} against {2,4,4,3,5}: 5 + 3 + 1½ + ½.

    Human {6,6,3,2} against {2,2,4,3,5}: 5 + 5 + 2½ + 1. Algorithm {6,6,5,2} against {2,2,3,3,4}: 5 + 5 + 5 + 1.
    """
    human, machine = combine_with_readers(ALGORITHM, [READER], TRUTH, settings=FEW)
    assert (human.rule, machine.rule) == ("Combined345Human", "Combined345Alg")
    assert [s.bethesda for s in human.slides] == [6, 6, 3, 2, 2, 2, 4, 3, 5]
    assert [s.bethesda for s in machine.slides] == [6, 6, 5, 2, 2, 2, 3, 3, 4]
    assert human.discrimination.auc.value == pytest.approx(13.5 / 20)
    assert machine.discrimination.auc.value == pytest.approx(16 / 20)
    assert human.discrimination.ap.value == pytest.approx((1 + 1 + 3 / 6 + 4 / 9) / 4)
    assert machine.discrimination.ap.value == pytest.approx((1 + 1 + 1 + 4 / 9) / 4)
    assert human.gain.auc_delong.estimate.value == pytest.approx(3.5 / 20)
    assert machine.gain.auc.estimate.value == pytest.approx(6 / 20)
    assert (machine.gain.auc.first, machine.gain.auc.second) == ("ann Combined345Alg", "ann")
    assert machine.gain.ap.tests == 2, "both rules are adjusted together"
    assert [human.decided_by(who) for who in ("reader", "algorithm", "both")] == [6, 2, 1]
    assert [machine.decided_by(who) for who in ("reader", "algorithm", "both")] == [3, 5, 1]
    for found in (human, machine):
        assert [(s.slide_id, s.bethesda, s.decided_by) for s in found.conflicts] == [("d", 2, "reader")]
        assert found.discrimination.auc.n == 9


@pytest.mark.parametrize("rule", ["Combined345Human", "Combined345Alg"])
def test_every_pair_of_categories(rule: Rule) -> None:
    for reader, algorithm in product(range(2, 7), repeat=2):
        found = combine("s", reader, algorithm, rule)
        sure = [c for c in (reader, algorithm) if c in (2, 6)]
        if len(set(sure)) == 1:
            assert found.bethesda == sure[0], "whoever says 2 or 6 decides"
        elif len(set(sure)) == 2:
            assert (found.bethesda, found.decided_by, found.conflict) == (reader, "reader", True)
        else:
            assert found.bethesda == (reader if rule == "Combined345Human" else algorithm)
        assert found.conflict == (len(set(sure)) == 2)
        assert (found.decided_by == "both") == (reader == algorithm)
        assert found.bethesda == {"reader": reader, "algorithm": algorithm, "both": reader}[found.decided_by]


def test_partly_read_slides_are_compared_where_both_have_them() -> None:
    scores = {slide: float(category) + 0.1 for slide, category in ALGORITHM.items() if slide != "a"}
    part = Reader("bob", {slide: READER.categories[slide] for slide in "abcdefg"})
    one = Reader("cy", {"b": 4})
    by_name = {c.reader: c for c in compare_with_readers(scores, [READER, part, one], TRUTH, settings=FEW)}
    shared = "bcdefg"
    y = [TRUTH[slide] for slide in shared]
    own, other = [READER.categories[slide] for slide in shared], [scores[slide] for slide in shared]
    bob = by_name["bob"]
    assert (bob.own.auc.n, bob.algorithm.auc.n, bob.gain.auc.estimate.n) == (6, 6, 6)
    assert bob.own.auc.value == pytest.approx(roc_auc_score(y, own))
    assert bob.algorithm.ap.value == pytest.approx(average_precision_score(y, other))
    assert bob.gain.auc_delong.estimate.value == pytest.approx(roc_auc_score(y, other) - roc_auc_score(y, own))
    assert bob.gain.auc.tests == 2
    assert by_name["cy"].gain.ap.estimate.note == by_name["cy"].own.auc.note == "no benign slide"
    assert np.isnan(by_name["cy"].gain.auc_delong.p_holm)

    alone = combine_with_readers({"x": 2}, [one], TRUTH, settings=FEW)
    assert [(c.slides, c.discrimination.auc.note) for c in alone] == [((), "no slides")] * 2
    assert compare_with_readers(scores, [], TRUTH) == ()
    assert combine_with_readers(ALGORITHM, [], TRUTH) == ()


def test_kappa_and_confusion_of_pairs() -> None:
    bob = {slide: category for slide, category in ALGORITHM.items() if slide not in "ai"} | {"z": 2}
    found = pair_agreements({"algorithm": ALGORITHM, "ann": READER.categories, "bob": bob}, settings=FEW)
    assert [(p.first, p.second, p.kappa.n) for p in found] == [
        ("algorithm", "ann", 9),
        ("algorithm", "bob", 7),
        ("ann", "bob", 7),
    ]
    ours, theirs = ([own[slide] for slide in BY_HAND] for own in (ALGORITHM, READER.categories))
    assert found[0].kappa.value == pytest.approx(cohen_kappa_score(ours, theirs, weights="quadratic"))
    assert found[0].confusion.counts[4].tolist() == [1, 0, 1, 0, 0], "algorithm 6: readers said 2 and 4"
    assert found[0].confusion.column_shares[:, 2] == pytest.approx([1 / 3, 1 / 3, 0, 0, 1 / 3])
    assert found[1].kappa.value == 1


def test_readers_come_from_the_cohort_without_their_inadequate_slides() -> None:
    entries = [
        SlideEntry("s1", Path("x"), readers={"b": 4, "a": 1}),
        SlideEntry("s2", Path("x"), readers={"a": 6}),
        SlideEntry("s3", Path("x")),
    ]
    assert readers_of(entries) == (Reader("a", {"s2": 6}, ("s1",)), Reader("b", {"s1": 4}))
    assert readers_of(entries[2:]) == ()


def test_bad_input() -> None:
    with pytest.raises(TableError, match=r"s7: 1 problem\n.*the algorithm's TBS is 1; give 2 to 6"):
        combine("s7", 2, 1, "Combined345Alg")
    with pytest.raises(TableError, match="two have the name 'ann'"):
        combine_with_readers(ALGORITHM, [READER, READER], TRUTH)
    with pytest.raises(TableError, match="the name 'algorithm' stands for the program"):
        compare_with_readers({}, [Reader("algorithm", {})], TRUTH)
    with pytest.raises(TableError, match="algorithm: 1 problem"):
        compare_with_readers({**ALGORITHM, "a": float("nan")}, [READER], TRUTH)
