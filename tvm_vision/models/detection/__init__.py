"""Networks that find objects, YOLO, DETR, SSD and their kin: outputs to boxes, masks, keypoints."""
