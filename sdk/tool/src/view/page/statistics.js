// Sums by name, over the whole trace or a marked range. As in `tracezero summary`, spans count when they
// have ended, and those on threads apart from those on other tracks: a future has both, its polls and
// its life.

/** For each label, on threads and elsewhere: how often, how long, by itself, and the longest one. */
function sumsByName(model, range) {
  const from = range ? range.start : -Infinity;
  const to = range ? range.end : Infinity;
  // By twice the label, and one more on threads.
  const lines = 2 * model.labelName.length;
  const count = new Float64Array(lines);
  const total = new Float64Array(lines);
  const self = new Float64Array(lines);
  const longest = new Int32Array(lines).fill(NONE);
  for (let row = 0; row < model.rowTrack.length; row++) {
    const onThread = model.tracks[model.rowTrack[row]].kind === "thread" ? 1 : 0;
    const end = model.rowFirst[row + 1];
    const first = range ? model.firstEndingAfter(row, from) : model.rowFirst[row];
    for (let event = first; event < end && model.start[event] < to; event++) {
      if (model.kind[event] !== 0) continue;
      const line = 2 * model.label[event] + onThread;
      // Of a span that the range cuts, what is inside counts.
      const inside = Math.min(model.end(event), to) - Math.max(model.start[event], from);
      count[line]++;
      total[line] += inside;
      self[line] += inside;
      const parent = model.parent[event];
      if (parent !== NONE && model.kind[parent] === 0) self[2 * model.label[parent] + onThread] -= inside;
      if (longest[line] === NONE || model.duration[event] > model.duration[longest[line]]) longest[line] = event;
    }
  }
  const sums = [];
  for (let line = 0; line < lines; line++) {
    if (count[line] === 0) continue;
    sums.push({
      ...namesOf(model, line >> 1),
      on: line & 1 ? "thread" : "track",
      count: count[line],
      total: total[line],
      self: self[line],
      mean: total[line] / count[line],
      max: model.duration[longest[line]],
      goal: longest[line],
    });
  }
  return sums;
}

/** For each label how many instants there are, and the first. */
function instantsByName(model, range) {
  const lines = new Map();
  for (const event of model.instants) {
    const time = model.start[event];
    if (range && (time < range.start || time >= range.end)) continue;
    const label = model.label[event];
    const line = lines.get(label);
    if (line === undefined) lines.set(label, { ...namesOf(model, label), count: 1, goal: event });
    else {
      line.count++;
      if (time < model.start[line.goal]) line.goal = event;
    }
  }
  return [...lines.values()];
}

/** Spans that have not ended, those on threads first. */
function openSpans(model, range) {
  const open = [...model.unfinished].filter((event) => !range || (model.start[event] < range.end && model.end(event) > range.start));
  const lines = open.map((event) => {
    const track = model.tracks[model.trackOf(event)];
    return { name: model.name(event), category: model.category(event), event, track, on: track.kind === "thread" ? "thread" : "track" };
  });
  return lines.sort((a, b) => (a.on < b.on ? -1 : a.on > b.on ? 1 : 0));
}

function namesOf(model, label) {
  return { name: model.strings[model.labelName[label]], category: model.strings[model.labelCategory[label]] };
}

/** What a counter did, over the whole trace or a marked range. */
function sumsOfCounter(series, range) {
  const { time, value } = series;
  const from = range ? lowerBound(time, 0, time.length, range.start) : 0;
  const to = range ? lowerBound(time, from, time.length, range.end) : time.length;
  if (to === from) return { count: 0, min: NaN, max: NaN, mean: NaN, last: NaN };
  const [min, max] = series.range(from, to);
  let sum = 0;
  for (let i = from; i < to; i++) sum += value[i];
  return { count: to - from, min, max, mean: sum / (to - from), last: value[to - 1] };
}
