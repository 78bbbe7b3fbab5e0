"""What perfguard says of directories that do not change: findings, metrics and operators, kept as facts and compared.

`python -m tests.frozen` reads every directory again and shows what is different from the facts in `data/`. What is meant to
be different stands in `differences.toml`, with the reason. A change of the inside changes no fact.
"""
