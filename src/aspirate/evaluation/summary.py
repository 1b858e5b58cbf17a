"""What was found, in sentences that can be read in a minute."""

from math import isfinite, isnan

from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.estimates import Estimate
from aspirate.evaluation.method_results import MethodResult

SIGNIFICANT = 0.05


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """About the reference method; what the data cannot show is not mentioned."""
    own = analysis.method(analysis.reference)
    found = (
        _ranking(own),
        _rivals(analysis),
        _decisions(own),
        _indeterminate(own),
        _calibration(own),
        _readers(analysis),
        _combination(analysis),
        _conflicts(analysis),
        _left_out(own),
    )
    return tuple(sentence[0].upper() + sentence[1:] for sentence in found if sentence)


def _ranking(own: MethodResult) -> str:
    found = own.pooled.auc
    if isnan(found.value):
        return ""
    return (
        f"{own.name} puts a malignant slide above a benign one in {100 * found.value:.0f} of 100 pairs "
        f"(AUC {_interval(found)}, on {own.pooled.malignant} malignant and {own.pooled.benign} benign slides)."
    )


def _rivals(analysis: Analysis) -> str:
    judged = [gain.auc_delong for gain in analysis.against_reference if isfinite(gain.auc_delong.p_holm)]
    if not judged:
        return ""
    clear = [one for one in judged if one.p_holm < SIGNIFICANT]
    higher = sum(one.estimate.value > 0 for one in clear)
    return (
        f"Of {_count(len(judged), 'other method')}, {_number(higher)} {_is(higher)} clearly worse by AUC and "
        f"{_number(len(clear) - higher)} clearly better (p < {SIGNIFICANT} by DeLong, adjusted by Holm); of the rest "
        "these slides cannot tell."
    )


def _number(count: int) -> str:
    return str(count) if count else "none"


def _is(count: int) -> str:
    return "are" if count > 1 else "is"


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _decisions(own: MethodResult) -> str:
    if own.operating is None:
        return ""
    found = own.operating.decisions
    parts = [f"With thresholds chosen on validation slides it decides {100 * found.decided.value:.0f} % of the slides"]
    for name, risk in (("benign", found.benign_risk), ("malignant", found.malignant_risk)):
        if risk.n:
            parts.append(f"of {risk.n} it calls {name}, {round(risk.value * risk.n)} are malignant ({_percent(risk)})")
        else:
            parts.append(f"it calls none {name}")
    return "; ".join(parts) + "."


def _percent(found: Estimate) -> str:
    return f"{100 * found.value:.0f} %, 95 % interval {100 * found.low:.0f} to {100 * found.high:.0f} %"


def _interval(found: Estimate) -> str:
    value = f"{found.value:.3f}"
    return value if isnan(found.low) else f"{value}, 95 % interval {found.low:.3f} to {found.high:.3f}"


def _short(found: Estimate, sign: str = "") -> str:
    value, *ends = (f"{number:{sign}.3f}".replace("-", "−") for number in (found.value, found.low, found.high))
    return value if isnan(found.low) else f"{value} ({' to '.join(ends)})"


def _indeterminate(own: MethodResult) -> str:
    group = next((group for group in own.subgroups if group.name == "TBS 3–5"), None)
    if group is None or isnan(group.discrimination.auc.value):
        return ""
    found = group.discrimination
    where = f"On the {found.auc.n} slides reported as TBS 3 to 5, where the report decides least"
    said = f"{where}, its AUC is {_interval(found.auc_delong)}"
    if (made := group.decisions) is None:
        return f"{said}."
    wrong = sum(
        round(n * share)
        for n, share in (
            (made.benign_risk.n, made.benign_risk.value),
            (made.malignant_risk.n, 1 - made.malignant_risk.value),
        )
        if n
    )
    decided = made.benign_risk.n + made.malignant_risk.n
    return f"{said}; it decides {decided} of them, {_number(wrong)} wrongly."


def _calibration(own: MethodResult) -> str:
    if own.after is None or isnan(own.after.ece.value):
        return ""
    ece = own.after.ece
    verdict = "no more than" if ece.value <= ece.chance_high else "more than"
    return (
        f"Its probabilities are off by {100 * ece.value:.0f} points on average (ECE, {ece.bins} bins), {verdict} "
        f"chance alone would show with {ece.n} slides (up to {100 * ece.chance_high:.0f})."
    )


def _readers(analysis: Analysis) -> str:
    found = analysis.readers.comparisons if analysis.readers else ()
    known = [one for one in found if isfinite(one.own.auc.value) and isfinite(one.algorithm.auc.value)]
    if not known:
        return ""
    what = "AUC and 95 % interval"
    if len({one.algorithm.auc for one in known}) == 1:  # on the same slides, most likely
        each = ", ".join(f"reader {one.reader} {_short(one.own.auc)}" for one in known)
        slides = known[0].algorithm.auc.n
        return f"{what} on {slides} slides: algorithm {_short(known[0].algorithm.auc)}, {each}."
    each = ", ".join(
        f"reader {one.reader} {_short(one.own.auc)} against {_short(one.algorithm.auc)} on {one.own.auc.n}"
        for one in known
    )
    return f"{what} of readers against the algorithm, on the slides of each: {each}."


def _combination(analysis: Analysis) -> str:
    found = [
        one
        for one in (analysis.readers.combinations if analysis.readers else ())
        if one.rule == "Combined345Alg" and isfinite(one.gain.auc_delong.estimate.value)
    ]
    if not found:
        return ""
    each = ", ".join(f"reader {one.reader} {_short(one.gain.auc_delong.estimate, '+')}" for one in found)
    return (
        "Reader and algorithm together, the algorithm deciding within TBS 3 to 5, change the reader's AUC (95 % "
        f"interval): {each}."
    )


def _conflicts(analysis: Analysis) -> str:
    found = [c for c in (analysis.readers.combinations if analysis.readers else ()) if c.rule == "Combined345Human"]
    if not found:
        return ""
    count, readings = (sum(map(len, parts)) for parts in zip(*((c.conflicts, c.slides) for c in found), strict=True))
    return f"Reader and algorithm contradict each other (TBS 2 against 6) {_times(count)} in {readings:,} readings."


def _left_out(own: MethodResult) -> str:
    named = (("inadequate", own.counts.inadequate), ("failed", own.counts.failed))
    parts = [f"{count} {name}" for name, count in named if count]
    return (
        f"Left out of its figures: {' and '.join(parts)} of {own.counts.used + sum(c for _, c in named)} slides."
        if parts
        else ""
    )
