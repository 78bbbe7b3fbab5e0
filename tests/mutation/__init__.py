"""The validator validates itself: directories that are right, corrupted one way each, must be found out.

`python -m tests.mutation` prints how many corruptions `perfguard check` catches, by operator and by check, names what it
misses, and says what nobody could catch and why. Exit 1 where the rate is below 98 % or where a right directory is blamed.
"""
