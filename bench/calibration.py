"""Print the calibration of the verdicts: `python bench/calibration.py`, about half a minute on one core.

False FASTER/SLOWER of A/A sessions, coverage of the 95 % intervals and power, by simulation through the
code that judges real sessions. The same as `hipbook calibrate`.
"""

from hipbook.measure.calibration import report

if __name__ == "__main__":
    report()
