"""A record's time verdicts computed again from the sessions it keeps."""

from pathlib import Path

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
        judgement = judge_session(session)
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
