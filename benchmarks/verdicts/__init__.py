"""How often verdicts on time are wrong: real models, planted slowdowns, perfguard's rules beside those in use elsewhere."""
