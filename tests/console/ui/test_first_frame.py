"""The first frame: what it imports, and that it does not wait for the engine."""

import subprocess
import sys
import textwrap

HEAVY = {
    "polars", "numpy", "numba", "asyncssh", "httpx", "typer", "plotext", "cryptography", "click", "console.engine",
    "console.config", "console.service", "connectors.slurm", "connectors.model",
}  # fmt: skip
OWN_VIEWS = {"console.ui.screens.queue", "console.ui.screens.whatif", "console.ui.explain", "console.ui.outcome"}


def at_first_paint() -> set[str]:
    """Return the modules that are loaded when the first frame has been drawn, in a process of its own."""
    script = textwrap.dedent("""
        import sys
        from datetime import UTC, datetime
        from console.messages import ClusterStatus, Summary
        from console.ui.app import ConsoleApp
        class Silent:
            async def send(self, request): raise ConnectionError("not there")
            async def events(self):
                return
                yield
            async def close(self): pass
        class Probe(ConsoleApp):
            def _begin(self):
                print("\\n".join(sys.modules), file=sys.__stdout__)
                shown = [strip.text for strip in self.screen._compositor.render_strips()]
                assert any("lab48" in line for line in shown), shown
                self.exit(0)
        now = datetime(2026, 12, 1, tzinfo=UTC)
        last = ClusterStatus(cluster="lab48", system="slurm", state="ok", since=now, taken_at=now, summary=Summary(gpus=48))
        Probe(Silent, last=(last,), theme="gpudeck-dark").run(headless=True, mouse=False)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_only_light_modules_before_the_first_frame():
    loaded = at_first_paint()
    assert "textual.app" in loaded
    assert "console.ui.screens.fleet" in loaded
    strangers = loaded & (HEAVY | OWN_VIEWS)
    assert strangers == set()
