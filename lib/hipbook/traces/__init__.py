"""Profiler traces from anywhere: one reader, and what stands on its tables."""
