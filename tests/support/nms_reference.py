"""Suppression as its definition says it, one box at a time."""


def reference_iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    return common / union if union > 0 else 0.0


def reference(boxes, scores, groups, iou, limit):
    kept: list[int] = []
    for index in sorted(range(len(scores)), key=lambda i: -scores[i]):
        rivals = [other for other in kept if groups[other] == groups[index]]
        if all(reference_iou(boxes[index], boxes[other]) <= iou for other in rivals):
            kept.append(index)
    return kept[:limit]
