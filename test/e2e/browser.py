"""A real browser without a window, controlled through a pipe with its DevTools protocol. It needs nothing but Chromium.

    with Browser() as browser:
        page = browser.open("file:///tmp/report.html")
        page.evaluate("document.title")
        page.problems     # errors of the console, exceptions, requests that are not the page itself
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time

PATIENCE = 60  # seconds for one answer; a busy machine must not fail


def find():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def high(descriptor):
    """A copy of the descriptor above 3 and 4, at which Chromium expects its pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    def __enter__(self):
        # Chromium syncs its profile, and says nothing while the disk is busy.
        self.profile = tempfile.mkdtemp(prefix="p2pml-browser-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        theirs_in, self.to = map(high, os.pipe())
        self.back, theirs_out = map(high, os.pipe())
        arguments = [find(), "--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + self.profile, "--disable-gpu",
                     "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
                     "--disable-component-update", "--disable-sync", "--mute-audio", "--hide-scrollbars",
                     *(["--no-sandbox"] if os.geteuid() == 0 else []), "about:blank"]
        quiet = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in (0, 1, 2)]
        self.process = os.posix_spawn(arguments[0], arguments, os.environ, setsid=True, file_actions=quiet + [
            (os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4)])
        os.close(theirs_in)
        os.close(theirs_out)
        self.read, self.number, self.pages = b"", 0, {}
        return self

    def __exit__(self, *_):
        os.close(self.to)  # Chromium ends with the pipe
        deadline = time.monotonic() + 10
        while os.waitpid(self.process, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.killpg(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                break
            select.select([], [], [], 0.02)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.read:
            ready, _, _ = select.select([self.back], [], [], PATIENCE)
            got = os.read(self.back, 1 << 16) if ready else b""
            if not got:
                raise RuntimeError("Chromium " + ("ended" if ready else "is silent"))
            self.read += got
        line, self.read = self.read.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, session=None, **parameters):
        """Sends a command and reads until its answer; events in between go to their pages."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("sessionId") in self.pages:
                self.pages[answer["sessionId"]].notice(answer["method"], answer["params"])

    def open(self, url, **view):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target, url)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.view(**view)
        page.call("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'")
        return page


class Page:
    def __init__(self, browser, session, target, url):
        self.browser, self.session, self.target, self.url = browser, session, target, url
        self.problems = []

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def notice(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("data:", self.url)) and url != "about:blank":
                self.problems.append("request: " + url)

    def view(self, width=1280, height=900, scheme="light", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def wait(self, expression):
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.url}: never: {expression}")
        return True

    def settle(self):
        """Waits for two frames: the result of a resize or a click has been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def click(self, selector):
        """A click with the mouse in the middle of the element, like a user's."""
        at = self.evaluate("(() => { const e = document.querySelector(" + json.dumps(selector) + ");"
                           "if (!e) return null; e.scrollIntoView({block: 'center', inline: 'center'});"
                           "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        if not at:
            raise RuntimeError("nothing is " + selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def hover(self, selector, across=0.5, down=0.5):
        x, y = self.evaluate("(() => { const e = document.querySelector(" + json.dumps(selector) + ");"
                             "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
                             f"return [r.x + {across} * r.width, r.y + {down} * r.height]; }})()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        self.browser.pages.pop(self.session, None)
