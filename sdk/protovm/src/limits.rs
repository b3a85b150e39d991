//! Limits of programs, and of what one patch may cost.
//!
//! A step is an instruction, an iteration or a merged field. Steps do not cost the same: one may
//! scan a patch of a megabyte for a field, or copy it. So the machine also counts work. A unit takes
//! up to 10 ns, so a patch takes a fraction of a second at most.

/// The greatest length of a program.
pub const PROGRAM_MAX_BYTES: usize = 64 << 10;
/// The greatest depth of an instruction. The program's own instructions have depth 1.
pub const INSTRUCTION_DEPTH_MAX: usize = 32;
/// The number of registers.
pub const REGISTERS: usize = 32;
/// The greatest number of iterations that may be inside of each other, over all selects. Together
/// with the depth of instructions it limits the stack.
pub const ITERATION_DEPTH_MAX: usize = 64;
/// The greatest number of instructions, iterations and merged fields per patch.
pub const STEPS_MAX_PER_PATCH: u32 = 100_000;
/// The greatest number of units of work per patch. Passing a field in a scan takes 1 unit, copying
/// takes 1 unit per 64 bytes, looking up or creating a node takes 16.
pub const WORK_MAX_PER_PATCH: u32 = 1 << 24;
