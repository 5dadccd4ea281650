// Lines that open, a search, two filters. Without script every line stands open.
{
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const form = document.querySelector(".filter"), count = document.querySelector("#count");
  const find = document.querySelector("#find"), task = document.querySelector("#task"), standing = document.querySelector("#standing");

  const lines = all("section").flatMap((section) => all("tbody", section).map((body) => ({ body, section, task: section.dataset.task,
    standing: body.dataset.standing, text: `${section.dataset.task} ${body.textContent}`.toLowerCase() })));

  const show = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const line of lines) {
      const fits = (!task.value || line.task === task.value) && (!standing.value || line.standing === standing.value);
      line.body.hidden = !(fits && words.every((word) => line.text.includes(word)));
      left += !line.body.hidden;
    }
    for (const sheet of all(".sheet")) sheet.hidden = !all("tbody", sheet).some((body) => !body.hidden);
    for (const section of all("section")) section.hidden = !all(".sheet", section).some((sheet) => !sheet.hidden);
    count.textContent = `${left} of ${lines.length}`;
  };

  // An address that a filter hides is shown all the same.
  const arrive = () => {
    const body = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!body || body.tagName !== "TBODY") return;
    if (body.hidden) { form.reset(); show(); }
    body.classList.add("open");
    body.querySelector("button.opens").setAttribute("aria-expanded", "true");
    body.scrollIntoView({ block: "center" });
  };

  for (const { body } of lines) {
    const head = body.querySelector("th"), button = document.createElement("button");
    button.type = "button";
    button.className = "opens";
    button.setAttribute("aria-label", `All about ${head.textContent.trim()}`);
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      body.classList.toggle("open", open);
      button.setAttribute("aria-expanded", String(open));
    });
    head.prepend(button);
  }
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const field of [find, task, standing]) field.addEventListener("input", show);
  addEventListener("hashchange", arrive);
  arrive();
}
