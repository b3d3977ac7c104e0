"""The page of a running node in a real browser: what it shows about three nodes, and that it follows them."""

import os
import re
import sys
import unittest
import urllib.request

import browser
import cluster


def text_of(selector):
    return f"document.querySelector('{selector}').textContent"


def http_of(node):
    return next(c for c in node.command if c.startswith("node.http=")).split("=")[1]


class Page(cluster.ClusterTest):
    def test_the_page_follows_its_node(self):
        nodes = self.cluster(3, http=True, train__steps=100_000_000, topology__kind="ring")
        for node in nodes:
            node.start()
        nodes[0].wait_rows(1)
        address = http_of(nodes[0])
        with browser.Browser() as chromium:
            for width, scheme in ((1280, "light"), (390, "dark")):
                page = chromium.open(f"http://{address}/", width=width, scheme=scheme)
                page.wait(text_of("#name") + " === 'node-0'")
                page.wait("document.querySelectorAll('#edges tr').length === 3")
                names = "[...document.querySelectorAll('#members tr')].slice(1).map(r => r.cells[0].textContent)"
                self.assertEqual(page.evaluate(names), ["node-0 (this node)", "node-1", "node-2"])
                links = "[...document.querySelectorAll('#members a')].map(a => a.href)"
                self.assertEqual(page.evaluate(links), [f"http://{http_of(n)}/" for n in nodes[1:]])
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                before = page.evaluate(text_of("#steps"))
                page.wait(f"{text_of('#steps')} !== {before!r}")
                page.wait("document.querySelectorAll('#loss path, #score path').length === 2")
                self.assertNotRegex(page.evaluate("document.body.innerText"), "NaN|undefined|null|Invalid")
                self.assertEqual(page.problems, [])
            self.answers_the_five_questions(page)
            self.ticks_differ(page)
            self.tells_who_died(page, nodes)
            self.tells_that_nobody_answers(page, nodes)

    def answers_the_five_questions(self, page):
        """On the first screen of a phone, without scrolling."""
        page.view(width=390, height=844)
        page.wait("document.getElementById('banner').className === 'good'")
        page.wait("/^3 of 3 nodes$/.test(document.querySelectorAll('#tiles b')[0].textContent)")
        page.wait("/%$/.test(document.querySelectorAll('#tiles b')[1].textContent)")
        page.wait("/ (s|h|d)/.test(document.querySelectorAll('#tiles b')[2].textContent)")
        page.wait("document.querySelectorAll('#tiles b')[3].textContent.length > 1")
        self.assertLess(page.evaluate("document.getElementById('tiles').getBoundingClientRect().bottom"), 844)
        self.assertEqual(page.evaluate("[...document.querySelectorAll('#tiles .k')].map(k => k.textContent)"),
                         ["Connected?", "Learning?", "Time left?", "Which is slow?"])
        for column, seen in ((2, True), (3, False), (4, True), (5, True)):  # state, since when, step, steps/s
            cell = f"document.querySelector('#members tr:nth-child(2) td:nth-child({column})').getBoundingClientRect()"
            self.assertEqual(page.evaluate(f"{cell}.width > 0 && {cell}.right <= 390"), seen, column)
        page.wait("[...document.querySelectorAll('#edges td')].some(c => /B\\/s$/.test(c.textContent))")
        page.wait("[...document.querySelectorAll('#edges td')].some(c => c.textContent === 'direct')")
        page.wait("[...document.querySelectorAll('#events li')].some(c => /node-1 has joined/.test(c.textContent))")

    def ticks_differ(self, page):
        """Also if the values hardly differ."""
        for values, share in (([0.969, 0.9695], True), ([0.5, 0.97], True), ([1.2341, 1.2342], False), ([2e-5, 3e-5], False), ([1, 1], False)):
            ticks = page.evaluate(f"(y => y.ticks.map(t => y.text(t, {str(share).lower()})))(scale_of({values}, {str(share).lower()}))")
            self.assertEqual(len(set(ticks)), len(ticks), ticks)
            self.assertTrue(ticks, values)

    def tells_who_died(self, page, nodes):
        nodes[2].end()
        page.wait("[...document.querySelectorAll('#members .bad')].some(c => c.textContent === 'dead')")
        page.wait("[...document.querySelectorAll('#events li')].some(c => /node-2 has died: its process has ended/.test(c.textContent))")
        nodes[1].end()
        page.wait("document.getElementById('banner').className === 'bad'")
        page.wait(text_of("#condition") + " === 'This node is alone'")
        self.assertIn("None of 2 other nodes", page.evaluate(text_of("#sentence")))
        self.assertEqual(page.problems, [])

    def tells_that_nobody_answers(self, page, nodes):
        nodes[0].end()
        page.wait(text_of("#condition") + " === 'No answer from this node'")

    def test_a_quantity_is_shown_as_r2(self):
        path = os.path.join(self.directory, "houses.csv")
        with open(path, "w") as f:
            f.write("area,age,price\n" + "".join(f"{i % 97},{i % 13},{1000 * (i % 97) - 300 * (i % 13)}\n" for i in range(600)))
        node = self.cluster(1, http=True, data__kind="csv", data__train_file=path, data__scale="standard", model__loss="mse",
                            model__hidden="[8]", train__rate=0.02, train__steps=100_000_000, log__progress="1s",
                            data__train_count=0, data__test_count=0)[0].start()
        node.wait_rows(1)
        with browser.Browser() as chromium:
            page = chromium.open(f"http://{http_of(node)}/", width=390, scheme="dark")
            page.wait("/^R² (0\\.9|1)/.test((document.querySelectorAll('#tiles b')[1] || {}).textContent)")
            page.wait("document.querySelectorAll('#score path').length === 1")
            self.assertRegex(page.evaluate(text_of("#tiles")), r"on test data · RMSE [\d,.]+ · loss")
            self.assertEqual(page.evaluate(text_of("#score-name")), "R² on test data")
            ticks = page.evaluate("[...document.querySelectorAll('#score text')].map(t => t.textContent)")
            self.assertTrue(ticks and not any("%" in t for t in ticks), ticks)
            self.assertEqual(page.problems, [])
        node.wait_log(r"test R2 [01]\.\d{4}, RMSE \d")

    def test_nothing_but_the_pages_own_files_may_run(self):
        node = self.cluster(1, http=True, train__steps=100_000_000)[0].start()
        node.wait_rows(1)
        for path in ("/", "/page.js", "/page.css", "/status"):
            with urllib.request.urlopen(f"http://{http_of(node)}{path}") as answer:
                policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'; "), policy)
            self.assertNotIn("unsafe", policy)
            self.assertFalse(re.search(r"https?://(?!www\.w3\.org/2000/svg|')", text), path)
        with browser.Browser() as chromium:
            page = chromium.open(f"http://{http_of(node)}/")
            page.wait(text_of("#name") + " === 'node-0'")
            page.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
                          "document.body.append(s); })()")
            self.assertIsNone(page.evaluate("window.evil"))


if __name__ == "__main__":
    if not browser.find():
        print("skipped: chromium is not installed (on Debian './setup.sh test' installs it)")
        sys.exit(77)
    unittest.main()
