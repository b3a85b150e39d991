// Where tracks stand: the tree of tracks as a list of lanes from top to bottom. All in CSS pixels.

const ROW_HEIGHT = 19;
const LANE_PADDING = 4;
const GROUP_HEIGHT = 26;
const COUNTER_HEIGHT = 48;
/** Of the states above the rows of a thread. */
const STATES_HEIGHT = 8;
const STATES_PADDING = 3;
const CORE_HEIGHT = 22;
/** If there are more, they are folded at first. */
const CORES_UNFOLDED_MAX = 8;
/** Deeper rows of one track are not drawn. */
const ROWS_DRAWN_MAX = 256;
const KINDS_IN_ORDER = ["cpus", "cpu", "process", "thread", "counter", "track"];
/** `worker-2` comes before `worker-10`. */
const NAME_ORDER = new Intl.Collator("en", { numeric: true });

class Lanes {
  constructor(model) {
    this.model = model;
    this.folded = new Set();
    this.rowsByTrack = new Map();
    model.rowTrack.forEach((track, row) => append(this.rowsByTrack, track, row));
    this.counterByTrack = new Map(model.counters.map((counter) => [counter.track, counter]));
    this.children = new Map();
    this.roots = [];
    model.tracks.forEach((track, id) => {
      if (track.parent === undefined) this.roots.push(id);
      else append(this.children, track.parent, id);
    });
    /** Tracks that carry data, or have such below them, with the time of the first. */
    this.filled = new Map();
    for (const [track, rows] of this.rowsByTrack) this.fill(track, Math.min(...rows.map((row) => model.start[model.rowFirst[row]])));
    for (const [track, { time }] of this.counterByTrack) this.fill(track, time[0]);
    for (const track of model.kernel?.coreOfTrack.keys() ?? []) this.fill(track, 0);
    if (model.kernel?.coreOfTrack.size > CORES_UNFOLDED_MAX) this.folded.add(model.kernel.track);
    this.place();
  }

  fill(track, time) {
    for (let at = track; at !== undefined; at = this.model.tracks[at].parent) {
      this.filled.set(at, Math.min(time, this.filled.get(at) ?? Infinity));
    }
  }

  place() {
    this.list = [];
    this.laneOfTrack = new Map();
    let top = 0;
    // Depth first, without recursion: parents may be many.
    const waiting = this.ordered(this.roots).reverse().map((track) => ({ track, indent: 0 }));
    while (waiting.length > 0) {
      const { track, indent } = waiting.pop();
      const lane = this.laneOf(track, indent, top);
      this.list.push(lane);
      this.laneOfTrack.set(track, lane);
      top += lane.height;
      if (lane.parent && !this.folded.has(track)) {
        const below = this.ordered(this.children.get(track) ?? [], this.model.tracks[track].order);
        for (const child of below.reverse()) waiting.push({ track: child, indent: indent + 1 });
      }
    }
    this.height = top;
  }

  laneOf(track, indent, top) {
    const rows = (this.rowsByTrack.get(track) ?? []).slice(0, ROWS_DRAWN_MAX);
    const counter = this.counterByTrack.get(track);
    const parent = (this.children.get(track) ?? []).some((child) => this.filled.has(child));
    const core = this.model.kernel?.coreOfTrack.get(track);
    const strip = rows.length > 0 ? this.model.kernel?.stripOfTrack.get(track) : undefined;
    const group = rows.length === 0 && counter === undefined && core === undefined;
    const rowsTop = top + LANE_PADDING + (strip ? STATES_HEIGHT + STATES_PADDING : 0);
    let height = GROUP_HEIGHT;
    if (counter) height = COUNTER_HEIGHT;
    else if (core) height = CORE_HEIGHT;
    else if (rows.length > 0) height = Math.max(GROUP_HEIGHT + 1, rowsTop - top + rows.length * ROW_HEIGHT + LANE_PADDING);
    return { track, indent, top, height, rowsTop, rows, counter, core, strip, parent, group };
  }

  /**
   * Tracks under one parent, in the order that the trace asks for. If it asks for none: processes;
   * threads, the main one first, by name; counters by name; then what else there is, groups of one
   * name by their first times, and the tracks of a group by theirs.
   */
  ordered(tracks, order) {
    const { filled, model } = this;
    const shown = tracks.filter((track) => filled.has(track));
    const groups = new Map();
    for (const track of shown) {
      const { name } = model.tracks[track];
      groups.set(name, Math.min(filled.get(track), groups.get(name) ?? Infinity));
    }
    const isMain = (track) => Number(track.tid === track.pid);
    const byName = (left, right) => NAME_ORDER.compare(left.name, right.name);
    const withinKind = {
      thread: (left, right) => isMain(right) - isMain(left) || byName(left, right) || left.tid - right.tid,
      counter: byName,
      cpu: byName,
      track: (left, right) => groups.get(left.name) - groups.get(right.name) || byName(left, right),
    };
    const byKind = (left, right) => KINDS_IN_ORDER.indexOf(left.kind) - KINDS_IN_ORDER.indexOf(right.kind);
    const byRank = (left, right) => (left.rank ?? 0) - (right.rank ?? 0);
    return shown.sort((a, b) => {
      const [left, right] = [model.tracks[a], model.tracks[b]];
      const byTime = filled.get(a) - filled.get(b);
      const asked = { name: byName(left, right), rank: byRank(left, right), time: byTime }[order];
      return asked || byKind(left, right) || withinKind[left.kind]?.(left, right) || byTime || a - b;
    });
  }

  toggle(track) {
    if (!this.folded.delete(track)) this.folded.add(track);
    this.place();
  }

  /** Unfolds what hides a track, and returns its lane. */
  reveal(track) {
    let changed = false;
    for (let at = this.model.tracks[track].parent; at !== undefined; at = this.model.tracks[at].parent) {
      changed = this.folded.delete(at) || changed;
    }
    if (changed) this.place();
    return this.laneOfTrack.get(track);
  }

  /** Indexes [first, last) of the lanes between two heights. */
  between(top, bottom) {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const lane = this.list[middle];
      if (lane.top + lane.height <= top) low = middle + 1;
      else high = middle;
    }
    let last = low;
    while (last < this.list.length && this.list[last].top < bottom) last++;
    return [low, last];
  }

  at(height) {
    const [first, last] = this.between(height, height + 1);
    return first < last ? this.list[first] : undefined;
  }
}
