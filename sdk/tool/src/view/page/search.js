// Search in names, categories and values of arguments; and the way from hit to hit.

/** What a text looks for: a part of a text, without regard to case, or a regular expression. */
function matcherOf(text, isRegex) {
  if (!isRegex) {
    const wanted = text.toLowerCase();
    return (candidate) => candidate.toLowerCase().includes(wanted);
  }
  const expression = new RegExp(text, "i");
  return (candidate) => expression.test(candidate);
}

class Search {
  constructor(model) {
    this.model = model;
    this.clear();
  }

  clear() {
    this.text = "";
    this.error = "";
    /** `hit[event]` is 1 or 0; `before[event]` counts the hits before an event. */
    this.found = null;
    this.count = 0;
    this.current = NONE;
  }

  /** Finds all events that match. A wrong regular expression finds none and leaves its error. */
  run(text, isRegex) {
    this.clear();
    this.text = text;
    if (text === "") return;
    let matches;
    try {
      matches = matcherOf(text, isRegex);
    } catch (error) {
      this.error = error.message;
      return;
    }
    this.runWith(matches, true);
  }

  /** Finds the events of one name. */
  runName(name) {
    this.clear();
    this.text = name;
    this.runWith((candidate) => candidate === name, false);
  }

  runWith(matches, everywhere) {
    const { model } = this;
    const stringHit = Uint8Array.from(model.strings, (string) => (string !== "" && matches(string) ? 1 : 0));
    const labelHit = new Uint8Array(model.labelName.length);
    for (let label = 0; label < labelHit.length; label++) {
      labelHit[label] = stringHit[model.labelName[label]] | (everywhere ? stringHit[model.labelCategory[label]] : 0);
    }
    const argsHit = everywhere ? this.findArgs(matches, stringHit) : new Uint8Array(model.argsAt.length);
    const hit = new Uint8Array(model.count);
    const before = new Uint32Array(model.count + 1);
    let count = 0;
    for (let event = 0; event < model.count; event++) {
      before[event] = count;
      hit[event] = labelHit[model.label[event]] | argsHit[model.args[event]];
      count += hit[event];
    }
    before[model.count] = count;
    this.found = { hit, before };
    this.count = count;
  }

  /** For each set of arguments (the first is none) whether one of its values matches. */
  findArgs(matches, stringHit) {
    const { argsAt, argsBytes } = this.model;
    const hits = new Uint8Array(argsAt.length);
    const matchesNumber = (number) => matches(String(number));
    for (let set = 1; set < argsAt.length; set++) {
      const reader = new ByteReader(argsBytes, argsAt[set - 1]);
      while (reader.at < argsAt[set] && hits[set] === 0) {
        if (valueMatches(reader, stringHit, matchesNumber)) hits[set] = 1;
      }
    }
    return hits;
  }

  /** The next hit in time (or the one before), from the current one or from a moment; around the end. */
  step(forward, moment) {
    if (this.count === 0) return NONE;
    const { model, current } = this;
    const from = current === NONE ? moment : model.start[current];
    let best = NONE;
    let outermost = NONE;
    const earlier = (a, b) => model.start[a] - model.start[b] || a - b;
    const sign = forward ? 1 : -1;
    for (let event = 0; event < model.count; event++) {
      if (this.found.hit[event] === 0) continue;
      const beyond = current === NONE ? sign * (model.start[event] - from) >= 0 : sign * earlier(event, current) > 0;
      if (beyond && (best === NONE || sign * earlier(event, best) < 0)) best = event;
      if (outermost === NONE || sign * earlier(event, outermost) < 0) outermost = event;
    }
    this.current = best === NONE ? outermost : best;
    return this.current;
  }

  /** The number of the current hit, counted from 1 in the order of time. */
  get position() {
    if (this.current === NONE) return 0;
    const { start } = this.model;
    const at = start[this.current];
    let position = 1;
    for (let event = 0; event < start.length; event++) {
      if (this.found.hit[event] && (start[event] < at || (start[event] === at && event < this.current))) position++;
    }
    return position;
  }

  /** Which of `width` pixels of the whole trace have a hit. */
  pixels(width) {
    if (!this.found) return undefined;
    const pixels = new Uint8Array(width);
    const scale = width / Math.max(1, this.model.duration_ns);
    for (let event = 0; event < this.model.count; event++) {
      if (this.found.hit[event]) pixels[Math.min(width - 1, Math.floor(this.model.start[event] * scale))] = 1;
    }
    return pixels;
  }
}

/** Reads one argument and says whether its value, or one inside of it, matches. */
function valueMatches(reader, stringHit, matchesNumber) {
  reader.varint();
  const kind = reader.byte();
  switch (kind) {
    case 0: return matchesNumber(false);
    case 1: return matchesNumber(true);
    case 2: return matchesNumber(reader.wide());
    case 3: {
      const zigzag = reader.wide();
      return matchesNumber(zigzag & 1n ? -(zigzag + 1n) / 2n : zigzag / 2n);
    }
    case 4: return matchesNumber(reader.float());
    case 5: return stringHit[reader.varint()] === 1;
    case 6: return matchesNumber(`0x${reader.wide().toString(16)}`);
    default: {
      let any = false;
      for (let left = reader.varint(); left > 0; left--) any = valueMatches(reader, stringHit, matchesNumber) || any;
      return any;
    }
  }
}
