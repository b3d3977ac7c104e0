"""`p2pml data fetch` with an HTTPS server of this test, whose certificate it trusts by an option: a correct file is kept;
of a wrong one, a truncated one or one too large for the disk nothing is left."""

import contextlib
import fcntl
import glob
import hashlib
import http.server
import io
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

from cluster import PROGRAM

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHAKESPEARE = os.path.join(os.environ.get("P2PML_DATA", os.path.join(SOURCE, "../shared/data")), "tinyshakespeare.txt")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_") and not k.lower().endswith("_proxy")}
TABLE = b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i % 2) for i in range(40000))


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        name = self.path.rsplit("/", 1)[1]
        if name == "elsewhere.csv":
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/table.csv")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        if "/mute/" in self.path:
            self.until_it_hangs_up()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if "/stall/" in self.path:
            self.wfile.write(content[:len(content) // 2])
            self.until_it_hangs_up()
            return
        if "/trickle/" in self.path:
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
            return
        self.wfile.write(content[:len(content) // 2] if "/cut/" in self.path else content)

    def until_it_hangs_up(self):
        self.rfile.read(1)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # the tests let clients hang up in the middle


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Fetch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("no openssl here, which makes the server's certificate")
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.directory = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="p2pml-fetch-"))
        cls.ca = os.path.join(cls.directory, "ca.pem")
        key = os.path.join(cls.directory, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cls.ca, "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cls.ca, key)
        cls.server = Server(("127.0.0.1", 0), Answers)
        cls.server.socket = context.wrap_socket(cls.server.socket, server_side=True)
        cls.server.files, cls.server.asked = {"table.csv": TABLE}, []
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.stack.callback(cls.server.shutdown)
        cls.base = f"https://127.0.0.1:{cls.server.server_port}"
        said = cls.fetch("https://127.0.0.1:1/table.csv", "--sha256", digest(TABLE), "--dir", cls.directory + "/none", status=1)
        if "built without libcurl" in said:
            assert f"download https://127.0.0.1:1/table.csv (SHA-256 {digest(TABLE)})" in said, said
            raise unittest.SkipTest("p2pml is built without libcurl, and says what to do by hand")

    @classmethod
    def fetch(cls, *arguments, status=0, **options):
        done = subprocess.run([P2PML, "data", "fetch", *arguments], capture_output=True, text=True, timeout=120, env=ENVIRONMENT,
                              **options)
        assert done.returncode == status, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def setUp(self):
        self.out = tempfile.mkdtemp(dir=self.directory)
        self.server.asked.clear()

    def table(self, *more, at="/table.csv", content=TABLE, status=0, **options):
        return self.fetch(self.base + at, "--sha256", digest(content), "--dir", self.out, "--ca", self.ca, *more, status=status,
                          **options)

    def test_a_correct_file_is_kept_and_not_fetched_again(self):
        said = self.table()
        self.assertIn(f"Next: p2pml data info {self.out}/table.csv", said)
        with open(f"{self.out}/table.csv", "rb") as f:
            self.assertEqual(f.read(), TABLE)
        self.assertEqual(os.listdir(self.out), ["table.csv"])
        self.assertIn("exists already", self.table())
        self.assertEqual(self.server.asked, ["/table.csv"])
        info = subprocess.run([P2PML, "data", "info", f"{self.out}/table.csv"], capture_output=True, text=True, check=True)
        self.assertIn("40000 examples of 2 features, 2 classes", info.stdout)

    def test_a_wrong_file_is_not_kept(self):
        other = b"another file"
        for what, (arguments, parts) in {
                "another digest": ({"content": other}, [f"found SHA-256 {digest(TABLE)}, expected {digest(other)}",
                                                        "it was not kept"]),
                "cut off": ({"at": "/cut/table.csv"}, [f"after {len(TABLE) // 2} bytes", f"put it at {self.out}/table.csv"]),
                "not there": ({"at": "/no.csv"}, ["404", f"put it at {self.out}/no.csv"]),
                "not by HTTPS": ({"at": "/elsewhere.csv"}, ["not fetched", f"put it at {self.out}/elsewhere.csv"]),
        }.items():
            with self.subTest(what):
                said = self.table(status=1, **arguments)
                for part in parts:
                    self.assertIn(part, said)
                self.assertEqual(os.listdir(self.out), [])
        self.assertNotIn("/table.csv", self.server.asked[-1])  # the redirect to HTTP was not followed

    def test_a_server_that_is_too_slow_is_given_up(self):
        """Silent before its answer or in the middle of it, or a byte at long intervals: fetch gives up and keeps no partial file."""
        for what, some in (("mute", False), ("stall", True), ("trickle", True)):
            with self.subTest(what):
                said = self.table("--timeout", "1", at=f"/{what}/table.csv", status=1)
                self.assertRegex(said, r"not fetched: \S+: the server is too slow: no connection, or fewer than 1000 bytes a second, for 1 s")
                self.assertEqual(int(re.search(r"(\d+) bytes arrived", said).group(1)) > 0, some, said)
                self.assertIn(f"put it at {self.out}/table.csv", said)
                self.assertEqual(os.listdir(self.out), [])
        self.table()
        self.assertEqual(os.listdir(self.out), ["table.csv"])

    def test_a_server_without_tls_is_given_up(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, but there is no TLS
            said = self.fetch(f"https://127.0.0.1:{silent.getsockname()[1]}/table.csv", "--sha256", digest(TABLE), "--dir", self.out,
                              "--timeout", "1", status=1)
        self.assertRegex(said, "the server is too slow: no connection.*; 0 bytes arrived")
        self.assertEqual(os.listdir(self.out), [])

    def test_a_full_disk_is_reported(self):
        """A limit on the size of files plays the full disk: a write fails in the middle."""
        said = self.table(status=1, restore_signals=False,  # SIGXFSZ stays ignored, so that the write itself fails
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        self.assertIn(f"{self.out}/table.csv.part: cannot be written", said)
        self.assertIn("File too large", said)
        self.assertEqual(os.listdir(self.out), [])

    def test_of_two_that_fetch_one_file_the_second_ends(self):
        part = f"{self.out}/table.csv.part"
        with open(part, "w", encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.write("so far")
            f.flush()
            self.assertIn("another process fetches this file", self.table(status=1))
            with open(part, encoding="utf-8") as held:
                self.assertEqual(held.read(), "so far")
        self.table()  # the lock of a process that was killed
        self.assertEqual(os.listdir(self.out), ["table.csv"])

    def test_another_file_is_not_replaced(self):
        with open(f"{self.out}/table.csv", "w") as f:
            f.write("mine")
        self.assertIn("move it away, or choose another --dir", self.table(status=1))
        with open(f"{self.out}/table.csv") as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(self.server.asked, [])

    def test_a_server_without_a_trusted_certificate_is_refused(self):
        said = self.fetch(f"{self.base}/table.csv", "--sha256", digest(TABLE), "--dir", self.out, status=1)
        self.assertRegex(said, "certificate")
        self.assertEqual((self.server.asked, os.listdir(self.out)), ([], []))

    def test_without_a_network_it_says_what_to_do(self):
        nowhere = ["tiny-shakespeare", "--from", "https://127.0.0.1:1/mirror", "--dir", self.out]
        said = self.fetch(*nowhere, status=1)
        self.assertIn("download https://127.0.0.1:1/mirror/input.txt (SHA-256 86c4e6aa", said)
        self.assertIn(f"put it at {self.out}/tinyshakespeare.txt", said)
        self.assertEqual(os.listdir(self.out), [])
        if not os.path.exists(SHAKESPEARE):
            self.skipTest(f"the rest needs {SHAKESPEARE}")
        shutil.copy(SHAKESPEARE, f"{self.out}/tinyshakespeare.txt")
        self.assertIn("exists already", self.fetch(*nowhere))

    def test_a_set_is_fetched_from_a_mirror(self):
        self.server.files["train-images-idx3-ubyte.gz"] = b"not MNIST"
        said = self.fetch("mnist", "--from", self.base + "/", "--dir", self.out, "--ca", self.ca, status=1)
        self.assertIn(f"found SHA-256 {digest(b'not MNIST')}, expected 440fcabf", said)
        self.assertEqual(self.server.asked, ["/train-images-idx3-ubyte.gz"])  # and no other file
        self.server.files["train-images-idx3-ubyte.gz"] = bytes(9912423)
        said = self.fetch("mnist", "--from", self.base + "/", "--dir", self.out, "--ca", self.ca, status=1)
        self.assertIn("has more than 9912422 bytes, so it is not the file that is expected", said)
        self.assertEqual(os.listdir(self.out), [])
        if not os.path.exists(SHAKESPEARE):
            self.skipTest(f"the rest needs {SHAKESPEARE}")
        with open(SHAKESPEARE, "rb") as f:
            self.server.files["input.txt"] = f.read()
        said = self.fetch("tiny-shakespeare", "--from", self.base, "--ca", self.ca, cwd=self.out)
        self.assertIn("Next: p2pml data info data/tiny-shakespeare/tinyshakespeare.txt", said)

    def test_the_ready_experiments_read_the_fetched_files(self):
        names = re.findall(r"^  (\S+) ", self.fetch(status=2), re.M)
        self.assertIn("a9a", names)
        read = 0
        for config in sorted(glob.glob(os.path.join(SOURCE, "configs", "*.yaml"))):
            with open(config) as f:
                text = f.read()
            self.assertNotIn("../", text, config)
            found = set(re.findall(r": data/([^/\s]+)/", text))
            for name in found:
                self.assertIn(name, names, config)
                self.assertIn(f"p2pml data fetch {name}\n", text, config)
            if found:
                read += 1
                said = subprocess.run([P2PML, "sim", "--check", config], cwd=self.out, capture_output=True, text=True, timeout=60,
                                      env=ENVIRONMENT)
                self.assertEqual(said.returncode, 2, config)
                self.assertRegex(said.stderr, r"found \"data/\S+, which cannot be read .*'p2pml data fetch NAME' downloads well-known data")
        self.assertGreater(read, 9)

    def test_archives_are_unpacked(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            entry = tarfile.TarInfo("batches/one.csv")
            entry.size = len(TABLE)
            tar.addfile(entry, io.BytesIO(TABLE))
        for name, content in {"good.tar.gz": packed.getvalue(), "bad.tar.gz": TABLE}.items():
            self.server.files[name] = content
        self.table(at="/good.tar.gz", content=packed.getvalue())
        self.assertEqual(os.path.getsize(f"{self.out}/batches/one.csv"), len(TABLE))
        self.assertIn("tar could not unpack it", self.table(at="/bad.tar.gz", status=1))

    def test_usage(self):
        url = f"{self.base}/table.csv"
        for arguments, part in [
                ([], "expected one of\n  mnist "),
                (["imagenet"], "found 'imagenet'"),
                ([url], "--sha256: found nothing, expected the 64 hexadecimal digits"),
                ([url, "--sha256", "12ab"], "--sha256: found 12ab"),
                ([url, "--sha256", "x" * 64], "--sha256: found xxx"),
                ([f"{self.base}/", "--sha256", digest(TABLE)], "expected one that ends with the name of a file"),
                ([url, "--sha256", digest(TABLE), "--timeout", "0"], "--timeout: found '0', expected seconds from 1 to 86400"),
                ([url.replace("https", "http"), "--sha256", digest(TABLE)], "or an address https://")]:
            self.assertIn(part, self.fetch(*arguments, status=2))
        self.assertIn("is a file, expected a directory", self.fetch(url, "--sha256", digest(TABLE), "--dir", self.ca, status=1))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
