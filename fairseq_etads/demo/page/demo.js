// The page of etads-demo. Text is always set as text (textContent), so pasted or written text cannot become markup.

const $ = (id) => document.getElementById(id);
const LIVE = {
  copying: "Stronger: where the last word was copied from, if it was copied.",
  attention: "Stronger: where the model looked to write the last word.",
};
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
  if (option.kind === "str") return input.value === "" ? option.default : input.value;
  return Number(input.value);
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
    finish(""); // showResult shows the score
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
  for (const id of ["problem", "steps", "reading", "explained"]) $(id).hidden = true;
  for (const id of ["said", "read"]) $(id).textContent = "";
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
  $("text").replaceChildren(...parts, upTo(undefined));
  $("text").scrollTop = 0;
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
  const name = step.copying ? "copying" : "attention";
  $("text").className = name;
  $("legend").textContent = LIVE[name];
  shade(mine, step[name] ?? []);
}

// The finished summary, with the page that explains it in a frame.
function showResult(mine) {
  const { text, words, words_read: read, explanation: { picked } } = mine.result;
  $("read").textContent = picked
    ? `The model read ${read.toLocaleString("en")} of ${words.toLocaleString("en")} words: ${picked.sentences.length.toLocaleString("en")} of ${picked.total.toLocaleString("en")} sentences.`
    : `The model read ${read < words ? `the first ${read.toLocaleString("en")} of` : "all"} ${words.toLocaleString("en")} words.`;
  $("said").textContent = `Summary: ${shown(text)}. ${$("read").textContent}`;
  $("page").href = $("explanation").src = mine.result.page;
  $("steps").hidden = mine.steps.length === 0;
  $("step").max = mine.steps.length + 1;
  goToStep(Number($("step").max));
}

// ---- step by step ------------------------------------------------------------------------------------------------

function showStepNumber(mine) {
  const [value, most] = [Number($("step").value), Number($("step").max)];
  const words = value === most ? "the result" : `step ${value} of ${most - 1}`;
  $("step-number").textContent = words;
  $("step").setAttribute("aria-valuetext", value === most ? words : `${words}: ${shown(mine.steps[value - 1].text)}`);
}

function goToStep(number) {
  const over = number > run.steps.length;
  $("step").value = number;
  showStepNumber(run);
  $("explained").hidden = !over;
  $("reading").hidden = over;
  if (!over) {
    $("summary").className = "growing";
    showStep(run, number);
    return;
  }
  const { text, score } = run.result;
  $("state").textContent = score === null ? "" : `score ${score.toFixed(3)}`;
  $("summary").className = text ? "" : "empty";
  $("summary").textContent = text ? shown(text) : "The document has no words, so there is no summary.";
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

about = await (await fetch("/about.json")).json();
$("model").textContent = about.title;
document.title = `Summaries by ${about.title}`;
$("about").textContent = about.about;
showOptions();
showCount();
