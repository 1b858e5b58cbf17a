"""Who is held out: patients stay together, every part has its share, and chance has no say but by the seed."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspirate.core.errors import ConfigError
from aspirate.core.records import SlideEntry
from aspirate.evaluation.splits import choose_folds, choose_holdout, deal, holdout, too_few_annotated

Kind = tuple[int, int, bool]


def cohort(patients: list[tuple[int, list[tuple[bool | None, int | None]]]]) -> list[SlideEntry]:
    """Slides (malignant, bethesda) of numbered patients."""
    return [
        SlideEntry(f"s{number}-{i}", Path("x"), f"p{number}", malignant, bethesda)
        for number, slides in patients
        for i, (malignant, bethesda) in enumerate(slides)
    ]


def kind_by_hand(slides: list[SlideEntry], annotated: frozenset[str]) -> Kind:
    y = max({None: -1, False: 0, True: 1}[s.malignant] for s in slides)
    return y, max(s.bethesda or 0 for s in slides), any(s.slide_id in annotated for s in slides)


labels = st.tuples(st.sampled_from([None, False, True]), st.sampled_from([None, 2, 3, 4, 5, 6]))


@given(
    st.lists(st.lists(labels, min_size=1, max_size=3), min_size=6, max_size=60), st.integers(2, 6), st.integers(0, 9)
)
def test_parts_are_fair_and_keep_patients_whole(
    slides: list[list[tuple[bool | None, int | None]]], parts: int, seed: int
) -> None:
    entries = cohort(list(enumerate(slides)))
    annotated = frozenset(e.slide_id for e in entries if hash(e.slide_id) % 3 == 0)
    part_of = deal(entries, parts, seed, annotated)
    assert set(part_of) == {e.slide_id for e in entries}

    parts_of_patient = defaultdict(set)
    by_patient = defaultdict(list)
    for entry in entries:
        parts_of_patient[entry.patient].add(part_of[entry.slide_id])
        by_patient[entry.patient].append(entry)
    assert all(len(found) == 1 for found in parts_of_patient.values())

    in_all = Counter(min(found) for found in parts_of_patient.values())
    assert max(in_all.values()) - min(in_all[p] for p in range(parts)) <= 1
    of_kind: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
    for patient, own in by_patient.items():
        of_kind[kind_by_hand(own, annotated)][min(parts_of_patient[patient])] += 1
    for counts in of_kind.values():
        assert max(counts.values()) - min(counts[p] for p in range(parts)) <= 1


def test_the_same_seed_deals_the_same_whatever_the_order_of_the_table() -> None:
    rng = np.random.default_rng(0)
    entries = cohort([(n, [(bool(rng.integers(2)), int(rng.integers(2, 7)))]) for n in range(40)])
    first = deal(entries, 5, seed=1)
    assert deal(entries[::-1], 5, seed=1) == first
    assert deal(entries, 5, seed=2) != first
    malignant = Counter(first[e.slide_id] for e in entries if e.malignant)
    assert max(malignant.values()) - min(malignant.values()) <= 1, "neighbouring kinds are dealt on, not anew"


def test_slides_of_unknown_patients_are_their_own() -> None:
    entries = [SlideEntry(f"s{i}", Path("x")) for i in range(4)]
    assert sorted(deal(entries, 4, seed=0).values()) == [0, 1, 2, 3]


def test_fewer_patients_than_parts_are_refused() -> None:
    entries = cohort([(1, [(True, 6)] * 5), (2, [(False, 2)] * 5)])
    with pytest.raises(ConfigError, match="2 patients cannot be dealt into 3 parts; use fewer parts"):
        deal(entries, 3, seed=0)
    assert set(deal(entries, 2, seed=0).values()) == {0, 1}


@pytest.mark.parametrize(
    ("patients", "folds", "told"),
    [
        (4, 5, "4 patients cannot be dealt into 5 folds; use fewer folds, or add more patients"),
        (2, 3, "2 patients cannot be dealt into 3 folds; add more patients"),
        (9, 4, "9 slides cannot be divided into 4 folds: {}; use fewer folds, or label more patients"),
        (9, 3, "9 slides cannot be divided into 3 folds: {}; label more patients"),
    ],
)
def test_folds_that_cannot_be_had_say_what_would_help(patients: int, folds: int, told: str) -> None:
    """Three folds are the fewest there may be. Without malignant slides no fold has what it needs."""
    entries = cohort([(n, [(False, 2)]) for n in range(patients)])
    with pytest.raises(ConfigError) as refused:
        choose_folds(entries, folds, 0, frozenset(), "Y")
    wanting = "; ".join(
        f"fold {k} has no malignant slide to {use}" for k in range(2) for use in ("learn from", "validate on")
    )
    assert str(refused.value) == told.format(wanting)


def test_annotations_must_go_round_all_folds() -> None:
    entries = cohort([(n, [(n % 2 == 0, 2 + 4 * (n % 2))] * 2) for n in range(20)])
    three, five = (frozenset(f"s{n}-{i}" for n in range(count) for i in range(2)) for count in (3, 5))
    assert too_few_annotated(choose_folds(entries, 5, 0, five, "UY"), entries, five) is None
    told = "U: 3 patients with annotations are too few for {} folds; {}annotate more patients"
    splits = choose_folds(entries, 5, 0, three, "Y")
    assert too_few_annotated(splits, entries, three) == told.format(5, "use fewer folds, or ")
    assert too_few_annotated(choose_folds(entries, 3, 0, three, "UY"), entries, three) is None
    none_of_them = choose_folds(entries[6:], 3, 0, three, "Y")
    assert too_few_annotated(none_of_them, entries, three) == told.format(3, "")


def test_holdout_is_one_part_against_the_rest() -> None:
    split = holdout({"a": 0, "b": 1, "c": 2, "d": 0}, validation_part=2)
    assert (split.train, split.validation, split.test) == (("a", "b", "d"), ("c",), ())


def test_the_part_held_out_has_what_both_sides_need() -> None:
    """Two malignant and two annotated patients among twenty: most parts would lack one or the other."""
    entries = cohort([(n, [(n in (4, 11), 6 if n in (4, 11) else 2)]) for n in range(20)])
    annotated = frozenset({"s2-0", "s7-0"})
    for seed in range(20):
        split = choose_holdout(entries, 4, seed, annotated, "YS")
        for side in (split.train, split.validation):
            assert {e.malignant for e in entries if e.slide_id in side} == {False, True}
            assert annotated & set(side)
        assert sorted(split.train + split.validation) == sorted(e.slide_id for e in entries)
        assert choose_holdout(entries, 4, seed, annotated, "YS") == split


@pytest.mark.parametrize(
    ("malignant", "annotated", "labels", "told"),
    [
        ({3}, {1, 2}, "YS", r"no malignant slide to (learn from|validate on)"),
        ({3, 4}, {1}, "Y", r"no annotated slide to (learn from|validate on)"),
        (set(), {1, 2}, "S", r"no malignant slide to validate on"),
    ],
)
def test_a_cohort_that_cannot_be_divided_is_refused(
    malignant: set[int], annotated: set[int], labels: str, told: str
) -> None:
    entries = cohort([(n, [(n in malignant, 2 + n % 3)]) for n in range(12)])
    with pytest.raises(ConfigError, match=told + r".*; use fewer parts .*, or label more patients"):
        choose_holdout(entries, 4, 0, frozenset(f"s{n}-0" for n in annotated), labels)


def test_one_category_to_learn_from_is_too_few_for_S() -> None:
    entries = cohort([(n, [(n % 2 == 0, 4 if n else 5)]) for n in range(8)])
    everywhere = frozenset(e.slide_id for e in entries)
    assert "s0-0" in choose_holdout(entries, 4, 0, everywhere, "YS").train
    same = cohort([(n, [(n % 2 == 0, 4)]) for n in range(8)])
    with pytest.raises(ConfigError, match="no second TBS category to learn from"):
        choose_holdout(same, 4, 0, everywhere, "S")
    assert choose_holdout(same, 4, 0, everywhere, "Y").validation
