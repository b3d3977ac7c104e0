"""Wrong data files of every kind: a node refuses each before it does anything, with the file, the line or the name, what
was found and what was expected."""

import gzip
import io
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib

from cluster import PROGRAM

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
ROWS = "a,b,y\n" + "".join(f"{i},{i % 3},{'uv'[i % 2]}\n" for i in range(40))


def npy(shape, kind="<f4", content=None):
    count = 1
    for side in shape:
        count *= side
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + (bytes(4 * count) if content is None else content)


def npz(**arrays):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in arrays.items():
            file.writestr(name + ".npy", content)
    return packed.getvalue()


def idx(magic, *sides, content):
    return struct.pack(">I", magic) + b"".join(struct.pack(">I", side) for side in sides) + content


def png(width=4, crc=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ crc)
    pixels = zlib.compress((b"\0" + bytes(width)) * 4)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, 4, 8, 0, 0, 0, 0)) + chunk(b"IDAT", pixels) +
            chunk(b"IEND", b""))


IMAGES, LABELS = idx(0x803, 4, 2, 2, content=bytes(16)), idx(0x801, 4, content=bytes([0, 1, 0, 1]))

TABLES = [  # content, settings, the message after "t.csv"
    (ROWS + "1,,u\n", [], ':42: column 2 (b): found "", a missing value, expected a value; fill it in or leave the line out'),
    (ROWS + "nan,1,u\n", [], ':42: column 1 (a): found "nan", a missing value'),
    (ROWS + "1,2\n", [], ":42: found 2 columns, expected 3 as in the first line"),
    (ROWS + "1,2,u,9\n", [], ":42: found 4 columns, expected 3 as in the first line"),
    (ROWS + "1,x,u\n", [], ':42: column 2 (b): found "x", expected a number such as "0" in line 2; name the column in data.categorical'),
    (ROWS + '1,"2,u\n', [], ":42: column 2: the quote is never closed"),
    (ROWS + "1e99,1,u\n", [], ':42: column 1 (a): found "1e99", which is too large for a 32-bit float'),
    (ROWS, ["data.target=[price]"], ': data.target: found no column "price", expected one of 3: a, b, y'),
    (ROWS, ["data.ignore=[hue]"], ': data.ignore: found no column "hue", expected one of 3: a, b, y'),
    (ROWS, ["model.loss=mse"], ':2: column 3 (y): found "u", expected a finite decimal number'),
    ("a,y\n1,u\n2,u\n", [], ': data.target: found the class "u" in all 2 rows, expected at least 2 classes'),
    ("", [], ": the file is empty, expected lines of columns"),
    ("a,b,y\n", [], ": a header without rows below it"),
    (ROWS.replace(",", ";"), [], ": found 1 columns, expected at least one besides the target; is data.delimiter right?"),
    (ROWS.replace("a,b", "a,a"), [], ':1: columns 1 and 2 have the same name, "a"'),
    (ROWS.encode("utf-16"), [], ": found a zero byte at byte 3, expected UTF-8 text; convert UTF-16 with iconv -f UTF-16 -t UTF-8"),
]


class WrongData(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-wrong-")
        self.addCleanup(shutil.rmtree, self.directory)

    def write(self, name, content):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def refused(self, expected, *settings):
        with self.subTest(expected):
            done = subprocess.run([PROGRAM, "--check", *(f"--set={s}" for s in settings)], capture_output=True, text=True, timeout=120,
                                  env=ENVIRONMENT)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_tables(self):
        for content, settings, said in TABLES:
            path = self.write("t.csv", content)
            self.refused(path + said, "data.kind=csv", f"data.train_file={path}", *settings)
        path = self.write("t.csv.gz", gzip.compress(ROWS.encode() * 99)[:-40])
        self.refused(f"{path}: the packed data end early", "data.kind=csv", f"data.train_file={path}")
        self.refused('data.train_file: found "/no/t.csv", which cannot be read', "data.kind=csv", "data.train_file=/no/t.csv")
        self.refused("which is a directory, expected a file", "data.kind=csv", f"data.train_file={self.directory}")

    def test_arrays(self):
        labels = self.write("y.npy", npy((8,), "<i4"))
        for content, beside, said in [
                (npy((9, 2)), labels, f" has 9 examples, but {labels} has 8: they do not belong together"),
                (npy((8, 2), "<c8", bytes(128)), labels, ": found the type '<c8', expected float32, float64, an integer or bool"),
                (npy((8, 2))[:-5], labels, ": found 59 bytes of values, expected 64"),
                (b"no array at all", labels, ": does not begin like a .npy file, expected one (numpy.save)")]:
            path = self.write("x.npy", content)
            self.refused(path + said, "data.kind=npy", f"data.train_file={path}", f"data.train_labels={beside}")
        path = self.write("two.npy", npy((2, 2)))
        halves = self.write("half.npy", npy((2,), "<f4", struct.pack("<ff", 0.5, 1)))
        self.refused(f"{halves}: y of example 0 is 0.5, expected a class as a whole number; for a quantity set model.loss mse",
                     "data.kind=npy", f"data.train_file={path}", f"data.train_labels={halves}")
        self.refused('data.train_labels: found "", expected a file', "data.kind=npy", f"data.train_file={path}")
        path = self.write("a.npz", npz(a=npy((8, 2))))
        self.refused(f"{path}: found 1 arrays and none named x, expected numpy.savez(file, x=..., y=...)", "data.kind=npy",
                     f"data.train_file={path}")

    def test_idx(self):
        for images, labels, said in [
                (LABELS, IMAGES, "{i}: starts with 00000801, expected 00000803 (IDX images): are the names of images and labels swapped?"),
                (IMAGES, idx(0x801, 3, content=bytes(3)), "{i} has 4 images, but {l} has 3 labels"),
                (IMAGES, idx(0x801, 4, content=bytes([0, 1, 7, 1])), "{l}: label 2 is 7, expected 0 to 1 (2 classes)"),
                (IMAGES[:-3], LABELS, "{i}: truncated, fewer bytes than the 4 images of 2 x 2 of its header")]:
            i, l = self.write("i", images), self.write("l", labels)
            self.refused(said.format(i=i, l=l), "data.kind=idx", "data.classes=2",
                         *(f"data.{use}_{what}" for use in ("train", "test") for what in (f"images={i}", f"labels={l}")))

    def test_images(self):
        for place, content, said in [
                ("dog/2.png", png(crc=1), "/dog/2.png: cannot be read as a PNG: IHDR: CRC error"),
                ("dog/2.png", png(width=5), "/dog/2.png: found 5 x 4 pixels, expected 4 x 4 like the first; data.image_size"),
                ("dog/readme.txt", "x", "/dog/readme.txt: is not a .png, .jpg or .jpeg"),
                ("2.png", png(), ": found 1 folders, expected one for each of 2 to 65536 classes")]:
            folder = os.path.join(self.directory, "pictures")
            shutil.rmtree(folder, ignore_errors=True)
            self.write("pictures/cat/1.png", png())
            self.write("pictures/" + place, content)
            self.refused(folder + said, "data.kind=images", f"data.train_file={folder}")

    def test_the_others(self):
        of = {"libsvm": ["data.features=3", "data.classes=2"], "cifar10": [],
              "tokens": ["model.kind=gpt2", "model.context=8", "data.vocabulary=50"], "text": ["model.kind=gpt2", "model.context=64"]}
        for kind, content, said in [
                ("libsvm", "1 2:1 1:1\n", ":1: index 1 after index 2, expected ascending indices"),
                ("libsvm", "0 1:1\n1 9:1\n", ":2: index 9, but the data set was said to have 3 features"),
                ("libsvm", "0 1:1\n5 1:1\n", ":2: labels from 0 to 5, expected 0 to 1 or 1 to 2 (2 classes)"),
                ("tokens", bytes(41), ": found 41 bytes, expected a multiple of 2, the bytes of a token"),
                ("tokens", b"ab" * 400, ": token 0: found id 25185, expected below data.vocabulary, 50"),
                ("text", "short", ": found 5 tokens, but a context of 64 needs at least 65"),
                ("cifar10", bytes(3000), ": found 3000 bytes, expected records of 3073"),
                ("cifar10", bytes([99]) + bytes(3072), ": the label of image 0 is 99, expected 0 to 9")]:
            path = self.write("file", content)
            beside = [f"data.test_file={path}"] if kind == "libsvm" else []
            self.refused(path + said, f"data.kind={kind}", f"data.train_file={path}", *beside, *of[kind])


if __name__ == "__main__":
    unittest.main()
