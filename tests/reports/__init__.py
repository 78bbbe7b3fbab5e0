"""Reports: literal verdicts in, literal text and documents out."""
