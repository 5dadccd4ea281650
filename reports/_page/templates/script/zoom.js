// Zoom: a box drawn with the mouse, a double click for all, the buttons. Wheel and pinch stay the page's.
page.zoom = (() => {
  const { state, svg } = page;
  const LEAST = 12, IN = 0.5;
  const whole = ({ question }) => {
    const [x, y] = [question.wide.x, question.wide.y];
    return [Math.min(x[0], x[1]), Math.max(x[0], x[1]), Math.min(y[0], y[1]), Math.max(y[0], y[1])];
  };
  const to = (ident, box) => {
    if (box) state.zoom.set(ident, box); else state.zoom.delete(ident);
    page.hide?.();
    for (const chart of page.charts) {
      if (chart.ident === ident) { chart.element.classList.remove("moving"); page.draw.one(chart); }
    }
  };
  // Half or twice of one axis about its middle, in pixels' proportion where it is logarithmic, and never beyond the whole.
  const stretch = (low, high, ends, factor, log) => {
    const map = log ? Math.log10 : (v) => v, back = log ? (v) => 10 ** v : (v) => v;
    const [a, b, least, most] = [low, high, ends[0], ends[1]].map(map), half = ((b - a) * factor) / 2;
    if (half * 2 >= most - least) return ends;
    const middle = Math.min(Math.max((a + b) / 2, least + half), most - half);
    return [back(middle - half), back(middle + half)];
  };
  const by = (chart, key) => {
    const all = whole(chart), now = state.zoom.get(chart.ident) || all, { question } = chart;
    const crowd = question.by[page.attackerOf(question)].crowd;
    if (key === "0") return to(chart.ident, null);
    if (key === "crowd") return to(chart.ident, crowd && [Math.max(crowd[0], all[0]), Math.min(crowd[1], all[1]), Math.max(crowd[2], all[2]), Math.min(crowd[3], all[3])]);
    // The first step in goes to where most points are.
    const about = key === "+" && !state.zoom.has(chart.ident) && crowd ? middleOf(crowd, all) : now;
    const factor = key === "+" ? IN : 1 / IN;
    const box = [...stretch(about[0], about[1], all.slice(0, 2), factor, question.wide.x[4]), ...stretch(about[2], about[3], all.slice(2), factor, question.wide.y[4])];
    return to(chart.ident, box.every((v, i) => v === all[i]) ? null : box);
  };
  const middleOf = (crowd, all) => {
    const wide = (i) => { const half = (all[i + 1] - all[i]) / 2, middle = (crowd[i] + crowd[i + 1]) / 2; return [middle - half, middle + half]; };
    return [...wide(0), ...wide(2)];
  };

  for (const chart of page.charts) {
    const { element } = chart;
    let from = null, brush = null;
    const place = (event) => { const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(element.getScreenCTM().inverse()); return [p.x, p.y]; };
    element.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.button !== 0 || event.target.closest(".pt")) return;
      from = place(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (!from) return;
      const now = place(event);
      brush ??= svg("rect", { class: "brush" }, element);
      const [x, y] = [0, 1].map((i) => [Math.min(from[i], now[i]), Math.abs(from[i] - now[i])]);
      for (const [key, value] of [["x", x[0]], ["width", x[1]], ["y", y[0]], ["height", y[1]]]) brush.setAttribute(key, value);
    });
    const end = (event) => {
      if (!from) return;
      const now = place(event), { x, y } = page.scale.of(chart), [a, b] = [from, now];
      brush?.remove();
      from = null;
      brush = null;
      if (event.type !== "pointerup" || Math.abs(a[0] - b[0]) < LEAST || Math.abs(a[1] - b[1]) < LEAST) return;
      const all = whole(chart), held = (v, i) => Math.min(Math.max(v, all[i]), all[i + 1]);
      const xs = [x.value(a[0]), x.value(b[0])].sort((p, q) => p - q).map((v) => held(v, 0));
      const ys = [y.value(a[1]), y.value(b[1])].sort((p, q) => p - q).map((v) => held(v, 2));
      if (xs[0] < xs[1] && ys[0] < ys[1]) to(chart.ident, [...xs, ...ys]);
    };
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    element.addEventListener("dblclick", () => to(chart.ident, null));
  }
  for (const button of page.all("[data-zoom]")) {
    button.addEventListener("click", () => by(page.charts.find((c) => c.element.parentElement === button.closest("figure")), button.dataset.zoom));
  }
  addEventListener("beforeprint", () => { for (const ident of [...state.zoom.keys()]) to(ident, null); });
  return { by };
})();
