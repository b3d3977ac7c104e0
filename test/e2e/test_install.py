"""The result of cmake --install: programs that run from there, manual pages with every key, option and command,
completion that works in a shell, and a service that systemd accepts and that reports its state to systemd."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import unittest

NODE = os.environ["P2PML_E2E_NODE"]
LAB = os.path.join(os.path.dirname(NODE), "p2pml")
BUILD = os.path.dirname(os.path.dirname(NODE))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
CLEAN = {**{k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}, "PATH": PATH}


def output(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**CLEAN, **more}, timeout=60).stdout


def found(name):
    return shutil.which(name, path=PATH)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(prefix="p2pml-install-")
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        output("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def path(self, *parts):
        return os.path.join(self.prefix, *parts)

    def page(self, name):
        with open(self.path("share/man", f"man{name[-1]}", name), encoding="utf-8") as f:
            return f.read()

    def plain(self, name):
        """The text of a page without roff's markup."""
        return self.page(name).replace("\\-", "-").replace("\\(dq", '"').replace("\\e", "\\")

    def test_all_files_are_installed(self):
        for path in ("bin/p2pml", "bin/p2pml-node", "share/p2pml/configs/demo.yaml", "share/p2pml/configs/node/node.yaml",
                     "share/doc/p2pml/copyright", "lib/systemd/system/p2pml-node@.service",
                     "share/bash-completion/completions/p2pml-node", "share/zsh/vendor-completions/_p2pml"):
            self.assertTrue(os.path.isfile(self.path(path)), path)

    def test_the_installed_programs_run(self):
        self.assertEqual(output(self.path("bin/p2pml-node"), "--version"), output(NODE, "--version"))
        for config in glob.glob(self.path("share/p2pml/configs/which-graph.yaml")):
            output(self.path("bin/p2pml"), "sim", "--check", config)

    def test_the_manual_pages_have_every_key(self):
        node, lab = output(NODE, "--help"), output(LAB, "help", "run")
        keys = re.findall(r"^([a-z][a-z_.]*) = ", node, re.M)
        self.assertGreater(len(keys), 80)
        page = self.plain("p2pml-node.yaml.5")
        self.assertEqual(re.findall(r'^\.BR ([a-z][a-z_.]*) " = ', page, re.M), keys)
        self.assertIn('.BR train.steps " = ' + re.search(r"^train.steps = (.*)$", node, re.M)[1], page)
        more = [key for key in re.findall(r"^([a-z][a-z_.]*) = ", lab, re.M) if key not in keys]
        self.assertIn("experiment.nodes", more)
        self.assertEqual(re.findall(r'^\.BR ([a-z][a-z_.]*) " = ', self.plain("p2pml.1"), re.M), more)

    def test_the_manual_pages_have_every_command_and_option(self):
        options = r"(?:^|[\s,|\[])(--[a-z][a-z-]*)"
        page = self.plain("p2pml-node.1")
        for option in re.findall(options, output(NODE, "--help").split("\nnode.name = ")[0]):
            self.assertIn(option, page)
        page = self.plain("p2pml.1")
        commands = set(re.findall(r"^  p2pml ([a-z]+)", output(LAB, "help"), re.M)) - {"help", "version"}
        self.assertEqual(set(re.findall(r"^\.SS ([a-z]+)$", page.split(".SH KEYS")[0], re.M)), commands)
        for command in commands:
            section = re.search(rf"^\.SS {command}$(.*?)^\.S[SH] ", page, re.M | re.S)[1]
            for option in re.findall(options, output(LAB, "help", command).split("\nKeys of")[0]):
                self.assertIn(option, section, command)

    def test_the_manual_pages_are_well_formed(self):
        checkers = [c for c in (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z", "-rLL=200n"]) if found(c[0])]
        if not checkers:
            self.skipTest("neither mandoc nor groff here")
        for checker in checkers:
            for page in glob.glob(self.path("share/man/man?/*")):
                told = subprocess.run([*checker, page], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=CLEAN,
                                      timeout=60, check=False).stdout
                self.assertEqual(told, "", page)

    def complete(self, *words):
        """The completions of bash for the last word; words end at "=", as in readline."""
        cut = [part for word in words for part in re.findall(r"=|[^=]+|^$", word)]
        function = "_p2pml_node" if words[0] == "p2pml-node" else "_p2pml"
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  f'{function} && printf "%s\\n" "${{COMPREPLY[@]}}"')
        return output("bash", "-c", script, "bash", self.path("share/bash-completion/completions", words[0]), *cut,
                      PATH=f"{self.path('bin')}:{PATH}").split()

    def test_bash_completes_commands_options_keys_and_values(self):
        self.assertEqual(self.complete("p2pml", "pr"), ["predict"])
        self.assertIn("topology", self.complete("p2pml", ""))
        self.assertEqual(self.complete("p2pml", "help", "keyg"), ["keygen"])
        self.assertEqual(self.complete("p2pml", "plot", "--f"), ["--format"])
        self.assertEqual(self.complete("p2pml", "plot", "--format", "s"), ["svg"])
        self.assertEqual(sorted(self.complete("p2pml", "export", "--format", "")), ["onnx", "torch"])
        self.assertEqual(self.complete("p2pml", "run", "x.yaml", "--set", "experiment.nod"), ["experiment.nodes="])
        self.assertEqual(self.complete("p2pml", "topology", "show", "but"), ["butterfly"])
        self.assertEqual(self.complete("p2pml-node", "--res"), ["--resume"])
        self.assertEqual(self.complete("p2pml-node", "--set", "train.st"), ["train.steps="])
        self.assertEqual(sorted(self.complete("p2pml-node", "--set", "cluster.profile=")), ["lan", "local", "wan"])
        self.assertEqual(self.complete("p2pml-node", "--set", "cluster.profile=w"), ["wan"])
        self.assertEqual(self.complete("p2pml-node", "--set", "topology.kind=hier"), ["hierarchical"])
        self.assertEqual(self.complete("p2pml-node", "--set", "data.takeover=f"), ["false"])
        self.assertEqual(self.complete("p2pml-node", "--check", "--set", "model.hidden=64", "--peers", ""), [])
        self.assertEqual(self.complete("p2pml-node", "--tr"), ["--trainer"])
        self.assertEqual(self.complete("p2pml-node", "--trainer", ""), [])

    def test_zsh_completes(self):
        if not found("zsh"):
            self.skipTest("no zsh here")
        output("zsh", "-n", self.path("share/zsh/vendor-completions/_p2pml"))
        # A separate shell on a terminal, as if typed by a user.
        script = r"""
            zmodload zsh/zpty; zpty shell zsh -f -i
            zpty -w shell 'PS1=; fpath=('$1' $fpath); autoload -Uz compinit; compinit -u -D; bindkey "^I" complete-word; cd /'
            zpty -w shell 'LISTMAX=0; zstyle ":completion:*" list-prompt ""; echo re''ady'
            zpty -r -m shell seen '*ready*'
            zpty -n -w shell 'p2pml-node --set cluster.profile=w'$'\t'
            zpty -r -m shell seen '*cluster.profile=wan*'
            print done; zpty -d shell"""
        told = output("zsh", "-f", "-c", script, "zsh", self.path("share/zsh/vendor-completions"), PATH=f"{self.path('bin')}:{PATH}")
        self.assertIn("done", told)

    def started_by(self, unit):
        """The program that a unit names."""
        with open(unit, encoding="utf-8") as f:
            return re.search(r"^ExecStart=(\S+)", f.read(), re.M)[1]

    def test_files_that_name_the_prefix_name_that_of_this_installation(self):
        self.assertEqual(self.started_by(self.path("lib/systemd/system/p2pml-node@.service")), self.path("bin/p2pml-node"))
        with open(self.path("lib/pkgconfig/p2pml.pc"), encoding="utf-8") as f:
            self.assertEqual(f.readline(), f"prefix={self.prefix}\n")

    def test_the_service_of_a_package_starts_the_program_of_the_package(self):
        with tempfile.TemporaryDirectory(prefix="p2pml-package-") as directory:
            output("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-G", "TGZ", "-B", directory)
            with tarfile.open(*glob.glob(f"{directory}/*.tar.gz")) as package:
                names = {member.name[member.name.index("/"):]: member for member in package}
                text = {name: package.extractfile(names[name]).read().decode()
                        for name in ("/usr/lib/systemd/system/p2pml-node@.service", "/usr/lib/pkgconfig/p2pml.pc")}
            program = re.search(r"^ExecStart=(\S+)", text["/usr/lib/systemd/system/p2pml-node@.service"], re.M)[1]
            self.assertEqual(program, "/usr/bin/p2pml-node")
            self.assertIn(program, names)
            self.assertTrue(text["/usr/lib/pkgconfig/p2pml.pc"].startswith("prefix=/usr\n"))

    def test_systemd_accepts_the_service(self):
        if not found("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        unit = self.path("lib/systemd/system/p2pml-node@.service")
        pages = "yes" if found("man") else "no"  # systemd opens them with man
        done = subprocess.run(["systemd-analyze", "verify", f"--man={pages}", unit], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env={**CLEAN, "MANPATH": self.path("share/man")},
                              timeout=60, check=False)
        self.assertEqual([line for line in done.stdout.splitlines() if "p2pml" in line], [])
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=CLEAN, timeout=60, check=False)
        if "unrecognized option" in done.stdout:
            self.skipTest("this systemd-analyze cannot judge a file")
        self.assertEqual(done.returncode, 0, done.stdout[-500:])  # an exposure of at most 2.0 of 10

    def test_the_service_manager_is_notified(self):
        with tempfile.TemporaryDirectory(prefix="p2pml-notify-") as directory, \
             socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(f"{directory}/socket")
            manager.settimeout(60)
            with open(f"{directory}/log", "wb") as log:
                node = subprocess.Popen(
                    [self.path("bin/p2pml-node"), "--set", f"node.dir={directory}/node", "--set", "node.listen=127.0.0.1:0",
                     "--set", "node.http=127.0.0.1:0", "--set", "train.steps=1000000000"],
                    env={**CLEAN, "NOTIFY_SOCKET": f"{directory}/socket", "WATCHDOG_USEC": "1000000"}, stdout=log, stderr=log)
            told = []
            try:
                while not (any("WATCHDOG=1" in t for t in told) and any("STATUS=training" in t for t in told)):
                    told.append(manager.recv(4096).decode())
                self.assertEqual(told[0], "READY=1")
                node.send_signal(signal.SIGTERM)
                while told[-1] != "STOPPING=1":
                    told.append(manager.recv(4096).decode())
                self.assertEqual(node.wait(60), 0)
            finally:
                node.kill()
                node.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)
