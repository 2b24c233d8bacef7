"""The little SVG that our pictures need: boxes, lines, text; readable on light and dark pages.

Every picture brings its own background, so it does not depend on the page around it.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

STYLE = """\
.paper{fill:#fff}.edge{stroke:#d0d7de}.ink{fill:#1f2328}.soft{fill:#59636e}
.box{fill:#f6f8fa;stroke:#59636e}.hostile{fill:#fff1e5;stroke:#bc4c00}
.trusted{fill:#ddf4ff;stroke:#0969da}.line{stroke:#59636e;fill:none}.head{fill:#59636e}
.good{fill:#1a7f37}.bad{fill:#d1242f}.bold{font-weight:600}
text{font-family:sans-serif;font-size:13px}.small{font-size:12px}
.mono{font-family:monospace;font-size:12px}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.edge{stroke:#3d444d}.ink{fill:#f0f6fc}.soft{fill:#9198a1}
.box{fill:#151b23;stroke:#9198a1}.hostile{fill:#2d1a0c;stroke:#db6d28}
.trusted{fill:#0c2238;stroke:#4493f8}.line{stroke:#9198a1}.head{fill:#9198a1}
.good{fill:#3fb950}.bad{fill:#f85149}}"""


class Picture:
    """Shapes in the order they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._shapes = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/>'
            "</marker></defs>",
            f'<rect class="paper edge" x=".5" y=".5" width="{width - 1}" height="{height - 1}" '
            'rx="8"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, look: str = "box") -> None:
        self._shapes.append(
            f'<rect class="{look}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
        )

    def text(self, x: float, y: float, text: str, look: str = "ink", anchor: str = "start") -> None:
        self._shapes.append(
            f'<text class="{look}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def label(self, x: int, y: int, text: str, anchor: str = "start") -> None:
        """Text on its own patch of paper, over lines."""
        width = len(text) * 6.4
        left = x if anchor == "start" else x - width
        self._shapes.append(
            f'<rect class="paper" x="{left:g}" y="{y - 12}" width="{width:g}" height="16"/>'
        )
        self.text(x, y, text, "ink small", anchor)

    def cells(self, x: float, y: float, text: str, look: str, advance: float) -> None:
        """Text in columns, whatever the width of the font that the reader has."""
        self._shapes.append(
            f'<text class="mono {look}" x="{x:g}" y="{y:g}" xml:space="preserve" '
            f'textLength="{len(text) * advance:g}">{escape(text)}</text>'
        )

    def lines(self, x: int, y: int, lines: list[str], look: str = "soft small") -> None:
        for number, line in enumerate(lines):
            self.text(x, y + 17 * number, line, look)

    def card(
        self, place: tuple[int, int, int, int], title: str, lines: list[str], look: str
    ) -> None:
        """A box with a title and what is said about it."""
        x, y, width, height = place
        self.box(x, y, width, height, look)
        self.text(x + 12, y + 22, title, "ink bold")
        self.lines(x + 12, y + 42, lines)

    def arrow(self, points: list[tuple[int, int]], both: bool = False) -> None:
        path = " ".join(f"{x},{y}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        self._shapes.append(
            f'<polyline class="line" points="{path}" marker-end="url(#tip)"{start}/>'
        )

    def curve(self, points: list[tuple[float, float]]) -> None:
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
        self._shapes.append(f'<polyline class="line" points="{path}"/>')

    def dot(self, x: float, y: float) -> None:
        self._shapes.append(f'<circle class="head" cx="{x:.4g}" cy="{y:.4g}" r="3"/>')

    def rule(self, x: int, top: int, bottom: int) -> None:
        self._shapes.append(f'<path class="edge" d="M{x} {top}V{bottom}"/>')

    def __str__(self) -> str:
        return "\n".join([*self._shapes, "</svg>", ""])
