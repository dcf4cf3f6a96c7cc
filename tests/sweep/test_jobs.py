"""Points, order and keys of a sweep's jobs; bad values are refused before anything runs."""

from dataclasses import replace

import pytest
from sweep_makers import BEGIN, BOARDS, FACTS, PARAMETERS, offer

from hipbook.errors import HipbookError
from hipbook.notebooks.parameters import BadParameters
from hipbook.sweep import digests, jobs
from hipbook.sweep.spec import BadSweep, Sweep

OFFERS = [offer(board) for board in BOARDS]


def sweep(**fields) -> Sweep:
    return Sweep.model_validate({"name": "s", "notebook": "tiny", "boards": ["gfx1200-emu"]} | fields)


@pytest.fixture
def notebook(make_notebook):
    return make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS, "run.write()")


def test_points_are_product_zip_and_list_without_the_excluded():
    swept = {
        "product": {"size": [1, 2]},
        "zip": {"a": [1, 2, 3], "b": [4, 5, 6]},
        "list": [{"arm": "online"}, {"arm": "decode"}],
        "exclude": [{"size": 2, "arm": "decode"}, {"a": 3}],
    }
    found = jobs.points(sweep(swept=swept, seeds=[7, 8]))
    expected = [
        {"size": size, "a": a, "b": b, "arm": arm, "seed": seed}
        for size in (1, 2)
        for a, b in ((1, 4), (2, 5))
        for arm in ("online", "decode")
        if (size, arm) != (2, "decode")
        for seed in (7, 8)
    ]
    assert found == expected
    assert jobs.points(sweep()) == [{}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"swept": {"product": {"size": [1, 1]}}}, "is there twice"),
        ({"swept": {"product": {"size": [1]}, "exclude": [{"size": 1}]}}, "no point is left"),
        ({"swept": {"product": {"size": [1]}, "exclude": [{"sise": 1}]}}, "matches no point"),
        ({"swept": {"product": {n: list(range(100)) for n in ("a", "b", "c")}}}, "1,000,000 jobs"),
    ],
)
def test_points_that_make_no_sweep(fields, said):
    with pytest.raises(BadSweep, match=said):
        jobs.points(sweep(**fields))


def test_each_board_has_controls_at_start_middle_and_end_and_its_own_seeded_order(notebook):
    fields = {"boards": list(BOARDS[:2]), "swept": {"product": {"size": list(range(1, 21))}}, "repeats": 2}
    made = jobs.plan(sweep(**fields), notebook, OFFERS)
    assert made == jobs.plan(sweep(**fields), notebook, OFFERS)
    assert len({job.key for job in made}) == len(made) == 2 * (40 + 3)
    orders = []
    for board in BOARDS[:2]:
        queue = [job for job in made if job.board == board]
        assert [(i, job.control) for i, job in enumerate(queue) if job.control] == [
            (0, "start"),
            (21, "middle"),
            (42, "end"),
        ]
        assert {job.parameters["size"] for job in queue if job.control} == {1}
        points = [(job.parameters["size"], job.repeat) for job in queue if not job.control]
        assert sorted(points) == [(size, repeat) for size in range(1, 21) for repeat in (0, 1)]
        orders.append(points)
    assert orders[0] != orders[1] != sorted(orders[1])
    other = jobs.plan(sweep(**fields, order_seed=1), notebook, OFFERS)
    assert [job.key for job in other] != [job.key for job in made]
    assert {job.key for job in other} == {job.key for job in made}
    chosen = jobs.plan(sweep(**fields, control={"size": 33}), notebook, OFFERS)
    assert {job.parameters["size"] for job in chosen if job.control} == {33}


def test_a_key_changes_with_all_that_a_result_depends_on_and_with_nothing_else(
    notebook, make_notebook, monkeypatch
):
    def key(book=notebook, offers=OFFERS, **fields) -> str:
        [one] = [job for job in jobs.plan(sweep(**fields), book, offers) if not job.control]
        return one.key

    base = key()
    assert key(order_seed=9, limits={"timeout_s": 5.0}) == base
    assert key(fixed={"size": 8}) == base  # a default written out is the same run
    others = [
        key(fixed={"size": 9}),
        key(offers=[replace(OFFERS[0], identity={**OFFERS[0].identity, "uuid": "other"})]),
        key(offers=[replace(OFFERS[0], toolchain="clang 23")]),
        key(boards=["gfx1201-emu"]),
    ]
    changed = make_notebook((PARAMETERS, "parameters"), BEGIN, FACTS + "  # changed", "run.write()")
    others.append(key(book=changed))
    for name in ("package", "kernels"):
        with monkeypatch.context() as patch:
            patch.setattr(digests, name, lambda: "other")
            others.append(key(book=changed))
    assert len({base, *others}) == len(others) + 1


def test_digests_see_every_file_and_only_its_name_and_content(tmp_path):
    for name, text in (("a.hip", "1"), ("sub/b.h", "2")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = list(tmp_path.rglob("*.h*"))
    before = digests.of_files(tmp_path, files)
    assert digests.of_files(tmp_path, reversed(files)) == before
    (tmp_path / "sub" / "b.h").write_text("3")
    assert digests.of_files(tmp_path, files) != before
    assert len(digests.kernels()) == 16
    assert digests.package() != digests.kernels()


def test_boards_by_name_and_by_architecture(notebook):
    two = [*OFFERS, replace(offer("card-1"), arch="gfx1201")]
    made = jobs.plan(sweep(boards=["gfx1201", "gfx1200-emu"]), notebook, two)
    assert list(dict.fromkeys(job.board for job in made)) == ["gfx1201-emu", "card-1", "gfx1200-emu"]
    with pytest.raises(BadSweep, match=r"no board or architecture 'nope'\n.*gfx1200-emu, .*gfx1151"):
        jobs.plan(sweep(boards=["nope"]), notebook, OFFERS)
    with pytest.raises(BadSweep, match="none is listed"):
        jobs.plan(sweep(boards=[]), notebook, OFFERS)


def test_all_bad_values_are_named_at_once_with_what_is_allowed(notebook):
    swept = {"product": {"size": [1, 1000], "arm": ["online", "wide"], "sise": [3]}}
    with pytest.raises(BadParameters) as raised:
        jobs.plan(sweep(swept=swept), notebook, OFFERS)
    said = str(raised.value)
    for fault in ("sise: no such parameter", "size = 1000: not allowed (keys, 1..100)", "arm = 'wide'"):
        assert said.count(fault) == 1
    assert "size: int = 8  # keys, 1..100" in said
    with pytest.raises(BadParameters, match="size = 'x'"):
        jobs.plan(sweep(control={"size": "x"}), notebook, OFFERS)


def test_a_notebook_without_board_or_seed_has_one_queue_and_takes_neither(make_notebook):
    plain = make_notebook()
    made = jobs.plan(sweep(boards=[], swept={"product": {"size": [1, 2]}}), plain, [])
    assert {job.board for job in made} == {jobs.NO_BOARD}
    with pytest.raises(BadSweep, match="no parameter `board`"):
        jobs.plan(sweep(), plain, OFFERS)
    with pytest.raises(BadSweep, match="no parameter `seed`"):
        jobs.plan(sweep(boards=[], seeds=[1]), plain, [])


def test_an_unknown_model_is_refused_before_anything_runs(make_notebook):
    book = make_notebook(('model: str = "Qwen3-0.6B"  # any text: a model of data/models', "parameters"))
    with pytest.raises(BadParameters, match="model = 'nope': must be one of: "):
        jobs.plan(sweep(boards=[], swept={"product": {"model": ["Qwen3-0.6B", "nope"]}}), book, [])


def test_offers_of_this_machine_say_who_they_are():
    from hipbook.sweep import offers

    [one] = [o for o in offers.of_this_machine(["gfx1200"]) if o.board == "gfx1200-emu"]
    assert one.identity == {"name": "gfx1200-emu", "arch": "gfx1200", "kind": "emulated"}
    assert one.toolchain
    absent = next(e for e in __import__("hipbook.boards").boards.inventory() if not e.available)
    with pytest.raises(HipbookError, match=f"board {absent.name} is not on this machine"):
        offers.of_this_machine([absent.name])
