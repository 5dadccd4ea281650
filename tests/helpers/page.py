"""A strict reader of the report page, a report of nothing, and a hostile name."""

from __future__ import annotations

from html.parser import HTMLParser

from helpers.report_data import built

EMPTY = built()
EVIL = "<script>alert(1)</script>\"'><img src=//x onerror=alert(2)>{{7*7}}</style></svg>"
VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """A strict reader: balanced tags, every attribute, the text of every element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"unclosed {self.open}"

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        assert len(at) == len(attrs), f"an attribute twice in {tag}"
        self.elements.append((tag, at, []))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without its beginning"
        top, _ = self.open.pop()
        assert top == tag, f"</{tag}> closes <{top}>"

    def handle_data(self, data):
        for _, i in self.open:
            self.elements[i][2].append(data)
        if not any(t in ("style", "script") for t, _ in self.open):
            self.texts.append(data)

    def all(self, *tags):
        return [
            (at, " ".join("".join(text).split())) for tag, at, text in self.elements if tag in tags
        ]

    @property
    def text(self):
        """All text, a space between the texts of neighbouring elements."""
        return " ".join(" ".join(self.texts).split())
