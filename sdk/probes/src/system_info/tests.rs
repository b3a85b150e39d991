//! What is read from a machine that is a folder.

use tracezero_kernel::protos::{CpuInfoDecoder, InterruptInfoDecoder};

use super::*;
use crate::testing::FakeRoot;

/// The file `/proc/interrupts` of a machine of Arm.
const ARM_INTERRUPTS: &str = "           CPU0       CPU1       CPU2       CPU3       CPU4       CPU5       CPU6       
  9:          0          0          0          0          0          0          0     GICv3  25 Level     vgic
 11:    4083471    3838684     164581     132724     127805     125978      74543     GICv3  30 Level     arch_timer
700:          4         48          0          0          0          0          0  3c280000.pinctrl   1 Edge      u100_power_state
701:         75          0          0          0          0          0          0  e500000.pinctrl  63 Level     cs40l26 IRQ1 Controller
702:          0          0          0          0          0          0          0  cs40l26 IRQ1 Controller   0 Level     GPIO1 rise
762:          0          0          0          0          0          0          0   PCI-MSI 524319 Edge      msix31-01000
999:          0          0          0          0          0          0          0  CUSTOM-CTRL  42  fallback_device
888:          0          0          0          0          0          0          0
889:          0          0          0          0          0          0          0  GIC-400
IPI0:   1976106    2709737     366791     328045     337128     402772     148385       Rescheduling interrupts
";

/// The file `/proc/interrupts` of a machine with processors of Intel or AMD.
const X86_INTERRUPTS: &str = "           CPU0       CPU1       CPU2       CPU3       
   0:         42          0          0          0 IR-IO-APIC    2-edge      timer
   7:          0          0          0          0 IR-IO-APIC    7-fasteoi   pinctrl_amd
  31:          0          0          0          1 IR-PCI-MSI-0000:60:03.1    0-edge      PCIe PME, PCIe bwctrl
 200:          0          0          0          0  CUSTOM-CTRL  42  fallback_device
 888:          0          0          0          0
 889:          0          0          0          0  CTRL
NMI:      12968       4678       3377       3532   Non-maskable interrupts
LOC:  470006507  556112258  531573082  543196117   Local timer interrupts
";

fn interrupts_of(text: &str) -> Vec<(u32, String)> {
    let machine = FakeRoot::with(&[("proc/interrupts", text)]);
    let info = read(&machine.root(), true).interrupts.unwrap();
    let names = InterruptInfoDecoder::new(&info)
        .irq_mapping()
        .map(|mapping| {
            let mapping = mapping.unwrap();
            let name = mapping.name().unwrap().unwrap().to_owned();
            (mapping.irq_id().unwrap().unwrap(), name)
        });
    names.collect()
}

#[test]
fn interrupts_of_arm_have_names() {
    let expected = [
        (9, "vgic"),
        (11, "arch_timer"),
        (700, "u100_power_state"),
        (701, "cs40l26 IRQ1 Controller"),
        (702, "GPIO1 rise"),
        (762, "msix31-01000"),
        (999, "fallback_device"),
    ];
    let expected = expected.map(|(irq, name)| (irq, name.to_owned()));
    assert_eq!(interrupts_of(ARM_INTERRUPTS), expected);
}

#[test]
fn interrupts_of_x86_have_names() {
    let expected = [
        (0, "timer"),
        (7, "pinctrl_amd"),
        (31, "PCIe PME, PCIe bwctrl"),
        (200, "fallback_device"),
    ];
    let expected = expected.map(|(irq, name)| (irq, name.to_owned()));
    assert_eq!(interrupts_of(X86_INTERRUPTS), expected);
}

#[test]
fn interrupts_are_named_only_if_asked_for() {
    let machine = FakeRoot::with(&[("proc/interrupts", X86_INTERRUPTS)]);
    assert!(read(&machine.root(), false).interrupts.is_none());
    assert!(read(&FakeRoot::empty().root(), true).interrupts.is_none());
}

/// What the trace has about a processor.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cpu {
    name: String,
    frequencies: Vec<u32>,
    capacity: Option<u32>,
    /// The implementer, architecture, variant, part and revision.
    arm: Option<[u32; 5]>,
    features: Option<u64>,
}

fn cpus_of(machine: &FakeRoot) -> Vec<Cpu> {
    let info = read(&machine.root(), false).cpus;
    let cpus = CpuInfoDecoder::new(&info).cpus().map(|cpu| {
        let cpu = cpu.unwrap();
        let arm = cpu.arm_identifier().unwrap().map(|arm| {
            [
                arm.implementer(),
                arm.architecture(),
                arm.variant(),
                arm.part(),
                arm.revision(),
            ]
            .map(|key| key.unwrap().unwrap())
        });
        Cpu {
            name: cpu.processor().unwrap().unwrap().to_owned(),
            frequencies: cpu.frequencies().map(Result::unwrap).collect(),
            capacity: cpu.capacity().unwrap(),
            arm,
            features: cpu.features().unwrap(),
        }
    });
    cpus.collect()
}

#[test]
fn processors_of_arm_have_identities_and_capacities() {
    let machine = FakeRoot::empty();
    let mut cpuinfo = "Processor\t: AArch64 Processor rev 13 (aarch64)\n".to_owned();
    for cpu in 0..8 {
        let features = if cpu == 1 {
            "fp mte mte3"
        } else {
            "fp asimd mte33"
        };
        let (variant, part, revision) = if cpu < 6 {
            (7, 0x803, 12)
        } else {
            (6, 0x802, 13)
        };
        cpuinfo += &format!(
            "processor\t: {cpu}\nBogoMIPS\t: 38.00\nFeatures\t: {features}\n\
             CPU implementer\t: 0x51\nCPU architecture: 8\nCPU variant\t: {variant:#x}\n\
             CPU part\t: {part:#x}\nCPU revision\t: {revision}\n\n"
        );
        let capacity = [200, 600, 1024][cpu / 3];
        machine.write(
            format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"),
            format!("{capacity}\n"),
        );
    }
    cpuinfo += "Hardware\t: Qualcomm Technologies, Inc SDM670\n\n";
    machine.write("proc/cpuinfo", cpuinfo);
    let cpufreq = "sys/devices/system/cpu/cpu0/cpufreq";
    machine.write(
        format!("{cpufreq}/scaling_available_frequencies"),
        "576000 300000 748800 \n",
    );
    machine.write(
        format!("{cpufreq}/scaling_boost_frequencies"),
        "1708800 576000 \n",
    );
    let cpus = cpus_of(&machine);
    assert_eq!(cpus.len(), 8);
    let name = "AArch64 Processor rev 13 (aarch64)";
    assert!(cpus.iter().all(|cpu| cpu.name == name));
    assert_eq!(cpus[0].frequencies, [300_000, 576_000, 748_800, 1_708_800]);
    assert_eq!(cpus[1].frequencies, []);
    let capacities: Vec<_> = cpus.iter().map(|cpu| cpu.capacity.unwrap()).collect();
    assert_eq!(capacities, [200, 200, 200, 600, 600, 600, 1024, 1024]);
    assert_eq!(cpus[0].arm, Some([0x51, 8, 7, 0x803, 12]));
    assert_eq!(cpus[7].arm, Some([0x51, 8, 6, 0x802, 13]));
    let features: Vec<_> = cpus.iter().map(|cpu| cpu.features).collect();
    assert_eq!(
        features,
        [None, Some(3), None, None, None, None, None, None]
    );
}

#[test]
fn position_is_the_number_also_with_offline_processors() {
    let cpuinfo = "processor\t: 0\nmodel name\t: Fast\n\nprocessor\t: 2\nmodel name\t: Slow\n";
    let machine = FakeRoot::with(&[("proc/cpuinfo", cpuinfo)]);
    machine.write("sys/devices/system/cpu/cpu3/online", "0\n");
    machine.write("sys/devices/system/cpu/cpufreq/boost", "1\n");
    let names: Vec<_> = cpus_of(&machine).into_iter().map(|cpu| cpu.name).collect();
    assert_eq!(names, ["Fast", "unknown", "Slow", "unknown"]);
}

#[test]
fn machine_without_files_has_no_processors() {
    assert_eq!(cpus_of(&FakeRoot::empty()), []);
}

#[test]
fn files_may_end_anywhere() {
    let machine = FakeRoot::empty();
    let cpuinfo = "processor\t: 0\nmodel name\t: A\nCPU part\t: 0x803\nFeatures\t: mte\n\n";
    for end in 0..cpuinfo.len() {
        machine.write("proc/cpuinfo", &cpuinfo[..end]);
        assert!(cpus_of(&machine).len() <= 1, "{end}");
    }
    let names = interrupts::parse(X86_INTERRUPTS.as_bytes());
    for end in 0..X86_INTERRUPTS.len() {
        let cut = interrupts::parse(&X86_INTERRUPTS.as_bytes()[..end]);
        assert!(cut.len() <= names.len(), "{end}");
    }
}
