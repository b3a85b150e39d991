// The states of threads, and what they mean.

/** What threads do, in the order in which strips stack it, from the bottom. `variable` is a colour of the style. */
const ACTIVITIES = [
  { key: "running", label: "running", variable: "--state-running" },
  { key: "runnable", label: "waiting for a core", variable: "--state-runnable" },
  { key: "lock", label: "waiting for a lock or a thread", variable: "--state-lock" },
  { key: "blocked", label: "blocked on I/O", variable: "--state-blocked" },
  { key: "sleeping", label: "sleeping", variable: "--state-sleeping" },
  { key: "stopped", label: "stopped or ended", variable: "--state-stopped" },
  { key: "unknown", label: "unknown", variable: "--state-unknown" },
];
const ACTIVITY_COUNT = ACTIVITIES.length;
const UNKNOWN_ACTIVITY = ACTIVITY_COUNT - 1;

/** States by number, as `kernel_lanes.rs` writes them: a text, and the index of an activity. */
const STATES = [
  ["running", 0],
  ["waiting for a core", 1],
  ["waiting for a core that another thread took", 1],
  ["waiting for a lock or a thread", 2],
  ["blocked on I/O", 3],
  ["sleeping", 4],
  ["stopped by a signal", 5],
  ["stopped by a debugger", 5],
  ["ended", 5],
  ["ended, and its parent has not noticed", 5],
  ["set aside by the kernel", 5],
  ["a thread of the kernel without work", 5],
  ["unknown", UNKNOWN_ACTIVITY],
  ["unknown: the kernel lost events", UNKNOWN_ACTIVITY],
].map(([text, activity]) => ({ text, activity }));

const RUNNING = 0;
/** Added to the state of merged pieces, and to the sixteenths of a core's. */
const MERGED = 16;
