"""What perfguard costs, and how often its verdicts are wrong: scripts that print figures, which decide no test."""
