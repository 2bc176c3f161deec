"use strict";
// Buttons for the sentences of a summary. A pressed button shows where in the document its sentence was copied from.
const evidence = (() => {
  const maker = (create) => (tag, attributes = {}, ...children) => {
    const element = create(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const make = maker((tag) => document.createElement(tag));
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

  // the text of a sentence, in which new words are marked; positions count code points
  const mark = ({ sentence, new: words }) => {
    const text = Array.from(sentence), parts = [];
    let place = 0;
    for (const { start, end, kind } of words) {
      parts.push(text.slice(place, start).join(""));
      const title = `the document has no such ${kind}`;
      parts.push(make(kind === "word" ? "span" : "mark", { class: `new new-${kind}`, title }, text.slice(start, end).join("")));
      place = end;
    }
    return [...parts, text.slice(place).join("")];
  };
  const tell = ({ support, sources, new: words, joined }) => {
    const numbers = sources.map((source) => source.number + 1);
    const parts = numbers.length ? [`${joined ? "joined from sentences" : "from sentence"} ${numbers.join(" and ")}`] : ["no source"];
    for (const kind of ["number", "name", "word"]) {
      const found = words.filter((word) => word.kind === kind).length;
      if (found) parts.push(count(found, `new ${kind}`));
    }
    return `${parts.join(", ")}; support ${support.toFixed(2)}`;
  };

  // show(sources) is called with the sources of the pressed sentence, or with [] if none is pressed
  const list = (box, sentences, show) => {
    for (const one of sentences) {
      const button = make("button", { type: "button", class: "sentence", "aria-pressed": "false" }, make("bdi", {}, ...mark(one)), make("small", {}, tell(one)));
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") === "false";
        for (const other of box.closest("section").querySelectorAll(".sentence")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(on));
        show(on ? one.sources : []);
      });
      box.append(make("li", {}, button));
    }
  };

  // the text of a document, in which the sources are marked; scrolls to the first of them
  const paint = (box, text, sources, shown = String) => {
    const characters = Array.from(text), parts = [], part = (from, to) => shown(characters.slice(from, to).join(""));
    let place = 0;
    for (const { start, end } of [...sources].sort((a, b) => a.start - b.start)) {
      parts.push(part(place, start), make("mark", { class: "origin" }, part(start, end)));
      place = end;
    }
    box.replaceChildren(...parts, part(place));
    const first = box.querySelector(".origin");
    if (first) box.scrollTop += first.getBoundingClientRect().top - box.getBoundingClientRect().top - 20;
  };

  const page = document.getElementById("evidence-rows");
  if (page) {
    const { rows } = JSON.parse(document.getElementById("data").textContent);
    for (const { line, document: text, systems } of rows) {
      const area = make("div", { class: "text", dir: "auto", tabindex: 0 }), left = make("div");
      const section = make("section", { class: "card wide" }, make("h2", {}, `Line ${line}`), make("div", { class: "columns" }, left, area));
      for (const [name, sentences] of Object.entries(systems)) {
        const box = make("ol", { class: "sentences" });
        left.append(make("h3", {}, make("bdi", {}, name)), box);
        list(box, sentences, (sources) => paint(area, text, sources));
      }
      paint(area, text, []);
      page.append(section);
    }
  }
  return { list, paint, make, maker, count };
})();
