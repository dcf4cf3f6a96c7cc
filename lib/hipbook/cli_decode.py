"""`hipbook decode-step`: a Qwen3 decode step with our arms, timed on a GPU board or checked on any."""

from pathlib import Path
from typing import Annotated

import typer

from hipbook.errors import BadArgument

app = typer.Typer(no_args_is_help=True, help="A Qwen3 decode step with each arm of paged attention.")


@app.command()
def run(
    out: Annotated[Path, typer.Option(help="Folder for the record, the traces and the processes' figures.")],
    model: Annotated[
        str, typer.Option(help="A name of data/models (random weights), or a folder of Qwen3 safetensors.")
    ] = "Qwen3-0.6B",
    base: Annotated[str, typer.Option(help="The arm compared with.")] = "online",
    arms: Annotated[str, typer.Option(help="The arms compared, by name.")] = "decode_gqa,split_kv",
    concurrency: Annotated[str, typer.Option(help="Sequences at once.")] = "1,2,4,8,16",
    contexts: Annotated[str, typer.Option(help="Keys each sequence sees.")] = "512,4096",
    processes: Annotated[int, typer.Option(help="Replications, even; 4 at least carry a verdict.")] = 6,
    samples: Annotated[int, typer.Option(help="Samples of an arm and case in a process, at least 16.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, caches and the order of runs.")] = 0,
    board: Annotated[str, typer.Option(help="A GPU board; default: the first there is.")] = "",
    traces: Annotated[bool, typer.Option(help="Also runs of 4 and 36 tokens under torch.profiler.")] = True,
) -> None:
    """Time a decode step on a GPU board with every arm; needs nothing but the board, torch and a compiler."""
    from hipbook.studies import decode_step, decode_step_run

    where = decode_step_run.gpu_board(board)
    config, folder = decode_step.model_named(model)
    job = decode_step.job_of(
        config, where.name, folder=folder, base=base, arms=_names("arms", arms),
        concurrencies=_numbers("concurrency", concurrency), contexts=_numbers("contexts", contexts),
        processes=processes, samples=samples, seed=seed,
    )  # fmt: skip
    decode_step_run.run_session(job, where, out, traces=traces, say=typer.echo)


@app.command()
def check(
    arms: Annotated[str, typer.Option(help="The arms, by name.")] = "online,decode,decode_gqa,split_kv,auto",
    board: Annotated[str, typer.Option(help="A name from `hipbook boards`.")] = "",
    dtype: Annotated[str, typer.Option(help="f32, f16 or bf16.")] = "f32",
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Decode with a small model and each arm on any board, against the same model in float64."""
    from hipbook import boards
    from hipbook.measure.counts import CountWord
    from hipbook.ops.attention_call import DTYPES
    from hipbook.report import tables
    from hipbook.studies import decode_step_check

    if dtype not in DTYPES:
        raise BadArgument("--dtype", dtype, f"one of {', '.join(DTYPES)}")
    found = decode_step_check.check(
        _names("arms", arms), boards.get(board or None), dtype=DTYPES[dtype], seed=seed
    )
    typer.echo(tables.text([one.row() for one in found]))
    raise typer.Exit(any(one.verdict.word is not CountWord.CORRECT for one in found))


def _names(option: str, said: str) -> list[str]:
    names = [name.strip() for name in said.split(",")]
    if not all(names):
        raise BadArgument(f"--{option}", said, "names separated by commas")
    return names


def _numbers(option: str, said: str) -> list[int]:
    try:
        return [int(number) for number in said.split(",")]
    except ValueError:
        raise BadArgument(f"--{option}", said, "whole numbers separated by commas") from None
