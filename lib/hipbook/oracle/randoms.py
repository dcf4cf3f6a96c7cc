"""Random numbers that are the same bytes on every machine and with every library version.

Only Philox's raw 64-bit words are used (a counter-based generator with published constants); how
they become floats, permutations and choices is written here, not left to a library's discretion.
"""

import hashlib

import numpy as np
import torch


class Randoms:
    """A stream named by its key: the same key gives the same numbers, another key others."""

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256(repr(key).encode()).digest()
        self._bits = np.random.Philox(key=np.frombuffer(digest[:16], dtype=np.uint64))

    def words(self, count: int) -> np.ndarray:
        return self._bits.random_raw(count) if count else np.zeros(0, dtype=np.uint64)

    def uniform(self, *shape: int, least: float = -1.5, most: float = 1.5) -> torch.Tensor:
        """float32 in [least, most), 32 random bits scaled in float64 and rounded once."""
        count = int(np.prod(shape))
        halves = self.words((count + 1) // 2).astype("<u8").view("<u4")[:count]
        values = least + (most - least) * (halves * 2.0**-32)
        return torch.from_numpy(values.astype(np.float32).reshape(shape))

    def permutation(self, count: int) -> torch.Tensor:
        """int64, a permutation of range(count)."""
        return torch.from_numpy(np.argsort(self.words(count), kind="stable"))

    def below(self, count: int) -> int:
        return int(self.words(1)[0] % np.uint64(count))

    def choice(self, options: tuple) -> object:
        return options[self.below(len(options))]
