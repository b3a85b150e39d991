// The kernel's half of a trace: what cores ran, and the states of threads. The layout of its columns
// is drawn at the head of `kernel_lanes.rs`.
//
// A piece is a time of a lane in which it was the same: an index into the columns of `cores` or of
// `strips`. The pieces of a lane are those of [first, last); they are sorted by time and do not overlap.

/** Pieces whose times by activity are added up beforehand. */
const PIECES_BLOCK = 64;

/** The columns of the kernel's half. */
function decodeKernel(reader) {
  const mergedBelow_ns = reader.varint();
  const threadName = reader.fill(new Uint32Array(reader.varint()));
  const count = threadName.length;
  const threadProcess = reader.fill(new Uint32Array(count));
  const threadTid = reader.fill(new Float64Array(count));
  const threadPid = reader.fill(new Float64Array(count));
  const track = reader.fillDifferences(new Uint32Array(reader.varint()));
  const trackStrip = reader.fill(new Uint32Array(track.length));
  const cores = decodePieces(reader);
  cores.thread = reader.fill(new Uint32Array(cores.count));
  cores.after = reader.fill(new Uint8Array(cores.count));
  const strips = decodePieces(reader);
  strips.state = reader.fill(new Uint8Array(strips.count));
  strips.core = reader.fill(new Uint32Array(strips.count));
  strips.call = reader.fill(new Uint32Array(strips.count));
  strips.waker = reader.fill(new Uint32Array(strips.count));
  return { mergedBelow_ns, threadName, threadProcess, threadTid, threadPid, track, trackStrip, cores, strips };
}

function decodePieces(reader) {
  const number = reader.fill(new Uint32Array(reader.varint()));
  const length = reader.fill(new Uint32Array(number.length));
  const count = length.reduce((sum, pieces) => sum + pieces, 0);
  return { number, length, count, ...decodeStarts(reader, length, count) };
}

/** The pieces of some lanes. */
class Pieces {
  constructor(decoded) {
    Object.assign(this, decoded);
    let first = 0;
    this.lanes = Array.from(this.number, (number, index) => {
      const lane = { pieces: this, index, number, first, last: first + this.length[index] };
      first = lane.last;
      return lane;
    });
  }

  end(piece) {
    return this.start[piece] + this.duration[piece];
  }

  /** The first piece of a lane that ends after `time`. */
  firstEndingAfter({ first, last }, time) {
    let low = first;
    let high = last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.start[middle] + this.duration[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The piece of a lane at a time, or the nearest one within `slack` nanoseconds. */
  at(lane, time, slack) {
    const after = this.firstEndingAfter(lane, time);
    if (after < lane.last && this.start[after] <= time) return after;
    const distanceAfter = after < lane.last ? this.start[after] - time : Infinity;
    const distanceBefore = after > lane.first ? time - this.end(after - 1) : Infinity;
    if (Math.min(distanceAfter, distanceBefore) > slack) return NONE;
    return distanceAfter < distanceBefore ? after : after - 1;
  }
}

/** What cores ran. */
class Cores extends Pieces {
  constructor(decoded) {
    super(decoded);
    /** The busy time of the pieces before a piece, over all lanes. */
    this.before = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) this.before[i + 1] = this.before[i] + this.share(i) * this.duration[i];
  }

  isMerged(piece) {
    return this.after[piece] >= MERGED;
  }

  /** The share of a piece in which the core was busy. A core of which nothing is known counts as idle. */
  share(piece) {
    if (this.thread[piece] === 0) return 0;
    return this.isMerged(piece) ? (this.after[piece] - MERGED) / 16 : 1;
  }

  /** The busy time of a lane. */
  busy({ first, last }) {
    return this.before[last] - this.before[first];
  }

  /** Adds the busy time of a lane in each of the pixels from `start` on, as a share of the pixel. */
  addLoads(loads, lane, start, nsPerPx) {
    let piece = this.firstEndingAfter(lane, start);
    const end = start + loads.length * nsPerPx;
    for (; piece < lane.last && this.start[piece] < end; piece++) {
      const from = Math.max(this.start[piece], start);
      const to = Math.min(this.end(piece), end);
      const share = this.share(piece);
      for (let x = Math.floor((from - start) / nsPerPx); x < loads.length && start + x * nsPerPx < to; x++) {
        const left = Math.max(from, start + x * nsPerPx);
        const right = Math.min(to, start + (x + 1) * nsPerPx);
        if (right > left) loads[x] += (share * (right - left)) / nsPerPx;
      }
    }
  }
}

/** The states of threads. */
class StateStrips extends Pieces {
  constructor(decoded) {
    super(decoded);
    this.activity = new Uint8Array(this.count);
    this.blocks = new Float64Array(Math.ceil(this.count / PIECES_BLOCK) * ACTIVITY_COUNT);
    for (let i = 0; i < this.count; i++) {
      this.activity[i] = STATES[this.state[i] & (MERGED - 1)].activity;
      this.blocks[Math.floor(i / PIECES_BLOCK) * ACTIVITY_COUNT + this.activity[i]] += this.duration[i];
    }
  }

  isMerged(piece) {
    return this.state[piece] >= MERGED;
  }

  /**
   * Adds the times of each activity between two times to `sums`, beginning with a piece that ends after
   * `from`. Returns the first piece that ends after `to`.
   */
  addTimes(sums, { last }, piece, from, to) {
    const { start, duration, activity, blocks } = this;
    while (piece < last && start[piece] < to) {
      const next = piece + PIECES_BLOCK;
      if (piece % PIECES_BLOCK === 0 && next <= last && start[piece] >= from && this.end(next - 1) <= to) {
        const block = (piece / PIECES_BLOCK) * ACTIVITY_COUNT;
        for (let i = 0; i < ACTIVITY_COUNT; i++) sums[i] += blocks[block + i];
        piece = next;
        continue;
      }
      const end = start[piece] + duration[piece];
      sums[activity[piece]] += Math.min(end, to) - Math.max(start[piece], from);
      if (end > to) break;
      piece++;
    }
    return piece;
  }

  /** The times of each activity between two times. */
  times(lane, from, to) {
    const sums = new Float64Array(ACTIVITY_COUNT);
    this.addTimes(sums, lane, this.firstEndingAfter(lane, from), from, to);
    return sums;
  }
}

class Kernel {
  /** Adds tracks for the cores to those of the model. */
  constructor(decoded, strings, tracks) {
    this.mergedBelow_ns = decoded.mergedBelow_ns;
    this.strings = strings;
    this.cores = new Cores(decoded.cores);
    this.strips = new StateStrips(decoded.strips);
    /** The strips of tracks, and the first track of each strip. */
    this.stripOfTrack = new Map();
    const trackOfStrip = new Map();
    decoded.track.forEach((track, i) => {
      const strip = this.strips.lanes[decoded.trackStrip[i]];
      this.stripOfTrack.set(track, strip);
      if (!trackOfStrip.has(strip)) trackOfStrip.set(strip, track);
    });
    this.threads = Array.from(decoded.threadName, (name, index) => ({
      index,
      name: strings[name],
      process: strings[decoded.threadProcess[index]],
      tid: decoded.threadTid[index],
      pid: decoded.threadPid[index] === 0 ? undefined : decoded.threadPid[index] - 1,
    }));
    for (const strip of this.strips.lanes) {
      const thread = this.threads[strip.number];
      thread.strip = strip;
      thread.track = trackOfStrip.get(strip);
      // The kernel's names are short, and those of a program's own tracks are known from elsewhere.
      if (thread.track !== undefined) thread.name = tracks[thread.track].name;
    }
    for (const thread of this.threads) Object.assign(thread, threadHue(thread));
    this.coreOfTrack = new Map();
    const parent = tracks.length;
    tracks.push({ name: "CPUs", kind: "cpus" });
    for (const core of this.cores.lanes) {
      this.coreOfTrack.set(tracks.length, core);
      tracks.push({ name: `CPU ${core.number}`, kind: "cpu", parent });
    }
    this.track = parent;
  }

  /** The thread that a core ran; undefined if that is not known. */
  threadOf(piece) {
    return this.threads[this.cores.thread[piece] - 1];
  }

  /** What ended a state: `undefined`, `"interrupt"`, or a thread. */
  wakerOf(piece) {
    const waker = this.strips.waker[piece];
    return waker === 0 ? undefined : waker === 1 ? "interrupt" : this.threads[waker - 2];
  }

  callOf(piece) {
    return this.strings[this.strips.call[piece]];
  }

  /** The number of the core that a thread was on, or whose queue it was in; undefined if there is none. */
  coreNumberOf(piece) {
    const core = this.strips.core[piece];
    return core === 0 ? undefined : core - 1;
  }

  /** The activities that threads have, by index. */
  activitiesSeen() {
    const seen = new Set(this.strips.activity);
    if (seen.size > 0 && this.cores.thread.includes(0)) seen.add(UNKNOWN_ACTIVITY);
    return seen;
  }
}

/** Threads with events have a colour of their own each, also beside their names; others a pale one by process. */
function threadHue({ strip, process, name }) {
  // Steps of 7 hues keep neighbours apart, and come to all of them.
  return strip ? { hue: (strip.index * 7 + 2) % HUES, pale: false } : { hue: Palette.hueOf(process || name), pale: true };
}

/** The name of a thread, with its number if the name alone says little. */
function threadText({ name, tid }) {
  return name === "" ? `thread ${tid}` : name;
}

function processText({ process, pid }) {
  if (pid === undefined) return process;
  return process === "" ? `pid ${pid}` : `${process}, pid ${pid}`;
}

/** The text of a state's piece. */
function stateText(strips, piece) {
  const { text } = STATES[strips.state[piece] & (MERGED - 1)];
  return strips.isMerged(piece) ? `mostly ${text}` : text;
}
