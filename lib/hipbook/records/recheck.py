"""What can be found out about a record again: its time verdicts, and whether its binaries are still ours."""

from pathlib import Path

from hipbook.errors import BuildError, HipbookError
from hipbook.measure.judge import Judgement
from hipbook.measure.session import Session, judge_session
from hipbook.records.schema import TIME_WORDS, Record, Verdict
from hipbook.records.store import BadRecord


def subject_of(session: Session) -> str:
    """What a verdict of this session is about, in the words every record uses."""
    plan = session.plan
    return f"{plan.new} against {plan.base}, {plan.case}, {plan.cache}"


def verdict_of(session: Session, judgement: Judgement) -> Verdict:
    """The record's form of a session's verdict: word, reason with ratio and interval, prediction."""
    low, high = judgement.interval
    floor = "unknown" if judgement.noise_floor is None else f"{judgement.noise_floor:.2%}"
    numbers = (
        f"ratio {judgement.ratio:.4g} ({low:.4g} .. {high:.4g}), "
        f"{judgement.runs[0]} against {judgement.runs[1]} runs, noise floor {floor}"
    )
    return Verdict(
        word=str(judgement.verdict.word),
        subject=subject_of(session),
        reason=f"{judgement.verdict}: {numbers}; {judgement.verdict.why}",
        expected=session.plan.prediction,
    )


def recheck(record: Record, path: Path | str = "record") -> list[Judgement]:
    """The judgements of the record's sessions; BadRecord when its verdicts are not theirs.

    Every session's verdict stands in the record word for word, and every word about time comes from a
    session that is there.
    """
    judgements, subjects = [], set()
    for session in record.sessions:
        try:
            judgement = judge_session(session)
        except HipbookError as error:
            raise BadRecord(f"{path}: {subject_of(session)}: {error.what}", fix=error.fix) from None
        wanted = verdict_of(session, judgement)
        subjects.add(wanted.subject)
        if wanted not in record.verdicts:
            said = [verdict.word for verdict in record.verdicts if verdict.subject == wanted.subject]
            raise BadRecord(
                f"{path}: {wanted.subject}: its session gives {wanted.word}, "
                f"the record says {', '.join(said) or 'nothing'}",
                fix="let `verdict_of` write the verdict, from the session in the record",
            )
        judgements.append(judgement)
    for verdict in record.verdicts:
        if verdict.word in TIME_WORDS and verdict.subject not in subjects:
            raise BadRecord(
                f"{path}: {verdict.word} ({verdict.subject}) has no measuring session behind it",
                fix="keep the session in the record: a word about time is computed from runs",
            )
    return judgements


def require_current(record: Record, path: Path | str = "record") -> list[str]:
    """BadRecord when a binary in the record came from another source than the tree has now (T12).

    Builds each kernel source again (a look-up where nothing changed) and compares what was read. Returns
    what could not be compared: foreign binaries, and architectures whose compiler is not here.
    """
    from hipbook.build import build

    unknown = []
    for binary in record.code_objects:
        label = f"{binary.source or binary.sha256[:12]} for {binary.arch}"
        if binary.source is None:
            unknown.append(f"{label}: no source named")
            continue
        try:
            now = build(binary.source, binary.arch, tuple(binary.flags))
        except BuildError as error:
            unknown.append(f"{label}: {error.what.splitlines()[0]}")
            continue
        if now.source_sha256 != binary.source_sha256:
            raise BadRecord(
                f"{path}: from an older binary: {label} was built from source "
                f"{str(binary.source_sha256)[:12]}, the tree now has {str(now.source_sha256)[:12]}",
                fix="run it again on the kernels as they are",
            )
    return unknown
