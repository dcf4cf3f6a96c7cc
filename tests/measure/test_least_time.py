"""Bounds from counts and data sheets: by hand, for each resource; every rate has its source."""

import pytest

from hipbook import paths
from hipbook.boards.base import Counters
from hipbook.errors import BadArgument, HipbookError
from hipbook.measure import data_sheet
from hipbook.measure.data_sheet import DataSheet
from hipbook.measure.least_time import binding, least_times

RATES = dict.fromkeys(data_sheet.NEEDED, 1) | {
    "compute_units": 10, "simds_per_compute_unit": 2, "boost_clock_mhz": 1000, "memory_bandwidth_gb_s": 100,
    "transcendental_lanes_per_clock_and_simd": 8, "lds_bytes_per_clock_and_compute_unit": 128,
}  # fmt: skip
SHEET = DataSheet("gfx0", "a board", RATES, {}, {"barriers": "nobody says"})
TOTALS = {
    "SQ_WAVES": 4, "SQ_INSTS": 48_000, "SQ_INSTS_VALU": 20_000, "SQ_INSTS_SALU": 10_000, "BARRIERS": 7,
    "INSTS_INTERNAL": 8000, "LDS_BYTES_READ": 64_000, "LDS_BYTES_WRITTEN": 64_000,
}  # fmt: skip


def counters(**changes: int) -> Counters:
    return Counters({**TOTALS, **changes}, {"V_EXP_F32_E32": 3000, "V_RCP_F32_E32": 1000, "V_ADD_F32": 9}, {})


def test_each_resource_by_hand():
    least = {one.resource: one for one in least_times(counters(), 200_000, SHEET)}
    assert least["memory"].least_us == pytest.approx(2.0)  # 200 kB at 100 GB/s
    assert least["vector ALU"].least_us == pytest.approx(1.0)  # 20,000 over 20 SIMDs at 1 GHz
    assert least["scalar ALU"].least_us == pytest.approx(0.5)
    assert least["transcendental"].amount == 4000
    assert least["transcendental"].least_us == pytest.approx(0.8)  # four clocks a wave
    assert least["LDS"].least_us == pytest.approx(0.1)  # 128,000 bytes over 10 x 128 a clock
    assert least["one wave's issue"].least_us == pytest.approx(10.0)
    assert (least["barriers"].least_us, least["barriers"].why) == (None, "nobody says")
    assert binding(list(least.values())).resource == "one wave's issue"


def test_what_binds_follows_the_counts():
    many = least_times(counters(SQ_WAVES=4000), 200_000, SHEET)
    assert binding(many).resource == "memory"
    assert binding(least_times(counters(SQ_WAVES=4000), 1, SHEET)).resource == "vector ALU"
    with pytest.raises(BadArgument, match="at least one wave"):
        least_times(counters(SQ_WAVES=0), 1, SHEET)


@pytest.mark.parametrize("path", sorted((paths.data() / "boards").glob("*.toml")), ids=lambda p: p.stem)
def test_every_sheet_in_the_tree_is_whole(path):
    sheet = data_sheet.read(path)
    assert sheet == data_sheet.of_arch(path.stem)
    assert all(len(source) > 20 for source in sheet.sources.values())
    assert "barriers" in sheet.not_public


def test_a_rate_without_a_source_is_refused(tmp_path):
    text = (paths.data() / "boards" / "gfx1200.toml").read_text()
    path = tmp_path / "x.toml"
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith('compute_units = "')))
    with pytest.raises(HipbookError, match="no source for compute_units"):
        data_sheet.read(path)
    path.write_text(text.replace("compute_units = 32", "compute_units = 0", 1))
    with pytest.raises(HipbookError, match="positive"):
        data_sheet.read(path)
    with pytest.raises(BadArgument, match="gfx1200"):
        data_sheet.of_arch("gfx000")
