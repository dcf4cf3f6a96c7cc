"""Results on disk: the schema, the store, and the environment a record keeps."""

from hipbook.records.schema import (
    Bound,
    CodeObjectIdentity,
    Environment,
    Fact,
    Record,
    Status,
    Times,
    Verdict,
    Witness,
    Word,
)
from hipbook.records.store import BadRecord, file_name, find, folder, key, read, write

__all__ = [
    "BadRecord",
    "Bound",
    "CodeObjectIdentity",
    "Environment",
    "Fact",
    "Record",
    "Status",
    "Times",
    "Verdict",
    "Witness",
    "Word",
    "file_name",
    "find",
    "folder",
    "key",
    "read",
    "write",
]
