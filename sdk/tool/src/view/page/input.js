// Pointer, wheel and keys.

const CLICK_SLACK_PX = 4;
const ZOOM_PER_WHEEL_PX = 0.0022;
const ZOOM_PER_KEY = 1.4;

const KEYS = [
  ["W  S", "zoom in, out at the pointer (also the wheel, a pinch, + and −)"],
  ["A  D", "move left, right (also ← → and a drag)"],
  ["↑  ↓", "scroll the tracks (also Shift + wheel)"],
  ["F", "fit the selected event (also a double click)"],
  ["0", "show the whole trace"],
  ["Shift + drag", "mark a range: its length, and tables of it alone"],
  ["/", "search; Enter and Shift + Enter go from hit to hit"],
  ["N  P", "next, previous hit"],
  ["[  ]", "previous, next event of the same row"],
  ["U", "select the event around this one"],
  ["Escape", "end search, mark and selection"],
  ["?", "this help"],
];

class Input {
  constructor(view) {
    this.view = view;
    this.canvas = view.timeline.canvas;
    this.pointerX = 0;
    this.listenToPointer();
    this.listenToWheel();
    this.listenToSearch();
    window.addEventListener("keydown", (event) => this.key(event));
    document.getElementById("fit-all").addEventListener("click", () => view.viewport.whole(true));
    document.getElementById("help-button").addEventListener("click", () => this.help());
    view.timeline.scroller.addEventListener("scroll", () => {
      view.timeline.showNames();
      view.redraw();
    });
  }

  listenToPointer() {
    const { canvas, view } = this;
    const { state, viewport, timeline } = view;
    let pressed;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      pressed = { x: event.offsetX, y: event.offsetY, lastX: event.offsetX, lastY: event.offsetY, moved: false, marking: event.shiftKey };
    });
    canvas.addEventListener("pointermove", (event) => {
      this.pointerX = event.offsetX;
      if (!pressed) {
        view.hover(event);
        return;
      }
      if (Math.hypot(event.offsetX - pressed.x, event.offsetY - pressed.y) > CLICK_SLACK_PX) pressed.moved = true;
      if (!pressed.moved) return;
      view.leave();
      if (pressed.marking) {
        const times = [viewport.timeAt(pressed.x), viewport.timeAt(event.offsetX)];
        state.mark = { start: Math.min(...times), end: Math.max(...times) };
        view.redraw();
      } else {
        canvas.classList.add("dragged");
        viewport.pan(pressed.lastX - event.offsetX);
        timeline.scroller.scrollTop += pressed.lastY - event.offsetY;
        pressed.lastX = event.offsetX;
        pressed.lastY = event.offsetY;
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      canvas.classList.remove("dragged");
      const press = pressed;
      pressed = undefined;
      if (!press) return;
      if (press.moved && press.marking) view.setMark(state.mark);
      else if (!press.moved) {
        const at = timeline.at(event.offsetX, event.offsetY);
        view.select(at?.event ?? NONE, at?.piece);
      }
    });
    canvas.addEventListener("pointercancel", () => (pressed = undefined));
    canvas.addEventListener("pointerleave", () => view.leave());
    canvas.addEventListener("dblclick", () => view.fitSelected());
  }

  listenToWheel() {
    const { canvas, view } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const line = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const dx = event.deltaX * line;
      const dy = event.deltaY * line;
      if (event.shiftKey) view.timeline.scroller.scrollTop += dx + dy;
      else if (Math.abs(dx) > Math.abs(dy)) view.viewport.pan(dx);
      else {
        // A pinch arrives as a wheel with Ctrl, in smaller steps.
        const speed = event.ctrlKey ? ZOOM_PER_WHEEL_PX * 4 : ZOOM_PER_WHEEL_PX;
        view.viewport.zoom(Math.exp(Math.max(-600, Math.min(600, dy)) * speed), event.offsetX);
      }
    }, { passive: false });
  }

  listenToSearch() {
    const { view } = this;
    const field = document.getElementById("search");
    const regex = document.getElementById("regex");
    let waiting;
    const run = () => {
      clearTimeout(waiting);
      waiting = undefined;
      view.runSearch(field.value, regex.getAttribute("aria-pressed") === "true");
    };
    field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(run, view.model.count > 200000 ? 180 : 40);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        if (waiting !== undefined) run();
        view.stepHit(!event.shiftKey);
      } else if (event.key === "Escape") {
        field.value = "";
        run();
        this.canvas.focus({ preventScroll: true });
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    regex.addEventListener("click", () => {
      regex.setAttribute("aria-pressed", String(regex.getAttribute("aria-pressed") !== "true"));
      run();
    });
    document.getElementById("next").addEventListener("click", () => view.stepHit(true));
    document.getElementById("previous").addEventListener("click", () => view.stepHit(false));
  }

  key(event) {
    if (event.target instanceof HTMLInputElement || event.altKey || event.metaKey || event.ctrlKey) return;
    if (document.getElementById("help").open) return;
    const { view } = this;
    const { viewport, timeline, state } = view;
    const step = viewport.width / 5;
    const actions = {
      w: () => viewport.zoom(1 / ZOOM_PER_KEY, this.pointerX, true),
      s: () => viewport.zoom(ZOOM_PER_KEY, this.pointerX, true),
      a: () => viewport.pan(-step, true),
      d: () => viewport.pan(step, true),
      "+": () => viewport.zoom(1 / ZOOM_PER_KEY, viewport.width / 2, true),
      "-": () => viewport.zoom(ZOOM_PER_KEY, viewport.width / 2, true),
      arrowleft: () => viewport.pan(-step, true),
      arrowright: () => viewport.pan(step, true),
      arrowup: () => (timeline.scroller.scrollTop -= 3 * ROW_HEIGHT),
      arrowdown: () => (timeline.scroller.scrollTop += 3 * ROW_HEIGHT),
      pageup: () => (timeline.scroller.scrollTop -= timeline.height * 0.9),
      pagedown: () => (timeline.scroller.scrollTop += timeline.height * 0.9),
      f: () => view.fitSelected(),
      0: () => viewport.whole(true),
      n: () => view.stepHit(true),
      p: () => view.stepHit(false),
      "[": () => view.stepInRow(-1),
      "]": () => view.stepInRow(1),
      u: () => view.selectParent(),
      "/": () => document.getElementById("search").select(),
      "?": () => this.help(),
      escape: () => {
        view.endSearch();
        if (state.mark) view.setMark(null);
        view.select(NONE);
      },
    };
    const action = actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  }

  help() {
    const dialog = document.getElementById("help");
    const lines = KEYS.flatMap(([keys, what]) => {
      const names = keys.split("  ").flatMap((key, i) => (i === 0 ? [element("kbd", {}, key)] : [" ", element("kbd", {}, key)]));
      return [element("dt", {}, ...names), element("dd", {}, what)];
    });
    const close = element("button", { class: "bar-button", type: "button", autofocus: "" }, "Close");
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(element("h2", {}, "Keys"), element("dl", {}, ...lines), element("p", {}, close));
    dialog.showModal();
  }
}
