// Begins: decodes the trace, makes the view, and says what others may ask of it.

async function main() {
  const loading = document.getElementById("loading");
  try {
    const begun = performance.now();
    const carrier = document.getElementById("trace");
    const bytes = await inflateTrace(carrier.textContent);
    carrier.remove();
    const inflated = performance.now();
    const model = new Model(decodeTrace(bytes));
    const decoded = performance.now();
    const view = new View(model);
    loading.hidden = true;
    requestAnimationFrame(() => view.timeline.canvas.focus({ preventScroll: true }));
    const timings = { inflate_ms: inflated - begun, decode_ms: decoded - inflated, view_ms: performance.now() - decoded };
    return interfaceOf(view, timings);
  } catch (error) {
    loading.textContent = `This page cannot show its trace: ${error.message}. It needs a browser of 2023 or later.`;
    throw error;
  }
}

/**
 * `window.tracezeroView`, a promise of what programs may ask of the page. Times are nanoseconds since
 * the begin of the trace; an event is a number.
 */
function interfaceOf(view, timings) {
  const { model, viewport, timeline, search } = view;
  return {
    /** How long the steps of loading took, in milliseconds. */
    timings,
    /** Frames drawn last: when, and how long drawing took. */
    frames: view.frames,
    eventCount: model.count,
    /** The visible range, where a movement leads. */
    visible() {
      const { start, span } = viewport.goal();
      return { start_ns: start, end_ns: start + span };
    },
    show(start_ns, end_ns) {
      viewport.show(start_ns, end_ns);
    },
    /** The time at an x coordinate of the window. */
    timeAt(clientX) {
      return viewport.timeAt(clientX - timeline.canvas.getBoundingClientRect().left);
    },
    hits() {
      return { count: search.count, position: search.position, current: search.current };
    },
    /** The names of the tracks from top to bottom. */
    tracks() {
      return view.lanes.list.map((lane) => model.tracks[lane.track].name);
    },
    /** All events of a name. */
    find(name) {
      const found = [];
      for (let event = 0; event < model.count; event++) if (model.name(event) === name) found.push(event);
      return found;
    },
    event(event) {
      return {
        name: model.name(event),
        category: model.category(event),
        start_ns: model.start[event],
        duration_ns: model.duration[event],
        self_ns: model.selfTime(event),
        track: model.tracks[model.trackOf(event)].name,
        depth: model.rowDepth[model.rowOf(event)],
        parent: model.parent[event],
      };
    },
    /** The steps of the flows that an event is part of, as arrows show them. */
    steps(event) {
      return model.flows.of(event).flatMap((flow) => model.flows.stepsNear(flow, model.count));
    },
    /** What cores ran: their names, and [thread, begin, end, state afterwards] of each piece. */
    cores() {
      const { kernel } = model;
      return [...(kernel?.coreOfTrack ?? [])].map(([track, core]) => ({
        name: model.tracks[track].name,
        pieces: range(core.first, core.last).map((piece) => {
          const thread = kernel.threadOf(piece);
          return [thread ? threadText(thread) : "", kernel.cores.start[piece], kernel.cores.end(piece), afterText(kernel, piece)];
        }),
      }));
    },
    /** The states of a thread, by the name of its track: [state, begin, end, CPU, system call, waker] of each. */
    states(name) {
      const { kernel } = model;
      const lane = view.lanes.list.find(({ track, strip }) => strip && model.tracks[track].name === name);
      return range(lane?.strip.first ?? 0, lane?.strip.last ?? 0).map((piece) => {
        const waker = kernel.wakerOf(piece);
        return [stateText(kernel.strips, piece), kernel.strips.start[piece], kernel.strips.end(piece), kernel.coreNumberOf(piece) ?? null, kernel.callOf(piece), waker?.tid ? threadText(waker) : waker ?? ""];
      });
    },
    /** A point of the window on the states of a thread, or on a core, at a time; by the name of the track. */
    pointAt(name, time_ns) {
      const lane = view.lanes.list.find(({ track, strip, core }) => (strip ?? core) && model.tracks[track].name === name);
      const { top, height } = timeline.kernelLayer.boxOf(lane.core ?? lane.strip);
      const box = timeline.canvas.getBoundingClientRect();
      return { x: box.left + viewport.xOf(time_ns), y: box.top + top + height / 2 };
    },
    selected() {
      return view.state.selected;
    },
    /** A point of the window that an event covers; none if it is not in view. */
    pointOf(event) {
      const place = timeline.placeOf(event);
      if (!place) return undefined;
      const box = timeline.canvas.getBoundingClientRect();
      const left = Math.max(0, place.left);
      const right = Math.min(viewport.width, place.right);
      if (right < left || place.top < 0 || place.middle > timeline.height) return undefined;
      return { x: box.left + (left + right) / 2, y: box.top + place.middle };
    },
  };
}

function range(first, last) {
  return Array.from({ length: last - first }, (_, i) => first + i);
}

window.tracezeroView = main();
