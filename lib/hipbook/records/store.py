"""Records on disk: written whole or not at all, read only when nobody has touched them.

A record carries two hashes. `content_sha256` covers what two runs must agree on; it names a result.
`times.seal_sha256` covers the whole file; a record edited by hand no longer matches it.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hipbook import paths
from hipbook.errors import HipbookError
from hipbook.records.schema import NOT_CONTENT, SCHEMA_VERSION, Record

SUFFIX = ".record.json"


class BadRecord(HipbookError):
    """A record that cannot be believed: unknown version, edited, incomplete or contradicting itself."""


def folder() -> Path:
    """Where notebooks put their records: $HIPBOOK_RECORDS, else runs/records in the checkout."""
    override = os.environ.get("HIPBOOK_RECORDS")
    return Path(override) if override else paths.root() / "runs" / "records"


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no NaN."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def key(made_by: str, parameters: dict[str, Any]) -> str:
    """Twelve hexadecimal digits that name a run: who made it and with which parameters."""
    return hashlib.sha256(canonical([made_by, parameters])).hexdigest()[:12]


def file_name(made_by: str, parameters: dict[str, Any]) -> str:
    return f"{made_by}-{key(made_by, parameters)}{SUFFIX}"


def sealed(record: Record) -> Record:
    """The same record with both hashes filled in."""
    content, _ = _hashes(record)
    record = record.model_copy(update={"content_sha256": content})
    _, seal = _hashes(record)
    times = record.times.model_copy(update={"seal_sha256": seal})
    return record.model_copy(update={"times": times})


def _hashes(record: Record) -> tuple[str, str]:
    """(hash of the content, hash of everything with the content's hash as it stands in the record)."""
    whole = record.model_dump(mode="json")
    content = {name: value for name, value in whole.items() if name not in NOT_CONTENT}
    whole["times"].pop("seal_sha256")
    digests = (hashlib.sha256(canonical(part)).hexdigest() for part in (content, whole))
    return next(digests), next(digests)


def write(record: Record, path: Path) -> Path:
    """Seal and write a record; a reader sees the old file or the new one, never half of one."""
    record = sealed(Record.model_validate(record.model_dump()))  # model_copy does not validate
    text = json.dumps(record.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, text.encode())
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name in the same folder, flush to the disk, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> Record:
    """The record in a file. Raises BadRecord naming the file, the fault and what to do."""
    again = "run the notebook or command again; a record is never edited"
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRecord(
            f"{path}: {error.strerror}", fix="`hipbook records list` shows what there is"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"{path}: not JSON ({error})", fix=again) from None
    if not isinstance(data, dict):
        raise BadRecord(f"{path}: not a record", fix=again)
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise BadRecord(
            f"{path}: schema_version {version!r}; this hipbook reads version {SCHEMA_VERSION}",
            fix="read it with the hipbook that wrote it (its commit is in `environment`), or run again",
        )
    try:
        record = Record.model_validate(data)
    except ValidationError as error:
        raise BadRecord(f"{path}: {_first_fault(error)}", fix=again) from None
    content, seal = _hashes(record)
    if (content, seal) != (record.content_sha256, record.times.seal_sha256):
        raise BadRecord(f"{path}: edited after it was written (its hash does not match)", fix=again)
    return record


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def find(where: Path) -> Iterator[Path]:
    """All record files under a folder (or the file itself), sorted."""
    where = Path(where)
    yield from [where] if where.is_file() else sorted(where.rglob(f"*{SUFFIX}"))
