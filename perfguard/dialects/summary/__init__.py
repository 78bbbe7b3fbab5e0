"""MindSpore's summary files: values of a training, by step."""
