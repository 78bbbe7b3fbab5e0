"""Tables of MindData: the queues of its pipeline, and the times of its batches, as MindSpore 1.x to 2.10 write them."""
