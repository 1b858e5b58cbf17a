"""What the labels mean and how people spell them: Bethesda (TBS), malignancy, abnormality."""

from enum import IntEnum

BETHESDA_NAMES = {
    1: "nondiagnostic",
    2: "benign",
    3: "atypia of undetermined significance",
    4: "follicular neoplasm",
    5: "suspicious for malignancy",
    6: "malignant",
}
TRAINABLE_BETHESDA = (2, 3, 4, 5, 6)
"""TBS 1 says that the slide is inadequate, not how malignant it is: the method does not use it."""

INDETERMINATE_BETHESDA = (3, 4, 5)

RANKS = {"Y": 2, "S": 5, "V": 3}
"""How many ranks each kind of label has: malignancy, Bethesda category, abnormality of a tile."""


class Abnormality(IntEnum):
    """Of an informative tile; its value is its rank."""

    NORMAL = 0
    ATYPICAL = 1
    MALIGNANT = 2


_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6}
_MALIGNANT = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "malignant", "m", "positive", "pos"), True),
    **dict.fromkeys(("0", "0.0", "false", "no", "n", "benign", "b", "negative", "neg"), False),
}
_ABNORMALITY = {
    **dict.fromkeys(("0", "normal", "benign"), Abnormality.NORMAL),
    **dict.fromkeys(("1", "atypical", "atypia"), Abnormality.ATYPICAL),
    **dict.fromkeys(("2", "malignant", "malignancy", "tumor", "tumour"), Abnormality.MALIGNANT),
}
_UNGRADED = frozenset({"informative", "follicular", "follicular group", "group", "positive"})


def parse_malignant(text: str) -> bool:
    try:
        return _MALIGNANT[text.strip().lower()]
    except KeyError:
        raise ValueError("expected 0 or 1, or benign or malignant") from None


def parse_bethesda(text: str) -> int:
    """`4`, `4.0`, `IV`, `TBS 4`, `Bethesda IV`."""
    word = text.strip().lower()
    for prefix in ("bethesda", "category", "tbs"):
        if word.startswith(prefix):
            word = word.removeprefix(prefix).lstrip(" -_:")
    word = word.removesuffix(".0")
    if word in _ROMAN:
        return _ROMAN[word]
    if word.isdecimal() and int(word) in BETHESDA_NAMES:
        return int(word)
    raise ValueError("expected a Bethesda category 1 to 6, or I to VI")


def parse_abnormality(text: str) -> Abnormality | None:
    """The grade that a class name gives, None for one that says only that the place is informative."""
    word = " ".join(text.replace("_", " ").replace("-", " ").lower().split())
    if word in _ABNORMALITY:
        return _ABNORMALITY[word]
    if word in _UNGRADED:
        return None
    raise ValueError("expected normal, atypical or malignant, or informative where there is no grade")


def contradictions(malignant: bool | None, bethesda: int | None) -> str | None:
    """Why two labels of one slide look contradictory; rare but possible, so never more than a warning."""
    if malignant is True and bethesda == 2:
        return "histologically malignant, but read as TBS 2 (benign)"
    if malignant is False and bethesda == 6:
        return "histologically benign, but read as TBS 6 (malignant)"
    return None


def grade_contradiction(malignant: bool | None, bethesda: int | None, highest: Abnormality | None) -> str | None:
    """Why the highest grade among a slide's annotations looks contradictory to the slide's labels."""
    if highest == Abnormality.MALIGNANT and bethesda == 2 and not malignant:
        return "a place is annotated as malignant, but the slide is benign and TBS 2"
    return None
