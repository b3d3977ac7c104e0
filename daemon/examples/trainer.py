"""A trainer of `p2pml-node --trainer unix:PATH` without any package: sockets, struct and mmap.

    trainer.py PATH ROUNDS OWN

Its loss has its minimum at sin(i) + OWN; if the OWN of all trainers cancel out, the cluster converges to
sin(i). When the daemon dies, the trainer continues alone and connects again."""

import array
import math
import mmap
import os
import socket
import struct
import sys
import time

OPEN, START, ROUND, STATUS, SAVE, BLOB, LEAVE, JUDGE = range(1, 9)
OK, ENDED, OUT_OF_ORDER = 0, 2, -9
MODEL, SECOND_MOMENT, CORRECTION, HELD = range(4)
ANOTHER, ROLLED_BACK = 1, 2


class Gone(Exception):
    """The daemon has died, or ended."""


class Refused(ValueError):
    """The daemon refused a request."""


class Occupied(Refused):
    """Another trainer is connected. It may be dead; then the daemon will notice soon."""


class Trainer:
    """judge: a function of a model that returns its losses on examples of the trainer's own, always the same ones; None: any model is taken."""

    def __init__(self, path, tensors, judge=None):
        self.judge = judge
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        body = struct.pack("<II", 1 if judge is None else 2, len(tensors))
        for name, shape in tensors:
            body += struct.pack("<B", len(name)) + name.encode() + struct.pack(f"<B{len(shape)}Q", len(shape), *shape)
        self.send(OPEN, body)
        answer, files, _, _ = socket.recv_fds(self.socket, 131072, 1)
        self.check(OPEN, answer)
        self.started, present, self.parameters, stride = struct.unpack_from("<IIQQ", answer, 8)
        memory = memoryview(mmap.mmap(files[0], 4 * stride))
        os.close(files[0])
        self.vectors = [memory[i * stride:i * stride + 4 * self.parameters].cast("f") if present >> i & 1 else None
                        for i in range(4)]

    def send(self, kind, body=b""):
        try:
            self.socket.send(struct.pack("<I", kind) + body)
        except OSError as error:
            raise Gone(str(error)) from None

    def check(self, kind, answer):
        if not answer:
            raise Gone("the daemon has closed the socket")
        its, code = struct.unpack_from("<Ii", answer)
        if code != OK or its != kind:
            occupied = its == OPEN and code == OUT_OF_ORDER
            raise (Gone if code == ENDED else Occupied if occupied else Refused)(answer[8:].decode())
        return answer[8:]

    def call(self, kind, body=b""):
        self.send(kind, body)
        while True:
            try:
                answer, files, _, _ = socket.recv_fds(self.socket, 131072, 1)
            except OSError as error:
                raise Gone(str(error)) from None
            if not files:
                return self.check(kind, answer)
            memory = mmap.mmap(files[0], 4 * self.parameters, access=mmap.ACCESS_READ)  # the daemon asks about a model
            os.close(files[0])
            losses = self.judge(memoryview(memory).cast("f"))
            self.send(JUDGE, struct.pack(f"<{len(losses)}d", *losses))

    def start(self):
        """(local steps to take, steps done, step time over the neighbours', 1: another model | 2: rolled back)"""
        return struct.unpack("<QQdI", self.call(START))

    def round(self, steps, step_scale, loss=math.nan):
        return struct.unpack("<QQdI", self.call(ROUND, struct.pack("<Qdd", steps, step_scale, loss)))


def tidy(m, flags):
    """The momentum belongs to steps on another model, or to steps that were undone because they were not finite."""
    if flags & ANOTHER or (flags & ROLLED_BACK and not all(map(math.isfinite, m))):
        return array.array("f", bytes(4 * len(m)))
    return m


def main(path, rounds, own, rate=0.02, d=500):
    trainer, steps, x, c = None, 5, array.array("f", bytes(4 * d)), array.array("f", bytes(4 * d))
    m = array.array("f", bytes(4 * d))  # momentum: this program's, so the daemon neither sends nor keeps it
    for done in range(rounds):
        if trainer is None:
            try:
                trainer = Trainer(path, [("weight", (d // 10, 10))])
                if not trainer.started:
                    trainer.vectors[MODEL][:] = x  # else the node has a model
                steps, _, _, flags = trainer.start()
                m = tidy(m, flags)
                x, c = trainer.vectors[MODEL], trainer.vectors[CORRECTION]
                print("joined", flush=True)
            except (OSError, Gone, Occupied) as error:
                print("alone:", error, flush=True)
                trainer = None
                time.sleep(0.1)
        for _ in range(steps):
            for i in range(d):
                m[i] = 0.5 * m[i] + 0.5 * (math.sin(i) + own - x[i])
                x[i] += rate * (m[i] + c[i])  # the correction bypasses the optimiser
        if trainer is not None:
            try:
                steps, _, _, flags = trainer.round(steps, steps * rate)
                m = tidy(m, flags)
            except Gone as error:
                print("gone:", error, flush=True)
                trainer, x, c = None, array.array("f", x), array.array("f", bytes(4 * d))
        print("round", done, "error", math.sqrt(sum((x[i] - math.sin(i)) ** 2 for i in range(d)) / d), flush=True)
    if trainer is not None:
        trainer.send(LEAVE)
        trainer.socket.recv(131072)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    except Refused as error:
        sys.exit(f"the daemon at {sys.argv[1]} refuses: {error}")
