// What is known of a piece of the kernel's half, and of the states of a thread inside of a span.

/** The lines of the tooltip. */
function pieceTooltip({ kernel, duration_ns }, { lane, index }) {
  const duration = formatDuration(lane.pieces.duration[index]);
  if (lane.pieces === kernel.cores) {
    const thread = kernel.threadOf(index);
    if (!thread) return [element("b", {}, "unknown"), element("span", {}, `${duration}: events of this CPU are missing`)];
    const facts = [duration, processText(thread), afterText(kernel, index)].filter(Boolean);
    return [element("b", {}, threadText(thread)), element("span", {}, facts.join(", "))];
  }
  const { strips } = kernel;
  const lines = [element("b", {}, stateText(strips, index))];
  const core = kernel.coreNumberOf(index);
  const isRunning = strips.activity[index] === RUNNING;
  const call = kernel.callOf(index);
  const facts = [
    duration,
    core !== undefined && (isRunning ? `on CPU ${core}` : `in the queue of CPU ${core}`),
    call && `in ${call}`,
    strips.isMerged(index) && mergedText(kernel),
  ];
  lines.push(element("span", {}, facts.filter(Boolean).join(", ")));
  const waker = kernel.wakerOf(index);
  if (waker) lines.push(element("span", { class: "line" }, `woken by ${waker === "interrupt" ? "an interrupt" : threadText(waker)}`));
  return lines;
}

/** What a thread did when it left its core. */
function afterText({ cores, mergedBelow_ns }, piece) {
  const after = cores.after[piece];
  if (cores.isMerged(piece)) return `and others: ${Math.round(((after - MERGED) / 16) * 100)} % busy with pieces below ${formatDuration(mergedBelow_ns)}`;
  return after === 0 ? "" : `then ${STATES[after - 1].text}`;
}

function mergedText({ mergedBelow_ns }) {
  return `several states, each shorter than ${formatDuration(mergedBelow_ns)}`;
}

/** The panel for a piece. */
function pieceDetails(view, piece) {
  const isCore = piece.lane.pieces === view.model.kernel.cores;
  return isCore ? coreDetails(view, piece) : stateDetails(view, piece);
}

function coreDetails(view, { lane, index }) {
  const { model, palette } = view;
  const { kernel } = model;
  const thread = kernel.threadOf(index);
  const swatch = element("i", { class: "swatch" });
  if (thread) swatch.style.background = palette.threadCss(thread);
  const facts = timesOf(lane, index);
  facts.push(["CPU", String(lane.number)]);
  if (thread) facts.push(...threadFacts(thread));
  const after = kernel.cores.isMerged(index) ? ["Merged", afterText(kernel, index)] : ["Afterwards", afterText(kernel, index).replace(/^then /, "")];
  if (after[1]) facts.push(after);
  const first = element("div", {}, element("h2", {}, swatch, thread ? threadText(thread) : "unknown"), pairsOf(facts));
  const second = element("div", {});
  if (thread?.strip) {
    const state = kernel.strips.at(thread.strip, lane.pieces.start[index], 0);
    if (state !== NONE) second.append(element("h3", {}, "In the thread"), linkToPiece(view, thread.strip, state));
    const span = model.innermostAt(thread.track, lane.pieces.start[index]);
    if (span !== NONE) second.append(element("section", {}, element("h3", {}, "Inside of"), linkTo(view, span)));
  }
  return element("div", { class: "details" }, first, second);
}

function stateDetails(view, { lane, index }) {
  const { model } = view;
  const { kernel } = model;
  const { strips } = kernel;
  const thread = kernel.threads[lane.number];
  const swatch = element("i", { class: `swatch state-${ACTIVITIES[strips.activity[index]].key}` });
  const facts = timesOf(lane, index);
  const core = kernel.coreNumberOf(index);
  if (core !== undefined) facts.push(["CPU", String(core)]);
  if (kernel.callOf(index)) facts.push(["System call", kernel.callOf(index)]);
  if (strips.isMerged(index)) facts.push(["Merged", mergedText(kernel)]);
  facts.push(...threadFacts(thread));
  const first = element("div", {}, element("h2", {}, swatch, stateText(strips, index)), pairsOf(facts));
  const second = element("div", {}, wakerOf(view, index));
  const span = model.innermostAt(thread.track, strips.start[index]);
  if (span !== NONE) second.append(element("section", {}, element("h3", {}, "Inside of"), linkTo(view, span)));
  const third = element("div", {});
  const onCore = core === undefined ? undefined : kernel.cores.lanes.find((other) => other.number === core);
  const meanwhile = onCore ? kernel.cores.at(onCore, strips.start[index], 0) : NONE;
  if (meanwhile !== NONE) third.append(element("h3", {}, `On CPU ${core}`), linkToPiece(view, onCore, meanwhile));
  return element("div", { class: "details" }, first, second, third);
}

function timesOf({ pieces }, index) {
  return [["Begin", formatMoment(pieces.start[index])], ["Duration", formatDuration(pieces.duration[index])]];
}

function threadFacts(thread) {
  const facts = [["Thread", `${threadText(thread)}, tid ${thread.tid}`]];
  const process = processText(thread);
  if (process) facts.push(["Process", process]);
  return facts;
}

/** Who ended a state, and inside of which span. */
function wakerOf(view, piece) {
  const { model } = view;
  const { kernel } = model;
  const waker = kernel.wakerOf(piece);
  if (!waker) return "";
  const section = element("section", {}, element("h3", {}, "Woken by"));
  if (waker === "interrupt") {
    section.append("an interrupt: a timer, or a device");
    return section;
  }
  const at = kernel.strips.end(piece);
  const lines = [element("li", {}, [threadText(waker), processText(waker)].filter(Boolean).join(", "))];
  if (waker.strip) {
    const span = model.innermostAt(waker.track, at);
    if (span !== NONE) lines.push(element("li", {}, "inside of ", linkTo(view, span)));
    const state = kernel.strips.at(waker.strip, at, 0);
    if (state !== NONE) lines.push(element("li", {}, "while ", linkToPiece(view, waker.strip, state)));
  }
  section.append(element("ul", { class: "chain" }, lines));
  return section;
}

function linkToPiece(view, lane, index) {
  const { kernel } = view.model;
  const name = lane.pieces === kernel.strips ? stateText(kernel.strips, index) : kernel.threadOf(index) ? threadText(kernel.threadOf(index)) : "unknown";
  const link = element("button", { type: "button", class: "linkish" }, `${name}, ${formatDuration(lane.pieces.duration[index])}`);
  link.addEventListener("click", () => view.goToPiece(lane, index));
  return link;
}

/** How the time of a span divides into states of its thread. */
function statesOfSpan(view, event) {
  const { model } = view;
  const strip = model.kernel?.stripOfTrack.get(model.trackOf(event));
  if (!strip || model.duration[event] === 0) return "";
  const times = model.kernel.strips.times(strip, model.start[event], model.end(event));
  const lines = ACTIVITIES.flatMap(({ key, label }, i) => {
    if (times[i] === 0) return [];
    const share = Math.round((1000 * times[i]) / model.duration[event]) / 10;
    return [element("dt", {}, element("i", { class: `swatch state-${key}` }), label), element("dd", {}, `${formatDuration(times[i])}, ${share} %`)];
  });
  if (lines.length === 0) return "";
  return element("section", {}, element("h3", {}, "The thread was"), element("dl", { class: "pairs" }, lines));
}
