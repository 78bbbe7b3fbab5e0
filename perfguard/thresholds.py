"""Thresholds: the numbers that decide about time, in one place, each with where it comes from.

They were measured on real torch and MindSpore steps on a shared machine of two cores (41 rounds of fresh processes, unchanged
and with planted slowdowns), and checked on runs that had no part in choosing them. `tests/benchmarks/verdicts` measures
what they come to on the machine it runs on.
"""

from __future__ import annotations

# -- one controlled process ------------------------------------------------------------------------------------------

#: Seconds of CPU time that timed steps last at least: the spread between processes fell from 3.7 % at 30 steps of 2.4 ms to
#: 0.9 % at 300. Where a step waits more than it works, so many seconds by the clock.
WINDOW_S = 0.75
LONGEST_WINDOW_S = 4.0
#: And no more steps than these.
MOST_STEPS = 300
#: Steps in a row, and the seconds of rest after them. The neighbours of a machine come and go: of ten processes on a very
#: busy one, the best of five in a row lay within 7 % with rests and 26 % without (a step of 0.4 ms; 16 % and 30 % at 4 ms).
#: On a quiet machine, and beside noise that never changes, 16 to 20 processes showed no clear difference
#: (tests/benchmarks/step_rests).
STEPS_IN_A_ROW = 30
REST_S = 0.1
#: Share of the machine's CPU time that others use, up to which nobody is there to come and go: no rest, which saves a second
#: a process.
QUIET_SHARE = 0.05
#: Steps, or seconds, that warm up before them, beyond those the window settles.
WARMUP_STEPS = 10
WARMUP_S = 0.25
#: Side of the square matrices whose product is the calibration kernel, and products a kernel. A copy of 2 MB and a loop in
#: Python were tried as well, and made the spread larger.
CALIBRATION_SIZE = 192
CALIBRATION_PRODUCTS = 2
#: Without these, every process of a convolutional model fell into a regime of page faults of its own: the bias between two
#: unchanged processes was 18.3 % (rms), and 1.8 % with them.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}

# -- a stored baseline on the same machine -----------------------------------------------------------------------------

#: Processes of a baseline, below which a slower step only warns.
BASELINE_RUNS = 5
#: More of them than this is a typing error.
MOST_BASELINE_RUNS = 1000
#: Fresh processes that must all be slower before a test fails. An earlier one that is not passes it at once, which is the
#: same rule: one more process can only lower the minimum.
MOST_RUNS = 5
#: Where some of these processes crashed: with three, 0 to 1.9 false alarms in 100; with fewer nobody knows.
FEWEST_RUNS = 3
#: 0 false alarms in 100 and +17 % caught 99 times in 100. At 0.05, +9 % is caught 96 times, and a convolutional model
#: raises 1.6 to 4.5 false alarms.
STORED_TOLERANCE = 0.10
#: From here on a tolerance of the step's time was meant as a percentage, or leaves nothing to see: it is refused.
BLIND_TOLERANCE = 5.0
#: Comparisons that share no process, before a calibration proposes a tighter tolerance than the present: ten without an
#: alarm leave at most 26 in 100 open, two leave 78.
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
#: Two processes that take turns: blocks of steps each, and how many pairs of fresh processes.
BLOCKS = 24
BLOCK_STEPS = 5
PROCESS_PAIRS = 3
#: So many pairs in all confirm a change that three have seen. Unchanged MindSpore steps, which have a regime in every process,
#: came to +20, −1, +2 % and −3, +23, +3 %: so all pairs have to point one way, and of five the median counts, not the mean.
CONFIRMING_PAIRS = 5
#: 0 false alarms in 100 with the malloc settings above (1.3 to 13 without), +6.6 % always caught.
BLOCK_TOLERANCE = 0.04

# -- what a minimum of CPU time cannot see -----------------------------------------------------------------------------

#: Wall time and its 90th percentile warn beyond twice the baseline's.
WALL_WARNING = 1.0
#: A step that neither runs nor waits for a CPU for longer than this, and than twice the baseline's, fails: the larger of both.
#: Unchanged steps of the MLP, the CNN and the LeNet waited 0.001 to 0.03 ms (19 processes, load averages of 2 to 12 on two
#: cores), those of an MLP whose loader has a worker on the same CPU 0.15 to 1.1 ms (6 processes, the best 0.15); a sleep of
#: 2 ms read 2.06 to 2.08 ms, one of 50 ms every ten steps 4.6 to 5.1 ms, and 0.002 to 0.04 ms in the median of the steps.
STALL_US = 1000.0
STALL_TOLERANCE = 1.0
#: The same of the pause between the steps of a script, which is known of one process only; and the fewest pauses that count.
#: Scripts with a loader of one worker, unchanged, had 0.5 to 1.8 ms at load averages of 12 to 15 on two cores (5 processes);
#: with items that sleep, so that a batch takes 32 ms, 22 to 30 ms (5). Before the worker's wait for a CPU was left out, the
#: unchanged ones had medians of up to 6.4 ms (3).
PAUSE_US = 5000.0
FEWEST_PAUSES = 5

# -- host memory of a controlled process -------------------------------------------------------------------------------

#: Steps between two readings of the host memory in use. A reading takes 0.1 to 0.3 ms beside torch and 2.5 ms beside
#: MindSpore, whose step takes 85 ms; all of it outside of the timed steps.
MEMORY_EVERY_STEPS = 10
#: Steps, below which nothing is said of growth.
MEMORY_STEPS = 30
#: Bytes that a small block of Python's own allocator is counted as: an int or a float takes so much, most objects more.
PYTHON_BLOCK_BYTES = 32
#: Bytes a step that a step may keep beyond the baseline's, or a quarter of the baseline's where that is more. Unchanged steps
#: kept 350 to 860 bytes, which are perfguard's own samples (31 processes); 64 KiB read 64.4 to 64.6 KiB (11), 16 KiB
#: 16.5 (3), 64 KiB of floats 82.3 (4). The resident set of the same processes saw 0.3 to 88 KiB of 64: a leak fills holes.
MEMORY_GROWTH_BYTES = 8192.0
MEMORY_GROWTH_TOLERANCE = 0.25

# -- operators that changed --------------------------------------------------------------------------------------------

#: What part of a step's operator time added work must come to before it is worse. A few views and metadata stay below it: the
#: 15 permutes of an einsum in a small encoder came to 1.3 to 3.9 %. Of the regressions planted beside it 6.3 % is the next, and
#: 14.5 % the least of those that no total shows (tests/benchmarks/agreement).
OPERATOR_WEIGHT = 0.05
#: How well shares tell what replaced operators cost, where no time of the step is judged: what an operator takes moved by up to
#: 31 % between unchanged processes (matrix products, minima of 30 steps).
REPLACED_UNCERTAINTY = 0.25
#: Operators that run as before are the scale that replaced ones are weighed with. With less of the baseline's time than this
#: they are a poor one: what a small operator takes moves by as much as replaced ones differ.
SCALE_SHARE = 0.1
#: An operator with at least this part of the added work is named; so are the largest, down to half of that work.
CARRIER_PART = 0.05
#: The test is broken where operators with more than this part of the baseline's time are gone, and new ones take less than
#: that of the current one.
MOSTLY_GONE = 0.5
REPLACEMENT_SHARE = 0.1

# -- common mode -------------------------------------------------------------------------------------------------------

#: How far the calibration kernel must have moved before the machine is said to have moved: several times its own spread.
CALIBRATION_MOVED = 0.05
#: Beyond this factor nothing is known of how steps follow the kernel (on one machine they moved 1.6 to 2.2 times as far).
CALIBRATION_TRUSTED = 1.5
#: The kernel's part of a common factor, at least, in logarithms: the slope of 2.2 the other way round, with room.
CALIBRATION_SLOPE = 2.5
#: Operators with the same calls and shapes, at least, that make a common factor; what part of them must have moved with it,
#: and how far from it (as a factor) each may lie, and the step itself above it.
CONTROLS = 5
CONTROLS_AGREEING = 0.7
CONTROLS_SPREAD = 1.2

#: Seconds of a run that may go into confirming stored times, about a minute each: on a machine that drifted every test asks.
CONFIRMATIONS_S = 900.0
#: Share of the machine's CPU time that others use now and did not use for the baseline, beyond which the machine is busy. On
#: two cores others used 0 to 2 % beside nothing, 68 to 86 % beside two busy processes, 85 to 90 % beside six (12 to 15 runs
#: each, tests/benchmarks/under_load).
BUSY_SHARE = 0.15

# -- where the time of a step went --------------------------------------------------------------------------------------

#: How many times as large or as small as the step's own change that of a recording may be and still explain it. Recordings
#: are made one after the other, and profiled: chosen, not measured.
LEDGER_ALIKE = 2.0
#: Parts of no operator (the profiler's own time, idle gaps, overlap, residual) together, over what operators explain: from
#: here on nothing is named. Of planted slowdowns that the ledger named rightly it was 0.35 and 0.44 (a layer eight times as
#: wide, a product of weights); where the profiler's own time was named as the cause, above 2.
LEDGER_OUTWEIGHED = 1.0
#: An operator whose part is smaller than this share of the largest one is in no headline: aten::view +62 us beside
#: aten::addmm +9167 us.
NEGLIGIBLE_PART = 0.05

# -- trends of a history -----------------------------------------------------------------------------------------------

#: Runs of a noisy number, below which nobody looks for change points.
TREND_RUNS = 10
#: What one more level must explain, in variances of the noise times the logarithm of the number of runs. In 400 simulated
#: series each of unchanged runs (noise of 3 %), 1.3 in 100 of 12 runs had a change point, 0.3 of 40, 0.3 of 100; with noise
#: of Student's t (three degrees of freedom) the same. A step of +10 % was found within two runs of its place in 78, 99 and 99
#: of 100. (3 instead of 5: 5 false ones of 12 runs, 2.5 of 40; 8: 57 of 100 steps found in 12 runs.)
TREND_PENALTY = 5.0
#: Runs that a level lasts at least: what is newer than that is an outlier until the third run says the same.
TREND_SHORTEST = 3
#: Noise below this is that of a number's own digits.
TREND_NOISE_FLOOR = 0.003
#: So many standard deviations from the median of its neighbours a number is an outlier (Hampel's usual three).
TREND_OUTLIER = 3.0
#: A creep is told where Kendall's test leaves at most this doubt.
TREND_DOUBT = 0.01
#: After so many runs of its workload without it (on its machine), or of the history without its workload, a series is a matter
#: of the past, and judged no more.
TREND_STALE_RUNS = 20

# -- a renamed test ----------------------------------------------------------------------------------------------------

#: Calls of operators that two steps have in common, as a part of all calls of either, from which on a baseline without a test
#: is taken for that of a test without a baseline. Models of this repository share at most 0.27; of one small model, another
#: activation or a norm in another place leaves 0.84 to 0.99, one layer of three less 0.67 to 0.72, another optimiser 0.46.
RENAMED_OPERATORS = 0.8
#: In one file, names that are so much alike (difflib's ratio, and its own cutoff) are taken for one whatever the operators:
#: `test_lenet` and `test_lenet_train` are at 0.62, `test_mlp` and `test_cnn` at 0.
RENAMED_NAME = 0.6
