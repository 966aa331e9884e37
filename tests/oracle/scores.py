#!/usr/bin/env python3
"""Makes scores.txt: precision, recall and F1 of classes by their definitions, and perplexity, with PyTorch.

    python3 tests/oracle/scores.py > tests/oracle/scores.txt

Of five classes one does not occur, and one is predicted but never a label; some labels are ignored.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(11)
N, C = 61, 5


def emit(case, name, tensor):
    tensor = torch.as_tensor(tensor, dtype=torch.float64)
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.15g" % v for v in tensor.flatten().tolist()))


def ratio(a, b):
    return a / b if b != 0 else 0.0


def scores(case, predicted, labels, classes):
    """Counts for each class true positives, false positives and false negatives."""
    tp = [int(((predicted == c) & (labels == c)).sum()) for c in classes]
    fp = [int(((predicted == c) & (labels != c)).sum()) for c in classes]
    fn = [int(((predicted != c) & (labels == c)).sum()) for c in classes]
    kinds = {
        "precision": lambda t, p, n: ratio(t, t + p),
        "recall": lambda t, p, n: ratio(t, t + n),
        "f1": lambda t, p, n: ratio(t, t + 0.5 * (p + n)),
    }
    for name, score in kinds.items():
        each = [score(*c) for c in zip(tp, fp, fn)]
        present = [i for i in range(len(each)) if tp[i] + fp[i] + fn[i] > 0]
        support = [t + n for t, n in zip(tp, fn)]
        emit(case, name + "_macro", [sum(each[i] for i in present) / len(present)])
        emit(case, name + "_micro", [score(sum(tp), sum(fp), sum(fn))])
        emit(case, name + "_weighted", [sum(e * s for e, s in zip(each, support)) / sum(support)])
        emit(case, name + "_binary", [each[1]])


print(f"# made by tests/oracle/scores.py with PyTorch {torch.__version__}")
labels = torch.randint(0, 3, (N,))
logits = torch.randn(N, C) + 1.5 * F.one_hot(labels, C)
logits[:, 3] -= 20
logits[::9, 4] += 6
labels[5::7] = -100
counted = labels != -100
emit("classes", "logits", logits)
emit("classes", "labels", labels)
scores("classes", logits.argmax(1)[counted], labels[counted], range(C))
emit("classes", "perplexity", [F.cross_entropy(logits.double(), labels).exp().item()])

predictions, targets = torch.randn(N, 2), (torch.rand(N, 2) > 0.7).float()
emit("sides", "predictions", predictions)
emit("sides", "targets", targets)
scores("sides", (torch.sigmoid(predictions) > 0.5).int().flatten(), targets.int().flatten(), range(2))
