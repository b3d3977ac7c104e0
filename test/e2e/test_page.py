"""The page of a running node in a real browser: three nodes, what it shows, and that it follows them."""

import sys
import unittest

import browser
import cluster


class Page(cluster.ClusterTest):
    def test_the_page_follows_its_node(self):
        nodes = self.cluster(3, http=True, train__steps=100_000_000, topology__kind="ring")
        for node in nodes:
            node.start()
        nodes[0].wait_rows(1)
        address = next(c for c in nodes[0].command if c.startswith("node.http=")).split("=")[1]
        with browser.Browser() as chromium:
            for width, scheme in ((1280, "light"), (360, "dark")):
                page = chromium.open(f"http://{address}/", width=width, scheme=scheme)
                page.wait("document.getElementById('name').textContent === 'node-0'")
                page.wait("document.querySelectorAll('#edges tr').length === 3")
                names = "[...document.querySelectorAll('#members tr')].slice(1).map(r => r.cells[0].textContent)"
                self.assertEqual(page.evaluate(names), ["node-0 (this node)", "node-1", "node-2"])
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                before = page.evaluate("document.querySelector('#tiles b').textContent")
                page.wait(f"document.querySelector('#tiles b').textContent !== '{before}'")
                self.assertNotRegex(page.evaluate("document.body.innerText"), "NaN|undefined|null|Invalid")
                self.assertEqual(page.problems, [])
            nodes[2].end()
            page.wait("[...document.querySelectorAll('#members .bad')].some(c => c.textContent === 'dead')")
            self.assertEqual(page.problems, [])


if __name__ == "__main__":
    if not browser.find():
        print("skipped: chromium is not installed ('./setup.sh test' installs it)")
        sys.exit(77)
    unittest.main()
