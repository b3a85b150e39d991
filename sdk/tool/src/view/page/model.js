// The trace in memory: events in rows, and questions about them.
//
// An event is an index into the columns. The events of a row (one depth of one track) stand side by
// side, ordered by time, and do not overlap; the rows of a track follow each other by depth.

const INSTANT = 1;
const UNFINISHED = 2;
const NONE = -1;

class Model {
  constructor(decoded) {
    Object.assign(this, decoded);
    this.count = this.start.length;
    this.tracks = this.head.tracks;
    this.duration_ns = this.head.duration_ns;
    /** The kernel's half; undefined if the trace has none. */
    this.kernel = decoded.kernel && new Kernel(decoded.kernel, this.strings, this.tracks);

    this.kind = new Uint8Array(this.count);
    for (const event of this.instants) this.kind[event] |= INSTANT;
    for (const event of this.unfinished) this.kind[event] |= UNFINISHED;

    this.rowFirst = new Uint32Array(this.rowLength.length + 1);
    this.rowLength.forEach((length, row) => (this.rowFirst[row + 1] = this.rowFirst[row] + length));

    /** Time that the events before an event take, over all rows. */
    this.before = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) this.before[i + 1] = this.before[i] + this.duration[i];

    this.parent = this.findParents();
    this.flows = new Flows(this);
  }

  end(event) {
    return this.start[event] + this.duration[event];
  }

  name(event) {
    return this.strings[this.labelName[this.label[event]]];
  }

  category(event) {
    return this.strings[this.labelCategory[this.label[event]]];
  }

  rowOf(event) {
    return upperBound(this.rowFirst, 0, this.rowFirst.length, event) - 1;
  }

  trackOf(event) {
    return this.rowTrack[this.rowOf(event)];
  }

  /** The first event of a row that ends after `time`. */
  firstEndingAfter(row, time) {
    let low = this.rowFirst[row];
    let high = this.rowFirst[row + 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.start[middle] + this.duration[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The event of a row at a time, or the nearest one within `slack` nanoseconds. */
  eventAt(row, time, slack) {
    const end = this.rowFirst[row + 1];
    const after = this.firstEndingAfter(row, time);
    if (after < end && this.start[after] <= time) return after;
    const before = after - 1;
    const distanceAfter = after < end ? this.start[after] - time : Infinity;
    const distanceBefore = before >= this.rowFirst[row] ? time - this.end(before) : Infinity;
    if (Math.min(distanceAfter, distanceBefore) > slack) return NONE;
    return distanceAfter < distanceBefore ? after : before;
  }

  /** The innermost slice of a track at a time. */
  innermostAt(track, time) {
    const first = lowerBound(this.rowTrack, 0, this.rowTrack.length, track);
    let innermost = NONE;
    for (let row = first; row < this.rowTrack.length && this.rowTrack[row] === track; row++) {
      const event = this.firstEndingAfter(row, time);
      if (event === this.rowFirst[row + 1] || this.start[event] > time) break;
      innermost = event;
    }
    return innermost;
  }

  /** Time in the event that no event below it takes. */
  selfTime(event) {
    const below = this.rowOf(event) + 1;
    if (below >= this.rowTrack.length || this.rowTrack[below] !== this.trackOf(event)) return this.duration[event];
    const last = this.rowFirst[below + 1];
    const from = lowerBound(this.start, this.rowFirst[below], last, this.start[event]);
    const to = lowerBound(this.start, from, last, this.end(event));
    let covered = this.before[to] - this.before[from];
    // One that begins at the same moment as the event's neighbour may not be its own.
    for (let child = from; child < to && this.start[child] === this.start[event]; child++) {
      if (this.parent[child] !== event) covered -= this.duration[child];
    }
    return this.duration[event] - covered;
  }

  /** The arguments as a tree: [{ key, value }], where a value may be such a list again. */
  argsOf(event) {
    const set = this.args[event];
    if (set === 0) return [];
    const reader = new ByteReader(this.argsBytes, this.argsAt[set - 1]);
    const list = [];
    while (reader.at < this.argsAt[set]) list.push(readArg(reader, this.strings));
    return list;
  }

  findParents() {
    const parent = new Int32Array(this.count).fill(NONE);
    for (let row = 1; row < this.rowTrack.length; row++) {
      if (this.rowTrack[row] !== this.rowTrack[row - 1]) continue;
      let above = this.rowFirst[row - 1];
      const aboveEnd = this.rowFirst[row];
      for (let event = this.rowFirst[row]; event < this.rowFirst[row + 1]; event++) {
        const start = this.start[event];
        const end = start + this.duration[event];
        while (above < aboveEnd && this.start[above] + this.duration[above] < end) above++;
        if (above < aboveEnd && this.start[above] <= start) parent[event] = above;
      }
    }
    return parent;
  }
}

function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** One argument; kinds are those of `args.rs`. */
function readArg(reader, strings) {
  const key = strings[reader.varint()];
  const kind = reader.byte();
  switch (kind) {
    case 0: return { key, value: false };
    case 1: return { key, value: true };
    case 2: return { key, value: reader.wide() };
    case 3: {
      const zigzag = reader.wide();
      return { key, value: zigzag & 1n ? -(zigzag + 1n) / 2n : zigzag / 2n };
    }
    case 4: return { key, value: reader.float() };
    case 5: return { key, value: strings[reader.varint()] };
    case 6: return { key, value: `0x${reader.wide().toString(16)}` };
    case 7:
    case 8: {
      const length = reader.varint();
      const value = Array.from({ length }, () => readArg(reader, strings));
      if (kind === 8) value.forEach((item, index) => (item.key = `[${index}]`));
      return { key, value };
    }
    default: throw new Error(`argument of kind ${kind}`);
  }
}

/** The first index in [low, high) whose value is not below `value`. */
function lowerBound(column, low, high, value) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first index in [low, high) whose value is above `value`. */
function upperBound(column, low, high, value) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** As `lowerBound`, in steps that double: quick if the index is near `low`. */
function gallop(column, low, high, value) {
  let step = 1;
  while (low + step < high && column[low + step] < value) {
    low += step;
    step *= 2;
  }
  return lowerBound(column, low, Math.min(high, low + step + 1), value);
}
