"""The structures that Python and the compiled runtime share (runtime/wave.h); views are in memory_map.py."""

import ctypes

import numpy as np

from hipbook.emulator import native
from hipbook.emulator.memory_map import CTrack, CView
from hipbook.errors import EmulatorError


class CFault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32), ("record", ctypes.c_uint32), ("wave", ctypes.c_uint32),
        ("lane", ctypes.c_uint32), ("workgroup", ctypes.c_uint64), ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64), ("other", ctypes.c_uint64), ("store", ctypes.c_uint32),
    )  # fmt: skip


TOTALS = (
    "segments32", "segments64", "segments128", "lds_bytes_read", "lds_bytes_written", "lds_conflicts",
    "barriers", "waves",
)  # fmt: skip


class CTotals(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in TOTALS)


MOVED = ("bytes", "segments32", "segments128", "lds_bytes", "lds_conflicts")  # of a record, in a profile
EVENT = np.dtype([("record", "<u4"), ("wave", "u1"), ("lanes", "u1"), ("segments", "<u2")])


class CProfile(ctypes.Structure):
    """runtime/wave.h: Profile"""

    _fields_ = (
        ("moved", ctypes.c_void_p), ("group", ctypes.c_uint64), ("views", ctypes.c_uint32),
        ("pad", ctypes.c_uint32), ("events", ctypes.c_void_p), ("room", ctypes.c_uint64),
        ("n_events", ctypes.c_uint64),
    )  # fmt: skip


class CLaunch(ctypes.Structure):
    """runtime/wave.h: Launch"""

    _fields_ = (
        ("records", ctypes.c_void_p), ("n_records", ctypes.c_uint64), ("pool", ctypes.c_void_p),
        ("jump", ctypes.c_void_p), ("code_va", ctypes.c_uint64), ("code_bytes", ctypes.c_uint64),
        ("entry", ctypes.c_uint32), ("checks", ctypes.c_uint32), ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3), ("n_vgprs", ctypes.c_uint32), ("lds_bytes", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32), ("n_slots", ctypes.c_uint32),
        ("gfx", ctypes.c_uint32), ("sgprs", ctypes.c_uint32 * 32), ("rsrc2", ctypes.c_uint32),
        ("n_views", ctypes.c_uint32), ("views", ctypes.c_void_p), ("wave_order_seed", ctypes.c_uint64),
        ("max_wave_instructions", ctypes.c_uint64), ("threads", ctypes.c_uint32),
        ("ordered", ctypes.c_uint32), ("n_tracks", ctypes.c_uint32), ("raced", ctypes.c_uint32),
        ("tracks", ctypes.c_void_p), ("shared_base", ctypes.c_uint64), ("private_base", ctypes.c_uint64),
        ("counts", ctypes.c_void_p), ("view_counts", ctypes.c_void_p), ("totals", CTotals), ("fault", CFault),
        ("profile", ctypes.c_void_p),
    )  # fmt: skip


def check_layout() -> None:
    """Raises EmulatorError if Python and the compiled runtime disagree about a structure."""
    lib = native.library()
    for name, ours, theirs in (
        ("Launch", ctypes.sizeof(CLaunch), lib.emu_launch_size()),
        ("View", ctypes.sizeof(CView), lib.emu_view_size()),
        ("Track", ctypes.sizeof(CTrack), lib.emu_track_size()),
    ):
        if ours != theirs:
            raise EmulatorError(f"the runtime's {name} has {theirs} bytes, Python's {ours}")
