"""What the files of MindData, MindSpore's data pipeline, mean and promise."""
