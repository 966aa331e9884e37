#!/usr/bin/env python3
"""Makes rates.txt: learning rates of PyTorch's schedulers after each update, and of its plateau scheduler after each
reported loss.

    python3 tests/oracle/rates.py > tests/oracle/rates.txt
"""
import math

import torch
from torch.optim import lr_scheduler as s

RATE, STEPS = 0.05, 40


def emit(case, name, values):
    print(f"{case} {name} [{len(values)}] " + " ".join("%.15g" % v for v in values))


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)


def run(case, make, count=STEPS):
    o = optimizer()
    schedule, rates = make(o), []
    for i in range(count):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        if i + 1 < count:
            schedule.step()
    emit(case, "rates", rates)


def warm(after):
    """Has a linear warm-up from 0 over ten updates, then `after(update, number of updates after the warm-up)`."""
    return lambda o: s.LambdaLR(o, lambda i: i / 10 if i < 10 else after(i - 10, STEPS - 10))


print(f"# made by tests/oracle/rates.py with PyTorch {torch.__version__}")
run("constant", lambda o: s.LambdaLR(o, lambda i: 1.0))
run("linear", lambda o: s.LinearLR(o, 1.0, 0.25, STEPS), STEPS + 1)
run("cosine", lambda o: s.CosineAnnealingLR(o, STEPS, RATE * 0.1), STEPS + 1)
run("polynomial", lambda o: s.PolynomialLR(o, STEPS, 2.5), STEPS + 5)
run("step", lambda o: s.StepLR(o, 7, 0.3))
run("one_cycle", lambda o: s.OneCycleLR(o, RATE, STEPS, pct_start=0.275))
run("warm_linear", warm(lambda i, n: 1 - i / n))
run("warm_cosine", warm(lambda i, n: 0.5 * (1 + math.cos(math.pi * i / n))))
run("warm_root", warm(lambda i, n: math.sqrt(10 / (10 + i))))

o = optimizer()
plateau = s.ReduceLROnPlateau(o, "min", 0.5, 2, 0.01, "rel", 1, RATE * 0.1)
reports = [3.0, 2.5, 2.499, 2.6, 2.5, 2.4, 2.4, 2.4, 2.41, 2.3, 2.299, 2.299, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.3]
rates = []
for value in reports:
    plateau.step(value)
    rates.append(o.param_groups[0]["lr"])
emit("plateau", "reports", reports)
emit("plateau", "rates", rates)
