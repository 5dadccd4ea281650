// Hover or focus: the point's numbers below it, the rest dims, its row in the list lights up.
{
  const { one, all, state, text, data } = page;
  const tip = one("#tip"), BELOW = 8;

  const light = (id) => {
    for (const { element } of page.charts) element.classList.toggle("dim", id !== null);
    for (const hot of all(".hot")) hot.classList.remove("hot");
    if (id !== null) for (const of of all(`[data-id="${id}"]`)) of.classList.add("hot");
    // A setting in a folded family lights the family up.
    if (id !== null) for (const row of all(`details.fam:not([open]) .row[data-id="${id}"]`)) one("summary", row.closest("details")).classList.add("hot");
  };

  const fill = (chart, id) => {
    const { question } = chart, given = question.settings[id], attacker = page.attackerOf(question);
    const row = given.at[attacker], shown = page.row(question, id, attacker);
    const [, , , value, floor, control, count, attack, notes] = shown;
    const name = data.attackers[attacker][0];
    const lines = [["verdict", text(given.verdict)], [text(question.names[0]), text(given.utility)]];
    if (row) lines.push([name, text(value)]);
    else lines.push([name, "no such attack that counts"], [data.attackers.any_attack[0], text(value)]);
    if (attacker !== "paper" && given.at.paper) lines.push([data.attackers.paper[0], text(given.at.paper[3])]);
    if (shown !== given.at.any_attack) lines.push(["attack", text(attack)]);
    lines.push(["blind guess", text(floor)], ["nothing defended", text(control)], ["n", text(count)], ["notes", text(notes)]);
    const title = document.createElement("b"), list = document.createElement("dl");
    title.textContent = given.name;
    for (const [term, words] of lines) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = term;
      dd.textContent = words;
      list.append(dt, dd);
    }
    tip.replaceChildren(title, list);
  };

  const show = (chart, part) => {
    light(part.id);
    fill(chart, part.id);
    tip.hidden = false;
    const at = one(".hit", part.point).getBoundingClientRect(), wide = document.documentElement.clientWidth;
    const left = Math.max(8, Math.min(at.left + at.width / 2 + 12, wide - tip.offsetWidth - 8));
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${at.bottom + BELOW + scrollY}px`;
  };
  page.hide = () => { tip.hidden = true; light(page.opened ?? null); };
  page.light = light;

  for (const chart of page.charts) {
    for (const part of chart.parts.values()) {
      part.point.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") show(chart, part); });
      part.point.addEventListener("pointerleave", page.hide);
      part.point.addEventListener("focus", () => { if (part.point.matches(":focus-visible")) show(chart, part); });
      part.point.addEventListener("blur", page.hide);
    }
  }
  for (const row of all(".list a.row")) {
    row.addEventListener("pointerenter", () => light(row.dataset.id));
    row.addEventListener("pointerleave", page.hide);
    row.addEventListener("focus", () => light(row.dataset.id));
    row.addEventListener("blur", page.hide);
  }
}
