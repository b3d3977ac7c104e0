"""The notebook, cell by cell: in a kernel of Jupyter where nbclient and ipykernel are installed, else as a plain program. Needs numpy and pandas."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

NOTEBOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "lab.ipynb")
missing = [name for name in ("numpy", "pandas") if not importlib.util.find_spec(name)]
no_jupyter = [name for name in ("nbclient", "nbformat", "ipykernel") if not importlib.util.find_spec(name)]
PATIENCE = 300


@unittest.skipIf(missing, f"no {' and no '.join(missing)} in this Python")
class Notebook(unittest.TestCase):
    def test_as_a_program(self):
        with open(NOTEBOOK, encoding="utf-8") as f:
            cells = [cell for cell in json.load(f)["cells"] if cell["cell_type"] == "code"]
        self.assertTrue(cells)
        self.assertFalse(any(cell["outputs"] for cell in cells))  # none that would grow old
        program = "\n\n".join("".join(cell["source"]) for cell in cells)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("p2pml", done.stdout)

    @unittest.skipIf(no_jupyter, f"no {' and no '.join(no_jupyter)} in this Python")
    def test_in_a_kernel(self):
        import nbclient
        import nbformat
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        nbclient.NotebookClient(notebook, timeout=PATIENCE, startup_timeout=PATIENCE, kernel_name="python3").execute()
        text = json.dumps(notebook)
        self.assertIn("average.ratio", text)
        self.assertIn("text/html", text)  # a frame, as people see it


if __name__ == "__main__":
    unittest.main(verbosity=2)
