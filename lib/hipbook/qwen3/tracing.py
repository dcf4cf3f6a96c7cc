"""Decode runs under torch.profiler: the same process with few and with many tokens, for differencing.

Each run feeds a prompt and then generates; every token is one graph replay and one copy of the chosen
tokens to the host, as an engine must to know where to stop. Weights, graph and prompt are the same in
both runs and cancel when they are subtracted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from hipbook.boards.base import Board
from hipbook.qwen3.case import Clock
from hipbook.qwen3.loop import Loop, attention_by_arm
from hipbook.qwen3.process import Job, prepare_weights
from hipbook.qwen3.state import State

TOKENS = (4, 36)
PROMPT_TOKENS = 8
CONTEXT = 512  # keys before the prompt
Save = Callable[[Callable[[], None], Path], None]  # runs under the profiler, and where the trace goes


def file_name(arm: str, tokens: int) -> str:
    return f"decode_{arm}_{tokens}_tokens.json.gz"


def write_traces(
    job: Job,
    arms: Sequence[str],
    board: Board,
    clock: Clock,
    folder: Path,
    save: Save,
    context: int = CONTEXT,
) -> list[Path]:
    """A trace of every arm and token count, of one sequence."""
    weights, written = prepare_weights(job, board), []
    for arm in arms:
        state = State(
            job.model, batch=1, capacity=context + PROMPT_TOKENS + max(TOKENS), dtype=weights.dtype,
            device=weights.device, seed=job.seed,
        )  # fmt: skip
        state.fill(context)
        state.begin([0], context)
        attention = attention_by_arm(state, arm, board, checked=False)
        replay = clock.capture(Loop(weights, state, attention).step)
        for tokens in TOKENS:

            def run(tokens: int = tokens, state: State = state, replay: Callable[[], None] = replay) -> None:
                for place in range(PROMPT_TOKENS):
                    state.begin([place], context + place)
                    replay()
                for _ in range(tokens - 1):  # the prompt's last step has chosen the first
                    state.tokens.cpu()
                    replay()
                state.tokens.cpu()

            run()  # once without the profiler: nothing is loaded under it
            clock.wait()
            written.append(folder / file_name(arm, tokens))
            save(run, written[-1])
    return written
