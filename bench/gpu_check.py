"""Our arms on a GPU against the oracle, over the adversarial families of inputs.

    python bench/gpu_check.py [--arms split_kv] [--families nan_slots,few_keys]
                              [--configs bf16-bf16-bf16-128-2,f16-f16-f16-64-8]

A configuration is q-kv-out-head_dim-ratio. Calls are made on the host and moved with their strides and
misalignments; the wrapper's own checks (witness, poison, rows nobody owns) are on. Exits with 1 when a
launch is wrong, faults, or is refused for a reason that the contract does not allow.
"""

import argparse
import sys
import time

import torch

from hipbook import boards
from hipbook.errors import HipbookError, Refused
from hipbook.ops.attention_call import DTYPES
from hipbook.ops.paged_attention import run_call
from hipbook.ops.placement import placed
from hipbook.oracle.paged_attention import FAMILIES, compare, make, reference

CONFIGS = (
    "bf16-bf16-bf16-128-2,bf16-bf16-bf16-128-6,bf16-bf16-bf16-128-16,bf16-bf16-bf16-64-1,bf16-bf16-bf16-64-8,"
    "bf16-bf16-bf16-256-4,bf16-bf16-bf16-256-16,f16-f16-f16-128-2,f16-bf16-f32-128-3,f16-bf16-bf16-256-8,"
    "bf16-f16-bf16-128-2,f32-f32-f32-128-2,f32-bf16-f32-64-5,bf16-bf16-bf16-512-2,f32-f16-f16-512-16"
)
MAY_REFUSE = {"misaligned", "head_dims"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arms", default="split_kv")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--configs", default=CONFIGS)
    parser.add_argument("--row-kinds", default="decode,prefill")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    board = boards.get("nvidia-0" if torch.version.cuda else "amd-0")
    launches = values = failures = refusals = 0
    worst, began = 0.0, time.time()
    for config in options.configs.split(","):
        q, kv, out, d, ratio = config.split("-")
        shape = {
            "q_dtype": DTYPES[q], "kv_dtype": DTYPES[kv], "out_dtype": DTYPES[out], "head_dim": int(d),
            "num_q_heads": 2 * int(ratio), "num_kv_heads": 2,
        }  # fmt: skip
        for family in options.families.split(","):
            for kind in options.row_kinds.split(","):
                for number, call in enumerate(make(family, options.seed, row_kind=kind, **shape)):
                    want = reference(call)
                    there = placed(call, board.torch_device)
                    for arm in options.arms.split(","):
                        label = f"{arm} {config} {family} {kind} call {number}"
                        try:
                            result = run_call(there, arm=arm, board=board)
                        except Refused as refused:
                            refusals += 1
                            if family not in MAY_REFUSE:
                                failures += 1
                                print(f"REFUSED {label}: {refused.what}")
                            continue
                        except HipbookError as error:
                            failures += 1
                            print(f"FAULT {label}: {error.what}")
                            continue
                        launches += 1
                        if not bool(want.written.any()):
                            continue  # nobody owns a row: the wrapper has seen that none was written
                        seen = compare(result.out.cpu(), want)
                        values += seen.values_compared
                        worst = max(worst, seen.max_error_over_bound)
                        if not seen.passed:
                            failures += 1
                            print(f"INCORRECT {label}: {seen.why}")
    print(
        f"{board.name} ({board.identity()['product']}): {launches} launches, {values} values compared, "
        f"{refusals} refused, worst error over bound {worst:.3f}, {failures} failures, "
        f"{time.time() - began:.0f} s"
    )
    return 1 if failures or not values else 0


if __name__ == "__main__":
    sys.exit(main())
