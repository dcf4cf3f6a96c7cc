"""Profilers of GPU boards, run on a child process of ours, and what they cost. docs/profiling.md."""
