"""Notebook 11's study: it finds out a flag that is not looked at, and damage to flag-off output."""

import os

import pytest
import torch

from hipbook import boards
from hipbook.ops import attention_dispatch
from hipbook.studies import flag_study, reach


@pytest.fixture(scope="module")
def board():
    return boards.get("gfx1200-emu")


@pytest.fixture(scope="module")
def study(board):
    return flag_study.run(board, ratios=[2, 4], keys=40, control_head_dim=256, seed=1)


def test_off_and_on_are_different_kernels_at_128_and_one_at_the_control(study):
    seen = {(row["D"], row["ratio"], row["flag"]): row["witness"] for row in flag_study.rows(study)}
    assert seen[128, 2, "off"] == seen[128, 4, "off"] == "0x10"
    assert (seen[128, 2, "on"], seen[128, 4, "on"]) == ("0x30", "0x20")
    assert seen[256, 2, "off"] == seen[256, 2, "on"] == "0x30"
    assert all(row["witness"] == row["expected"] for row in flag_study.rows(study))


def test_flag_off_is_byte_for_byte_online(study):
    rows = [row for row in flag_study.byte_identity(study) if row["predicted"]]
    assert len(rows) == 6
    assert [row for row in rows if row["verdict"] != row["predicted"]] == []


def test_two_processes_agree_with_this_one(study):
    again = flag_study.in_two_processes(study)
    assert len(again) == 6
    assert all(row["same kernel"] and row["same bytes"] for row in again)


def test_a_flag_read_once_per_process_is_found_out(board, monkeypatch):
    """T3: the dispatcher that keeps its first answer runs one arm on both sides."""
    first = {}

    def kept(env, default=True):
        return first.setdefault("answer", attention_dispatch_flag_state(env, default))

    attention_dispatch_flag_state = attention_dispatch.flag_state
    monkeypatch.setattr(attention_dispatch, "flag_state", kept)
    study = flag_study.run(board, ratios=[2], keys=8, control_head_dim=256, seed=0)
    rows = [row for row in flag_study.rows(study) if row["D"] == 128]
    assert [row["witness"] == row["expected"] for row in rows] == [True, False]


def test_one_flipped_bit_is_one_differing_byte():
    out = torch.arange(64, dtype=torch.float32)
    other = out.clone()
    other.view(torch.int32)[5] ^= 1
    assert flag_study.differing_bytes(out, out) == 0
    assert flag_study.differing_bytes(out, other) == 1


def test_the_flag_is_put_back(monkeypatch):
    monkeypatch.delenv(reach.FLAG, raising=False)
    with reach.flag("1"):
        assert os.environ[reach.FLAG] == "1"
    assert reach.FLAG not in os.environ
    monkeypatch.setenv(reach.FLAG, "0")
    with pytest.raises(ZeroDivisionError), reach.flag("1"):
        raise ZeroDivisionError
    assert os.environ[reach.FLAG] == "0"


def test_a_failing_child_says_why(board):
    with pytest.raises(Exception, match="no-such-board"):
        reach.in_new_process("1", [(128, 2)], keys=4, seed=0, board="no-such-board")


def test_reported_figures_are_those_of_the_flag():
    rows = flag_study.reported()
    assert {row["quantity"] for row in rows} == {"tpot", "assertions"}
    assert len(rows) == 13
