#!/usr/bin/env python3
"""Look at a page in headless Chromium, as its readers do: wide and narrow, light and dark, printed, by keyboard.

    look.py CHROMIUM AXE PAGE OUT

Writes screenshots and a PDF into the directory OUT and prints one JSON object: what the console said, what was asked of the
network, what axe-core found, what does not fit. Chromium is spoken to through a pipe (--remote-debugging-pipe), so nothing
beyond Python and Chromium is needed.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

PATIENCE_SECONDS = 60
VIEWS = [
    ("wide-light", 1280, 900, "light"),
    ("wide-dark", 1280, 900, "dark"),
    ("phone-light", 360, 740, "light"),
    ("phone-dark", 360, 740, "dark"),
]
# Of a long page several pictures are made, and of a very long one its end is in none.
PIXELS_OF_PICTURE = 1800
MOST_PIXELS = 16_200


class Browser:
    """A browser at the other end of a pipe: messages are JSON, each ended by a NUL."""

    def __init__(self, chromium, profile):
        to_read, self.to = os.pipe()
        self.out, to_write = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]

        def as_three_and_four():
            # Chromium reads from 3 and writes to 4. Neither may be in the way of the other.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [chromium, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=as_three_and_four,
            close_fds=False,
        )
        os.close(to_read)
        os.close(to_write)
        self.watchdog = threading.Timer(PATIENCE_SECONDS * 3, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        self.number = 0
        self.rest = b""
        self.events = []

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.out, 1 << 20)
            if not more:
                raise SystemExit("look.py: Chromium went away")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def ask(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"look.py: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, name):
        while not any(event.get("method") == name for event in self.events):
            self.events.append(self.read())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.watchdog.cancel()


def evaluate(browser, session, expression):
    answer = browser.ask(
        "Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True
    )
    if "exceptionDetails" in answer:
        raise SystemExit(f"look.py: {answer['exceptionDetails']}")
    return answer["result"].get("value")


def said(events):
    """What the console said, and what was asked of the network beside the page itself."""
    console, requests = [], []
    for event in events:
        method, of = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded":
            console.append(of["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            console.append(json.dumps(of["args"]))
        elif method == "Runtime.exceptionThrown":
            console.append(of["exceptionDetails"]["text"])
        elif method == "Network.requestWillBeSent" and of.get("type") != "Document":
            requests.append(of["request"]["url"])
    return console, requests


# Elements that reach beyond the page, but for those within regions that scroll by themselves.
WIDE = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 0 && box.right > innerWidth + 1 && !e.closest('.scroll, pre, svg');
}).slice(0, 5).map(e => e.tagName + '.' + e.className + ' ' + Math.round(e.getBoundingClientRect().right))"""
# Text of drawings that lies over other text of the same drawing, or beyond the window.
CROWDED = """[...document.querySelectorAll('svg.plot, svg.scale')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].filter(t => getComputedStyle(t).display !== 'none')
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  const over = [];
  boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
    if (p.left < q.right && q.left < p.right && p.top + 2 < q.bottom && q.top + 2 < p.bottom) over.push(a + ' / ' + b);
  }));
  boxes.filter(([, p]) => p.right > innerWidth + 1 || p.left < -1).forEach(([a]) => over.push(a + ' is cut off'));
  return over;
}).slice(0, 10)"""
# Tables that are wider than the page, so that a part of them is out of sight.
SCROLLING = """[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.getAttribute('aria-label') + ' ' + e.scrollWidth + ' > ' + e.clientWidth)"""
# Words that are broken in the middle: letters and digits of one that stand in several lines.
BROKEN = r"""(() => {
  const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode() && broken.length < 10) {
    for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (lines.size > 1) broken.push(word[0] + ' in ' + texts.currentNode.parentElement.textContent.slice(0, 60));
    }
  }
  return broken;
})()"""
# All that the Tab key must come to.
VISIBLE = "[...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')].filter(e => e.checkVisibility()).length"
HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => Number(h.tagName[1]))"


def tabbed(browser, session, count):
    """How many different places the Tab key comes to."""
    evaluate(browser, session, "window.places = new Set(), document.addEventListener('focusin', e => places.add(e.target)), 0")
    for _ in range(count):
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", session, type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    return evaluate(browser, session, "window.places.size")


def look(browser, session, page, axe, out):
    found = {}
    for name, width, height, scheme in VIEWS:
        browser.events.clear()
        browser.ask("Emulation.setDeviceMetricsOverride", session, width=width, height=height,
                    deviceScaleFactor=2 if width < 500 else 1, mobile=width < 500)
        browser.ask("Emulation.setEmulatedMedia", session,
                    features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.ask("Page.navigate", session, url=page.as_uri())
        browser.wait_for("Page.loadEventFired")
        console, requests = said(browser.events)
        high = evaluate(browser, session, "document.documentElement.scrollHeight")
        evaluate(browser, session, axe + ";0")
        axe_says = evaluate(browser, session, "axe.run().then(r => r.violations.map(v => ({id: v.id, impact: v.impact, "
                            "help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' + (n.any[0]?.message ?? ''))})))")
        later, more = said(browser.events)
        found[name] = {
            "console": sorted(set(console + later)),
            "requests": sorted(set(requests + more)),
            "wide": evaluate(browser, session, WIDE),
            "crowded": evaluate(browser, session, CROWDED),
            "broken": evaluate(browser, session, BROKEN),
            "scrolling": evaluate(browser, session, SCROLLING),
            "scrolls_sideways": evaluate(browser, session, "document.documentElement.scrollWidth > innerWidth"),
            "axe": axe_says,
        }
        for number, top in enumerate(range(0, min(high, MOST_PIXELS), PIXELS_OF_PICTURE)):
            clip = {"x": 0, "y": top, "width": width, "height": min(PIXELS_OF_PICTURE, high - top), "scale": 1}
            shot = browser.ask("Page.captureScreenshot", session, captureBeyondViewport=True, format="png", clip=clip)
            (out / f"{name}-{number + 1:02}.png").write_bytes(base64.b64decode(shot["data"]))
    found["focusable"] = evaluate(browser, session, VISIBLE)
    found["headings"] = evaluate(browser, session, HEADINGS)
    found["tabbed"] = tabbed(browser, session, found["focusable"] + 5)
    found["evil"] = evaluate(browser, session, "window.evil ?? null")
    pdf = browser.ask("Page.printToPDF", session, printBackground=True, preferCSSPageSize=True)
    (out / "printed.pdf").write_bytes(base64.b64decode(pdf["data"]))
    return found


def main():
    chromium, axe, page, out = sys.argv[1:]
    axe, page, out = pathlib.Path(axe).read_text(), pathlib.Path(page).resolve(), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    # Chromium's helpers outlive it by a moment, and write on.
    with tempfile.TemporaryDirectory(prefix="dlrun-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        try:
            target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
            session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.ask(f"{domain}.enable", session)
            found = look(browser, session, page, axe, out)
        finally:
            browser.close()
    json.dump(found, sys.stdout, indent=1)
    print()


main()
