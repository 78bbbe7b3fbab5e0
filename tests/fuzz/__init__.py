"""A long fuzz of everything that strangers can hand to perfguard: files are damaged, and commands must end in words.

Run: python -m tests.fuzz --minutes 10 [--seed 1] [--only directories]

To add a kind of input: write a module with a table `KINDS`, name -> function, and add it to `kinds`. The function gets a
`random.Random` and an empty folder, writes the input into it, and returns the commands of perfguard that read it, with paths
relative to that folder. Everything random comes from that `Random`, so that a seed repeats a case.
"""
