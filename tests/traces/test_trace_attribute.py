"""Attribution: every instant once, the parts add up to the wall; classes by rule file; Amdahl."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_makers import calls, copies, trace

from hipbook.errors import BadArgument
from hipbook.traces import attribute as A
from hipbook.traces import classes
from hipbook.traces.trace import TraceError

RULES = classes.parse_rules(
    [
        {"name": "own", "patterns": ["^own"]},
        {"name": "gemm", "patterns": ["^Cijk_"]},
        {"name": "comm", "patterns": ["^nccl"]},
    ],
    "test",
)


def parts(found, column="Wall_Ns"):
    return dict(found.parts.select("Part", column).rows())


def test_each_instant_belongs_to_one_part():
    made = trace(
        ("own_a", 100, 200, 1),
        ("Cijk_b", 150, 300, 2, 2),
        ("ncclC", 100, 600, 3, 3),
        ("other", 320, 340, 4),
        copies=copies(("HOST_TO_DEVICE", 580, 700, 5, 1)),
        api_calls=calls(
            ("hipLaunchKernel", 50, 90, 1),
            ("hipStreamSynchronize", 650, 900, 6),
            ("hipGetDevice", 900, 1000, 7),
        ),
    )
    found = A.attribute(made, RULES)
    assert found.wall_ns == 950  # 50 .. 1000
    assert parts(found) == {
        "own": 100,  # 100..200
        "gemm": 100,  # 200..300, the rest of it under own
        "other kernels": 20,  # 320..340
        "comm": 280,  # 300..320 and 340..600
        "copies": 100,  # 600..700
        "launch calls": 40,  # 50..90
        "API waits": 200,  # 700..900
        "launch gaps": 0,
        "unexplained": 110,  # 90..100 and 900..1000
    }
    assert parts(found, "Gpu_Ns")["comm"] == 500  # hidden time is in the sum, not in the wall
    assert sum(parts(found).values()) == found.wall_ns


def test_short_gaps_are_the_queues_own_and_long_ones_are_not():
    gap = A.LAUNCH_GAP_NS
    made = trace(("own", 1000, 2000), ("own", 2000 + gap, 3000 + gap), ("own", 3000 + 2 * gap + 1, 90_000))
    found = A.attribute(made, RULES)
    assert parts(found)["launch gaps"] == gap
    assert parts(found)["unexplained"] == gap + 1
    assert any("no API calls" in note for note in found.notes)


def test_gpu_shares_and_api_table_stand_beside_each_other():
    made = trace(
        ("own", 100, 200, 1),
        ("Cijk_", 200, 500, 2),
        copies=copies(("DEVICE_TO_HOST", 500, 600, 3, 1)),
        api_calls=calls(("hipMemcpyAsync", 50, 950, 3)),
    )
    found = A.attribute(made, RULES)
    assert parts(found, "Share_Of_Gpu")["gemm"] == pytest.approx(300 / 500)
    assert found.calls.select("Function", "Total_Ns").row(0) == ("hipMemcpyAsync", 900)
    assert parts(found)["copies"] == 100
    assert sum(parts(found, "Share_Of_Wall").values()) == pytest.approx(1)


def test_a_given_wall_clips():
    found = A.attribute(trace(("own", 100, 200), ("own", 300, 400)), RULES, wall=(150, 350))
    assert (found.wall_ns, parts(found)["own"], parts(found)["launch gaps"]) == (200, 100, 100)


def test_unusable_rows_are_in_no_part_and_said():
    found = A.attribute(trace(("own", 100, 200), ("own", -1, -1)), RULES)
    assert parts(found)["own"] == 100
    assert any("1 dispatches without usable times" in note for note in found.notes)


def test_nothing_to_account_for():
    with pytest.raises(TraceError, match="no wall"):
        A.attribute(trace(), RULES)


def test_idle_time_that_a_graph_explains_is_no_finding():
    made = trace(
        ("own", 100, 150, 1),
        ("own", 5_000_000, 5_000_100, 2),
        api_calls=calls(
            ("hipLaunchKernel", 10, 20, 1), ("hipGraphLaunch", 200, 300, 9), ("hipLaunchKernel", 400, 410, 2)
        ),
    )
    found = A.attribute(made, RULES)
    assert any("not idle time" in note for note in found.notes)
    assert not any("more than half" in note for note in found.notes)


events = st.lists(
    st.tuples(st.sampled_from(["own", "Cijk_", "ncclX", "zz"]), st.integers(1, 300), st.integers(1, 60)),
    min_size=1,
    max_size=10,
)
host = st.lists(
    st.tuples(
        st.sampled_from(["hipLaunchKernel", "hipMemcpy", "hipGetDevice"]),
        st.integers(1, 300),
        st.integers(1, 60),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(events, host)
def test_the_parts_always_add_up_and_agree_with_brute_force(kernels, api):
    made = trace(*((n, a, a + d) for n, a, d in kernels))
    if api:
        made = made.replace_tables(api_calls=calls(*((n, a, a + d) for n, a, d in api)))
    found = A.attribute(made, RULES)
    assert sum(parts(found).values()) == found.wall_ns
    assert min(parts(found).values()) >= 0
    taken: set[int] = set()
    for label, prefix in (("own", "own"), ("gemm", "Cijk_"), ("other kernels", "zz"), ("comm", "nccl")):
        mine = {t for n, a, d in kernels if n.startswith(prefix) for t in range(a, a + d)} - taken
        assert parts(found).get(label, 0) == len(mine), label
        taken |= mine


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=10))
def test_union_is_sorted_disjoint_and_covers_the_same(pairs):
    import numpy as np

    start, end = A.union(
        np.array([a for a, _ in pairs], np.int64), np.array([a + d for a, d in pairs], np.int64)
    )
    assert (start[1:] > end[:-1]).all()
    assert (end > start).all()
    covered = {t for a, b in zip(start.tolist(), end.tolist(), strict=True) for t in range(a, b)}
    assert covered == {t for a, d in pairs for t in range(a, a + d)}


def test_amdahl():
    table = A.amdahl(88.7, 21.25)
    assert table["Saved_Ns"].to_list() == pytest.approx([10.625, 15.9375, 19.125, 21.25])
    assert table["Speedup"].to_list()[-1] == pytest.approx(88.7 / 67.45)
    with pytest.raises(TraceError, match="does not fit"):
        A.amdahl(10, 11)


# --- rule files -----------------------------------------------------------------------------------


def test_the_shipped_rules_know_the_kernels_people_have():
    rules = classes.load_rules()
    for name, label in {
        "Cijk_Ailk_Bljk_HHS_BH": "GEMM library",
        "void mul_mat_vec_q<(ggml_type)13, 1>(void const*)": "quantized matmul",
        "quantize_q8_1(float const*, void*)": "activation quantizer",
        "vt::QuantizeQ8KK": "activation quantizer",
        "paged_attention_decode_gqa": "attention",
        "PagedAttnOnline<bf16,bf16,bf16>": "attention",
        "vt::GdnPostConvK": "linear attention and convolution state",
        "void gated_delta_net_cuda<128, false>(float*)": "linear attention and convolution state",
        "rms_norm_f32": "norm",
        "__amd_rocclr_copyBuffer": "copy and fill",
        "__amd_rocclr_fillBufferAligned.kd": "copy and fill",
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": "communication",
        "somebody_elses": classes.OTHER,
    }.items():
        assert rules.of(name) == label, name
    assert rules.labels[-2:] == [classes.OTHER, "communication"]
    assert classes.unmatched(["Cijk_x", "b", "a"], rules) == ["a", "b"]


def test_mangled_names_are_classed_by_their_demangled_form():
    assert classes.load_rules().of("_ZN2vt12QuantizeQ8KKEv.kd") == "activation quantizer"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at least one"),
        ("[[class]]\nname = 'x'", "needs a `name` and a list of `patterns`"),
        ("[[class]]\nname = 'x'\npatterns = []", "needs a"),
        ("[[class]]\nname = 'x'\npatterns = ['(']", "class 'x'"),
        ("[[class]]\nname = 'x'\npatterns = ['a']\n" * 2, "used once"),
        ("[[class]]\nname = 'other kernels'\npatterns = ['a']", "never"),
        ("class = 3", "at least one"),
        ("x = = 1", "TOML"),
    ],
)
def test_bad_rule_files_are_named(tmp_path, text, words):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(BadArgument, match=words):
        classes.load_rules(path)
    with pytest.raises(BadArgument, match="exists"):
        classes.load_rules(tmp_path / "absent.toml")
