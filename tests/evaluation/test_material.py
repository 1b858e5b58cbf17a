"""What is refused before any number is made, each with its slide and what to do."""

from pathlib import Path

import pytest

from aspirate.core.errors import ConfigError, TableError
from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.evaluation.material import PROPOSED, EvaluateSettings, Material, brought_together


def said(slide_id: str = "a", method: str = "m", fold: str = "0", **known: object) -> Prediction:
    values: dict[str, object] = {"malignant": True, "score": 1.0, "probability": 0.7} | known
    return Prediction(slide_id, fold, method, **values)  # type: ignore[arg-type]


def problems(*rows: Prediction, validation: tuple[Prediction, ...] = (), entries: tuple[SlideEntry, ...] = ()) -> str:
    with pytest.raises(TableError) as raised:
        brought_together(Material(rows, validation, entries))
    return str(raised.value)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((), "there is no row"),
        ((said(score=NAN),), "slide a by m: score is nan"),
        ((said(probability=INF),), "slide a by m: probability is inf"),
        ((said(score=-INF),), "slide a by m: score is -inf"),
        ((said(probability=1.2),), "probability is 1.2; give 0 to 1"),
        ((said(probability=None, score=None),), "neither score nor probability"),
        ((said(), said("b", probability=None)), "slide b by m: probability is blank or NaN, which other"),
        ((said(), said("b", score=None)), "slide b by m: score is blank or NaN, which other slides have"),
        ((said(), said()), "slide a by m: 2 rows; keep one"),
        ((said(), said(fold="1")), r"slide a by m: 2 rows (folds 0, 1); keep one"),
        ((said(), said(method="n", malignant=False)), "slide a: malignant is 0 and 1 in different rows"),
        ((said(bethesda=2), said(method="n", bethesda=3)), "slide a: bethesda is 2 and 3 in different rows"),
        ((said(predicted_bethesda=7),), "slide a by m: TBS is 7; give 1 to 6"),
    ],
)
def test_rows_that_would_make_a_number_wrong(rows: tuple[Prediction, ...], expected: str) -> None:
    assert expected in problems(*rows)


def test_slides_and_labels_are_those_of_the_cohort() -> None:
    entry = SlideEntry("a", Path("a.svs"), "p", malignant=False, bethesda=4)
    assert "slide b is not in the cohort" in problems(said("b"), entries=(entry,))
    assert "slide a: malignant is 1 here and 0 in the cohort" in problems(said(), entries=(entry,))
    filled = brought_together(Material((said(malignant=None),), entries=(entry,))).predictions[0]
    assert (filled.malignant, filled.bethesda) == (False, 4)


def test_a_slide_may_validate_in_two_folds_but_not_twice_in_one() -> None:
    both = (said("v", fold="0"), said("v", fold="1"))
    assert len(brought_together(Material((said(),), both)).validation) == 2
    assert "validation: slide v by m: 2 rows" in problems(said(), validation=(both[0], both[0]))


def test_thresholds_of_validation_slides_are_on_the_scale_of_test_slides() -> None:
    assert "validation: slide v by m: score is blank" in problems(said(), validation=(said("v", score=None),))
    assert "slide a by m: score is blank" in problems(said(score=None), validation=(said("v"),))
    assert brought_together(Material((said(score=None),), (said("v", score=None),)))


def test_nobody_validates_and_is_tested_in_one_fold() -> None:
    assert "validation: slide a of fold 0: its patient is also tested on" in problems(said(), validation=(said(),))
    assert brought_together(Material((said(),), (said(fold="1"),)))
    pair = tuple(SlideEntry(name, Path(f"{name}.svs"), "p", malignant=True) for name in ("a", "v"))
    assert "slide v of fold 0: its patient" in problems(said(), validation=(said("v"),), entries=pair)


def test_failed_and_inadequate_rows_need_no_numbers_and_a_method_gets_a_name() -> None:
    rows = (
        said("a", "", status="failed", score=NAN, probability=None),
        said("b", "", status="inadequate", probability=None),
    )
    assert {row.method for row in brought_together(Material(rows)).predictions} == {"algorithm"}


def test_the_reference_is_asked_for_or_the_papers_or_the_first_never_the_best() -> None:
    rows = (said(method="x"), said(method=PROPOSED), said(method="y"))
    assert Material(rows).reference(EvaluateSettings()) == PROPOSED
    assert Material(rows[::2]).reference(EvaluateSettings()) == "x"
    assert Material(rows).reference(EvaluateSettings(reference="y")) == "y"
    with pytest.raises(ConfigError, match="there is no such method; one of x, "):
        Material(rows).reference(EvaluateSettings(reference="z"))
    with pytest.raises(ConfigError, match="must be below"):
        EvaluateSettings.of({"benign_risk": 0.95, "malignant_risk": 0.03})


def test_patients_are_known_only_where_someone_said_so() -> None:
    entries = (SlideEntry("a", Path("a"), "p"), SlideEntry("b", Path("b")))
    assert Material((), entries=entries).patients == {"a": "p", "b": "slide:b"}
    assert Material((), entries=entries[1:]).patients is None
