"""Thresholds of the verdict, each with its source.

They were measured on real torch and MindSpore steps on a shared machine of two cores (41 rounds of fresh processes, unchanged
and with planted slowdowns), and validated on other runs. `benchmarks/verdicts` measures the resulting error rates on
the machine it runs on.
"""

from __future__ import annotations

# -- one controlled process ------------------------------------------------------------------------------------------

#: Least CPU time of the timed steps, in seconds: the spread between processes fell from 3.7 % at 30 steps of 2.4 ms to
#: 0.9 % at 300. If a step waits more than it works, the limit is wall time.
WINDOW_S = 0.75
LONGEST_WINDOW_S = 4.0
#: Largest number of timed steps.
MOST_STEPS = 300
#: Steps in a row, and the seconds of rest after them. The load of a machine changes: of ten processes on a very busy one,
#: the best of five in a row were within 7 % with rests and 26 % without (a step of 0.4 ms; 16 % and 30 % at 4 ms).
#: On a quiet machine, and beside noise that never changes, 16 to 20 processes showed no clear difference
#: (benchmarks/step_rests).
STEPS_IN_A_ROW = 30
REST_S = 0.1
#: Share of the machine's CPU time used by other processes, up to which the machine is quiet: no rests, which saves a second
#: a process.
QUIET_SHARE = 0.05
#: Timeout of a timed process: these seconds, and this multiple of the time that the test took in its own process.
LEAST_TIMEOUT_S = 120.0
TIMEOUT_FACTOR = 20.0
#: Steps, or seconds, of warm-up before the timed steps, in addition to the window's settling steps.
WARMUP_STEPS = 10
WARMUP_S = 0.25
#: Size of the square matrices that the calibration kernel multiplies, and products a kernel. A copy of 2 MB and a loop in
#: Python were tried as well, and made the spread larger.
CALIBRATION_SIZE = 192
CALIBRATION_PRODUCTS = 2
#: malloc settings: without them, the number of page faults of a convolutional model differed between processes, and the
#: bias between two unchanged processes was 18.3 % (rms); with them it is 1.8 %.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}

# -- a stored baseline on the same machine -----------------------------------------------------------------------------

#: Least processes of a baseline; with fewer, a slower step only warns.
BASELINE_RUNS = 5
#: Largest accepted number of them; more is a typing error.
MOST_BASELINE_RUNS = 1000
#: Fresh processes that must all be slower before a test fails. The first one that is not slower passes the test: another
#: process can only lower the minimum.
MOST_RUNS = 5
#: Least processes if some crashed: with three, 0 to 1.9 false alarms in 100; fewer were not measured.
FEWEST_RUNS = 3
#: 0 false alarms in 100 and +17 % caught 99 times in 100. At 0.05, +9 % is caught 96 times, and a convolutional model
#: raises 1.6 to 4.5 false alarms.
STORED_TOLERANCE = 0.10
#: Tolerances of the step's time from here on are refused: they were meant as a percentage, or hide every regression.
BLIND_TOLERANCE = 5.0
#: Independent comparisons that a calibration needs to propose a tighter tolerance: ten without an alarm bound the rate of
#: false alarms at 26 in 100, two at 78.
TIGHTER_AFTER = 10

# -- A/B in one session ------------------------------------------------------------------------------------------------

#: Interleaved in one process: pairs of steps a process, processes, and how many of them must be slower.
PAIRS = 30
PAIRED_PROCESSES = 5
PAIRED_AGREEING = 4
#: 0 false alarms in 100, +7.7 % caught 99.8 times.
PAIRED_TOLERANCE = 0.05
#: Sensitive: 0 to 2.1 false alarms, +3 % caught 52 to 65 times, +7.7 % always.
PAIRED_SENSITIVE = 0.03
#: Two alternating processes: blocks of steps each, and pairs of fresh processes.
BLOCKS = 24
BLOCK_STEPS = 5
PROCESS_PAIRS = 3
#: Pairs in total that confirm a change seen by three. The level of MindSpore steps differs between processes: three pairs of
#: unchanged steps had +20, −1, +2 % and −3, +23, +3 %. So all pairs must agree,
#: and of five pairs the median counts, not the mean.
CONFIRMING_PAIRS = 5
#: 0 false alarms in 100 with the malloc settings above (1.3 to 13 without), +6.6 % always caught.
BLOCK_TOLERANCE = 0.04

# -- waits: invisible in the CPU time ----------------------------------------------------------------------------------

#: Wall time and its 90th percentile warn beyond twice the baseline's.
WALL_WARNING = 1.0
#: A step fails if its blocked time (neither running nor waiting for a CPU) exceeds this and twice the baseline's.
#: Unchanged steps of the MLP, the CNN and the LeNet waited 0.001 to 0.03 ms (19 processes, load averages of 2 to 12 on two
#: cores), those of an MLP whose loader has a worker on the same CPU 0.15 to 1.1 ms (6 processes, the best 0.15); a sleep of
#: 2 ms read 2.06 to 2.08 ms, one of 50 ms every ten steps 4.6 to 5.1 ms, and 0.002 to 0.04 ms in the median of the steps.
STALL_US = 1000.0
STALL_TOLERANCE = 1.0
#: The same for the pause between the steps of a script, which is measured in one process only; and the least number of pauses.
#: Scripts with a loader of one worker, unchanged, had 0.5 to 1.8 ms at load averages of 12 to 15 on two cores (5 processes);
#: with items that sleep, so that a batch takes 32 ms, 22 to 30 ms (5). Before the worker's wait for a CPU was left out, the
#: unchanged ones had medians of up to 6.4 ms (3).
PAUSE_US = 5000.0
FEWEST_PAUSES = 5

# -- host memory of a controlled process -------------------------------------------------------------------------------

#: Steps between two readings of the host memory in use. A reading takes 0.1 to 0.3 ms beside torch and 2.5 ms beside
#: MindSpore, whose step takes 85 ms; all of it outside of the timed steps.
MEMORY_EVERY_STEPS = 10
#: Least steps to judge memory growth.
MEMORY_STEPS = 30
#: Assumed size of a small block of Python's allocator: that of an int or a float; most objects are larger.
PYTHON_BLOCK_BYTES = 32
#: Allowed memory growth a step beyond the baseline's, in bytes, or a quarter of the baseline's if that is more. Unchanged
#: steps kept 350 to 860 bytes, which are perfguard's own samples (31 processes); 64 KiB read 64.4 to 64.6 KiB (11), 16 KiB
#: 16.5 (3), 64 KiB of floats 82.3 (4). The resident set of the same processes saw 0.3 to 88 KiB of 64: a leak fills holes.
MEMORY_GROWTH_BYTES = 8192.0
MEMORY_GROWTH_TOLERANCE = 0.25

# -- bytes -------------------------------------------------------------------------------------------------------------

#: Increase of a step's bytes or of its peak from which on they are worse; from nothing always. A mean written as sum and
#: division allocates one number a row more, 0.02 % of a small encoder's step. Chosen, not measured.
BYTES_TOLERANCE = 0.001

# -- operators that changed --------------------------------------------------------------------------------------------

#: What a call does besides its data, in elements of four bytes: 16 KiB take a CPU about 1.6 us at 10 GB/s, as a call of torch
#: or MindSpore without data does. And operations of a product that cost as much as to move one element. Chosen once for all
#: machines: exact weights may not depend on one.
CALL_ELEMENTS = 4096.0
FLOPS_PER_ELEMENT = 10.0
#: Least share of added work in a step's operator time that is worse. A few views and metadata are below it: the 15 permutes
#: of an einsum in a small encoder took 1.3 to 3.9 %. The smallest planted regression was 6.3 %, and 14.5 % the smallest that no
#: total shows (benchmarks/agreement).
OPERATOR_WEIGHT = 0.05
#: The same, if the operations of the step's matrix products (exact, by their shapes) grew by more than the share above. In a
#: tiny MLP two more products are estimated at 3.2 % of the step, and took 9. Chosen, not measured.
PRODUCT_WEIGHT = 0.01
#: Uncertainty of the cost of replaced operators: new ones are estimated by their shapes.
REPLACED_UNCERTAINTY = 0.25
#: Least share of the baseline's work that must be left, as the scale for new operators.
SCALE_SHARE = 0.1
#: An operator with at least this share of the added work is named; so are the largest, up to half of that work.
CARRIER_PART = 0.05
#: A test is broken if more than the first share of the baseline's work is gone, by calls and shapes, and what was added is less
#: than the second share of the current work.
MOSTLY_GONE = 0.5
REPLACEMENT_SHARE = 0.1

# -- the clock of a device -----------------------------------------------------------------------------------------------

#: Least share of the baseline's clock that a device has lost if it counts as slower. A choice: the readings at hand, of three
#: Ascend devices, are all equal.
CLOCK_MOVED = 0.03
#: By how much more than the clock says a time may be longer, and is still explained by it; a choice, too.
CLOCK_EXPLAINS = 1.05

# -- common mode -------------------------------------------------------------------------------------------------------

#: Least change of the calibration kernel that counts as a change of the machine's speed: several times its own spread.
CALIBRATION_MOVED = 0.05
#: Largest change of the kernel that predicts that of a step (on one machine steps changed 1.6 to 2.2 times as much).
CALIBRATION_TRUSTED = 1.5
#: Largest logarithm of a common factor over that of the kernel: the measured 2.2, with a margin.
CALIBRATION_SLOPE = 2.5
#: Least unchanged operators (equal calls and shapes) for a common factor; the share of them that must agree with it; and the
#: largest deviation from it, as a factor, of an agreeing operator and of the step.
CONTROLS = 5
CONTROLS_AGREEING = 0.7
CONTROLS_SPREAD = 1.2

#: Longest time that a run may spend on confirming stored times, in seconds; each takes about a minute, and on a machine that
#: changed speed every test needs one.
CONFIRMATIONS_S = 900.0
#: Increase of the machine's CPU time used by other processes, since the baseline, from which on the machine is busy. On two
#: cores they used 0 to 2 % beside nothing, 68 to 86 % beside two busy processes, 85 to 90 % beside six (12 to 15 runs
#: each, benchmarks/under_load).
BUSY_SHARE = 0.15

# -- where the time of a step went --------------------------------------------------------------------------------------

#: Largest factor between the change of the recordings and that of the step, for the first to explain the second. Recordings
#: are profiled and made at another time: chosen, not measured.
LEDGER_ALIKE = 2.0
#: Parts of no operator (what profiling adds, idle gaps, overlap, residual) over the parts of operators: from here on no
#: operator is named. For planted slowdowns that the ledger named correctly it was 0.35 and 0.44 (a layer eight times as
#: wide, a product of weights); where it named what profiling adds, above 2.
LEDGER_OUTWEIGHED = 1.0
#: An operator below this share of the largest one is not in the headline: aten::view +62 us next to aten::addmm +9167 us.
NEGLIGIBLE_PART = 0.05
#: Below this share of the change the largest operator does not lead: the change is spread over many. Chosen, not measured.
LEDGER_LEADING = 0.25

# -- trends of a history -----------------------------------------------------------------------------------------------

#: Least runs of a noisy number for a search of change points.
TREND_RUNS = 10
#: Penalty of one more level, in variances of the noise times the logarithm of the number of runs. In 400 simulated
#: series each of unchanged runs (noise of 3 %), 1.3 in 100 of 12 runs had a change point, 0.3 of 40, 0.3 of 100; with noise
#: of Student's t (three degrees of freedom) the same. A step of +10 % was found within two runs of its place in 78, 99 and 99
#: of 100. (3 instead of 5: 5 false ones of 12 runs, 2.5 of 40; 8: 57 of 100 steps found in 12 runs.)
TREND_PENALTY = 5.0
#: Shortest level, in runs: a new value is an outlier until the third run confirms it.
TREND_SHORTEST = 3
#: Least noise: that of the digits of a number.
TREND_NOISE_FLOOR = 0.003
#: Standard deviations from the median of its neighbours beyond which a number is an outlier (Hampel's usual three).
TREND_OUTLIER = 3.0
#: Largest p-value of Kendall's test for a creep.
TREND_DOUBT = 0.01
#: A series ends, and is not judged any more, after so many runs of its workload without it (on its machine), or of the history
#: without its workload.
TREND_STALE_RUNS = 20

# -- a renamed test ----------------------------------------------------------------------------------------------------

#: Least share of common operator calls for a renamed test: between a baseline without a test and a test without a baseline.
#: Models of this repository share at most 0.27; a small model shares 0.84 to 0.99 with itself after a change of an activation
#: or of the place of a norm, 0.67 to 0.72 after the loss of one of three layers, 0.46 with another optimiser.
RENAMED_OPERATORS = 0.8
#: Least similarity of two test names in one file (difflib's ratio and cutoff) for a renamed test, whatever the operators:
#: `test_lenet` and `test_lenet_train` have 0.62, `test_mlp` and `test_cnn` 0.
RENAMED_NAME = 0.6
