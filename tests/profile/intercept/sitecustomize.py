"""What the stand-in profiler has inside the child, as the real one has its library there.

It sees each launch on the emulated board and each marker, and writes them down. Python imports a module of
this name by itself at its start.
"""

import json
import os
from pathlib import Path

if os.environ.get("STAND_IN_LOG"):
    import torch

    from hipbook.boards.emulated import EmulatedBoard

    LOG = Path(os.environ["STAND_IN_LOG"])
    plain = EmulatedBoard.launch

    def write(**event: object) -> None:
        with LOG.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"pid": os.getpid(), **event}) + "\n")

    def launch(self, code_object, kernel, grid, block, args, **options):
        done = plain(self, code_object, kernel, grid, block, args, **options)
        facts = code_object.kernels[kernel]
        write(
            event="launch", kernel=kernel, grid=grid, block=block, totals=dict(done.counters.totals),
            vgprs=facts.vgprs, sgprs=facts.sgprs, lds=facts.lds_bytes, scratch=facts.scratch_bytes,
        )  # fmt: skip
        return done

    EmulatedBoard.launch = launch
    if os.environ.get("STAND_IN_MARKERS"):  # ROCTX is there when its library is
        torch.cuda.nvtx.range_push = lambda text: write(event="push", text=text)
        torch.cuda.nvtx.range_pop = lambda: write(event="pop")
