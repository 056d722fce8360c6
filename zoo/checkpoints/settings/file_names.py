"""What libraries call the files of settings beside a checkpoint's tensors."""

CONFIG = "config.json"
PROCESSOR = "preprocessor_config.json"
WHOLE_PROCESSOR = "processor_config.json"  # of pictures and texts
