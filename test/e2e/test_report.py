"""p2pml report and p2pml plot on made-up runs, and the page in a real browser: what it draws, sorts, shows and loads."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import browser
import report_samples

PROGRAM = os.path.join(os.path.dirname(os.environ["P2PML_E2E_NODE"]), "p2pml")
SAMPLES = ("sweep", "one_run", "quantity", "failures", "real", "nulls", "broad")
PICTURES = os.environ.get("P2PML_E2E_PICTURES")  # a directory for screenshots


def p2pml(*arguments, status=0, **environment):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120,
                          env={**{k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}, **environment})
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="p2pml-report-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        for name in SAMPLES:
            getattr(report_samples, name)(cls.at(name))
            p2pml("report", cls.at(name))
        cls.browser = cls.enterClassContext(browser.Browser()) if hasattr(cls, "enterClassContext") else cls.enter(browser.Browser())

    @classmethod
    def enter(cls, context):  # before Python 3.11
        entered = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return entered

    @classmethod
    def at(cls, *names):
        return os.path.join(cls.directory, *names)

    def open(self, name, **view):
        page = self.browser.open("file://" + self.at(name, "report.html"), **view)
        self.addCleanup(page.close)
        page.settle()
        return page

    def texts(self, page, selector):
        return page.evaluate("[...document.querySelectorAll(" + json.dumps(selector) + ")].map(e => e.textContent)")

    def test_every_page_works_in_light_and_dark_and_at_every_width(self):
        for name in SAMPLES:
            page = self.open(name, width=320, scheme="dark")
            for width, scheme in ((320, "dark"), (390, "light"), (1280, "dark"), (1280, "light")):
                with self.subTest(name, width=width, scheme=scheme):
                    page.view(width=width, scheme=scheme)
                    page.settle()
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    self.assertEqual(page.evaluate("document.querySelectorAll('h1').length"), 1)
                    if PICTURES:
                        page.screenshot(os.path.join(PICTURES, f"{name}-{width}-{scheme}.png"))
                    self.assertEqual(page.problems, [])

    def numbers_are_finite(self, page):
        wrong = page.evaluate(
            "[...document.querySelectorAll('svg *')].flatMap(e => [...e.attributes].filter(a => /NaN|Infinity|undefined/.test(a.value))"
            ".map(a => e.tagName + ' ' + a.name + ' ' + a.value))")
        self.assertEqual(wrong, [])

    def test_charts(self):
        for name, cases, axes in (("sweep", 6, 4), ("one_run", 1, 4), ("failures", 1, 4), ("broad", 12, 4)):
            page = self.open(name)
            for axis in ("round", "step", "bytes", "time"):
                page.click(f"#curve-controls [data-value={axis}]")
                for chart in ("accuracy", "worst", "loss", "consensus"):
                    with self.subTest(name, axis=axis, chart=chart):
                        curves = page.evaluate(f"document.querySelectorAll('[data-chart={chart}] .curve').length")
                        self.assertEqual(curves, cases)
                self.numbers_are_finite(page)
            for button in ("#curve-controls .switch", "[data-chart=accuracy] button", "[data-chart=loss] button",
                           "#target-controls .switch"):
                if page.evaluate(f"!document.querySelector('{button}').closest('[hidden]')"):
                    page.click(button)
            self.numbers_are_finite(page)
            self.assertEqual(page.problems, [])

    def test_bands_and_legend(self):
        page = self.open("sweep")
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-chart=accuracy] .band').length"), 6)
        page.click("#legend button:nth-child(2)")
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-chart=accuracy] .case').length"), 5)
        page.hover("[data-chart=accuracy] svg", across=0.5)
        page.wait("!document.querySelector('[data-chart=accuracy] .tip').hidden")
        self.assertRegex(self.texts(page, "[data-chart=accuracy] .tip")[0], r"MB sent.*ring, ratio 1/8\d\d\.\d%")
        self.assertEqual(page.problems, [])

    def column(self, page, number):
        return page.evaluate(f"[...document.querySelectorAll('#table tbody tr')].map(r => r.children[{number}].firstChild.textContent)")

    def head(self, page, text):
        return self.texts(page, "#table thead th").index(text)

    def test_a_quantity_has_no_percent(self):
        page = self.open("quantity")
        tiles = self.texts(page, ".tile")
        self.assertEqual(tiles[0], "R2, averaged model0.950RMSE 15,790, central training 0.959")
        self.assertTrue(tiles[1].startswith("R2, worst node0.9"), tiles[1])
        self.assertIn("R2 of the averaged model", page.evaluate("document.body.innerText"))
        self.assertEqual([t for t in self.texts(page, "svg text, .tile, th, td") if "%" in t or "ccuracy" in t], [])
        self.assertTrue({"RMSE", "15,790"} <= set(self.texts(page, "th, td")))
        self.assertTrue(self.texts(self.open("one_run"), ".tile")[0].startswith("accuracy, averaged model95.0%central"))

    def test_the_duration_is_shown(self):
        """In virtual and in real time; for real processes the training and the whole run."""
        self.assertIn("virtual time40 scomputed in 3.4 s", self.texts(self.open("one_run"), ".tile"))
        self.assertIn("time40 s3.4 s with start and baselines", self.texts(self.open("real"), ".tile"))
        for name in ("one_run", "real"):
            self.assertTrue({"time", "wall clock"} <= set(self.texts(self.open(name), "#table th")))

    def test_the_time_of_a_target_is_shown(self):
        """For real processes the averaged model is known only at the end: until then the worst node is shown."""
        reached = lambda name: [t for t in self.texts(self.open(name), ".tile") if t.startswith("bytes to")]
        self.assertNotRegex(reached("one_run")[0], "worst node")
        self.assertRegex(reached("real")[0], r"after [\d.]+ s, the worst node$")
        rows = lambda name: self.texts(self.open(name), "[data-chart=to-bytes] .row")
        self.assertTrue(any("averaged" in row for row in rows("one_run")))
        self.assertTrue(rows("real") and not any("averaged" in row for row in rows("real")), rows("real"))

    def test_the_table_sorts(self):
        page = self.open("sweep")
        at = self.head(page, "bytes to 93%")
        selector = f"#table thead th:nth-child({at + 1})"
        page.click(selector + " button")
        self.assertEqual(self.column(page, at), ["25.3 MB", "79.1 MB", "121 MB", "316 MB", "2 of 3", "never"])
        self.assertEqual(page.evaluate(f"document.querySelector('{selector}').ariaSort"), "ascending")
        page.press("Enter")  # the header is still focused
        self.assertEqual(self.column(page, at), ["316 MB", "121 MB", "79.1 MB", "25.3 MB", "2 of 3", "never"])
        self.assertEqual(page.evaluate(f"document.querySelector('{selector}').ariaSort"), "descending")
        page.click("#table thead th:nth-child(2) button")  # ratios sort as numbers
        self.assertEqual(self.column(page, 1), ["1/100", "1/100", "1/32", "1/32", "1/8", "1/8"])
        self.assertIn("2 of 3", self.column(page, self.head(page, "seeds")))
        self.assertEqual(page.problems, [])

    def test_bars(self):
        page = self.open("sweep")
        self.assertEqual(self.texts(page, "[data-chart=to-bytes] .never"), ["2 of 3 seeds", "never"])
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-chart=to-bytes] .bar').length"), 4)
        averaged = self.texts(page, "[data-chart=to-bytes] .row")
        page.click("#target-controls [data-value=worst]")
        self.assertNotEqual(self.texts(page, "[data-chart=to-bytes] .row"), averaged)
        page.click("#target-controls [data-value='0.9']")
        self.assertIn("reaches 90%", self.texts(page, "[data-chart=to-bytes] figcaption")[0])
        self.assertEqual(page.problems, [])

    def test_failures_are_drawn(self):
        page = self.open("failures")
        self.assertEqual(page.evaluate("document.querySelectorAll('.vertex.gone').length"), 4)
        self.assertEqual(page.evaluate("document.querySelectorAll('.edge.lost').length"), 7)  # 7 and 8 share an edge
        self.assertEqual(page.evaluate("document.querySelectorAll('.edge').length"), 16)
        self.assertEqual(page.evaluate("document.querySelectorAll('#event-figure .seen').length") - 1, 5)
        self.assertEqual(page.evaluate("document.querySelectorAll('#event-figure .closed').length") - 1, 4)
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-chart=accuracy] .mark').length"), 5)
        lost = [cells[-1] for cells in page.evaluate("[...document.querySelectorAll('#event-table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")]
        self.assertEqual(lost, ["0.50%"] * 4 + ["nothing"])
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-chart=accuracy] .span').length"), 1)
        self.assertIn("610 ms", self.texts(page, "#event-table")[0])

    def test_an_unknown_value_is_a_gap(self):
        page = self.open("real")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('[data-chart]')].map(e => e.dataset.chart)")[:4],
                         ["mean", "worst", "train_loss", "to-bytes"])  # of the consensus distance only the end is known, shown as a tile
        paths = page.evaluate("[...document.querySelectorAll('[data-chart=worst] .curve')].map(e => e.getAttribute('d'))")
        self.assertEqual([path.count("L") + 1 for path in paths], [50, 50])  # of 101 samples the middle one is unknown
        heights = [[float(y) for y in re.findall(r" ([0-9.]+)", path)] for path in paths]
        self.assertLess(max(heights[1]), min(heights[0]))  # no line falls to zero

    def test_a_report_without_any_value_is_drawn(self):
        page = self.open("nulls")
        self.assertEqual(self.texts(page, "h1"), ["</script><img src=x onerror=alert(1)>"])
        self.assertEqual(page.evaluate("document.querySelectorAll('img, main script').length"), 0)
        self.assertEqual(set(self.column(page, self.head(page, "accuracy"))), {"-"})
        self.assertNotRegex(page.evaluate("document.body.innerText"), "NaN|null|undefined|Infinity")
        self.numbers_are_finite(page)

    def test_the_page_does_not_jump(self):
        page = self.open("sweep")
        before = page.evaluate("document.documentElement.scrollHeight")
        for axis in ("time", "round"):
            page.click(f"#curve-controls [data-value={axis}]")
            page.settle()
            self.assertEqual(page.evaluate("document.documentElement.scrollHeight"), before)

    def test_a_simulation_can_be_reported(self):
        path, out = self.at("tiny.yaml"), self.at("tiny")
        report_samples.write(path, "experiment: {name: tiny, nodes: 4, baselines: [], targets: [0.2]}\n"
                             "data: {train_count: 200, test_count: 100}\nmodel: {hidden: [8]}\n"
                             "train: {steps: 40, batch: 8, eval_rounds: 2}\naverage: {local_steps: 2}\n"
                             "events: [{at: 200ms, kill: 2}]\nsim: {step_time: 20ms}\n")
        p2pml("sim", path, "--out", out)
        page = self.open("tiny")
        self.assertEqual(self.texts(page, "h1"), ["tiny"])
        for chart in ("accuracy", "worst", "loss", "consensus"):
            self.assertEqual(page.evaluate(f"document.querySelectorAll('[data-chart={chart}] .curve').length"), 1)
        self.assertEqual(page.evaluate("document.querySelectorAll('.vertex').length"), 4)
        self.assertEqual(page.evaluate("document.querySelectorAll('.vertex.gone').length"), 1)
        self.assertIn("node-02 killed", self.texts(page, "#event-table")[0])
        settings = self.texts(page, "#shared div")  # every key that differs from its default, the simulated network included
        self.assertTrue({"sim.step_time20ms", "data.train_count200"} <= set(settings), settings)
        self.numbers_are_finite(page)
        self.assertEqual(page.problems, [])

    def test_wrong_directories_are_refused(self):
        self.assertIn("holds neither results.jsonl nor summary.json", p2pml("report", self.directory, status=2))
        self.assertIn("expected one directory", p2pml("report", status=2))
        self.assertIn("expected one directory", p2pml("report", "--fast", status=2))


class Plots(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-plot-")
        self.addCleanup(shutil.rmtree, self.directory)

    def test_pictures_come_with_their_data_and_scripts(self):
        report_samples.sweep(self.directory)
        self.assertIn("7 pictures", p2pml("plot", self.directory, "--format", "svg"))
        made = os.path.join(self.directory, "plots")
        for name in ("accuracy-over-bytes", "accuracy-over-rounds", "accuracy-over-time", "worst-over-bytes",
                     "consensus-over-rounds", "bytes-to-90", "bytes-to-93"):
            picture = xml.etree.ElementTree.parse(os.path.join(made, name + ".svg")).getroot()
            texts = " ".join(t for e in picture.iter("{http://www.w3.org/2000/svg}text") for t in e.itertext())
            self.assertIn("butterfly, ratio 1/100", texts, name)
            self.assertNotIn("NaN", texts)
        self.assertIn("never", texts)
        done = subprocess.run(["gnuplot", "bytes-to-93.gp"], cwd=made, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_pictures_can_be_png_elsewhere_and_without_data(self):
        report_samples.nulls(os.path.join(self.directory, "nulls"))
        self.assertIn("0 pictures", p2pml("plot", os.path.join(self.directory, "nulls")))
        report_samples.one_run(os.path.join(self.directory, "one"))
        out = os.path.join(self.directory, "out")
        p2pml("plot", os.path.join(self.directory, "one"), "--out", out)
        with open(os.path.join(out, "accuracy-over-bytes.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        self.assertFalse(os.path.exists(os.path.join(self.directory, "one", "plots")))

    def test_a_target_that_no_run_reached_has_no_picture(self):
        report_samples.real(self.directory)
        path = os.path.join(self.directory, "summary.json")
        with open(path) as file:
            made = json.load(file)
        made["targets"] = [{"accuracy": 0.99, "averaged": None, "worst": None}]
        report_samples.write(path, json.dumps(made))
        self.assertIn("5 pictures", p2pml("plot", self.directory, "--format", "svg"))
        with open(os.path.join(self.directory, "plots", "accuracy-over-rounds.svg")) as file:
            self.assertIn("accuracy of the nodes, mean", file.read())

    def test_missing_programs_and_files_are_reported(self):
        report_samples.one_run(self.directory)
        self.assertIn("apt-get install gnuplot-nox", p2pml("plot", self.directory, status=1, PATH="/nonexistent"))
        os.mkdir(os.path.join(self.directory, "only-env"))
        os.symlink(shutil.which("env"), os.path.join(self.directory, "only-env", "env"))
        self.assertIn("apt-get install gnuplot-nox", p2pml("plot", self.directory, status=1, PATH=os.path.join(self.directory, "only-env")))
        self.assertTrue(os.path.exists(os.path.join(self.directory, "plots", "accuracy-over-bytes.gp")))
        self.assertIn("found 'gif', expected png, svg or pdf", p2pml("plot", self.directory, "--format", "gif", status=2))
        self.assertIn("expected one directory", p2pml("plot", status=2))


if __name__ == "__main__":
    missing = [name for name, found in (("chromium", browser.find()), ("gnuplot", shutil.which("gnuplot"))) if not found]
    if missing:
        print(f"skipped: {' and '.join(missing)} not installed (on Debian './setup.sh test' installs it)")
        sys.exit(77)
    unittest.main()
