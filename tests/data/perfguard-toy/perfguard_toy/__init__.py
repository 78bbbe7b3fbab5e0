"""What a distribution can add, in its smallest form; tests install it. A `.toy` file has `name count` in each line."""
