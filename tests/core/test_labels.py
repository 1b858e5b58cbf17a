import pytest

from aspirate.core.labels import (
    Abnormality,
    contradictions,
    parse_abnormality,
    parse_bethesda,
    parse_malignant,
)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("2", 2),
        ("6.0", 6),
        ("II", 2),
        ("iv", 4),
        (" VI ", 6),
        ("TBS 3", 3),
        ("Bethesda V", 5),
        ("tbs-4", 4),
        ("1", 1),
    ],
)
def test_bethesda_spellings(text: str, category: int) -> None:
    assert parse_bethesda(text) == category


@pytest.mark.parametrize("text", ["0", "7", "VII", "2.5", "benign", "", "-2", "²"])
def test_what_is_no_bethesda_category(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 6"):
        parse_bethesda(text)


def test_malignant_spellings() -> None:
    assert [parse_malignant(t) for t in ("1", "Malignant", "TRUE", "yes", "1.0")] == [True] * 5
    assert [parse_malignant(t) for t in ("0", "benign ", "False", "no")] == [False] * 4
    with pytest.raises(ValueError, match="benign or malignant"):
        parse_malignant("2")


def test_abnormality_spellings() -> None:
    assert parse_abnormality("Normal") is Abnormality.NORMAL
    assert parse_abnormality("ATYPIA") is Abnormality.ATYPICAL
    assert parse_abnormality("Tumor") is Abnormality.MALIGNANT
    assert parse_abnormality("Follicular_group") is None
    with pytest.raises(ValueError, match="normal, atypical or malignant"):
        parse_abnormality("stroma")


def test_contradictions_are_the_two_extremes_only() -> None:
    found = {(y, s) for y in (True, False, None) for s in (None, 1, 2, 3, 4, 5, 6) if contradictions(y, s)}
    assert found == {(True, 2), (False, 6)}
