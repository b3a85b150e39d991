//! Traces with the kernel's half, made by hand.

use protozero::HeapBuffered;
use tracezero_core::protos::TracePacket;
use tracezero_kernel::protos::{FtraceEvent, FtraceEventBundle, KernelPacket};

/// The states that the kernel gives threads that lose their core (`prev_state`).
pub mod prev_state {
    /// The thread could go on.
    pub const RUNNABLE: u16 = 0;
    /// It sleeps.
    pub const SLEEPING: u16 = 1;
    /// It waits for a disk.
    pub const BLOCKED: u16 = 2;
    /// It has ended.
    pub const DEAD: u16 = 0x10;
    /// Its core was taken away.
    pub const PREEMPTED: u16 = 0x100;
}

/// The form of the events of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedForm {
    /// Columns, without the threads that lose their core.
    Compact,
    /// A message for each event.
    Verbose,
}

/// A trace that is being made. It is of a machine with Linux 6.18 on x86_64.
#[derive(Clone, Debug)]
pub struct KernelTrace {
    bytes: Vec<u8>,
    form: SchedForm,
}

/// The events of a core in a bundle. Those of the scheduler must be added in the order of time. The
/// name of each thread is `thread-` and its number.
#[derive(Clone, Debug, Default)]
pub struct CoreEvents {
    switches: Vec<Switch>,
    wakings: Vec<Waking>,
    /// Encoded events of the verbose form.
    events: Vec<Vec<u8>>,
    has_lost: bool,
    previous_end_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Switch {
    time_ns: u64,
    prev: i32,
    prev_state: u16,
    next: i32,
}

#[derive(Clone, Copy, Debug)]
struct Waking {
    time_ns: u64,
    waker: i32,
    tid: i32,
    target_cpu: i32,
    is_interrupt: bool,
}

impl KernelTrace {
    /// Begins a trace with a description of the machine.
    #[must_use]
    pub fn new(form: SchedForm) -> Self {
        let mut trace = Self {
            bytes: Vec::new(),
            form,
        };
        trace.packet(|packet| {
            packet.system_info(|info| {
                info.utsname(|names| {
                    names.set_release("6.18.44").set_machine("x86_64");
                });
            });
            packet.set_trusted_packet_sequence_id(1);
        });
        trace
    }

    /// Adds a packet of the SDK's half.
    pub fn packet(&mut self, write: impl FnOnce(&mut TracePacket<'_>)) -> &mut Self {
        let mut packet = HeapBuffered::<TracePacket<'_>>::new();
        write(&mut packet.message());
        self.add(&packet.to_vec())
    }

    /// Adds a packet of the kernel's half.
    pub fn kernel_packet(&mut self, write: impl FnOnce(&mut KernelPacket<'_>)) -> &mut Self {
        let mut packet = HeapBuffered::<KernelPacket<'_>>::new();
        write(&mut packet.message());
        self.add(&packet.to_vec())
    }

    /// Adds a bundle of events of a core.
    pub fn core(&mut self, cpu: u32, events: impl FnOnce(&mut CoreEvents)) -> &mut Self {
        let mut core = CoreEvents::default();
        events(&mut core);
        let form = self.form;
        self.kernel_packet(|packet| {
            packet.ftrace_events(|bundle| core.write(cpu, form, bundle));
        })
    }

    /// Adds an encoded packet.
    pub fn add(&mut self, packet: &[u8]) -> &mut Self {
        let mut trace = HeapBuffered::<tracezero_core::protos::Trace<'_>>::new();
        trace.message().as_message_mut().append_bytes::<1>(packet);
        self.bytes.extend(trace.to_vec());
        self
    }

    /// Returns the encoded trace.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl CoreEvents {
    /// Says that the kernel lost events before these.
    pub fn lost(&mut self) -> &mut Self {
        self.has_lost = true;
        self
    }

    /// Says that the bundle before ended at this time.
    pub fn after(&mut self, previous_end_ns: u64) -> &mut Self {
        self.previous_end_ns = Some(previous_end_ns);
        self
    }

    /// The core goes from a thread to another one.
    pub fn switch(&mut self, time_ns: u64, prev: i32, prev_state: u16, next: i32) -> &mut Self {
        self.switches.push(Switch {
            time_ns,
            prev,
            prev_state,
            next,
        });
        self
    }

    /// A thread wakes another one, which goes into the queue of a core.
    pub fn wake(&mut self, time_ns: u64, waker: i32, tid: i32, target_cpu: i32) -> &mut Self {
        self.wakings.push(Waking {
            time_ns,
            waker,
            tid,
            target_cpu,
            is_interrupt: false,
        });
        self
    }

    /// An interrupt wakes a thread while another one runs.
    pub fn interrupt(&mut self, time_ns: u64, running: i32, tid: i32, cpu: i32) -> &mut Self {
        self.wake(time_ns, running, tid, cpu);
        if let Some(waking) = self.wakings.last_mut() {
            waking.is_interrupt = true;
        }
        self
    }

    /// A thread begins a system call.
    pub fn call(&mut self, time_ns: u64, tid: i32, number: i64, args: [u64; 3]) -> &mut Self {
        self.event(time_ns, tid, |event| {
            event.sys_enter(|call| {
                call.set_id(number);
                args.iter().for_each(|arg| {
                    call.add_args(*arg);
                });
                (0..3).for_each(|_| {
                    call.add_args(0);
                });
            });
        })
    }

    /// A thread ends a system call.
    pub fn call_end(&mut self, time_ns: u64, tid: i32, number: i64) -> &mut Self {
        self.event(time_ns, tid, |event| {
            event.sys_exit(|call| {
                call.set_id(number).set_ret(0);
            });
        })
    }

    /// A thread begins another one, of the same process or of a new one.
    pub fn new_thread(
        &mut self,
        time_ns: u64,
        parent: i32,
        tid: i32,
        is_thread: bool,
    ) -> &mut Self {
        self.event(time_ns, parent, |event| {
            event.task_newtask(|new| {
                let flags = if is_thread { 0x1_0f00 } else { 0x100 };
                new.set_pid(tid).set_comm(&name(tid)).set_clone_flags(flags);
            });
        })
    }

    /// A thread gets another name, while the same one or another one runs.
    pub fn rename(&mut self, time_ns: u64, running: i32, tid: i32, name: &str) -> &mut Self {
        self.event(time_ns, running, |event| {
            event.task_rename(|renamed| {
                renamed.set_pid(tid).set_newcomm(name);
            });
        })
    }

    /// The kernel forgets a thread, while another one runs.
    pub fn free(&mut self, time_ns: u64, running: i32, tid: i32) -> &mut Self {
        self.event(time_ns, running, |event| {
            event.sched_process_free(|freed| {
                freed.set_pid(tid);
            });
        })
    }

    /// Any event of the verbose form.
    pub fn event(
        &mut self,
        time_ns: u64,
        running: i32,
        write: impl FnOnce(&mut FtraceEvent<'_>),
    ) -> &mut Self {
        let mut event = HeapBuffered::<FtraceEvent<'_>>::new();
        {
            let mut message = event.message();
            message.set_timestamp(time_ns).set_pid(running as u32);
            write(&mut message);
        }
        self.events.push(event.to_vec());
        self
    }

    fn write(mut self, cpu: u32, form: SchedForm, bundle: &mut FtraceEventBundle<'_>) {
        bundle.set_cpu(cpu);
        if form == SchedForm::Verbose {
            self.write_verbose();
        }
        for event in &self.events {
            bundle.as_message_mut().append_bytes::<2>(event);
        }
        if self.has_lost {
            bundle.set_lost_events(true);
        }
        if form == SchedForm::Compact {
            self.write_compact(bundle);
        }
        if let Some(end_ns) = self.previous_end_ns {
            bundle.set_previous_bundle_end_timestamp(end_ns);
        }
    }

    fn write_verbose(&mut self) {
        for it in std::mem::take(&mut self.switches) {
            self.event(it.time_ns, it.prev, |event| {
                event.sched_switch(|switch| {
                    switch.set_prev_comm(&name(it.prev)).set_prev_pid(it.prev);
                    switch.set_prev_state(i64::from(it.prev_state));
                    switch.set_next_comm(&name(it.next)).set_next_pid(it.next);
                });
            });
        }
        for it in std::mem::take(&mut self.wakings) {
            self.event(it.time_ns, it.waker, |event| {
                event.sched_waking(|waking| {
                    waking.set_comm(&name(it.tid)).set_pid(it.tid);
                    waking.set_target_cpu(it.target_cpu);
                });
            });
        }
    }

    fn write_compact(&self, bundle: &mut FtraceEventBundle<'_>) {
        let next = self.switches.iter().map(|it| it.next);
        let woken = self.wakings.iter().map(|it| it.tid);
        let mut tids: Vec<i32> = next.chain(woken).collect();
        tids.sort_unstable();
        tids.dedup();
        let index = |tid: i32| tids.iter().position(|it| *it == tid).unwrap() as u32;
        let (switches, wakings) = (self.switches.iter(), self.wakings.iter());
        bundle.compact_sched(|compact| {
            for tid in &tids {
                compact.add_intern_table(&name(*tid));
            }
            let times = switches.clone().map(|it| it.time_ns);
            compact.set_switch_timestamp(deltas(times));
            compact.set_switch_prev_state(switches.clone().map(|it| i64::from(it.prev_state)));
            compact.set_switch_next_pid(switches.clone().map(|it| it.next));
            compact.set_switch_next_prio(switches.clone().map(|_| 120));
            compact.set_switch_next_comm_index(switches.map(|it| index(it.next)));
            let times = wakings.clone().map(|it| it.time_ns);
            compact.set_waking_timestamp(deltas(times));
            compact.set_waking_pid(wakings.clone().map(|it| it.tid));
            compact.set_waking_target_cpu(wakings.clone().map(|it| it.target_cpu));
            compact.set_waking_prio(wakings.clone().map(|_| 120));
            compact.set_waking_comm_index(wakings.clone().map(|it| index(it.tid)));
            // The flags of events in interrupts by devices, and of events by threads.
            compact.set_waking_common_flags(wakings.map(|it| if it.is_interrupt { 8 } else { 1 }));
        });
    }
}

/// Returns the first time, and then the differences.
fn deltas(times_ns: impl Iterator<Item = u64>) -> Vec<u64> {
    let deltas = times_ns.scan(0, |last_ns, time_ns| {
        Some(time_ns - std::mem::replace(last_ns, time_ns))
    });
    deltas.collect()
}

fn name(tid: i32) -> String {
    match tid {
        0 => "swapper/0".to_owned(),
        _ => format!("thread-{tid}"),
    }
}
