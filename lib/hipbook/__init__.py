"""hipbook: reproducible investigations of HIP kernels in LLM decode."""

__version__ = "0.1.0"
