// Tables are sorted by a click on a column's head. Without script they stand in the order of the page, with plain heads.
{
  // What is moved: a row, or of a table of several bodies a body, by its first row.
  const cell = (moved, i) => (moved.rows ? moved.rows[0] : moved).cells[i];
  const number = (row, i) => {
    const v = cell(row, i).dataset.v;
    return v === undefined ? null : Number(v);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));

  // Cells without a number stay at the end, whichever way: words are neither small nor large.
  const sorted = (rows, i, down) => {
    const numeric = rows.some((r) => number(r, i) !== null);
    const keyed = rows.map((r, at) => ({ r, at, key: numeric ? number(r, i) : cell(r, i).textContent.trim() }));
    const have = keyed.filter((k) => k.key !== null);
    have.sort((a, b) => (down ? -1 : 1) * compare(a.key, b.key) || a.at - b.at);
    return [...have, ...keyed.filter((k) => k.key === null)].map((k) => k.r);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const several = table.tBodies.length > 1, body = several ? table : table.tBodies[0];
    const first = [...(several ? table.tBodies : body.rows)]; // ties keep the page's order
    if (first.length < 2) continue;
    heads.forEach((th, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = th.textContent;
      const plain = document.createElement("span"); // on paper a head is no button
      plain.className = "inprint";
      plain.textContent = th.textContent;
      th.replaceChildren(button, plain);
      th.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const down = th.getAttribute("aria-sort") === "ascending";
        heads.forEach((h) => h.setAttribute("aria-sort", "none"));
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...sorted(first, i, down));
      });
    });
  }
}
