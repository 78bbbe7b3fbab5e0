"""Are perfguard's verdicts those of a maintainer? Planted changes in a project of a user's kind, judged by real runs."""
