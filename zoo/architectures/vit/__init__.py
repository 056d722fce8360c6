"""Vision transformers: DINOv2, DINOv3, SigLIP 2, TIPS, EUPE, ViT-5 and the plain one."""
