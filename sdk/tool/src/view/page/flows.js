// Flows: what leads from event to event. A flow goes through points in the order of their times; a
// point is the begin of an event, or its end, if the flow came with that. The number of a point is
// twice that of its event, and one more for an end.

class Flows {
  constructor(model) {
    this.model = model;
    this.byEvent = new Map();
    this.pointsByFlow = new Map();
    this.add(model.flowsOfBegins, 0);
    this.add(model.flowsOfEnds, 1);
    for (const [flow, points] of this.pointsByFlow) this.pointsByFlow.set(flow, this.inOrder(points));
  }

  add({ event, flow }, side) {
    for (let i = 0; i < event.length; i++) {
      append(this.byEvent, event[i], flow[i]);
      append(this.pointsByFlow, flow[i], 2 * event[i] + side);
    }
  }

  /**
   * By time. At the same time begins come before ends, and what encloses comes first: an event on a
   * track of its own before those on threads, then the longer one. No event follows itself.
   */
  inOrder(points) {
    const { model } = this;
    const onThread = (event) => (model.tracks[model.trackOf(event)].kind === "thread" ? 1 : 0);
    points.sort((a, b) => {
      const [left, right] = [a >>> 1, b >>> 1];
      return this.time(a) - this.time(b) || (a & 1) - (b & 1) || onThread(left) - onThread(right) || model.duration[right] - model.duration[left] || a - b;
    });
    return points.filter((point, i) => i === 0 || point >>> 1 !== points[i - 1] >>> 1);
  }

  time(point) {
    const event = point >>> 1;
    return point & 1 ? this.model.end(event) : this.model.start[event];
  }

  /** The flows of an event: each one's points, and the indexes of those that are the event's. */
  of(event) {
    // Asked for with every frame.
    if (this.last?.event !== event) this.last = { event, flows: this.find(event) };
    return this.last.flows;
  }

  find(event) {
    const flows = new Set(this.byEvent.get(event));
    return [...flows].map((flow) => {
      const points = this.pointsByFlow.get(flow);
      const own = [];
      points.forEach((point, i) => {
        if (point >>> 1 === event) own.push(i);
      });
      return { points, own };
    });
  }

  /** The steps of a flow next to some of its points, up to `reach` on either side of each. */
  stepsNear({ points, own }, reach) {
    const ends = new Set();
    for (const at of own) {
      const last = Math.min(points.length - 1, at + reach);
      for (let i = Math.max(1, at - reach + 1); i <= last; i++) ends.add(i);
    }
    return [...ends].map((i) => this.step(points[i - 1], points[i]));
  }

  /** An event is left at its end, or before, if the next point is while it lasts. */
  step(from, to) {
    const arrive_ns = this.time(to);
    const leave_ns = Math.min(this.model.end(from >>> 1), arrive_ns);
    return { from: from >>> 1, to: to >>> 1, leave_ns, arrive_ns };
  }
}
