"""Model geometries: what the table says, and that a wrong file is refused."""

import pytest

from hipbook import paths
from hipbook.errors import BadArgument, HipbookError
from hipbook.ops import models

TABLE = {  # docs/contracts.md, model geometries: layers of attention and GDN, Hq, Hkv, ratio, D
    "Qwen3-0.6B": (28, 0, 16, 8, 2, 128),
    "Qwen3-1.7B": (28, 0, 16, 8, 2, 128),
    "Qwen3-4B": (36, 0, 32, 8, 4, 128),
    "Qwen3.5-0.8B": (6, 18, None, None, 4, 256),
    "Qwen3.5-4B": (8, 24, 16, 4, 4, 256),
    "Qwen3.8-27B": (16, 48, 24, 4, 6, 256),
    "Qwen3.6-A3B": (10, 30, None, None, 8, 256),
}


def m_heads(model):
    return model.num_q_heads, model.num_kv_heads


def test_the_files_are_the_table():
    found = {
        m.name: (m.attention_layers, m.gdn.layers if m.gdn else 0, *m_heads(m), m.ratio, m.head_dim)
        for m in models.load_all().values()
    }
    assert found == TABLE
    assert models.get("qwen3-0.6B").hidden == 1024
    a3b = models.get("Qwen3.6-A3B")
    assert (a3b.gdn.key_heads, a3b.gdn.value_heads, a3b.gdn.taps, a3b.moe.expert_width) == (16, 32, 4, 512)
    assert a3b.calls_per_token["quantize"] == 7 * a3b.layers + 1


def test_four_kib_a_key():
    assert models.get("Qwen3-0.6B").floor_bytes_per_key(2) == 4096


def test_unknown_head_counts_are_asked_for():
    model = models.get("Qwen3.5-0.8B")
    with pytest.raises(BadArgument, match="not known"):
        model.heads()
    assert model.heads(2) == (8, 2)


def test_unknown_model():
    with pytest.raises(BadArgument, match=r"Qwen3-0\.6B"):
        models.get("Qwen9")


@pytest.mark.parametrize(
    "text", ["head_dims = 128", "num_q_heads = 9", "ratio = 0", "= ", 'head_dim = "128x"']
)
def test_a_file_that_says_what_no_model_says_is_refused(tmp_path, monkeypatch, text):
    whole = (paths.data() / "models" / "qwen3-0.6b.toml").read_text()
    key = text.split(" =")[0]
    lines = [line for line in whole.splitlines() if not line.startswith(f"{key} =")]
    (tmp_path / "data" / "models").mkdir(parents=True)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "data" / "models" / "m.toml").write_text("\n".join([*lines, text]))
    monkeypatch.setenv("HIPBOOK_ROOT", str(tmp_path))
    models.load_all.cache_clear()
    try:
        with pytest.raises(HipbookError, match=r"m\.toml"):
            models.load_all()
    finally:
        models.load_all.cache_clear()
