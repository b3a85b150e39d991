// What is known of the selected event.

const CHAIN_SHOWN_MAX = 40;

function detailsOf(view) {
  const { model, state, palette } = view;
  const event = state.selected;
  if (state.selectedPiece) return pieceDetails(view, state.selectedPiece);
  if (event === NONE) return element("p", { class: "empty" }, "A click on an event shows what is known of it. The key ? shows what other keys do.");
  const swatch = element("i", { class: "swatch" });
  swatch.style.background = palette.css(Palette.hueOf(model.name(event)));
  const first = element("div", {}, element("h2", {}, swatch, model.name(event) || "(no name)"), pairsOf(factsOf(view, event)));
  const args = model.argsOf(event);
  const second = element("div", {}, element("h3", {}, "Arguments"), args.length > 0 ? argsPairs(args) : element("span", {}, "none"), statesOfSpan(view, event));
  const third = element("div", {}, chainOf(view, event), flowsOf(view, event));
  return element("div", { class: "details" }, first, second, third);
}

function factsOf(view, event) {
  const { model } = view;
  const kind = model.kind[event];
  const track = model.tracks[model.trackOf(event)];
  const facts = [];
  if (model.category(event)) facts.push(["Category", model.category(event)]);
  facts.push([kind & INSTANT ? "Time" : "Begin", formatMoment(model.start[event])]);
  if (!(kind & INSTANT)) {
    facts.push(["Duration", kind & UNFINISHED ? `${formatDuration(model.duration[event])}, did not end` : formatDuration(model.duration[event])]);
    facts.push(["Self", formatDuration(model.selfTime(event))]);
  }
  facts.push([track.kind === "thread" ? "Thread" : "Track", trackTitle(track)]);
  for (let at = track.parent; at !== undefined; at = model.tracks[at].parent) {
    facts.push([model.tracks[at].kind === "process" ? "Process" : "Within", trackTitle(model.tracks[at])]);
  }
  return facts;
}

function pairsOf(pairs) {
  return element("dl", { class: "pairs" }, pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function argsPairs(list) {
  const parts = list.flatMap(({ key, value }) => {
    if (!Array.isArray(value)) return [element("dt", {}, key), element("dd", {}, String(value))];
    const nested = argsPairs(value);
    nested.classList.add("nested");
    return [element("dt", {}, key), element("dd", {}, value.length === 0 ? "empty" : ""), nested];
  });
  return element("dl", { class: "pairs" }, parts);
}

/** The events around this one, from the outermost in. */
function chainOf(view, event) {
  const { model } = view;
  const links = [];
  for (let at = model.parent[event]; at !== NONE && links.length < CHAIN_SHOWN_MAX; at = model.parent[at]) {
    links.unshift(element("li", {}, linkTo(view, at)));
  }
  const list = links.length > 0 ? element("ul", { class: "chain" }, links) : element("span", {}, "nothing: it is outermost");
  return element("section", {}, element("h3", {}, "Inside of"), list);
}

function flowsOf(view, event) {
  const { model } = view;
  const trackOf = (other) => model.tracks[model.trackOf(other)].name;
  return model.flows.of(event).map(({ points, own }) => {
    const links = own.flatMap((at) => {
      const here = points[at] & 1 ? "at its end " : "";
      const neighbours = [["from ", points[at - 1]], ["to ", points[at + 1]]].filter(([, other]) => other !== undefined);
      return neighbours.map(([direction, other]) => element("li", {}, here, direction, other & 1 ? "the end of " : "", linkTo(view, other >>> 1), ` on ${trackOf(other >>> 1)}`));
    });
    const title = `Flow, ${own.map((at) => formatCount(at + 1)).join(" and ")} of ${formatCount(points.length)}`;
    return element("section", {}, element("h3", {}, title), element("ul", { class: "chain" }, links));
  });
}

function linkTo(view, event) {
  const { model } = view;
  const text = `${model.name(event) || "(no name)"}, ${formatDuration(model.duration[event])}`;
  const link = element("button", { type: "button", class: "linkish" }, text);
  link.addEventListener("click", () => view.goTo(event));
  return link;
}
