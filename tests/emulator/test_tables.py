"""The semantics tables name real opcodes, and views of tensors become the right pieces of memory."""

import itertools

import pytest
import torch

from hipbook.emulator import coverage, generate, isa
from hipbook.emulator.memory_map import shape_of
from hipbook.emulator.semantics import memory, packed, parse, scalar, vector

REAL = {
    isa.base_name(name).replace("V_DUAL_", "V_")
    for family in ("rdna3", "rdna4")
    for names in isa.opcodes(family).values()
    for name in names.values()
}


def test_every_row_is_an_opcode_of_the_isa():
    rows = {*scalar.SCALAR, *vector.VECTOR, *packed.PACKED, *packed.WORDS, *packed.DOTS, *packed.MIX}
    assert rows - REAL == set()
    assert set(memory.MEMORY) - REAL == set()
    assert set(vector.CLAMPED) <= set(vector.VECTOR)


def test_coverage_counts_what_the_tables_hold():
    table = coverage.opcodes()
    assert all(table["SOP2"].values())
    assert all(table["VOPD"].values())
    assert table["VOP3"]["V_FMA_F32"]
    assert not table["VOP1"]["V_MOVRELS_B32_E32"]
    assert sum(sum(names.values()) for names in table.values()) > 1100


def test_handler_numbers_are_unique():
    names = generate.handlers()
    assert len(set(names)) == len(names)
    assert [generate.number_of(name) for name in names] == list(range(len(names)))


def test_a_malformed_or_repeated_row_is_refused():
    for table in ("V_X  f32  f32", "V_X  f32  f32  a\nV_X  f32  f32  a"):
        with pytest.raises(ValueError, match="bad row"):
            parse(table)


def bytes_of(view: torch.Tensor) -> set[int]:
    """Every byte of a view, from its first, the slow way."""
    size = view.element_size()
    places = itertools.product(*(range(n) for n in view.shape))
    starts = (sum(i * s for i, s in zip(place, view.stride(), strict=True)) * size for place in places)
    return {start + b for start in starts for b in range(size)}


def bytes_in_pieces(levels, inner) -> set[int]:
    offsets = itertools.product(*(range(count) for _, count in levels))
    starts = (sum(i * stride for i, (stride, _) in zip(o, levels, strict=True)) for o in offsets)
    return {start + b for start in starts for b in range(inner)}


BASE = torch.zeros(4096, dtype=torch.int16)
VIEWS = {
    "contiguous": BASE[:96].view(4, 6, 4),
    "transposed": BASE[:96].view(4, 6, 4).permute(2, 0, 1),
    "interleaved": BASE[:960].view(10, 2, 6, 8)[:, 1],
    "padded heads": BASE[:1200].view(10, 6, 20)[:, :, :8],
    "padded slots and heads": BASE[:3200].view(10, 4, 5, 16)[:, :3, :, :9],
    "every other": BASE[:100:2],
    "expanded": BASE[:8].view(1, 8).expand(5, 8),
    "scalar": BASE[3],
    "row of one": BASE[:64].view(8, 8)[2:3],
}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_view_is_exactly_its_bytes(name):
    view = VIEWS[name]
    levels, inner, span = shape_of(view.shape, view.stride(), view.element_size())
    want = bytes_of(view)
    assert bytes_in_pieces(levels, inner) == want
    assert span == max(want) + 1
    assert list(levels) == sorted(levels, reverse=True)


def test_gapless_views_are_one_piece():
    for name in ("contiguous", "transposed", "expanded", "scalar", "row of one"):
        assert shape_of(VIEWS[name].shape, VIEWS[name].stride(), 2)[0] == ()


def test_overlapping_and_empty_views():
    sliding = BASE[:20].as_strided((5, 8), (3, 1))
    assert shape_of(sliding.shape, sliding.stride(), 2) == ((), 40, 40)
    empty = BASE[:0]
    assert shape_of(empty.shape, empty.stride(), 2) == ((), 0, 0)
