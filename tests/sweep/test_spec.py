"""The sweep file: what it may say, and that everything else is refused with its place."""

import pytest

from hipbook import paths
from hipbook.notebooks.parameters import BadParameters
from hipbook.sweep import spec
from hipbook.sweep.runner import read_parameters
from hipbook.sweep.spec import BadSweep

GOOD = """\
name: gap
notebook: 10_paged_attention_gap
boards: [gfx1200-emu]
fixed: {model: Qwen3-0.6B}
swept:
  product: {long_keys: [256, 512]}
  zip: {first_context: [6, 12], last_context: [36, 42]}
  list: [{dtype: bf16}, {dtype: f16}]
  exclude: [{dtype: f16, long_keys: 512}]
seeds: [0, 1]
repeats: 2
order_seed: 5
limits: {timeout_s: 60, threads: 1}
"""


@pytest.fixture
def read(tmp_path):
    def it(text: str):
        file = tmp_path / "sweep.yaml"
        file.write_text(text)
        return spec.read(file)

    return it


def test_every_name_is_read(read):
    sweep = read(GOOD)
    assert sweep.swept.entries == [{"dtype": "bf16"}, {"dtype": "f16"}]
    assert (sweep.repeats, sweep.order_seed, sweep.limits.timeout_s) == (2, 5, 60)
    assert sweep.engine is None


REFUSED = [
    ("name: gap", "name: ../gap", "it becomes a folder"),
    ("name: gap", "name: 'a\\0b'", "it becomes a folder"),
    ("name: gap", "name: .hidden", "it becomes a folder"),
    ("name: gap\n", "", "name: Field required"),
    ("repeats: 2", "repeats: 2\nrepeat: 3", "repeat = 3: no such name"),
    ("repeats: 2", "repeats: 2\nrepeats: 3", "the key 'repeats' is there twice"),
    ("{model: Qwen3-0.6B}", "{model: Qwen3-0.6B, model: x}", "the key 'model' is there twice"),
    ("repeats: 2", "repeats: 0", "repeats = 0: Input should be greater than or equal to 1"),
    ("repeats: 2", "repeats: '2'", "repeats = '2'"),
    ("[256, 512]", "[]", "swept.product.long_keys"),
    ("[256, 512]", "[2026-01-01]", "swept.product.long_keys.0"),
    ("[36, 42]", "[36]", "zip: lists of different lengths: first_context has 2, last_context has 1"),
    ("{long_keys: [256, 512]}", "{dtype: [f32]}", "dtype is swept twice"),
    ("{model: Qwen3-0.6B}", "{long_keys: 6}", "long_keys is both fixed and swept"),
    ("{model: Qwen3-0.6B}", "{board: gfx1200-emu}", "board is not a parameter here"),
    ("{model: Qwen3-0.6B}", "{seed: 3}", "seed is given twice"),
    ("[{dtype: f16, long_keys: 512}]", "[{}]", "an empty entry would exclude everything"),
    ("seeds: [0, 1]", "seeds: [0, 0]", "seeds: an entry is there twice"),
    ("[gfx1200-emu]", "[gfx1200-emu, gfx1200-emu]", "boards: an entry is there twice"),
    ("{timeout_s: 60, threads: 1}", "{timeout_s: .inf}", "limits.timeout_s"),
    ("{timeout_s: 60, threads: 1}", "{retries: 3}", "limits.retries = 3"),
    ("order_seed: 5", "engine: {}", "either scheduler or hosts"),
    ("name: gap", "3: gap", "the key 3 is int, not text"),
    (GOOD, "[1, 2]", "not a mapping"),
    (GOOD, "name: [", "not YAML"),
    ("{model: Qwen3-0.6B}", "&a {model: Qwen3-0.6B}\ncontrol: *a", "*a: aliases are not read"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[said for *_, said in REFUSED])
def test_refused(read, old, new, said):
    assert old in GOOD
    with pytest.raises(BadSweep) as raised:
        read(GOOD.replace(old, new))
    assert said in str(raised.value)
    assert "sweep.yaml" in str(raised.value)


def test_a_notebook_is_a_stem_or_a_path_from_the_file(read, tmp_path, make_notebook):
    file = tmp_path / "sweep.yaml"
    assert spec.notebook_of(read(GOOD), file) == paths.notebooks() / "10_paged_attention_gap.ipynb"
    own = make_notebook()
    assert spec.notebook_of(read(GOOD.replace("10_paged_attention_gap", "tiny.ipynb")), file) == own.resolve()
    with pytest.raises(BadSweep, match="no such notebook"):
        spec.notebook_of(read(GOOD.replace("10_paged_attention_gap", "11_nope")), file)


@pytest.mark.parametrize("text", ["size: 8\nsize: 9\n", '{"size": 8, "size": 9}'])
def test_a_parameter_file_with_a_key_twice_is_refused(tmp_path, text):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(BadParameters, match=r"p\.yaml: not YAML: the key 'size' is there twice"):
        read_parameters(file)
