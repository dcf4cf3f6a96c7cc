"""rocpd, the SQLite database that ROCm 7 writes by default.

Base tables only: the views are slow, join rows away, add replay passes together and could hold
anything. Names carry the process's UUID as a suffix; a merged file holds several. The link from a
dispatch to its launch is the event's stack_id.
"""

import json
import re
from pathlib import Path

import polars as pl

from hipbook.traces import rocpd_tables, schema
from hipbook.traces.csv_layout import prefix_of
from hipbook.traces.sqlite_read import Database, is_sqlite, quoted
from hipbook.traces.trace import SourceFile, Trace, TraceError, merge

__all__ = ["is_sqlite", "read_rocpd"]

KNOWN_SCHEMAS = ("3", "3.0.0", "3.0.1", "3.0.2", "3.0.3", "3.0.4", "3.0.5")
_AXES = ("x", "y", "z")


def read_rocpd(path: Path, source: str, *, times_only: bool = False) -> Trace:
    """Every process of the database in one trace. Refused: no rocpd tables, another major schema
    version, a locked or damaged file. A newer minor version is read and noted."""
    with Database(path, source) as database:
        suffixes = [
            name.removeprefix("rocpd_metadata")
            for name in database.tables
            if name.startswith("rocpd_metadata")
        ]
        if not suffixes:
            raise TraceError(
                f"{source}: an SQLite database without rocpd tables; it holds "
                f"{', '.join(sorted(database.tables)[:8]) or 'nothing'}",
                fix="name the *_results.db that rocprofv3 wrote",
            )
        parts = [Process(database, suffix, source, times_only).trace() for suffix in suffixes]
    if len(parts) > 1:
        parts[0].note(source, "several_processes", "processes in one database", len(parts))
    return merge(path, parts)


class Process:
    """The tables of one process."""

    def __init__(self, database: Database, suffix: str, source: str, times_only: bool) -> None:
        self.database, self.suffix, self.source, self.times_only = database, suffix, source, times_only
        self.out = Trace(path=Path(source))

    def table(self, name: str) -> str | None:
        full = f"rocpd_{name}{self.suffix}"
        return full if full in self.database.tables else None

    def read(self, name: str, *columns: str, where: str = "") -> list[tuple]:
        """A small table's rows with these columns; a column it lacks gives None."""
        full = self.table(name)
        if not full:
            return []
        have = set(self.database.tables[full])
        wanted = ", ".join(quoted(one) if one in have else "NULL" for one in columns)
        return self.database.rows(f"SELECT {wanted} FROM {quoted(full)} {where}")

    def integers(self, name: str, columns: tuple[str, ...], required: tuple[str, ...]) -> pl.DataFrame | None:
        full = self.table(name)
        return self.database.integers(full, columns, required, self.out) if full else None

    def trace(self) -> Trace:
        out = self.out
        metadata = dict(self.read("metadata", "tag", "value"))
        self._check_schema(str(metadata.get("schema_version", "")))
        guid = metadata.get("guid") or self.suffix.strip("_").replace("_", "-")
        self.process = str(guid) if guid else prefix_of(self.source.removesuffix(".db"))
        self.agent = dict(self.read("info_agent", "id", "absolute_index"))
        self.thread = dict(self.read("info_thread", "id", "tid"))
        dispatches = self._dispatches()
        self.strings = {} if self.times_only else dict(self.read("string", "id", "string"))
        if not self.times_only:
            self.events = self.integers("event", ("category_id", "stack_id", "correlation_id"), ())
            dispatches = self.correlated(dispatches)
            self._regions()
            out.copies = rocpd_tables.copies(self)
            out.allocations = rocpd_tables.allocations(self)
            out.counters = rocpd_tables.counters(self, dispatches)
            rocpd_tables.facts(self)
        out.dispatches = schema.DISPATCHES.conform(dispatches)
        out.sources.append(
            SourceFile(
                self.source,
                "rocpd",
                f"schema {metadata.get('schema_version')}",
                "dispatches",
                dispatches.height,
            )
        )
        return out

    def _check_schema(self, version: str) -> None:
        if version in KNOWN_SCHEMAS:
            return
        if re.fullmatch(r"3(\.\d+)*", version):
            self.out.note(
                self.source,
                "schema_version",
                f"schema {version} is newer than the known {KNOWN_SCHEMAS[-1]}: read as it",
            )
            return
        raise TraceError(
            f"{self.source}: rocpd schema version {version or 'not given'}; known are 3 and 3.0.0 to 3.0.5",
            fix="convert it with the rocpd of its own ROCm release: `rocpd convert -f csv`",
        )

    def origin(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(
            pl.lit(self.source).cast(schema.TEXT).alias("Source"),
            pl.lit(self.process).cast(schema.TEXT).alias("Process"),
            pl.col("rowid").alias("Row"),
        )

    def _dispatches(self) -> pl.DataFrame:
        columns: tuple[str, ...] = ("kernel_id", "start", "end")
        if not self.times_only:
            columns += (
                *("agent_id", "queue_id", "stream_id", "tid", "dispatch_id", "event_id"),
                *("private_segment_size", "group_segment_size"),
                *(f"workgroup_size_{axis}" for axis in _AXES),
                *(f"grid_size_{axis}" for axis in _AXES),
            )
        frame = self.integers("kernel_dispatch", columns, ("kernel_id", "start", "end"))
        if frame is None:
            raise TraceError(f"{self.source}: no table rocpd_kernel_dispatch{self.suffix}")
        frame = self.origin(frame)
        symbols = self._symbols(frame["kernel_id"])
        frame = frame.join(symbols, on="kernel_id", how="left", maintain_order="left").rename(
            {"kernel_id": "Kernel_Id", "start": "Start_Timestamp", "end": "End_Timestamp"}
        )
        if self.times_only:
            return frame
        return frame.with_columns(
            self.number("agent_id", self.agent).alias("Agent_Id"),
            self.number("tid", self.thread).alias("Thread_Id"),
        ).rename(
            {
                "queue_id": "Queue_Id",
                "stream_id": "Stream_Id",
                "dispatch_id": "Dispatch_Id",
                "private_segment_size": "Scratch_Size",
                "group_segment_size": "LDS_Block_Size",
                **{f"workgroup_size_{axis}": f"Workgroup_Size_{axis.upper()}" for axis in _AXES},
                **{f"grid_size_{axis}": f"Grid_Size_{axis.upper()}" for axis in _AXES},
            }
        )

    def _symbols(self, used: pl.Series) -> pl.DataFrame:
        """Names and registers of the kernels; a dispatch whose symbol is missing keeps its row."""
        rows = self.read(
            "info_kernel_symbol",
            "id",
            "display_name",
            "kernel_name",
            "arch_vgpr_count",
            "accum_vgpr_count",
            "sgpr_count",
        )
        known = {row[0]: (row[1] or row[2] or f"<kernel {row[0]}, no name>", *row[3:]) for row in rows}
        lost = [one for one in used.unique().to_list() if one not in known]
        if lost:
            count = int(used.is_in(lost).sum())
            self.out.note(self.source, "no_symbol", "dispatches whose kernel has no symbol row: kept", count)
        known |= {one: (f"<kernel {one}, no symbol>", None, None, None) for one in lost}
        return pl.DataFrame(
            [(key, *value) for key, value in known.items()],
            schema={
                "kernel_id": pl.Int64, "Kernel_Name": schema.TEXT, "VGPR_Count": schema.INT,
                "Accum_VGPR_Count": schema.INT, "SGPR_Count": schema.INT,
            },
            orient="row",
        )  # fmt: skip

    def number(self, column: str, table: dict[int, int]) -> pl.Expr:
        """A foreign key resolved; one that points nowhere is null, and the row stays."""
        if not table:
            return pl.lit(None, dtype=pl.Int64)
        return pl.col(column).replace_strict(table, default=None, return_dtype=pl.Int64)

    def correlated(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Adds Correlation_Id (the event's stack_id; correlation_id is 0 in real files) and category_id."""
        if self.events is None or "event_id" not in frame.columns:
            return frame.with_columns(
                pl.lit(None, dtype=pl.Int64).alias("Correlation_Id"),
                pl.lit(None, dtype=pl.Int64).alias("category_id"),
            )
        link = self.events.select(
            pl.col("rowid").alias("event_id"),
            "category_id",
            pl.when(pl.col("stack_id").fill_null(0) != 0)
            .then(pl.col("stack_id"))
            .otherwise(pl.col("correlation_id"))
            .alias("Correlation_Id"),
        )
        return frame.join(link, on="event_id", how="left", maintain_order="left")

    def words(self, column: str) -> pl.Expr:
        if not self.strings:
            return pl.lit(None, dtype=pl.String)
        return pl.col(column).replace_strict(self.strings, default=None, return_dtype=pl.String)

    def _regions(self) -> None:
        frame = self.integers(
            "region", ("name_id", "start", "end", "tid", "pid", "event_id"), ("name_id", "start", "end")
        )
        if frame is None or not frame.height:
            return
        frame = self.correlated(self.origin(frame)).with_columns(
            self.words("category_id").alias("Domain"),
            self.words("name_id").alias("Function"),
            self.number("tid", self.thread).alias("Thread_Id"),
            self.number("pid", dict(self.read("info_process", "id", "pid"))).alias("Process_Id"),
            pl.col("start").alias("Start_Timestamp"),
            pl.col("end").alias("End_Timestamp"),
        )
        nameless = frame["Function"].null_count()
        if nameless:
            self.out.note(
                self.source, "no_string", "calls whose name is not in the string table: kept", nameless
            )
            named = pl.format("<string {}>", pl.col("name_id"))
            frame = frame.with_columns(pl.col("Function").fill_null(named))
        marker = pl.col("Domain").fill_null("").str.starts_with("MARKER")
        self.out.api_calls = schema.API_CALLS.conform(frame.filter(~marker))
        markers = frame.filter(marker)
        if markers.height:
            messages = self._messages(markers["event_id"].to_list())
            text = pl.col("event_id").replace_strict(
                messages or {0: None}, default=None, return_dtype=pl.String
            )
            markers = markers.with_columns(text.fill_null(pl.col("Function")).alias("Function"))
        self.out.markers = schema.MARKERS.conform(markers)

    def _messages(self, events: list[int]) -> dict[int, str]:
        """A marker's message stands in its event's extdata."""
        wanted, messages = set(events), {}
        for event, text in self.read("event", "id", "extdata", where="WHERE extdata LIKE '%message%'"):
            if event in wanted:
                try:
                    message = json.loads(text).get("message")
                except (ValueError, AttributeError, TypeError):
                    continue
                if message:
                    messages[event] = str(message)
        return messages
