// The switches: attacker, task, question; and the families and names that are shown.
{
  const { one, all, state, data, text } = page;
  const form = one("#controls");
  const question = () => data.charts[state.question];

  const say = () => {
    if (!one("#knows") || !question()) return;
    const attacker = page.attackerOf(question()), [name, knows] = data.attackers[attacker];
    one("#who").textContent = `${name.replace(/^\+ /, "").replace(/^./, (c) => c.toUpperCase())}.`;
    one("#knows").textContent = knows;
    one("#absent").textContent = text(question().by[attacker].absent);
  };

  const choose = (attacker) => {
    state.attacker = attacker;
    for (const chart of page.charts) chart.element.classList.add("moving");
    page.draw.all();
    page.list?.all();
    say();
  };

  // A question to anyone and the same by who listens: of these one is on the screen, and all are on paper.
  const askedOf = (ident) => ident.split("-")[0];
  const heard = (ident) => state.heard.get(ident) ?? ident;

  const ask = (ident) => {
    const asked = askedOf(ident);
    state.question = ident;
    state.heard.set(asked, ident);
    page.hide?.();
    for (const section of all(".question")) {
      if (section.closest(".early")) continue;
      const words = one(`.intro[data-of="${section.id}"]`);
      if (section.id === ident) overSwitches.before(words);
      else section.prepend(words);
      for (const part of [words, one(".view", section)]) {
        part.hidden = askedOf(section.id) !== asked;
        part.classList.toggle("unheard", section.id !== heard(askedOf(section.id)));
      }
    }
    for (const part of all("[data-heard]")) part.classList.toggle("unheard", part.dataset.heard !== heard(askedOf(part.dataset.heard)));
    for (const field of all("fieldset.heard")) field.hidden = field.dataset.of !== asked;
    for (const other of all(".others li")) other.hidden = other.dataset.of === ident;
    for (const input of all("input[name=attacker]")) {
      input.disabled = Boolean(question()) && !question().by[input.value];
      input.checked = question() ? input.value === page.attackerOf(question()) : input.value === state.attacker;
    }
    for (const chart of page.charts) chart.element.classList.remove("moving");
    page.draw.all();
    say();
  };

  // Of what stands for one setting; "" of what stands for a family.
  const nameOf = (element) => {
    const named = element.matches("a.row, .step, tr, details.rec") && one(".nm, .name, th, summary", element);
    return named ? named.textContent : "";
  };

  const filter = () => {
    for (const button of all(".chips button")) button.setAttribute("aria-pressed", String(!state.hidden.has(button.dataset.family)));
    for (const element of all("[data-family]:not(button)")) {
      if (!element.closest("svg.chart")) element.classList.toggle("off", !page.shown(element.dataset.family, nameOf(element)));
    }
    // A family opens for what is sought in it, and goes where nothing is.
    for (const family of all("details.fam")) {
      const left = all("a.row:not(.off)", family).length;
      family.classList.toggle("off", !left);
      if (state.sought.length) family.open = left > 0;
    }
    // What has lost all its lines goes with them: a verdict's head, a ladder's.
    for (const part of all(".list > section, .ladder")) part.classList.toggle("off", !one(":is(a.row, .step):not(.off)", part));
    for (const box of all(".seek")) {
      const rows = all("a.row", box.closest(".list")), left = rows.filter((row) => !row.classList.contains("off")).length;
      one("output", box.parentElement).textContent = state.sought.length ? `${left} of ${rows.length} shown; the verdicts above count all` : "";
    }
    for (const note of all(".gone")) {
      const names = all(".chips button[aria-pressed=false]", note.parentElement).map((b) => b.textContent.trim());
      note.hidden = !names.length;
      note.textContent = names.length ? `Not shown: ${names.join(", ")}. The sentences above and the steps still count them.` : "";
    }
    page.draw.all();
  };

  // Without script each question's words stand over its own chart; with it the chosen one's stand over the switches.
  const overSwitches = document.createComment("the chosen question's words stand here");
  for (const section of all(".question")) {
    if (section.closest(".early")) continue;
    const words = one(".intro", section);
    words.dataset.of = section.id;
    if (!overSwitches.isConnected) words.after(overSwitches);
  }
  form?.addEventListener("submit", (event) => event.preventDefault());
  form?.addEventListener("change", ({ target }) => {
    if (target.name === "attacker") choose(target.value);
    else if (target.name === "task") {
      for (const field of all(".asked")) field.hidden = field.dataset.task !== target.value || all("input", field).length < 2;
      ask(heard(one(`.asked[data-task="${target.value}"] input:checked`).value));
    } else ask(target.name.startsWith("heard-") ? target.value : heard(target.value));
  });
  for (const button of all(".chips button")) {
    button.addEventListener("click", () => {
      const { family } = button.dataset;
      if (!state.hidden.delete(family)) state.hidden.add(family);
      filter();
    });
  }
  for (const box of all(".seek")) {
    box.addEventListener("input", () => {
      state.sought = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const other of all(".seek")) if (other !== box) other.value = box.value;
      filter();
    });
    box.parentElement.hidden = false;
  }
  for (const fold of all("details.early, #rounds > details")) fold.addEventListener("toggle", () => page.draw.all());
  if (form) form.hidden = false;
  // What the other questions found: without script each of them stands there in full.
  for (const others of all(".others")) others.hidden = false;
  for (const tools of all(".tools")) tools.hidden = false;
  // Paper begins with anyone, whoever is chosen; the others follow, each under its own words.
  let chosen = null;
  addEventListener("beforeprint", () => {
    chosen = state.question;
    if (chosen) ask(askedOf(chosen));
  });
  addEventListener("afterprint", () => { if (chosen) ask(chosen); });
  page.choose = choose;
  // An address of a question sets the switches that lead to it.
  page.asked = (ident) => {
    const chosen = one(`.asked input[value="${askedOf(ident)}"]`), who = one(`.heard input[value="${ident}"]`);
    if (chosen) {
      chosen.checked = true;
      const { task } = chosen.closest(".asked").dataset, switched = one(`input[name=task][value="${task}"]`);
      if (switched) switched.checked = true;
      for (const field of all(".asked")) field.hidden = field.dataset.task !== task || all("input", field).length < 2;
    }
    if (who) who.checked = true;
    ask(ident);
  };
  const first = all(".question").find((s) => !s.closest(".early"));
  if (first) ask(first.id);
}
