// The list follows the switch of attackers: numbers, dots and order are Python's own for each of them.
page.list = (() => {
  const { one, all, data } = page;

  const line = (root, key, [words, dots, faint]) => {
    const found = one(`[data-line="${key}"]`, root), row = found.matches("details") ? one("summary", found) : found;
    const number = one(".v", row);
    if (!number) return;
    number.textContent = words;
    row.classList.toggle("unread", Boolean(faint));
    all(".d:not(.paper)", row).forEach((dot, i) => dot.setAttribute("cx", dots[i]));
    const way = one(".lk", row);
    if (way && dots.length === 1) way.setAttribute("x2", dots[0]);
  };

  const order = (root, keys) => {
    for (const key of keys) {
      const found = one(`[data-line="${key}"]`, root), note = one(`.also[data-of="${key}"]`, root);
      found.parentElement.append(found, ...(note ? [note] : []));
    }
  };

  const show = (ident) => {
    const question = data.charts[ident], of = data.lists[ident][page.attackerOf(question)];
    const root = one(`#${ident} .list`);
    one(".by", root).textContent = of.head;
    for (const [key, row] of Object.entries(of.rows)) line(root, key, row);
    for (const keys of of.orders) order(root, keys);
  };
  return { all: () => Object.keys(data.lists).forEach(show) };
})();
page.list.all();
