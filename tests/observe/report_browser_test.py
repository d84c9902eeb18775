"""Opens reports in a headless browser: report_browser_test.py TITAN WRITE_RUN

Fails when a curve is not drawn, a script complains, or the page asks for anything from outside. Exit code 77 (skipped)
where no browser can be had; on Debian, where tools/setup.sh --tests installs one, that is a failure.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CURVES = ["loss", "bits_per_byte", "grad_norm", "lr", "tokens_per_second", "mfu", "memory_gib", "data_wait_ms", "step_ms"]

# Goes before the page's own scripts.
LISTENER = """<script>
window.complaints = [];
window.addEventListener('error', (e) => window.complaints.push('error: ' + e.message));
document.addEventListener('securitypolicyviolation', (e) => window.complaints.push('blocked: ' + e.blockedURI));
for (const kind of ['error', 'warn']) {
  console[kind] = (...words) => window.complaints.push(kind + ': ' + words.join(' '));
}
</script>"""

# Goes behind them: looks at the pixels of every canvas, then uses every button and looks again.
PROBE = """<pre id="probe"></pre><script>
function rgb(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
function look() {
  const curveColors = [rgb('--train'), rgb('--validation')];
  return Object.fromEntries([...document.querySelectorAll('canvas')].map((canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let drawn = 0, curve = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3] === 0) continue;
      ++drawn;
      if (pixels[i + 3] > 60 && curveColors.some((c) => c.every((v, k) => Math.abs(v - pixels[i + k]) < 4))) ++curve;
    }
    return [canvas.id, {drawn: drawn, curve: curve, points: Number(canvas.dataset.points)}];
  }));
}
const result = {before: look(), presses: {}};
for (const button of document.querySelectorAll('button')) {
  button.click();
  result.presses[button.textContent] = {pressed: button.getAttribute('aria-pressed'), look: look()};
}
result.complaints = window.complaints;
result.resources = performance.getEntriesByType('resource').map((entry) => entry.name);
result.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
result.dark = getComputedStyle(document.body).backgroundColor;
document.getElementById('probe').textContent = JSON.stringify(result);
</script></body>"""


def find_browser():
    """Path of a browser that starts, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        # Ubuntu's package is a stub that asks for a snap and exits with an error.
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


def skip_or_fail():
    release = pathlib.Path("/etc/os-release")
    is_debian = release.exists() and re.search(r"^ID=debian$", release.read_text(), re.M)
    print("no headless browser here (chromium): tools/setup.sh --tests installs it on Debian; Ubuntu has it as a snap only")
    sys.exit(1 if is_debian else 77)


def look_at(browser, page, width, dark):
    """Opens the page with the probe and returns what it saw."""
    text = page.read_text(encoding="utf-8")
    probed = page.with_suffix(".probed.html")
    probed.write_text(text.replace("<style>", LISTENER + "<style>", 1).replace("</body>", PROBE), encoding="utf-8")
    with tempfile.TemporaryDirectory() as home:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},1600",
                   f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=5000",
                   f"--user-data-dir={home}/profile", "--dump-dom", probed.as_uri()]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env={"HOME": home, "PATH": "/usr/bin:/bin"})
    found = re.search(r'<pre id="probe">(.*?)</pre>', ran.stdout, re.S)
    assert found and found[1], f"the probe did not run: {ran.stderr[-2000:]}\n{ran.stdout[-2000:]}"
    return json.loads(html.unescape(found[1]))


def check_drawn(look, curves, where):
    assert sorted(look) == sorted("chart-" + c for c in curves), (where, sorted(look))
    for name, canvas in look.items():
        # Grid and labels are pixels too; those in a curve's colour are the curve.
        assert canvas["drawn"] > 1000 and canvas["curve"] > 100 and canvas["points"] > 0, (where, name, canvas)


def check_page(browser, page, curves, width, dark):
    seen = look_at(browser, page, width, dark)
    assert seen["complaints"] == [], seen["complaints"]
    assert seen["resources"] == [], seen["resources"]
    assert seen["overflow"] <= 0, f"wider than the screen by {seen['overflow']}"
    check_drawn(seen["before"], curves, page.name)
    assert len(seen["presses"]) == 5, list(seen["presses"])
    for button, after in seen["presses"].items():
        check_drawn(after["look"], curves, f"{page.name} after {button}")
    brightness = sum(int(v) for v in re.findall(r"\d+", seen["dark"])[:3])
    assert (brightness < 150) == dark, (dark, seen["dark"])
    return seen


def check_text(page):
    text = page.read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"\b(src|href)\s*=(?!\s*[\"']?data:)", own), "the page refers to something outside"
    assert not re.search(r"@import|url\(", own), "the style sheet refers to something outside"
    assert "<b>not markup</b>" not in text and "<dictionary>" not in text, "text of the run is not escaped"
    assert text.count("</script>") == 4


def main(titan, write_run):
    browser = find_browser()
    if not browser:
        skip_or_fail()
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run([write_run, run, "800"], check=True, stdout=subprocess.DEVNULL)
        english, chinese = run / "report.html", run / "zh.html"
        subprocess.run([titan, "report", run], check=True)
        subprocess.run([titan, "report", run, "--output", chinese, "--language", "zh"], check=True)
        for page in (english, chinese):
            check_text(page)
        assert "训练报告" in chinese.read_text(encoding="utf-8") and "Training report" in english.read_text(encoding="utf-8")
        check_page(browser, english, CURVES, 1280, dark=False)
        check_page(browser, chinese, CURVES, 500, dark=True)

        # A run that was killed in its first steps: no record, few rows, a line cut short, no validation, no mfu.
        (run / "run.json").unlink()
        (run / "metrics.jsonl").write_text('{"step":1,"loss":7.5,"grad_norm":1.0,"lr":0.001,"time_s":1,"tokens_seen":64}\n'
                                           '{"step":2,"loss":7.25,"grad_norm":2.0,"lr":0.002,"time_s":2,"tokens_seen":128}\n'
                                           '{"step":3,"lo')
        subprocess.run([titan, "report", run], check=True)
        seen = look_at(browser, english, 1280, dark=False)
        assert seen["complaints"] == [], seen["complaints"]
        check_drawn(seen["before"], ["loss", "grad_norm", "lr"], "a run without most values")
    print(f"{browser}: 3 reports, {len(CURVES)} curves, every button: drawn, no complaint, nothing fetched")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
