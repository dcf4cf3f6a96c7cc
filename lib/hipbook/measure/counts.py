"""The words for exact counts (docs/measuring.md, R10): what may be said without a clock.

    word            says                                              made by
    CORRECT         everything compared, and at least one value        correctness()
    INCORRECT       a value failed, or nothing was compared (T1)       correctness()
    REACHED         every workgroup wrote the arm's own witness        reached()
    NOT_REACHED     some did not, or none was launched (T2)            reached()
    COUNTS_EQUAL    two exact counts are the same number               counts()
    COUNTS_DIFFER   they are not: quantity and ratio base / new        counts()

FASTER, SLOWER, EQUIVALENT and INCONCLUSIVE belong to times on a real board (verdict.py) and are
never made here. Every function takes plain values, so it serves emulated and real boards alike.
"""

import operator
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hipbook.errors import BadArgument

WITNESS_POISON = -1  # what the wrapper fills the witness with before a launch (the contract of ops)


class CountWord(StrEnum):
    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    REACHED = "REACHED"
    NOT_REACHED = "NOT_REACHED"
    COUNTS_EQUAL = "COUNTS_EQUAL"
    COUNTS_DIFFER = "COUNTS_DIFFER"


GOOD_WORDS = frozenset({CountWord.CORRECT, CountWord.REACHED})  # the words a check may pass on


@dataclass(frozen=True)
class CountVerdict:
    """One word and what stands behind it; `str()` is the form notebooks and records print."""

    word: CountWord
    detail: str  # one clause for people
    compared: int  # values, workgroups or counts looked at: never 0 for a good word
    quantity: str = ""  # COUNTS_*: what was counted, with its unit
    base: int | None = None
    new: int | None = None

    @property
    def ratio(self) -> Fraction | None:
        """base / new, exact, above 1 when `new` needs less; None when not two counts or new is 0."""
        return Fraction(self.base, self.new) if self.base is not None and self.new else None

    def __str__(self) -> str:
        if self.word is CountWord.COUNTS_DIFFER:
            return f"{self.word}({self.quantity}, {ratio_text(self.base, self.new)})"
        if self.word is CountWord.COUNTS_EQUAL:
            return f"{self.word}({self.quantity})"
        return str(self.word)


def correctness(values_compared: int, values_failed: int, *, what: str = "values") -> CountVerdict:
    """CORRECT only if something was compared and nothing failed. Zero comparisons are a failure (T1)."""
    compared = _count("values_compared", values_compared)
    failed = _count("values_failed", values_failed)
    if failed > compared:
        raise BadArgument("values_failed", failed, f"at most values_compared = {compared}")
    if compared == 0:
        return CountVerdict(CountWord.INCORRECT, f"compared no {what}: a check of nothing fails", 0)
    if failed:
        return CountVerdict(CountWord.INCORRECT, f"{failed:,} of {compared:,} {what} failed", compared)
    return CountVerdict(CountWord.CORRECT, f"{compared:,} {what} compared", compared)


def reached(witness: Iterable[int], expected: int | Collection[int]) -> CountVerdict:
    """REACHED if every workgroup's witness is the expected arm's code (T2).

    `witness` holds one int per workgroup, as the kernel left it (a torch or numpy array's
    `.tolist()` or `.flatten()` will do); `expected` is the arm's code, or codes where one launch
    may legitimately hold several. No workgroup at all is NOT_REACHED: nothing proves anything.
    """
    codes = {expected} if isinstance(expected, int) else set(expected)
    if not codes or WITNESS_POISON in codes:
        raise BadArgument("expected", sorted(codes), f"at least one code, none of them {WITNESS_POISON}")
    seen = Counter(operator.index(code) for code in witness)
    launched = seen.total()
    want = "/".join(f"{code:#x}" for code in sorted(codes))
    if launched == 0:
        return CountVerdict(CountWord.NOT_REACHED, f"no workgroup was launched for {want}", 0)
    wrong = {code: n for code, n in seen.items() if code not in codes}
    if wrong:
        told = ", ".join(f"{_code_text(code)} in {n:,}" for code, n in sorted(wrong.items()))
        return CountVerdict(
            CountWord.NOT_REACHED, f"expected {want} in {launched:,} workgroups, found {told}", launched
        )
    return CountVerdict(CountWord.REACHED, f"{want} in all {launched:,} workgroups", launched)


def distinct_arms(base_witness: Iterable[int], new_witness: Iterable[int]) -> CountVerdict:
    """REACHED if the two sides of an A/B ran different arms (T3): both wrote, and share no code.

    A flag cached for the life of the process makes an A/B compare an arm with itself; both sides
    then carry one witness. A side that wrote nothing (poison) proves nothing either.
    """
    base, new = ({operator.index(code) for code in side} for side in (base_witness, new_witness))
    compared = len(base) + len(new)
    for side, codes in (("base", base), ("new", new)):
        if not codes - {WITNESS_POISON}:
            return CountVerdict(CountWord.NOT_REACHED, f"the {side} side left no witness", compared)
    shared = (base & new) - {WITNESS_POISON}
    if shared:
        told = ", ".join(_code_text(code) for code in sorted(shared))
        return CountVerdict(CountWord.NOT_REACHED, f"both sides ran {told}: an arm against itself", compared)
    return CountVerdict(CountWord.REACHED, "the two sides ran different arms", compared)


def counts(quantity: str, base: int, new: int) -> CountVerdict:
    """COUNTS_EQUAL or COUNTS_DIFFER of two exact counts; `quantity` names what and its unit."""
    if not quantity.strip():
        raise BadArgument("quantity", repr(quantity), "says what was counted, and its unit")
    base, new = _count("base", base), _count("new", new)
    word = CountWord.COUNTS_EQUAL if base == new else CountWord.COUNTS_DIFFER
    told = f"{base:,} in both" if base == new else f"{base:,} against {new:,}"
    return CountVerdict(word, f"{quantity}: {told}", 2, quantity=quantity, base=base, new=new)


def all_good(verdicts: Collection[CountVerdict]) -> CountVerdict:
    """One word over many checks: CORRECT if there are some and all are CORRECT or REACHED (T1)."""
    bad = [verdict for verdict in verdicts if verdict.word not in GOOD_WORDS]
    compared = sum(verdict.compared for verdict in verdicts)
    if not verdicts:
        return CountVerdict(CountWord.INCORRECT, "no check ran: a suite of none fails", 0)
    if bad:
        first = f"{bad[0].word}: {bad[0].detail}"
        return CountVerdict(
            CountWord.INCORRECT, f"{len(bad)} of {len(verdicts)} checks failed; first {first}", compared
        )
    return CountVerdict(CountWord.CORRECT, f"{len(verdicts)} checks, {compared:,} compared", compared)


def ratio_text(base: int | None, new: int | None) -> str:
    """`2`, `1.5`, `0.333`: exact where two decimals hold it; `11 to 0` where there is no ratio."""
    if base is None or not new:
        return f"{base:,} to {new}"
    ratio = Fraction(base, new)
    return (
        f"{float(ratio):.2f}".rstrip("0").rstrip(".")
        if 100 % ratio.denominator == 0
        else f"{float(ratio):.4g}"
    )


def _code_text(code: int) -> str:
    return "no witness" if code == WITNESS_POISON else f"{code:#x}"


def _count(name: str, value: int) -> int:
    """A count is a whole number, at least 0: a mean or a time handed in by mistake is refused."""
    try:
        number = operator.index(value)
    except TypeError:
        raise BadArgument(name, repr(value), "an exact count is a whole number") from None
    if number < 0:
        raise BadArgument(name, number, "a count is at least 0")
    return number
