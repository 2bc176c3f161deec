"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { source, tokens: written } = data;
  const steps = written.length, length = source.length;
  const byId = (id) => document.getElementById(id);
  const area = byId("document"), detail = byId("detail"), summary = byId("summary");
  const SVG = "http://www.w3.org/2000/svg";
  document.documentElement.classList.add("script");

  const show = (x, digits = 2) => {
    if (x === null || x === undefined) return "–";
    return (x > 0 && x < 0.005 ? x.toFixed(3) : x.toFixed(digits)).replace("-", "−");
  };
  const { make, count } = evidence, draw = evidence.maker((tag) => document.createElementNS(SVG, tag));
  // invisible characters that reorder or hide text are replaced with their code points
  const visible = (text) => text.replace(/\r\n?|[\u2028\u2029]/g, "\n").replace(
    /(?![\t\n])[\p{Cc}\p{Cs}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
    (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
  const isolated = (text) => make("bdi", {}, visible(text));

  /* ---- the parts of the page that this explanation has; textContent never becomes markup ---- */
  const has = {
    evidence: data.evidence.length > 0, source: length > 0, empty: !length && !data.chosen, tokens: steps > 0, chosen: Boolean(data.chosen), searched: Boolean(data.chosen) && steps > 0, picked: Boolean(data.picked),
    left_out: data.left_out > 0, pointer: data.pointer !== "none", saliency: data.saliency_gate !== null,
    sigmoid: data.saliency_gate === "sigmoid", scaled: data.saliency_gate !== "sigmoid", focus: data.focus_layers.length > 0,
  };
  for (const name of ["pointer", "saliency", "focus"]) has[`no-${name}`] = length > 0 && !has[name];
  for (const element of document.querySelectorAll("[data-needs]")) if (!has[element.dataset.needs]) element.remove();

  const tell = () => {
    const parts = data.title ? [isolated(data.title)] : [];
    parts.push(`architecture ${data.architecture}`);
    if (length) {
      parts.push(`${count(length - 1, "token")} of the document read`);
      if (data.left_out) parts.push(`${data.left_out.toLocaleString("en")} not read`);
      if (has.picked) parts.push(`${data.picked.sentences.length} of ${count(data.picked.total, "sentence")} picked`);
      if (data.surprisal) {
        const { bits, percentile } = data.surprisal;
        const than = percentile > 0 && percentile < 100 ? Math.min(Math.max(percentile, 1), 99) : percentile;
        const text = `${bits.toFixed(1)} bits per token, more than ${than.toFixed(0)} % of the training documents`;
        parts.push(data.unusual ? make("strong", {}, `unlike the training documents: ${text}`) : text);
      }
      parts.push(`log P of the summary ${show(data.log_probability)}`);
    }
    parts.push(has.chosen ? "sentences chosen by expected ROUGE" : data.score === null ? "a summary that was given" : `score ${show(data.score)}`);
    byId("about").append(...parts.flatMap((part, k) => (k ? [" · ", part] : [part])));
    for (const { number, text } of has.searched ? data.chosen : []) {
      const origin = number === null ? "written by the model" : `sentence ${number + 1} of the document`;
      byId("chosen").append(make("li", {}, `${origin}: `, isolated(text)));
    }
    for (const { number, probability, text } of has.picked ? data.picked.sentences : []) {
      const cells = [make("td", { class: "number" }, String(number + 1)), make("td", { class: "number" }, show(probability))];
      byId("picked").append(make("tr", {}, ...cells, make("td", {}, isolated(text))));
    }
  };
  tell();
  const write = (token, i) => {
    const end = i === steps - 1, joined = i > 0 && !token.starts_word;
    const text = end ? "end" : visible(token.shown), percent = 100 * (token.probability ?? 0);
    const origin = has.pointer ? (token.copied_from === null ? ", generated" : ", copied") : "";
    const names = ["w", joined && "joined", token.copied_from !== null && "copied", token.replaces_unknown && "unknown"];
    const bar = (name, width) => draw("rect", { class: `bar-${name}`, width: width.toFixed(1), height: 5 });
    const bars = [bar("back", 100), bar("made", percent), bar("copied", percent * (token.copied_share ?? 0))];
    const word = make("span", { class: names.filter(Boolean).join(" "), role: "button", "aria-pressed": "false",
      "aria-label": `${end ? "end of the summary" : text}, probability ${show(token.probability)}${origin}` },
    make("span", { class: end ? "word end" : "word" }, text),
    draw("svg", { viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars));
    if (i && !joined) summary.append(" ");
    summary.append(word);
    return word;
  };
  summary.replaceChildren();
  const words = written.map(write);

  // The raw text with a <span> for each token. A token whose position is unknown stands behind the token before it.
  const read = () => {
    const text = Array.from(data.document), found = []; // positions count code points
    let place = 0;
    const between = (start, rest) => {
      const part = text.slice(place, start).join("");
      const unread = rest ? part.trim() && (data.left_out || has.picked || has.empty) : has.picked && /[\p{L}\p{N}]/u.test(part);
      area.append(unread ? make("span", { class: "unread" }, visible(part)) : visible(part));
    };
    source.forEach((token, j) => {
      let { start, end } = token;
      if (start === null && token.text) {
        const from = place + text.slice(place, place + 100).findIndex((c) => c.trim()), letters = Array.from(token.text);
        if (letters.every((c, k) => text[from + k] === c)) [start, end] = [from, from + letters.length];
      }
      if (start === null || Math.max(start, place) >= end) {
        const last = j === length - 1;
        found.push(make("span", { class: last ? "t end" : "t mark" }, last ? "end" : visible(token.text)));
        area.append(last ? " " : "", found[j]);
        return;
      }
      start = Math.max(start, place);
      between(start, false);
      found.push(make("span", { class: "t" }, visible(text.slice(start, end).join(""))));
      area.append(found[j]);
      place = end;
    });
    between(text.length, true);
    return found;
  };
  area.replaceChildren();
  const tokens = read();
  evidence.list(byId("evidence") || make("ol"), data.evidence, (sources) => {
    if (!length) return evidence.paint(area, data.document, sources, visible); // an extractor's page has no tokens
    const parts = sources.map(({ start, end }) => tokens.filter((_, j) => source[j].start >= start && source[j].end <= end && source[j].end !== null));
    for (const token of tokens) token.classList.remove("origin");
    for (const token of parts.flat()) token.classList.add("origin");
    if (parts.length && parts[0].length) area.scrollTop = parts[0][0].offsetTop - 20;
  });
  if (!steps || !length) return;

  const expand = (pairs) => {
    const row = new Float32Array(length);
    for (const [place, weight] of pairs) row[place] = weight;
    return row;
  };
  const matrix = (rows) => rows && rows.map(expand);
  const attention = matrix(data.attention), copying = matrix(data.copying), selected = matrix(data.selected);
  const { saliency, copy_coverage: copied } = data;
  const sumOf = (rows) => rows && Float32Array.from({ length }, (_, j) => rows.reduce((sum, row) => sum + row[j], 0));
  const whole = { saliency: data.saliency_of_source, attention: data.coverage, selected: sumOf(selected) };
  const each = { saliency, attention, selected };
  const names = { saliency: "saliency", attention: "attention", selected: "attention let through" };
  // weight of a word's copy attention: 1 - p_gen
  const copiedBy = (i) => copying && copying[i].map((x) => x * (1 - written[i].p_gen));
  const textOf = (element) => (element.querySelector(".word") || element).textContent;
  const name = (element) => `“${textOf(element).trim()}”`;
  const best = (row, count) => [...row.keys()].filter((j) => row[j] >= 0.005).sort((a, b) => row[b] - row[a]).slice(0, count);

  written.forEach((token, i) => {
    const cell = (value) => make("td", { class: "number" }, value);
    const wordOf = (j) => make("bdi", {}, textOf(tokens[j]).trim());
    const most = best(attention[i], 3).flatMap((j, k) => [k ? ", " : "", wordOf(j), ` ${attention[i][j].toFixed(2)}`]);
    const origin = token.copied_from === null ? "–" : wordOf(token.copied_from);
    const pointer = has.pointer ? [cell(show(token.p_gen)), cell(`${Math.round(100 * token.copied_share)} %`), make("td", {}, origin)] : [];
    const first = [cell(String(i + 1)), make("td", {}, make("bdi", {}, textOf(words[i]))), cell(show(token.probability))];
    byId("figures").append(make("tr", {}, ...first, ...pointer, make("td", {}, ...most)));
  });

  let chosen = null; // ["word", i] or ["token", j]
  let head = null; // [layer, head] by index
  let pinned = null;
  let mode = "automatic";

  /* ---- shading ---- */
  const shade = (elements, row, low, high) => {
    const range = high - low;
    elements.forEach((element, j) => {
      const value = range > 0 ? Math.max(0, Math.min(1, (row[j] - low) / range)) : 0;
      element.style.setProperty("--v", value.toFixed(3));
    });
  };
  const underline = (row) => tokens.forEach((element, j) => {
    const share = row ? Math.min(1, row[j]) : 0;
    element.style.setProperty("--c", share >= 0.02 ? `${(1 + 3 * share).toFixed(1)}px` : "0px");
  });
  const focusRow = (j) => {
    const { centers, scopes, strengths } = data.focus_layers[head[0]], h = head[1];
    const center = centers[h][j], scope = Math.max(0.1, scopes[h][j]), factor = strengths ? strengths[h] : 1;
    return Float32Array.from({ length }, (_, k) => Math.min(1, Math.exp(-2 * factor * ((k - center) / scope) ** 2)));
  };
  const range = (row) => [Math.min(...row), Math.max(...row)];
  const paint = () => {
    const isWord = chosen && chosen[0] === "word", isToken = chosen && chosen[0] === "token";
    let kind = mode === "automatic" ? (isWord || !whole.saliency ? "attention" : "saliency") : mode;
    let row, low, high, of;
    if (isToken && head) {
      kind = "focus";
      [row, low, high] = [focusRow(chosen[1]), 0, 1];
      of = `where ${name(tokens[chosen[1]])} looks (layer ${data.focus_layers[head[0]].layer}, head ${head[1] + 1})`;
    } else {
      row = isWord ? each[kind][chosen[1]] : whole[kind];
      [low, high] = range(row);
      if (kind !== "saliency") low = 0;
      of = isWord ? `${names[kind]} of ${name(words[chosen[1]])}` : `${names[kind]}, ${kind === "saliency" ? "mean" : "sum"} over the summary`;
    }
    area.dataset.hue = byId("scale").dataset.hue = kind;
    shade(tokens, row, low, high);
    byId("scale-of").textContent = of;
    byId("scale-low").textContent = show(low);
    byId("scale-high").textContent = high > low ? show(high) : `${show(high)} everywhere`;
    underline(isWord ? copiedBy(chosen[1]) : copied);
    const from = isWord ? written[chosen[1]].copied_from : null;
    tokens.forEach((element, j) => {
      element.classList.toggle("source", j === from);
      element.classList.toggle("active", Boolean(isToken && j === chosen[1]));
    });
    const column = isToken ? attention.map((r) => r[chosen[1]]) : new Float32Array(steps);
    summary.dataset.hue = "attention";
    shade(words, column, 0, isToken ? Math.max(...column) : 1);
    words.forEach((element, i) => {
      element.classList.toggle("active", Boolean(isWord && i === chosen[1]));
      element.classList.toggle("source", Boolean(isToken && written[i].copied_from === chosen[1]));
      element.setAttribute("aria-pressed", String(Boolean(pinned && pinned[0] === "word" && pinned[1] === i)));
    });
    strips.forEach((strip) => strip.update(isWord ? chosen[1] : null, isToken ? chosen[1] : from));
    heads.forEach((cell) => cell.update(isToken ? chosen[1] : from));
    describe();
  };

  /* ---- the figures of the chosen word, as text ---- */
  const list = (entries, elements) => {
    const items = entries.map(([place, value]) =>
      make("li", {}, `${show(value)} `, make("bdi", {}, textOf(elements[place]).trim()), make("small", {}, ` #${place + 1}`)));
    return items.length ? make("ol", {}, ...items) : "–";
  };
  const top = (row, count = 4) => list(best(row, count).map((j) => [j, row[j]]), tokens);
  const sum = (row) => row.reduce((a, b) => a + b, 0), mean = (row) => sum(row) / row.length;
  const overview = (add) => {
    add("Tokens", `${steps}, with the end symbol`);
    add("Probability", `${show(Math.exp(mean(written.map((token) => Math.log(Math.max(token.probability, 1e-9))))))} a token (geometric mean)`);
    if (copying) {
      add("Copied", `${written.filter((token) => token.copied_from !== null).length} of ${steps} tokens`);
      add("p_gen", `${show(mean(written.map((token) => token.p_gen)))} on average`);
    }
    if (selected) add("Gate", `lets ${Math.round(100 * mean(selected.map(sum)))} % of the attention through`);
    add("Most read", top(data.coverage));
  };
  const describe = () => {
    const rows = [];
    const add = (term, ...value) => rows.push(make("dt", {}, term), make("dd", {}, ...value));
    detail.replaceChildren();
    byId("hint").hidden = Boolean(chosen);
    if (!chosen) return overview(add), detail.append(make("dl", {}, ...rows));
    const [side, place] = chosen;
    const isWord = side === "word", element = (isWord ? words : tokens)[place];
    detail.append(make("h3", {}, make("bdi", {}, textOf(element).trim())));
    const where = `${isWord ? "summary" : "document"}, ${place + 1} of ${isWord ? steps : length}`;
    detail.append(make("p", { class: "note" }, where));
    if (isWord) {
      add("Probability", show(written[place].probability));
      if (written[place].replaces_unknown) add("Unknown", "the model wrote “unknown word” here: that is the probability");
      if (copying) {
        add("p_gen", `${show(written[place].p_gen)}: ${Math.round(100 * written[place].p_gen)} % generating, ${Math.round(100 * (1 - written[place].p_gen))} % copying`);
        add("By copying", `${Math.round(100 * written[place].copied_share)} % of its probability`);
        const from = written[place].copied_from;
        add("Copied from", from === null ? "nowhere: generated" : make("bdi", {}, textOf(tokens[from]).trim()), from === null ? "" : make("small", {}, ` #${from + 1}`));
      }
      add("Looked at", top(attention[place]));
      if (copying) add("Would copy", top(copying[place]));
      if (saliency) {
        const through = sum(selected[place]);
        add("Gate", `${show(Math.min(...saliency[place]))} to ${show(Math.max(...saliency[place]))}; of the attention, ${show(through)} gets through`);
        add("Let through", top(selected[place]));
      }
    } else {
      if (!source[place].known) add("Vocabulary", copying ? "not in it: can only be copied" : "not in it: cannot be written");
      if (whole.saliency) {
        const layers = data.saliency_layers.map((x) => `layer ${x.layer}: ${show(x.gate[place])}`).join(", ");
        add("Saliency", `${show(whole.saliency[place])} (${layers})`);
      }
      add("Coverage", `${show(data.coverage[place])} of attention`);
      if (copying) {
        add("Copied", show(copied[place]));
        const found = words.filter((_, i) => written[i].copied_from === place);
        add("Copied as", found.length ? found.map((word) => textOf(word)).join(", ") : "no word");
      }
      const column = attention.map((row) => row[place]);
      add("Looked at by", list(best(column, 4).map((i) => [i, column[i]]), words));
      if (head) {
        const { layer, centers, scopes } = data.focus_layers[head[0]], h = head[1], center = centers[h][place];
        const near = tokens[Math.max(0, Math.min(length - 1, Math.round(center)))];
        add(`Focus ${layer}.${h + 1}`, `centre at token ${show(center + 1, 1)} (${name(near)}), width ${show(scopes[h][place], 1)} tokens`);
      }
    }
    detail.append(make("dl", {}, ...rows));
  };

  /* ---- strips: figures along the document ---- */
  const WIDE = 1000, HIGH = 40;
  const bars = (row, high) => {
    let path = "";
    const width = WIDE / length;
    for (let j = 0; j < length; j++) {
      const y = HIGH * (1 - Math.min(1, row[j] / high));
      if (y < HIGH - 0.05) path += `M${(j * width).toFixed(1)} ${HIGH}V${y.toFixed(1)}h${(width * 0.86).toFixed(2)}V${HIGH}z`;
    }
    return path;
  };
  const strips = [];
  const tokenAt = (event, svg) => {
    const box = svg.getBoundingClientRect();
    return Math.max(0, Math.min(length - 1, Math.floor(((event.clientX - box.left) / box.width) * length)));
  };
  const addStrip = (hue, label, all, one) => {
    if (!all) return;
    const high = Math.max(...all, 1e-6);
    const paths = [draw("path", { class: "all", d: bars(all, high) }), draw("path", { class: "one" })];
    const cursor = draw("rect", { class: "cursor", y: 0, height: HIGH, width: Math.max(1.5, Math.min(3, WIDE / length / 4)), visibility: "hidden" });
    const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths, cursor);
    svg.addEventListener("pointermove", (event) => choose(["token", tokenAt(event, svg)]));
    svg.addEventListener("pointerleave", () => choose(pinned));
    svg.addEventListener("click", (event) => pin(["token", tokenAt(event, svg)]));
    const caption = make("div", { class: "name" }, label, make("br"), `to ${show(high)}`);
    byId("strips").append(make("div", { class: "strip", "data-hue": hue }, caption, svg));
    strips.push({
      update: (i, j) => {
        paths[1].setAttribute("d", i === null ? "" : bars(one(i), high));
        cursor.setAttribute("visibility", j === null || j === undefined ? "hidden" : "visible");
        if (j !== null && j !== undefined) cursor.setAttribute("x", (((j + 0.43) * WIDE) / length).toFixed(1));
      },
    });
  };
  addStrip("saliency", "saliency", whole.saliency, (i) => saliency[i]);
  addStrip("attention", "coverage (attention)", data.coverage, (i) => attention[i]);
  addStrip("selected", "let through", whole.selected, (i) => selected[i]);
  addStrip("copy", "copied", copied, copiedBy);
  byId("strips").append(make("div", { class: "strip" }, make("div", { class: "name" }), make("div", { class: "axis" }, make("span", {}, "token 1"), make("span", {}, `token ${length}`))));

  /* ---- focus: a small plot for each head ---- */
  const heads = [];
  const every = Math.ceil(length / 150);
  // two views of a head: the position to which a token looks, and its distance, on a scale that spreads small distances
  let view = "place";
  const far = Math.asinh(length);
  const at = (j) => (100 * (j + 0.5)) / length;
  const up = (place, j) => (view === "place" ? 100 - at(place) : 50 - (50 * Math.asinh(place - j)) / far).toFixed(1);
  const TICKS = [1, 10, 100, 1000].filter((x) => x < length);
  const addHead = (box, number, layer, h) => {
    const { centers, scopes, strengths } = data.focus_layers[number];
    const places = [];
    for (let j = 0; j < length; j += every) places.push(j);
    const band = draw("path", { class: "band" }), center = draw("path", { class: "center" }), own = draw("line", { class: "own" });
    const ticks = draw("g"), cursor = draw("path", { class: "cursor" }), dot = draw("circle", { class: "dot", r: 0 });
    const svg = draw("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" }, ticks, band, own, center, cursor, dot);
    const redraw = () => {
      const along = (sign) => places.map((j) => `${at(j).toFixed(1)} ${up(centers[h][j] + sign * scopes[h][j], j)}`);
      band.setAttribute("d", `M${[...along(1), ...along(-1).reverse()].join("L")}z`);
      center.setAttribute("d", `M${along(0).join("L")}`);
      const ends = view === "place" ? { x1: 0, y1: 100, x2: 100, y2: 0 } : { x1: 0, y1: 50, x2: 100, y2: 50 };
      Object.entries(ends).forEach(([key, value]) => own.setAttribute(key, value));
      ticks.replaceChildren(...(view === "place" ? [] : TICKS).flatMap((x) => [x, -x].flatMap((d) => [
        draw("line", { class: "tick", x1: 0, x2: 100, y1: up(d, 0), y2: up(d, 0) }),
        ...(x > 1 ? [draw("text", { x: 1, y: Number(up(d, 0)) - 1 }, d > 0 ? `+${d}` : `−${-d}`)] : []),
      ])));
    };
    const offset = mean(centers[h].map((x, j) => x - j)), width = mean(scopes[h]);
    const factor = strengths ? `, strength ${show(strengths[h])}` : "";
    const says = `${offset < 0 ? "" : "+"}${show(offset, 1)} ± ${show(width, 1)}`;
    const button = make("button", { type: "button", class: "head", "aria-pressed": "false", tabindex: "-1",
      "aria-label": `layer ${layer}, head ${h + 1}: centre on average ${show(offset, 1)} tokens from the token, width ${show(width, 1)} tokens${factor}` },
    svg, make("span", { class: "name" }, make("b", {}, `head ${h + 1}`), says));
    button.addEventListener("click", () => {
      const on = !(head && head[0] === number && head[1] === h);
      head = on ? [number, h] : null;
      heads.forEach((cell) => cell.button.setAttribute("aria-pressed", String(on && cell.button === button)));
      byId("focus-note").textContent = on
        ? `Layer ${layer}, head ${h + 1} is chosen. Point at a word in the document: the document is shaded by where it looks.`
        : "Choose a head, then point at a word in the document. The document is shaded by where that word looks.";
      paint();
    });
    box.append(button);
    heads.push({ button, offset, redraw, update: (j) => {
      if (j === null || j === undefined) return cursor.removeAttribute("d"), dot.setAttribute("r", 0);
      const middle = centers[h][j], scope = scopes[h][j];
      cursor.setAttribute("d", `M${at(j).toFixed(1)} ${up(middle - scope, j)}V${up(middle + scope, j)}`);
      dot.setAttribute("cx", at(j)), dot.setAttribute("cy", up(middle, j)), dot.setAttribute("r", 3);
    } });
  };
  data.focus_layers.forEach((layer, number) => {
    const box = make("div", { class: "layer" }, make("div", { class: "name" }, `Layer ${layer.layer} of the encoder`));
    layer.centers.forEach((_, h) => addHead(box, number, layer.layer, h));
    byId("heads").append(box);
  });
  const look = (chosenView) => {
    view = chosenView;
    heads.forEach((cell) => cell.redraw());
    for (const input of document.querySelectorAll("input[name=view]")) input.checked = input.value === view;
  };
  // only the distance distinguishes heads that look around the word itself
  if (heads.length) look(heads.every((cell) => Math.abs(cell.offset) < length / 8) ? "distance" : "place");
  for (const input of document.querySelectorAll("input[name=view]")) {
    input.addEventListener("change", () => {
      look(input.value);
      paint();
    });
  }
  if (every > 1 && data.focus_layers.length) byId("focus-every").textContent = ` Every ${every}th token is drawn.`;

  /* ---- choosing a word: the mouse shows it for a moment, focus or a click keeps it until Escape ---- */
  const choose = (what) => {
    const same = what && chosen && what[0] === chosen[0] && what[1] === chosen[1];
    if (same || (!what && !chosen)) return;
    chosen = what;
    paint();
  };
  const pin = (what) => {
    pinned = chosen = what;
    paint();
    // scroll a long document to the word that was copied or, if none was copied, to the word with the most attention
    if (!what || what[0] !== "word" || area.scrollHeight <= area.clientHeight) return;
    const place = written[what[1]].copied_from ?? best(attention[what[1]], 1)[0];
    if (place === undefined) return;
    const top = tokens[place].offsetTop;
    if (top < area.scrollTop || top > area.scrollTop + area.clientHeight - 40) area.scrollTop = top - area.clientHeight / 2;
  };
  const listen = (elements, kind) => elements.forEach((element, place) => {
    element.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && choose([kind, place]));
    element.addEventListener("focus", () => pin([kind, place]));
    element.addEventListener("click", () => pin([kind, place]));
  });
  listen(words, "word");
  listen(tokens, "token");
  for (const box of [summary, area]) box.addEventListener("pointerleave", () => choose(pinned));

  /* ---- the Tab key stops once in each group; the arrow keys move inside it ---- */
  const rove = (box, elements) => {
    if (!elements.length) return;
    let current = 0;
    const stop = (place) => {
      elements[current].tabIndex = -1;
      current = place;
      elements[current].tabIndex = 0;
    };
    elements.forEach((element, place) => {
      element.tabIndex = -1;
      element.addEventListener("focus", () => stop(place));
    });
    stop(0);
    const line = (place, direction) => {
      const from = elements[place].getBoundingClientRect();
      let found = place;
      for (let next = place + direction; elements[next]; next += direction) {
        const to = elements[next].getBoundingClientRect();
        const moved = direction * (to.top - from.top) > from.height / 2;
        if (!moved) continue;
        if (found !== place && Math.abs(to.top - elements[found].getBoundingClientRect().top) > to.height / 2) break;
        if (found === place || Math.abs(to.left - from.left) < Math.abs(elements[found].getBoundingClientRect().left - from.left)) found = next;
      }
      return found;
    };
    const moves = {
      ArrowRight: (k) => k + 1, ArrowLeft: (k) => k - 1, Home: () => 0, End: () => elements.length - 1,
      ArrowDown: (k) => line(k, 1), ArrowUp: (k) => line(k, -1),
    };
    box.addEventListener("keydown", (event) => {
      const place = elements.indexOf(document.activeElement), move = moves[event.key];
      if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      if (move) {
        elements[Math.max(0, Math.min(elements.length - 1, move(place)))].focus();
        event.preventDefault();
      } else if ((event.key === "Enter" || event.key === " ") && elements[place].tagName !== "BUTTON") {
        pin(chosen);
        event.preventDefault();
      }
    });
  };
  rove(summary, words);
  rove(area, tokens);
  if (heads.length) rove(byId("heads"), heads.map((cell) => cell.button));
  document.addEventListener("keydown", (event) => event.key === "Escape" && pin(null));
  document.addEventListener("click", (event) => event.target.closest(".w, .t, .head, .strip, label, .right") || pin(null));
  for (const input of document.querySelectorAll("input[name=shade]")) {
    input.checked = input.value === "automatic"; // Firefox remembers the choice before a reload
    input.addEventListener("change", () => {
      mode = input.value;
      paint();
    });
  }
  paint();
})();
