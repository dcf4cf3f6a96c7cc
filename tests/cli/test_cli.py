"""The command line: quick help, messages instead of tracebacks, exit codes people can rely on."""

import contextlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from hipbook import caches, cli, paths
from hipbook.records import Status
from hipbook.sweep import reproduce, telling
from hipbook.sweep.runner import Outcome


def hipbook(*arguments: str | Path) -> subprocess.CompletedProcess:
    """The command in this process: torch is imported once for all of these tests."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["hipbook", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        code = 0
    except SystemExit as exited:
        code = exited.code or 0
    finally:
        sys.argv = argv
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def test_help_is_quick_and_names_the_verbs():
    best = 9.0
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "hipbook", "--help"], capture_output=True, text=True)
        best = min(best, time.perf_counter() - began)
    assert done.returncode == 0
    for verb in ("doctor", "boards", "run", "build", "check", "clean", "records", "notebooks", "reproduce"):
        assert f"\n  {verb} " in done.stdout
    assert best < 0.5


def test_doctor_says_that_the_default_board_works():
    done = hipbook("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok       board gfx1200-emu: executes machine code" in done.stdout


def test_doctor_names_what_is_missing_with_the_fix(monkeypatch):
    monkeypatch.setenv("HIPBOOK_CLANG", "/nowhere/clang++")
    done = hipbook("doctor")
    assert done.returncode == 1
    assert "MISSING  compiler for AMD GPUs: no clang 22" in done.stdout
    assert "fix: Debian: apt-get install clang-22" in done.stdout
    assert "Traceback" not in done.stderr


def test_boards_lists_the_default():
    assert "gfx1200-emu  gfx1200  emulated" in hipbook("boards").stdout


def test_run_leaves_a_record_that_can_be_shown_checked_and_compared(make_notebook, tmp_path):
    file = tmp_path / "p.json"
    for size, folder in ((21, "a"), (22, "b")):
        file.write_text(json.dumps({"size": size}))
        done = hipbook("run", make_notebook(), "-f", file, "--out", tmp_path / folder)
        assert done.returncode == 0, done.stderr
        assert "PASSED    tiny" in done.stdout
    listed = hipbook("records", "list", tmp_path)
    assert listed.stdout.count("PASSED") == 2
    a, b = sorted(tmp_path.glob("[ab]/*.record.json"))
    assert "tiny: double 42 keys [exact]" in hipbook("records", "show", a).stdout
    assert hipbook("records", "diff", a, a).returncode == 0
    differ = hipbook("records", "diff", a, b)
    assert differ.returncode == 1
    assert "facts[tiny: double].value" in differ.stdout
    assert hipbook("records", "check", tmp_path).stdout == "2 records, 0 refused\n"
    a.write_text(a.read_text().replace('"value": 42', '"value": 43'))
    refused = hipbook("records", "check", tmp_path)
    assert refused.returncode == 1
    assert f"{a.name}: edited after it was written" in refused.stderr
    report = hipbook("report", tmp_path / "b")
    assert Path(report.stdout.strip()).is_file()


def test_run_refuses_a_misspelt_parameter_before_anything_runs(make_notebook, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("sise: 21\n")
    done = hipbook("run", make_notebook(), "-f", file, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "sise: no such parameter" in done.stderr
    assert "size: int = 8  # keys, 1..100" in done.stderr
    assert not (tmp_path / "run").exists()


def test_run_reports_a_dead_kernel(make_notebook, tiny_cells, tmp_path):
    cells = tiny_cells
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    notebook = make_notebook((cells["parameters"], "parameters"), cells["begin"], kill, cells["write"])
    done = hipbook("run", notebook, "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "DEAD_KERNEL tiny" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "no.ipynb"), "no.ipynb: no such notebook"),
        (("records", "show", "no.json"), "no.json: No such file"),
        (("records", "list", "no"), "no: no such file or folder"),
        (("notebooks", "check", "no.ipynb"), "no.ipynb: no such notebook"),
        (("report", "lib"), "no run in it"),
        (("build", "no.hip"), "no source"),
        (("check", "--arm", "no"), "must be one of"),
        (("check", "--board", "no"), "no board is called 'no'"),
        (("check", "--case", "no"), "must be one of: paged_attention"),
    ],
)
def test_errors_are_messages(arguments, words, monkeypatch):
    monkeypatch.chdir(paths.root())
    done = hipbook(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_build_prints_static_facts():
    done = hipbook("build", "board_check/board_check.hip", "--arch", "gfx1200", "--", "-DHIPBOOK_BREAK=0")
    assert done.returncode == 0, done.stderr
    assert "board_check" in done.stdout
    assert "VGPRs" in done.stdout


def test_check_counts_what_it_compared_and_writes_junit(tmp_path):
    junit = tmp_path / "deep" / "junit.xml"
    done = hipbook("check", "--arm", "decode_gqa", "--family", "windows", "--junit", junit)
    assert done.returncode == 0, done.stderr
    compared = int(done.stdout.split("values compared: ")[1].split()[0].replace(",", ""))
    assert compared > 1000
    suites = ElementTree.parse(junit).getroot()
    assert len(list(suites.iter("testcase"))) >= 1
    assert not list(suites.iter("failure"))


def test_clean_empties_the_caches_but_not_the_locks(tmp_path, monkeypatch):
    monkeypatch.setenv("HIPBOOK_CACHE", str(tmp_path / "cache"))
    for name in ("code/a/b.hsaco", "emulator/x.so", "locks/board.0.lock"):
        file = tmp_path / "cache" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 1000)
    assert {part.path.name: part.size_bytes for part in caches.parts()} == {"code": 1000, "emulator": 1000}
    dry = hipbook("clean", "--dry-run")
    assert f"{tmp_path / 'cache' / 'code'}, at most" in dry.stdout
    assert (tmp_path / "cache" / "code").exists()
    assert hipbook("clean").returncode == 0
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == ["locks"]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["PASSED", "PASSED"], 0),
        (["PASSED", "INCORRECT"], 1),
        (["BAD_PARAMETERS"], 2),
        (["BAD_PARAMETERS", "DEAD_KERNEL"], 1),
        (["PASSED", "CANCELLED"], 130),
    ],
)
def test_exit_codes(statuses, code):
    outcomes = [Outcome("n", {}, Status(s), "", Path(), None, None, 0.0) for s in statuses]
    assert telling.exit_code(outcomes) == code


def test_the_summary_is_read_from_records():
    """One row an arm; a figure that no record holds is absent, never made up."""
    from hipbook.notebooks import Investigation

    check = Investigation("check", "?", {}, None)
    gap = Investigation(reproduce.GAP, "?", {}, None)
    check.fact("decode", "values compared", 1000, "values")
    check.fact("decode", "worst row NMSE", 2e-6, "1")
    for keys in (64, 1024):
        gap.fact(
            f"decode, {keys} keys", "K and V bytes asked for", keys * 8192, "B", bound=(keys * 4096, "once")
        )
    gap.fact("decode, 1024 keys", "wave instructions", 5_000, "instructions")
    gap.fact("decode", "barriers per key", 0, "barriers")
    gap.fact("online", "barriers per key", 11, "barriers")
    rows = reproduce.summary({"check": check.record(), reproduce.GAP: gap.record()})
    assert [row["arm"] for row in rows] == ["decode", "online"]
    assert rows[0]["checked values"] == 1000
    assert rows[0]["wave instructions, 1024 keys"] == 5_000
    assert rows[0]["times the floor"] == 2
    assert rows[1]["barriers per key"] == 11
    assert rows[1]["K+V bytes"] is None
    assert reproduce.summary({}) == []


def test_the_example_workflow_calls_verbs_that_exist():
    workflow = yaml.safe_load((paths.root() / "docs" / "ci-example.yml").read_text())
    steps = [step.get("run", "") for step in workflow["jobs"]["check"]["steps"]]
    verbs = [run.split("hipbook/.venv/bin/hipbook ")[1].split()[0] for run in steps if "/bin/hipbook " in run]
    assert verbs == ["doctor", "check", "run"]
    options = hipbook("check", "--help").stdout + hipbook("run", "--help").stdout
    for option in ("--junit", "--out"):
        assert any(option in run for run in steps)
        assert option in options


def test_emulator_opcodes_lists_covered_and_uncovered():
    done = hipbook("emulator", "opcodes", "--arch", "gfx1100", "--arch", "gfx1200", "--encoding", "VOP3P")
    assert done.returncode == 0
    assert "gfx1100 (rdna3): 34 of 34 opcodes run" in done.stdout
    rdna4 = done.stdout.partition("gfx1200 (rdna4):")[2]
    covered, _, uncovered = rdna4.partition("uncovered:")
    assert "V_WMMA_I32_16X16X16_IU8" in covered
    assert "V_SWMMAC_F32_16X16X32_F16" in uncovered
    wrong = hipbook("emulator", "opcodes", "--arch", "gfx942")
    assert wrong.returncode == 2
    assert "must be one of: gfx1200, gfx1201, gfx1100, gfx1151" in wrong.stderr
