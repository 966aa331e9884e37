"""Checks the files that test_save has written. With "check", python3-onnx's checker must accept them with full shape
inference, and infer the shapes of the outputs. With "opencv", the results of OpenCV's dnn must be the library's, for
the files that it can load. Prints a line for each failure, and one with the counts."""
import glob
import os
import sys

import numpy as np


def arrays(base, part):
    found = {}
    for path in glob.glob(glob.escape(base) + ".%s.*.npy" % part):
        found[path[len(base) + len(part) + 2:-4]] = np.load(path)
    return found


def check(path):
    import onnx
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    expected = arrays(path[:-5], "out")
    for port in inferred.graph.output:
        dims = [d.dim_value for d in port.type.tensor_type.shape.dim]
        shape = expected[port.name].shape
        assert len(dims) == len(shape), "output %s has %d dimensions" % (port.name, len(dims))
        assert all(d in (0, n) for d, n in zip(dims, shape)), "output %s is %s, not %s" % (port.name, dims, shape)
    return True


def opencv(path):
    import cv2
    if os.path.basename(path).startswith("pools."):
        return False  # whether OpenCV's means count padding depends on the producer's name, not on the attribute
    inputs, expected = arrays(path[:-5], "in"), arrays(path[:-5], "out")
    if any(a.dtype != np.float32 for a in list(inputs.values()) + list(expected.values())):
        return False
    try:
        net = cv2.dnn.readNetFromONNX(path)
        for name, value in inputs.items():
            net.setInput(value, name)
        got = {name: net.forward(name).copy() for name in expected}
    except cv2.error:
        return False  # an op that OpenCV does not have
    for name, value in expected.items():
        if got[name].size != value.size:
            return False  # OpenCV fixes shapes when it reads the file
        worst = np.abs(got[name].reshape(value.shape) - value).max()
        assert worst <= 1e-5 * max(1.0, np.abs(value).max()), "output %s differs by %g" % (name, worst)
    return True


def main():
    what = {"check": check, "opencv": opencv}[sys.argv[1]]
    if what is opencv:
        import cv2
        cv2.setLogLevel(0)
    passed, other, failed = [], 0, 0
    for path in sorted(glob.glob(sys.argv[2] + "/*.onnx")):
        try:
            if what(path):
                passed.append(os.path.basename(path)[:-5])
            else:
                other += 1
        except Exception as reason:  # whatever a checker raises
            failed += 1
            print("%s: %s" % (os.path.basename(path), str(reason).strip().replace("\n", " ")[:300]))
    print("%s: %d passed, %d not possible there, %d failed" % (sys.argv[1], len(passed), other, failed))
    if len(sys.argv) > 3:
        print(" ".join(passed))
    sys.exit(1 if failed or not passed else 0)


main()
