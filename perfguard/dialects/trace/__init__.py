"""What every timeline in Chrome's trace format promises, whoever writes it."""
