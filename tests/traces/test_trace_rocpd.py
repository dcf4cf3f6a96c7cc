"""rocpd databases made here: equality with the tables written, refusals, and a malicious file."""

import hashlib
import sqlite3

import polars as pl
import pytest
from trace_makers import calls, comparable, copies, dispatches

from hipbook.traces import counters, schema, sqlite_read
from hipbook.traces.health import health
from hipbook.traces.read import read_trace
from hipbook.traces.trace import Trace, TraceError
from hipbook.traces.write_rocpd import write_rocpd

GUID = "00001111-2222-7333-8444-555566667777"
SUFFIX = "_" + GUID.replace("-", "_")


def make(path, *, rows=None, version="3.0.0", **tables):
    trace = Trace(path=path, dispatches=dispatches(*(rows or [("a", 100, 150, 1), ("b", 200, 260, 2)])))
    return write_rocpd(trace.replace_tables(**tables), path, guid=GUID, schema_version=version)


def change(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement.replace("@", SUFFIX))
    connection.close()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_written_and_read_is_equal(tmp_path):
    (big,) = ((1 << 53) + 1,)
    tables = {
        "api_calls": calls(("hipLaunchKernel", 90, 95, 1), ("hipMemcpyAsync", 96, 99, 3)),
        "markers": calls(("step 0", 80, 300, 7), table=schema.MARKERS),
        "copies": copies(("HOST_TO_DEVICE", 110, 120, 3, 1)),
    }
    rows = [("void a<int>(int)", 100, 150, 1), ("b", big, big + 3, 2)]
    path = make(tmp_path / "1_results.db", rows=rows, **tables)
    trace = read_trace(path)
    assert comparable(trace.dispatches, "Kernel_Id").equals(comparable(dispatches(*rows), "Kernel_Id"))
    assert trace.dispatches["Start_Timestamp"].to_list()[1] == 9007199254740993
    assert trace.dispatches["Process"].cast(pl.String).unique().to_list() == [GUID]
    for name, table in tables.items():
        assert comparable(trace.tables()[name], "Process_Id").equals(comparable(table, "Process_Id")), name


def test_the_launch_link_is_the_stack_id(tmp_path):
    path = make(tmp_path / "1_results.db", api_calls=calls(("hipLaunchKernel", 90, 95, 1)))
    assert read_trace(path).dispatches["Correlation_Id"].to_list() == [1, 2]
    change(path, 'UPDATE "rocpd_event@" SET stack_id = 0, correlation_id = 40 WHERE id = 1')
    assert read_trace(path).dispatches["Correlation_Id"].to_list() == [40, 2]


def test_a_row_without_symbol_thread_or_string_is_kept(tmp_path):
    path = make(tmp_path / "1_results.db", api_calls=calls(("hipLaunchKernel", 90, 95, 1)))
    change(
        path,
        "DELETE FROM \"rocpd_info_kernel_symbol@\" WHERE display_name = 'b'",
        'DELETE FROM "rocpd_info_thread@"',
        'DELETE FROM "rocpd_string@"',
        'DELETE FROM "rocpd_info_agent@"',
    )
    trace = read_trace(path)
    assert trace.dispatches["Kernel_Name"].cast(pl.String).to_list() == ["a", "<kernel 2, no symbol>"]
    assert trace.dispatches["Agent_Id"].null_count() == 2
    assert trace.api_calls.height == 1
    assert health(trace).count("no_symbol") == 1


def test_a_text_in_an_integer_column_costs_its_row(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(path, "UPDATE \"rocpd_kernel_dispatch@\" SET start = 'soon' WHERE id = 2")
    trace = read_trace(path)
    assert trace.dispatches["Row"].to_list() == [1]
    assert [(one.line, "start is not an integer" in one.reason) for one in trace.rejected] == [(2, True)]


def test_a_null_in_a_required_column_costs_its_row_and_elsewhere_nothing(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(
        path,
        'UPDATE "rocpd_kernel_dispatch@" SET "end" = NULL WHERE id = 1',
        'UPDATE "rocpd_kernel_dispatch@" SET queue_id = NULL WHERE id = 2',
    )
    trace = read_trace(path)
    assert trace.dispatches.select("Row", "Queue_Id").rows() == [(2, None)]
    assert "no value in end" in trace.rejected[0].reason


def test_a_lost_optional_column_is_null_and_a_lost_required_one_an_error(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(path, 'ALTER TABLE "rocpd_kernel_dispatch@" DROP COLUMN stream_id')
    assert read_trace(path).dispatches["Stream_Id"].null_count() == 2
    change(path, 'ALTER TABLE "rocpd_kernel_dispatch@" DROP COLUMN "end"')
    with pytest.raises(TraceError, match=r"(?s)1_results.db.*without the column end.*it has id"):
        read_trace(path)


@pytest.mark.parametrize("version", ["3", "3.0.0", "3.0.5"])
def test_known_schema_versions(tmp_path, version):
    trace = read_trace(make(tmp_path / "1_results.db", version=version))
    assert not any(note.kind == "schema_version" for note in trace.notes)


def test_newer_minor_versions_are_read_and_said(tmp_path):
    report = health(read_trace(make(tmp_path / "1_results.db", version="3.1.0")))
    assert "3.1.0 is newer" in str(report)


@pytest.mark.parametrize("version", ["2.0", "4.0.0", "", "three"])
def test_other_schema_versions_are_refused_by_name(tmp_path, version):
    with pytest.raises(TraceError, match="schema version"):
        read_trace(make(tmp_path / "1_results.db", version=version))


def test_two_processes_in_one_database(tmp_path):
    path = make(tmp_path / "1_results.db")
    other = Trace(path=path, dispatches=dispatches(("c", 10, 20, 1)))
    from hipbook.traces.write_rocpd import _Writer

    with sqlite3.connect(path) as connection:
        _Writer(connection, "99991111-2222-7333-8444-555566667777").write(other, "3")
    connection.close()
    trace = read_trace(path)
    assert trace.dispatches["Process"].n_unique() == 2
    assert trace.dispatches.height == 3
    assert health(trace).has("several_processes")


def test_more_than_ten_databases_in_a_folder(tmp_path):
    for number in range(12):
        trace = Trace(path=tmp_path, dispatches=dispatches(("k", 100 + number, 150, 1)))
        write_rocpd(
            trace, tmp_path / f"{number}_results.db", guid=f"{number:08d}-0000-7000-8000-000000000000"
        )
    trace = read_trace(tmp_path)
    assert trace.dispatches.height == 12
    assert trace.dispatches["Process"].n_unique() == 12


def test_replay_passes_are_kept_apart_and_instances_added(tmp_path):
    """1536 where 512 is right: the view adds three passes together."""
    path = make(tmp_path / "1_results.db", rows=[("k", 100, 150, 1), ("k", 200, 250, 2), ("k", 300, 350, 3)])
    change(
        path,
        'UPDATE "rocpd_kernel_dispatch@" SET dispatch_id = 1',
        "INSERT INTO \"rocpd_info_pmc@\" (id, name) VALUES (1, 'SQ_WAVES')",
    )
    for event in (1, 2, 3):  # two shader engines a pass
        for _ in range(2):
            change(
                path, f'INSERT INTO "rocpd_pmc_event@" (event_id, pmc_id, value) VALUES ({event}, 1, 256.0)'
            )
    table = read_trace(path).counters
    assert table.select(pl.col("Pass").cast(pl.String), "Counter_Value").rows() == [
        ("pass_1", 512.0),
        ("pass_2", 512.0),
        ("pass_3", 512.0),
    ]
    assert counters.wide(table)["SQ_WAVES"].to_list() == [512.0] * 3


def test_a_malicious_database_changes_nothing_and_its_views_are_not_asked(tmp_path):
    path = make(tmp_path / "1_results.db")
    canary = tmp_path / "canary.db"
    change(
        path,
        "CREATE TABLE loot (x)",
        'CREATE TRIGGER t AFTER INSERT ON "rocpd_event@" BEGIN INSERT INTO loot VALUES (1); END',
        "CREATE VIEW rocpd_kernel_dispatch AS SELECT abs(-9223372036854775807 - 1) AS boom",
        "CREATE VIEW kernels AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i FROM n",
        "CREATE VIEW rocpd_metadata_evil AS SELECT load_extension('x') AS tag",
        "CREATE TABLE 'rocpd_metadata\"; DROP TABLE loot; --' (tag TEXT, value TEXT)",
        f"CREATE VIEW spill AS SELECT writefile('{canary}', 'x')",
    )
    before = digest(path), sorted(tmp_path.iterdir())
    with pytest.raises(TraceError):  # the table with a statement for a name says no version
        read_trace(path)
    change(path, "DROP TABLE 'rocpd_metadata\"; DROP TABLE loot; --'")
    before = digest(path), sorted(tmp_path.iterdir())
    trace = read_trace(path)
    assert trace.dispatches.height == 2
    assert (digest(path), sorted(tmp_path.iterdir())) == before
    assert not canary.exists()


def test_nothing_but_reading_is_allowed(tmp_path):
    path = make(tmp_path / "1_results.db")
    with sqlite_read.Database(path, "x") as database:
        for statement in (
            "CREATE TABLE t (x)",
            'DELETE FROM "rocpd_event@"',
            "ATTACH 'other.db' AS o",
            "PRAGMA journal_mode = WAL",
            "SELECT load_extension('x')",
            'DROP TABLE "rocpd_event@"',
        ):
            with pytest.raises(TraceError):
                database.rows(statement.replace("@", SUFFIX))
        assert database.rows("SELECT 1") == [(1,)]


def test_a_view_in_the_place_of_a_table_is_not_asked(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(
        path,
        'DROP TABLE "rocpd_kernel_dispatch@"',
        'CREATE VIEW "rocpd_kernel_dispatch@" AS SELECT 1 AS id, 1 AS kernel_id, 1 AS start, 2 AS "end"',
    )
    with pytest.raises(TraceError, match="no table rocpd_kernel_dispatch"):
        read_trace(path)


def test_a_locked_database_is_said_to_be_locked(tmp_path):
    path = make(tmp_path / "1_results.db")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(TraceError, match="locked: another process is writing"):
            read_trace(path)
    finally:
        writer.rollback()
        writer.close()
    assert read_trace(path).dispatches.height == 2


def test_an_interrupted_writer_is_said_and_its_journal_left_alone(tmp_path):
    """A hot journal: opening the file for writing would roll it back, and so change it."""
    made = make(
        tmp_path / "1_results.db", rows=[(f"k{n % 5}", n * 100, n * 100 + 50, n) for n in range(1, 3000)]
    )
    writer = sqlite3.connect(made, isolation_level=None)
    writer.execute("PRAGMA cache_size = 5")
    writer.execute("BEGIN")
    writer.execute('UPDATE "rocpd_kernel_dispatch@" SET queue_id = 7'.replace("@", SUFFIX))
    journal = made.with_name(made.name + "-journal")
    path = tmp_path / "crashed" / "1_results.db"
    path.parent.mkdir()
    path.write_bytes(made.read_bytes())
    path.with_name(path.name + "-journal").write_bytes(journal.read_bytes())
    writer.rollback()
    writer.close()
    before = digest(path), sorted(one.name for one in path.parent.iterdir())
    with pytest.raises(TraceError, match="its writer was interrupted"):
        read_trace(path)
    assert (digest(path), sorted(one.name for one in path.parent.iterdir())) == before


def test_a_database_in_wal_mode_is_read_without_files_beside_it(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(path, "PRAGMA journal_mode = WAL")
    assert path.read_bytes()[18:20] == b"\x02\x02"
    trace = read_trace(path)
    assert trace.dispatches.height == 2
    assert [one.name for one in tmp_path.iterdir()] == ["1_results.db"]


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_truncated_database_is_a_clear_error_or_costs_no_row_silently(tmp_path, keep):
    path = make(
        tmp_path / "1_results.db", rows=[(f"k{n % 5}", n * 100, n * 100 + 50, n) for n in range(1, 2000)]
    )
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(TraceError, match=r"cut or damaged|cannot read"):
        read_trace(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"SQLite format 3\0" + b"\xff" * 200, "cut or damaged|cannot read"),
        (None, "without rocpd tables; it holds notes"),
    ],
)
def test_other_databases(tmp_path, content, words):
    path = tmp_path / "x.db"
    if content is None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE notes (x)")
        connection.close()
    else:
        path.write_bytes(content)
    with pytest.raises(TraceError, match=words):
        read_trace(path)


def test_sparse_and_huge_ids(tmp_path):
    path = make(tmp_path / "1_results.db")
    change(path, 'UPDATE "rocpd_kernel_dispatch@" SET id = 9000000000000 WHERE id = 2')
    assert read_trace(path).dispatches["Row"].to_list() == [1, 9000000000000]


def test_blocks_change_nothing(tmp_path, monkeypatch):
    rows = [(f"k{n % 5}", n * 100, n * 100 + 50, n) for n in range(1, 500)]
    path = make(tmp_path / "1_results.db", rows=rows)
    whole = read_trace(path).dispatches
    monkeypatch.setattr(sqlite_read, "BLOCK_ROWS", 7)
    assert read_trace(path).dispatches.equals(whole)
    assert whole.height == 499
