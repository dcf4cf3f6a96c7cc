"""One look for every figure: readable in print, in grey and by colour-blind readers."""

import matplotlib.pyplot as plt
import seaborn as sns

# Okabe and Ito's palette; an arm keeps its colour and hatch in every notebook, so that the eye can follow it.
ARM_COLOURS = {
    "online": "#D55E00",
    "online_shuffle": "#E69F00",
    "online_wide": "#F0E442",
    "online_tile": "#CC79A7",
    "decode": "#0072B2",
    "decode_gqa": "#009E73",
    "split_kv": "#56B4E9",
    "auto": "#56B4E9",
    "prefill": "#999933",
    "tiled_ref": "#000000",
    "flashinfer": "#882255",
    "flashinfer_tc": "#AA4499",
    "vllm_2d": "#999999",
    "vllm_unified": "#DDDDDD",
    "serial": "#D55E00",
    "superblock": "#D55E00",
    "block": "#56B4E9",
    "chunked": "#0072B2",
    "wave": "#009E73",
    "spread": "#009E73",
}
ARM_HATCHES = {
    "online": "", "decode": "//", "decode_gqa": "..", "split_kv": "xx",
    "serial": "", "superblock": "", "block": "xx", "chunked": "//", "wave": "..", "spread": "..",
}  # fmt: skip
FLOOR_COLOUR = "#444444"


def colour(arm: str) -> str:
    """The colour of an arm; grey for one this table does not know."""
    return ARM_COLOURS.get(arm, "#888888")


def use() -> None:
    """Set the theme for the figures drawn after it."""
    sns.set_theme(context="notebook", style="whitegrid", palette=list(dict.fromkeys(ARM_COLOURS.values())))
    plt.rcParams.update(
        {"figure.dpi": 96, "savefig.dpi": 144, "axes.titleweight": "bold", "figure.autolayout": True}
    )
