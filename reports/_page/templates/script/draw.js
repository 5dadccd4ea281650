// Moves what Python drew: points, bars, arrows, steps, hatching, labels. It computes no number and places no label.
page.draw = (() => {
  const { state, text, svg } = page;
  const MANY = 24;
  const path = (corners) => corners.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const put = (element, attributes) => { for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value); };
  const fixed = (value) => value.toFixed(1);

  const lines = (chart, { x, y, zoomed }, by) => {
    const { element } = chart, { pixel: px } = x, { pixel: py } = y;
    const stairs = (corners) => path(corners.map(([a, b]) => [px(a), py(b)]));
    page.one(".front.now", element).setAttribute("d", stairs(by.front));
    page.one(".front.claimed", element).setAttribute("d", stairs(by.claimed));
    page.one(".lost", element).setAttribute("d", by.lost.map(([a, b, c, d]) =>
      `M${fixed(px(a))} ${fixed(py(c))}H${fixed(px(b))}V${fixed(py(d))}H${fixed(px(a))}Z`).join(""));
    const words = page.one(".lostword", element), place = zoomed ? null : by.words[chart.size];
    if (place) { put(words, { transform: `translate(${place[0]} ${place[1]})` }); words.removeAttribute("display"); } else words.setAttribute("display", "none");
    for (const line of page.all("[data-at]", chart.lines)) put(line, { d: `M${fixed(px(+line.dataset.at))} ${y.stop}V${y.start}` });
    for (const band of page.all("[data-from]", chart.lines)) {
      const [a, b] = [px(+band.dataset.from), px(+band.dataset.to)].sort((p, q) => p - q);
      put(band, { x: fixed(a), width: fixed(b - a) });
    }
    page.one(".refnames", element).classList.toggle("off", zoomed);
  };

  // Ticks of a zoomed chart; the others are Python's own, put back.
  const ticks = (chart, { x, y, zoomed }) => {
    chart.zoomedTicks?.remove();
    chart.zoomedTicks = null;
    chart.ticks.classList.toggle("off", zoomed);
    const strip = page.one("rect.strip", chart.element);
    chart.stripAt ??= [+strip.getAttribute("y"), +strip.getAttribute("height")];
    if (!zoomed) { put(strip, { y: chart.stripAt[0], height: chart.stripAt[1] }); return; }
    const [low, high, start, stop] = chart.frame.y;
    const chance = low + ((chart.stripAt[0] - start) / (stop - start)) * (high - low);
    const top = Math.min(Math.max(y.pixel(chance), y.stop), y.start);
    put(strip, { y: fixed(top), height: fixed(y.start - top) });
    const group = svg("g", { class: "ticks" });
    for (const [value, name] of page.scale.ticks(x, chart.size === "wide" ? 5 : 4)) {
      svg("path", { class: "grid", d: `M${fixed(x.pixel(value))} ${y.stop}V${y.start}` }, group);
      svg("text", { x: fixed(x.pixel(value)), y: y.start + 17, "text-anchor": "middle" }, group).textContent = name;
    }
    for (const [value, name] of page.scale.ticks(y, 5)) {
      svg("path", { class: "grid", d: `M${Math.min(x.start, x.stop)} ${fixed(y.pixel(value))}H${Math.max(x.start, x.stop)}` }, group);
      svg("text", { x: Math.min(x.start, x.stop) - 7, y: fixed(y.pixel(value) + 4), "text-anchor": "end" }, group).textContent = name;
    }
    chart.ticks.after(group);
    chart.zoomedTicks = group;
  };

  const setting = (chart, part, { x, y, zoomed }, attacker, on) => {
    const given = chart.question.settings[part.id], row = page.row(chart.question, part.id, attacker);
    const faint = !given.at[attacker], left = x.pixel(row[0]), top = y.pixel(given.dead ? given.dead[chart.size] : given.y[0]);
    const inside = left > Math.min(x.start, x.stop) - 1 && left < Math.max(x.start, x.stop) + 1 && top > y.stop - 1 && top < y.start + 1;
    const gone = !page.shown(given.family, given.name), level = top > y.stop - 9 && top < y.start + 1;
    chart.at.set(part.id, { x: left, y: top, seen: inside && !gone });
    part.point.removeAttribute("transform");
    part.point.style.transform = `translate(${fixed(left)}px,${fixed(top)}px)`;
    part.point.classList.toggle("off", gone || !inside);
    part.point.classList.toggle("faint", faint);
    part.go.classList.toggle("off", gone || !level);
    part.go.classList.toggle("faint", faint);
    part.go.classList.toggle("front-one", on);
    part.across.setAttribute("d", `M${fixed(x.pixel(row[1]))} ${fixed(top)}H${fixed(x.pixel(row[2]))}`);
    part.up?.setAttribute("d", `M${fixed(left)} ${fixed(y.pixel(given.y[1]))}V${fixed(y.pixel(given.y[2]))}`);
    const name = page.data.attackers[attacker][0];
    part.point.setAttribute("aria-label", `${part.told} ${faint ? `Not attacked like this (${name}); at worst` : `${name[0].toUpperCase()}${name.slice(1)}`}: ${text(row[3])}.`);
    if (part.arrow) arrow(part, x.pixel(given.paper), left, top, faint);
    return { left, top, shown: inside && !gone, zoomed };
  };

  const arrow = (part, from, to, top, faint) => {
    const way = to > from ? 1 : -1, tip = to - way * 9;
    const drawn = !faint && Math.abs(to - from) >= 14;
    part.arrow.setAttribute("d", drawn ? path([[from, top], [tip, top], [tip - way * 4, top - 3], [tip, top], [tip - way * 4, top + 3]]) : "");
    part.ghost.setAttribute("d", `M${fixed(from)} ${fixed(top - 5)}v10`);
  };

  // Labels stand where Python put them; in a zoomed chart simply beside their points, if these are few.
  const label = (chart, part, place, spot) => {
    if (!place && !part.label) return;
    if (!part.label) {
      part.label = svg("g", { class: "lb", "data-id": part.id }, page.one(".lbs", chart.element));
      svg("path", { class: "hair" }, part.label);
      svg("text", { class: "lab" }, part.label);
    }
    part.label.classList.toggle("off", !place || !spot.shown);
    if (!place) return;
    const [right, down, ends, words, hair] = place, written = page.one(".lab", part.label);
    put(written, { x: fixed(spot.left + right), y: fixed(spot.top + down), "text-anchor": ends ? "end" : "start" });
    written.textContent = words;
    page.one(".hair", part.label).setAttribute("d", path(hair.map(([a, b]) => [spot.left + a, spot.top + b])));
  };

  // A zoomed chart's labels, about 6 px a letter: one that would cover another is left out, and counted where both points are one.
  const free = (written, part, { left, top, shown }, words) => {
    const wide = 6 * words.length;
    const clash = shown && written.find((w) => Math.abs(w.top - top) < 12 && left < w.left + w.wide && w.left < left + wide);
    if (clash && Math.abs(clash.left - left) < 6 && Math.abs(clash.top - top) < 6) clash.more += 1;
    if (shown && !clash) written.push({ part, left, top, wide, words, more: 0 });
    return shown && !clash;
  };

  const draw = (chart) => {
    const scale = page.scale.of(chart), attacker = page.attackerOf(chart.question), by = chart.question.by[attacker];
    const front = new Set(by.on.length <= MANY ? by.on.map(String) : []), labels = by.labels[chart.size];
    lines(chart, scale, by);
    ticks(chart, scale);
    const spots = new Map();
    for (const part of chart.parts.values()) spots.set(part, setting(chart, part, scale, attacker, front.has(part.id)));
    const few = [...spots.values()].filter((s) => s.shown).length <= MANY, written = [];
    for (const [part, spot] of spots) {
      const given = chart.question.settings[part.id];
      label(chart, part, scale.zoomed ? (few && free(written, part, spot, given.short) ? [11, 4, 0, given.short, []] : null) : labels[part.id], spot);
    }
    for (const { part, words, more } of written) if (more) page.one(".lab", part.label).textContent = `${words} and ${more} more`;
    page.start?.(chart, String(by.start));
  };
  // Both sizes of the chosen question, and of those below it that are open.
  const seen = () => page.charts.filter((c) => c.ident === state.question || c.element.closest("details[open]:not([hidden])"));
  return { one: draw, all: () => seen().forEach(draw) };
})();
