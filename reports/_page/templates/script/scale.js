// From data units to pixels: the domain that Python chose, or the zoomed one.
page.scale = (() => {
  const axis = ([low, high, start, stop, log], zoomed) => {
    const map = log ? (v) => Math.log10(Math.max(v, 1e-12)) : (v) => v;
    // A zoomed domain keeps the axis's own direction.
    const [from, to] = zoomed ? (low <= high ? zoomed : [zoomed[1], zoomed[0]]) : [low, high];
    const a = map(from), b = map(to);
    return {
      log: Boolean(log), from, to, start, stop,
      pixel: (value) => start + ((map(value) - a) / (b - a)) * (stop - start),
      value: (pixel) => { const v = a + ((pixel - start) / (stop - start)) * (b - a); return log ? 10 ** v : v; },
    };
  };
  const nice = (step) => {
    const power = 10 ** Math.floor(Math.log10(step));
    return [1, 2, 5, 10].find((m) => m * power >= step * 0.999) * power;
  };
  const ticks = ({ from, to, log }, count) => {
    const [low, high] = from < to ? [from, to] : [to, from];
    if (log) {
      const powers = [];
      for (let p = Math.ceil(Math.log10(low) - 1e-9); p <= Math.floor(Math.log10(high) + 1e-9); p += 1) powers.push(p);
      if (powers.length > 1) return powers.map((p) => [10 ** p, String(10 ** p)]);
    }
    const step = nice((high - low) / count), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) out.push([i * step, Math.abs(i) < 1e-9 ? (0).toFixed(digits) : (i * step).toFixed(digits)]);
    return out;
  };
  const of = (chart) => {
    const zoom = page.state.zoom.get(chart.ident);
    return { zoomed: Boolean(zoom), x: axis(chart.frame.x, zoom && zoom.slice(0, 2)), y: axis(chart.frame.y, zoom && zoom.slice(2)) };
  };
  return { of, ticks };
})();
