// The keyboard in a chart: one tab stop, arrows to the nearest point that way, + - 0 to zoom. Enter is the link's own click.
{
  const WAYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  // The stop is where the reader left it, or else the front's safest point.
  page.start = (chart, safest) => {
    const seen = (id) => chart.at.get(id)?.seen;
    const wanted = [chart.stop, safest, ...chart.parts.keys()].find((id) => id !== undefined && seen(id));
    for (const part of chart.parts.values()) part.point.tabIndex = part.id === wanted ? 0 : -1;
  };

  const nearest = (chart, from, [dx, dy]) => {
    const here = chart.at.get(from), ids = [...chart.parts.keys()], mine = ids.indexOf(from);
    let best = null, least = Infinity;
    ids.forEach((id, i) => {
      const there = chart.at.get(id);
      if (id === from || !there.seen) return;
      const along = (there.x - here.x) * dx + (there.y - here.y) * dy, aside = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
      // Points on one spot are walked through in their order: forwards to the right and down, backwards to the left and up.
      const same = along === 0 && aside === 0 && (dx + dy > 0 ? i > mine : i < mine);
      if (along <= 0 && !same) return;
      const cost = same ? 1e-6 * Math.abs(i - mine) : along + 2 * aside;
      if (cost < least) [best, least] = [id, cost];
    });
    return best;
  };

  for (const chart of page.charts) {
    chart.element.addEventListener("keydown", (event) => {
      const point = event.target.closest(".pt");
      if (!point || event.ctrlKey || event.metaKey || event.altKey) return;
      if (WAYS[event.key]) {
        event.preventDefault();
        const next = nearest(chart, point.dataset.id, WAYS[event.key]);
        if (next === null) return;
        chart.stop = next;
        page.start(chart, next);
        chart.parts.get(next).point.focus();
      } else if (["+", "-", "0"].includes(event.key)) {
        event.preventDefault();
        page.zoom.by(chart, event.key);
        // What was in focus may have left the chart.
        if (!chart.at.get(point.dataset.id).seen) page.one('.pt[tabindex="0"]', chart.element)?.focus();
      } else if (event.key === "Escape" && !page.one("#drawer").open) page.hide();
    });
    // On the points, not on the drawing: one that listens for focus becomes a stop itself.
    for (const part of chart.parts.values()) part.point.addEventListener("focus", () => { chart.stop = part.id; });
  }
}
page.draw.all();
