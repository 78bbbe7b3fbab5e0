"""What the documents of communication mean and promise."""
