"""Every number a verdict turns on, in one place, each with its reason.

Shares and effects are natural logarithms of ratios unless the name says otherwise: 0.01 is 1 %.
docs/measuring.md lists them all; a test holds the two together. The calibration (calibration.py)
measures what they amount to.
"""

# --- runs and intervals (R2, R4, R5) -----------------------------------------------------------

# The confidence of every interval. The usual 19 in 20; corrections for many comparisons (R13) come on top.
CONFIDENCE = 0.95

# Fewest runs a side for a word other than INCONCLUSIVE. With 3 against 3 even a perfect separation has a
# rank-test p of 2 / C(6, 3) = 0.10; with 4 against 4 it is 2 / C(8, 4) = 0.029.
MIN_RUNS_A_SIDE = 4

# Fewest values for a 95 % interval of a median by order statistics: [min, max] of n values misses it with
# probability 2 * 0.5^n, which is 0.0625 at 5 and 0.031 at 6.
MIN_VALUES_FOR_MEDIAN_INTERVAL = 6

# Runs a side when nobody says otherwise. With 1 % between runs, 0.5 % within and an A/A control, a 3 %
# effect is found in over 95 % of sessions (the calibration prints the figure); even, for ABBA blocks.
DEFAULT_RUNS = 10

# The smallest effect worth a word when a plan names none: a kernel change under 1 % is not worth carrying,
# and board clocks alone wander by about as much.
MINIMUM_EFFECT = 0.01

# --- drift (R3) --------------------------------------------------------------------------------

# A session whose arms together drift by more than this is not one condition: interleaving cancels a straight
# line (calibrated at 2 %), not the curve a larger drift usually is.
DRIFT_LIMIT = 0.05

# Significance of a trend before it counts, in the arms' common level and in the ratio itself. Strict, since
# it is asked in every session: at 0.05 one quiet session in twenty would be thrown away.
DRIFT_P = 0.01

# --- two modes ---------------------------------------------------------------------------------

# Distance between the means of the two best clusters, in standard deviations within them, from which a
# sample counts as bimodal. Simulated: 12 normal values exceed 6 in 1 % of samples, 18 in 0.1 %; 12 uniform
# ones (the other innocent shape) in 5 %. It costs 4.5 % of sessions of 4 runs a side their word, 0.4 % of 6.
MODE_DISTANCE = 6.0

# A mode holds at least this share of the values; fewer are outliers, which have their own classes.
MODE_SHARE = 0.2

# Fewest values in which two modes can be told from luck (see MODE_DISTANCE): three arms of 4 runs.
MODE_MIN_VALUES = 12

# Share of runs that must be bimodal inside before the session is: one odd run in ten is noise.
MODE_RUNS_SHARE = 0.10

# --- clocks and throttling (R8, R10) -----------------------------------------------------------

# A block below this share of the session's median clock is flagged.
CLOCK_FLAG_SHARE = 0.95

# More than this share of blocks flagged: INCONCLUSIVE(throttled).
THROTTLED_SHARE = 0.10

# Kernels shorter than this are timed in batches or graphs: an event pair costs a few microseconds itself.
SHORT_KERNEL_US = 20.0

# A batch of short kernels lasts at least this long, so that event cost and resolution are under 1 % of it.
BATCH_US = 1000.0

# --- outliers (R10) ----------------------------------------------------------------------------

# 1.4826 * MAD estimates the standard deviation of a normal sample.
MAD_TO_SIGMA = 1.4826

# |x - median| / (1.4826 MAD) above which a value is a mild or a severe outlier. Tukey's fences are no
# substitute: among four values most quantile rules do not flag 31.14 beside 23.86, 23.75, 23.68.
MILD_OUTLIER = 3.5
SEVERE_OUTLIER = 7.0

# --- warm-up (R6) ------------------------------------------------------------------------------

# Iterations in one look at the trend: the window's median must agree with the next window's.
WARMUP_WINDOW = 8

# Two neighbouring windows agree when their medians differ by less than this, or by less than their scatter
# explains. Well under MINIMUM_EFFECT, so what is left of the trend cannot pass for an effect.
WARMUP_TOLERANCE = 0.0025

# At most this share of the iterations may go as warm-up; a trend that lasts longer is drift, not warm-up.
WARMUP_MAX_SHARE = 0.5

# More than this share of runs whose warm-up never ended: INCONCLUSIVE(drift). As for throttled blocks.
UNSETTLED_SHARE = 0.10

# --- stability of a quoted figure (T5) ---------------------------------------------------------

# (max - min) / median of repetitions above which one figure may not stand for them. The reports' stable
# series hold to 0.8 .. 5.1 %, the unstable ones have 31 % and 64 %.
SPREAD_LIMIT = 0.10

# --- bounds (R11) ------------------------------------------------------------------------------

# Faster than the bound by more than 3 % means the bytes, the bandwidth or the clock is wrong.
BOUND_EXCESS = 1.03

# Read kernels behind a measured bandwidth: one kernel may be slow itself and make the bound too easy.
MIN_READ_KERNELS = 2

# --- cache state (R7) --------------------------------------------------------------------------

# Cold inputs rotate through sets of at least twice the last-level cache, so none survives a round.
COLD_CACHE_MULTIPLE = 2.0

# --- boards (R14) ------------------------------------------------------------------------------

# Fewest boards for a sentence about an architecture: two give a spread with one degree of freedom.
BOARDS_FOR_ARCHITECTURE = 3

# --- scaling of an unlabelled series (T10) -----------------------------------------------------

# Exponent of value ~ concurrency^e. Batched decode multiplies throughput (e near 1) and leaves time per token
# nearly flat (e near 0) until the board is full; between the two the series does not tell.
THROUGHPUT_EXPONENT = 0.6
LATENCY_EXPONENT = 0.3

# --- near ties ---------------------------------------------------------------------------------

# Distributional gate for a default to flip, over teacher-forced tokens: mean KL divergence in nats, and the
# mean overlap of the two arms' top-k sets. In the decode loop, rounding the probabilities to bf16 (as vLLM's
# kernel does) costs 4e-6 nats and 0.4 % of the overlap; forgetting one key costs 2e-2 nats and 6 %.
KL_LIMIT_NATS = 1e-3
TOP_K = 8
TOP_K_AGREEMENT = 0.98

# Tokens behind a distributional gate: a divergence in 1 token of 100 escapes 300 of them with a chance of 5 %
# (0.99^300).
MIN_TOKENS_FOR_FLIP = 300
