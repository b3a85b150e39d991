// Sums by name, over the whole trace or a marked range.

/** For each name: how often, how long, by itself, and where the longest is. Instants count, without time. */
function sumsByName(model, range) {
  const from = range ? range.start : -Infinity;
  const to = range ? range.end : Infinity;
  const labels = model.labelName.length;
  const count = new Float64Array(labels);
  const total = new Float64Array(labels);
  const self = new Float64Array(labels);
  const longest = new Int32Array(labels).fill(NONE);
  const instants = new Float64Array(labels);
  for (let row = 0; row < model.rowTrack.length; row++) {
    const end = model.rowFirst[row + 1];
    const first = range ? model.firstEndingAfter(row, from) : model.rowFirst[row];
    for (let event = first; event < end && model.start[event] < to; event++) {
      const label = model.label[event];
      count[label]++;
      if (model.kind[event] & INSTANT) {
        instants[label]++;
        continue;
      }
      // Of a slice that the range cuts, what is inside counts.
      const inside = Math.min(model.end(event), to) - Math.max(model.start[event], from);
      total[label] += inside;
      self[label] += inside;
      const parent = model.parent[event];
      if (parent !== NONE) self[model.label[parent]] -= inside;
      if (longest[label] === NONE || model.duration[event] > model.duration[longest[label]]) longest[label] = event;
    }
  }
  const sums = [];
  for (let label = 0; label < labels; label++) {
    if (count[label] === 0) continue;
    const slices = count[label] - instants[label];
    sums.push({
      label,
      name: model.strings[model.labelName[label]],
      category: model.strings[model.labelCategory[label]],
      count: count[label],
      total: total[label],
      self: self[label],
      mean: slices > 0 ? total[label] / slices : 0,
      max: longest[label] === NONE ? 0 : model.duration[longest[label]],
      longest: longest[label],
    });
  }
  return sums;
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
