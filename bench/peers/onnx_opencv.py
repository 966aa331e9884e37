#!/usr/bin/env python3
"""Times an ONNX model in OpenCV's dnn module, for bench/onnx.sh: prints a line `step SECONDS` for each step.

usage: onnx_opencv.py FILE BATCH THREADS STEPS
"""
import sys
import time

import cv2
import numpy

path, batch, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
cv2.setNumThreads(threads)
net = cv2.dnn.readNetFromONNX(path)
images = numpy.random.default_rng(1).standard_normal((batch, 3, 32, 32), dtype=numpy.float32)
for step in range(-2, steps):  # the first two steps do not count
    begin = time.perf_counter()
    net.setInput(images)
    net.forward()
    if step >= 0:
        print(f"step {time.perf_counter() - begin:.6f}", flush=True)
