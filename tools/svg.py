"""The SVG of the pictures that change with what they show: the demo's and the benchmark's.

Every picture brings its own background and colours for light and dark pages.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

STYLE = """\
.paper{fill:#fff}.edge{stroke:#d0d7de}.ink{fill:#1f2328}.soft{fill:#59636e}
.box{fill:#f6f8fa;stroke:#59636e}
.trusted{fill:#ddf4ff;stroke:#0969da}.line{stroke:#59636e;fill:none}.head{fill:#59636e}
.good{fill:#1a7f37}.bad{fill:#d1242f}.bold{font-weight:600}
text{font-family:sans-serif;font-size:13px}.small{font-size:12px}
.mono{font-family:monospace;font-size:12px}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.edge{stroke:#3d444d}.ink{fill:#f0f6fc}.soft{fill:#9198a1}
.box{fill:#151b23;stroke:#9198a1}
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

    def cells(self, x: float, y: float, text: str, look: str, advance: float) -> None:
        """Text in columns, whatever the width of the font that the reader has."""
        self._shapes.append(
            f'<text class="mono {look}" x="{x:g}" y="{y:g}" xml:space="preserve" '
            f'textLength="{len(text) * advance:g}">{escape(text)}</text>'
        )

    def curve(self, points: list[tuple[float, float]]) -> None:
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
        self._shapes.append(f'<polyline class="line" points="{path}"/>')

    def dot(self, x: float, y: float) -> None:
        self._shapes.append(f'<circle class="head" cx="{x:.4g}" cy="{y:.4g}" r="3"/>')

    def __str__(self) -> str:
        return "\n".join([*self._shapes, "</svg>", ""])
