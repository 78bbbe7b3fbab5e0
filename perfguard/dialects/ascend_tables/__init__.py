"""CSV tables of an Ascend device, as torch_npu and MindSpore since 2.5 write them from the same data of CANN."""
