"""The peers of bench_train_sparse: an epoch of logistic regression on a LIBSVM file in one thread, processor time.
PyTorch: the gradient over all examples through a sparse matrix. scikit-learn: an epoch of saga, computed from the time
of several. Each only if it is installed.

    torch_sparse.py FILE [features] [seconds]
"""

import os
import sys
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
warnings.simplefilter("ignore")


def read(path, features):
    start, columns, values, labels = [0], [], [], []
    with open(path) as f:
        for line in f:
            label, *pairs = line.split()
            labels.append(float(label) > 0)
            for pair in pairs:
                index, value = pair.split(":")
                columns.append(int(index) - 1)
                values.append(float(value))
            start.append(len(columns))
    return start, columns, values, labels


def report(name, times):
    times.sort()
    print(f"{name} median={times[len(times) // 2]:.4f} min={times[0]:.4f} count={len(times)}", flush=True)


def with_torch(data, features, seconds):
    import torch
    torch.set_num_threads(1)
    start, columns, values, labels = data
    x = torch.sparse_csr_tensor(torch.tensor(start, dtype=torch.int32), torch.tensor(columns, dtype=torch.int32),
                                torch.tensor(values), (len(labels), features))
    transposed = x.to_sparse_coo().t().coalesce().to_sparse_csr()
    y = torch.tensor(labels, dtype=torch.float32).reshape(-1, 1)
    w, b = torch.zeros(features, 1), torch.zeros(1)
    times, end = [], time.process_time() + seconds
    while time.process_time() < end:
        begun = time.process_time()
        d = (torch.sigmoid(x @ w + b) - y) / len(labels)
        w -= 0.25 * (transposed @ d)
        b -= 0.25 * d.sum()
        times.append((time.process_time() - begun) * 1e3)
    report(f"torch {torch.__version__} epoch_ms", times)


def with_sklearn(data, features, seconds):
    import numpy
    import scipy.sparse
    import sklearn
    from sklearn.linear_model import LogisticRegression
    start, columns, values, labels = data
    x = scipy.sparse.csr_matrix((values, numpy.array(columns, numpy.int32), numpy.array(start, numpy.int32)),
                                (len(labels), features))
    times, end = [], time.process_time() + seconds
    while time.process_time() < end:
        took = []
        for epochs in (5, 25):
            begun = time.process_time()
            LogisticRegression(penalty="l1", C=1000 / len(labels), solver="saga", tol=0, max_iter=epochs).fit(x, labels)
            took.append(time.process_time() - begun)
        times.append((took[1] - took[0]) / 20 * 1e3)
    report(f"sklearn {sklearn.__version__} saga epoch_ms", times)


def main():
    path, features = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 123
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2
    data = read(path, features)
    for measure in (with_torch, with_sklearn):
        try:
            measure(data, features, seconds)
        except ImportError as missing:
            print(f"{measure.__name__}: {missing}")


main()
