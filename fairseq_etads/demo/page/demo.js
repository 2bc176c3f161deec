// The page of etads-demo. Text is always set as text (textContent), so pasted or written text cannot become markup.

const $ = (id) => document.getElementById(id);
const SENTENCE_MARK = "<q>";
const SHADINGS = {
  copying: { rows: "copying", total: "copy_coverage", legend: "Stronger: copied from there with more probability" },
  attention: { rows: "attention", total: "coverage", legend: "Stronger: the model looked there more" },
  saliency: { rows: "saliency", total: "saliency_of_source", legend: "Stronger: the gate lets more of it through" },
};
const LIVE = {
  copying: "Stronger: where the last word was copied from, if it was copied.",
  attention: "Stronger: where the model looked to write the last word.",
};
const UNUSUAL = 99; // percentile of the training documents, as in summarizer/surprisal.py
const REPLAY_MS = 350;
const SPEAK_MS = 2000; // minimum time between two readings of a growing summary

let about = { options: [], max_bytes: Infinity };
let examples = null;
let run = null; // the summary on the page: the request, its events and the part that is shown
let replaying = 0;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// ---- the form ----------------------------------------------------------------------------------------------------

function field(option) {
  const id = `option-${option.name}`;
  let input;
  if (option.kind === "choice") {
    input = element("select");
    if (option.default === null) input.append(element("option", { value: "", textContent: "decided by the model" }));
    input.append(...option.choices.map((choice) => element("option", { value: choice, textContent: choice })));
    input.value = option.default ?? "";
  } else if (option.kind === "bool") {
    input = element("input", { type: "checkbox", checked: option.default });
  } else if (option.kind === "str") {
    input = element("input", { type: "text", value: option.default ?? "" });
  } else {
    input = element("input", { type: "number", value: option.default, step: option.kind === "int" ? 1 : "any" });
    if (option.least !== null) input.min = option.least;
    if (option.most !== null) input.max = option.most;
    input.required = true;
  }
  input.id = id;
  input.setAttribute("form", "form");
  input.setAttribute("aria-describedby", `${id}-help`);
  const label = option.kind === "bool"
    ? element("label", { htmlFor: id }, input, option.label)
    : element("label", { htmlFor: id, textContent: option.label });
  const box = element("div", { className: option.kind === "bool" ? "option switch" : "option" }, label);
  if (option.kind !== "bool") box.append(input);
  box.append(element("small", { id: `${id}-help`, textContent: option.help }));
  return box;
}

function valueOf(option) {
  const input = $(`option-${option.name}`);
  if (option.kind === "bool") return input.checked;
  if (option.kind === "choice") return input.value === "" ? null : input.value;
  return option.kind === "str" ? input.value : Number(input.value);
}

// Send only values that differ from the model's own values.
function changedOptions() {
  const changed = about.options.filter((option) => valueOf(option) !== option.default);
  return Object.fromEntries(changed.map((option) => [option.name, valueOf(option)]));
}

function markChanges() {
  const changed = changedOptions();
  for (const option of about.options) {
    $(`option-${option.name}`).closest(".option").classList.toggle("changed", option.name in changed);
  }
  $("reset").hidden = Object.keys(changed).length === 0;
}

function showOptions() {
  for (const part of ["main", "more"]) {
    const chosen = about.options.filter((option) => option.main === (part === "main"));
    $(`${part}-options`).replaceChildren(...chosen.map(field));
  }
  markChanges();
}

function showCount() {
  const words = $("document").value.split(/\s+/u).filter(Boolean).length;
  $("count").textContent = words === 1 ? "1 word" : `${words.toLocaleString("en")} words`;
  $("summarize").disabled = words === 0 || (run !== null && run.controller !== null);
}

// ---- asking the server -------------------------------------------------------------------------------------------

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

async function summarize() {
  if (run?.controller || !$("form").reportValidity()) return;
  const text = $("document").value;
  const body = JSON.stringify({ text, options: changedOptions() });
  stopReplay();
  run = { characters: Array.from(text), spans: [], steps: [], result: null, controller: new AbortController(), spoken: 0 };
  clear();
  const mine = run;
  try {
    if (new Blob([body]).size > about.max_bytes) {
      throw new Error(`That is too long: this page accepts up to ${about.max_bytes.toLocaleString("en")} bytes.`);
    }
    const answer = await fetch("/summarize", {
      method: "POST", headers: { "Content-Type": "application/json" }, body, signal: run.controller.signal,
    });
    if (!answer.ok) throw new Error(await answer.text());
    for await (const line of lines(answer.body)) receive(mine, JSON.parse(line));
    if (!mine.result) throw new Error("The server stopped before the summary was finished.");
  } catch (error) {
    if (error.name === "AbortError") finish("stopped");
    else if (error instanceof TypeError) fail("The server does not answer. Is etads-demo still running?");
    else fail(error.message);
  }
  mine.controller = null;
  showCount();
}

function receive(mine, event) {
  if (event.kind === "waiting" && event.before > 0) {
    $("state").textContent = event.before === 1 ? "waiting for another summary" : `waiting for ${event.before} others`;
  } else if (event.kind === "document") {
    mine.spans = event.spans;
    showDocument(mine);
  } else if (event.kind === "step") {
    mine.steps.push(event);
    showStep(mine, mine.steps.length);
    speak(mine, event.text);
  } else if (event.kind === "summary") {
    mine.result = event;
    finish(event.score === null ? "" : `score ${event.score.toFixed(3)}`);
    showResult(mine);
  } else if (event.kind === "problem") {
    throw new Error(event.words);
  }
}

function speak(mine, text) {
  if (Date.now() - mine.spoken < SPEAK_MS) return;
  mine.spoken = Date.now();
  $("said").textContent = text;
}

// ---- what is shown on the page -------------------------------------------------------------------------------

function clear() {
  $("summary").replaceChildren();
  $("summary").className = "growing";
  for (const id of ["problem", "steps", "reading", "more"]) $(id).hidden = true;
  for (const id of ["word", "said", "read"]) $(id).textContent = "";
  $("state").textContent = "reading …";
  $("stop").hidden = false;
  $("result").setAttribute("aria-busy", "true");
  showCount();
}

function finish(state) {
  $("state").textContent = state;
  $("stop").hidden = true;
  $("summary").classList.remove("growing");
  $("result").removeAttribute("aria-busy");
  if (state === "stopped") $("said").textContent = "Stopped.";
}

function fail(words) {
  finish("");
  $("problem").textContent = words;
  $("problem").hidden = false;
}

const shown = (text) => text.replace(/\s*<q>\s*/gu, "\n");

// The document with an element for each token that the model reads; the remaining text is unchanged.
function showDocument(mine) {
  const parts = [];
  let at = 0;
  const upTo = (place) => mine.characters.slice(at, place).join("");
  mine.tokens = mine.spans.map((span) => {
    if (!span || span[0] < at) return null;
    parts.push(upTo(span[0]));
    at = span[0];
    const token = element("span", { className: "read", textContent: upTo(span[1]) });
    at = span[1];
    parts.push(token);
    return token;
  });
  mine.rest = element("span", { textContent: upTo(undefined) });
  $("text").replaceChildren(...parts, mine.rest);
  $("text").scrollTop = 0;
  showShadings(mine);
  $("reading").hidden = false;
}

function shade(mine, weights) {
  const most = Math.max(...weights.map(([, weight]) => weight), 1e-9);
  const given = new Map(weights);
  mine.tokens?.forEach((token, place) => token?.style.setProperty("--weight", ((given.get(place) ?? 0) / most).toFixed(3)));
}

// A step of the search: the best summary so far, and where the model read its last word. New words are marked.
function showStep(mine, number) {
  const step = mine.steps[number - 1];
  const text = shown(step.text);
  const before = number > 1 ? shown(mine.steps[number - 2].text) : "";
  let same = 0;
  while (same < text.length && text[same] === before[same]) same += 1;
  same = text.lastIndexOf(" ", same - 1) + 1 || 0;
  if (text === before) same = text.length;
  $("summary").replaceChildren(text.slice(0, same), element("span", { className: "fresh", textContent: text.slice(same) }));
  $("state").textContent = step.ended ? "looking for a better one …" : "writing …";
  if (mine.result) $("state").textContent = `step ${number}, score ${step.score === null ? "none" : step.score.toFixed(3)}`;
  const chosen = document.querySelector("#shading input:checked")?.value;
  const name = step.copying && chosen !== "attention" ? "copying" : "attention";
  $("text").className = name;
  $("legend").textContent = LIVE[name];
  shade(mine, step[name] ?? []);
}

function showShadings(mine) {
  const explanation = mine.result?.explanation;
  const able = Object.entries(SHADINGS).filter(([, shading]) => explanation?.[shading.rows]);
  const before = document.querySelector("#shading input:checked")?.value;
  const choices = able.map(([name]) => element("label", {},
    element("input", { type: "radio", name: "shading", value: name, checked: name === before }), name));
  $("shading").replaceChildren($("shading").firstElementChild, ...choices);
  if (able.length && !able.some(([name]) => name === before)) document.querySelector("#shading input").checked = true;
  $("shading").hidden = able.length === 0;
}

// A row of the explanation as pairs [place, weight], for both sparse and dense rows.
const pairs = (row) => row.map((entry, place) => (Array.isArray(entry) ? entry : [place, entry]));

function shadeResult(mine) {
  const name = document.querySelector("#shading input:checked")?.value;
  if (!mine.result || !name) return;
  const { rows, total, legend } = SHADINGS[name];
  const explanation = mine.result.explanation;
  const end = explanation.source.length - 1; // the end symbol is not shown
  const row = mine.chosen === undefined ? explanation[total] : explanation[rows][mine.chosen];
  $("text").className = name;
  shade(mine, pairs(row).filter(([place]) => place !== end));
  const word = mine.chosen === undefined ? "for the whole summary" : `for “${explanation.tokens[mine.chosen].shown}”`;
  $("legend").textContent = `${legend}, ${word}.`;
  for (const token of mine.tokens) token?.classList.remove("origin");
  const origin = mine.chosen === undefined ? null : explanation.tokens[mine.chosen].copied_from;
  if (origin !== null) mine.tokens[origin]?.classList.add("origin");
}

function describe(token) {
  const sure = `probability ${Math.exp(token.log_probability).toFixed(2)}`;
  if (token.replaces_unknown) return `“${token.shown}” replaces a word that the model does not know`;
  if (token.copied_from !== null) return `“${token.shown}”: copied, ${sure}, of which copying contributed ${Math.round(100 * token.copied_share)}%`;
  const share = token.copied_share === null ? "" : `, of which copying contributed ${Math.round(100 * token.copied_share)}%`;
  return `“${token.shown}”: generated, ${sure}${share}`;
}

function choose(mine, number) {
  mine.chosen = number;
  for (const button of $("summary").querySelectorAll(".token")) {
    const chosen = Number(button.dataset.number) === number;
    button.classList.toggle("chosen", chosen);
    button.setAttribute("aria-pressed", String(chosen));
  }
  $("word").textContent = number === undefined ? hint(mine) : `${describe(mine.result.explanation.tokens[number])}.`;
  shadeResult(mine);
}

function hint(mine) {
  const copies = mine.result.explanation.tokens.some((token) => token.copied_from !== null);
  return `${copies ? "Underlined words were copied. " : ""}Point at a word, or move to it with Tab and the arrow keys, to see where it comes from.`;
}

// The words of the summary as buttons. Each token is searched for in the summary's text after the previous token.
function showWords(mine) {
  const { text, explanation } = mine.result;
  const parts = [];
  let at = 0;
  explanation.tokens.forEach((token, number) => {
    const place = token.shown && token.text !== SENTENCE_MARK ? text.indexOf(token.shown, at) : -1;
    if (place < 0 || place > at + SENTENCE_MARK.length + 3) return;
    const button = element("button", { type: "button", className: "token", textContent: token.shown, tabIndex: -1 });
    button.dataset.number = number;
    button.classList.toggle("copied", token.copied_from !== null);
    parts.push(shown(text.slice(at, place)), button);
    at = place + token.shown.length;
  });
  $("summary").replaceChildren(...parts, shown(text.slice(at)));
  const first = $("summary").querySelector(".token");
  if (first) first.tabIndex = 0;
  $("summary").className = text ? "" : "empty";
  if (!text) $("summary").textContent = "The document has no words, so there is no summary.";
}

// The sentences that the model's extractor has picked, with their probabilities.
function showPicked(picked) {
  $("picked").hidden = !picked;
  if (!picked) return;
  $("picked-rows").replaceChildren(...picked.sentences.map((sentence) => element("li", {
    value: sentence.number + 1,
    textContent: `${sentence.probability.toFixed(2)}  ${sentence.text}`,
  })));
}

// The sentences that a content model has chosen, each with its origin.
function showChosen(chosen) {
  $("chosen").hidden = !chosen;
  if (!chosen) return;
  $("chosen-rows").replaceChildren(...chosen.map((sentence) => element("li", {
    textContent: `${sentence.number === null ? "Written by the model" : `Sentence ${sentence.number + 1} of the document`}: ${sentence.text}`,
  })));
}

// The document compared with the training documents.
function showSurprisal(surprisal) {
  $("surprisal").hidden = !surprisal;
  if (!surprisal) return;
  const percent = Math.round(surprisal.percentile);
  $("surprisal").className = surprisal.percentile > UNUSUAL ? "warning" : "soft";
  $("surprisal").textContent = surprisal.percentile > UNUSUAL
    ? "This document is unlike the documents used to train the model: do not rely on the summary."
    : `${surprisal.bits.toFixed(1)} bits per token: more unusual than ${percent} % of the documents used to train the model.`;
}

function showResult(mine) {
  const { text, words, words_read: read } = mine.result;
  if (mine.tokens) showShadings(mine);
  showWords(mine);
  choose(mine, undefined);
  const { picked } = mine.result.explanation;
  const cut = !picked && read < words;
  showPicked(picked);
  showChosen(mine.result.explanation.chosen);
  showSurprisal(mine.result.explanation.surprisal);
  $("read").textContent = picked ? `${read.toLocaleString("en")} of ${words.toLocaleString("en")} words: ${picked.sentences.length.toLocaleString("en")} of ${picked.total.toLocaleString("en")} sentences`
    : cut ? `the first ${read.toLocaleString("en")} of ${words.toLocaleString("en")} words` : `all ${words.toLocaleString("en")} words`;
  $("more").hidden = false;
  $("page").href = mine.result.page;
  if (mine.rest) mine.rest.className = cut ? "unread" : "";
  $("said").textContent = `Summary: ${shown(text)}${cut ? `. The model read ${$("read").textContent}.` : ""}`;
  $("steps").hidden = mine.steps.length === 0;
  $("step").max = mine.steps.length + 1;
  $("step").value = $("step").max;
  showStepNumber(mine);
}

// ---- step by step ------------------------------------------------------------------------------------------------

function showStepNumber(mine) {
  const [value, most] = [Number($("step").value), Number($("step").max)];
  const words = value === most ? "the result" : `step ${value} of ${most - 1}`;
  $("step-number").textContent = words;
  $("step").setAttribute("aria-valuetext", value === most ? words : `${words}: ${shown(mine.steps[value - 1].text)}`);
}

function goToStep(number) {
  $("step").value = number;
  showStepNumber(run);
  $("summary").classList.toggle("growing", number <= run.steps.length);
  for (const token of run.tokens) token?.classList.remove("origin");
  if (number <= run.steps.length) {
    $("word").textContent = "";
    showStep(run, number);
  } else {
    $("state").textContent = run.result.score === null ? "" : `score ${run.result.score.toFixed(3)}`;
    showWords(run);
    choose(run, undefined);
  }
}

function stopReplay() {
  clearInterval(replaying);
  replaying = 0;
  $("replay").textContent = "Replay";
}

function replay() {
  if (replaying) {
    stopReplay();
    return;
  }
  $("replay").textContent = "Pause";
  if (Number($("step").value) > run.steps.length) goToStep(1);
  replaying = setInterval(() => {
    const next = Number($("step").value) + 1;
    goToStep(next);
    if (next > run.steps.length) stopReplay();
  }, REPLAY_MS);
}

// ---- what happens when -------------------------------------------------------------------------------------------

function onWord(event, action) {
  const button = event.target.closest?.(".token");
  if (button && run?.result) action(button);
}

function moveAmongWords(event) {
  const words = [...$("summary").querySelectorAll(".token")];
  const here = words.indexOf(document.activeElement);
  const goals = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1 };
  if (here < 0 || !(event.key in goals)) return;
  event.preventDefault();
  const goal = words[Math.min(Math.max(goals[event.key], 0), words.length - 1)];
  words[here].tabIndex = -1;
  goal.tabIndex = 0;
  goal.focus();
}

async function tryExample() {
  examples ??= await (await fetch("/examples.json")).json();
  const now = examples.indexOf($("document").value);
  $("document").value = examples[(now + 1) % examples.length];
  $("example").textContent = "Another example";
  showCount();
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  summarize();
});
$("form").addEventListener("input", showCount);
$("decoding").addEventListener("input", markChanges);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("summarize").disabled) {
    event.preventDefault();
    summarize();
  }
});
$("stop").addEventListener("click", () => run?.controller?.abort());
$("example").addEventListener("click", tryExample);
$("reset").addEventListener("click", showOptions);
$("replay").addEventListener("click", replay);
$("step").addEventListener("input", () => {
  stopReplay();
  goToStep(Number($("step").value));
});
$("shading").addEventListener("change", () => {
  const step = Number($("step").value);
  if (step > run.steps.length) shadeResult(run);
  else showStep(run, step);
});
$("summary").addEventListener("keydown", moveAmongWords);
for (const name of ["mouseover", "focusin", "click"]) {
  $("summary").addEventListener(name, (event) => onWord(event, (word) => choose(run, Number(word.dataset.number))));
}
for (const name of ["mouseleave", "focusout"]) {
  $("summary").addEventListener(name, () => run?.result && $("summary").querySelector(".token") && choose(run, undefined));
}

about = await (await fetch("/about.json")).json();
$("model").textContent = about.title;
document.title = `Summaries by ${about.title}`;
$("about").textContent = about.about;
showOptions();
showCount();
