//! Shortens runs that fail.

use crate::model::Commit;
use crate::random::{Operation, Run};

/// Returns the shortest run found that still `fails`. First leaves out parts of decreasing length
/// as long as possible (delta debugging), then simplifies the operations that are left.
pub fn shrink(mut run: Run, fails: impl Fn(&Run) -> bool) -> Run {
    loop {
        let before = weight(&run);
        let mut part = run.operations.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < run.operations.len() {
                let mut shorter = run.clone();
                let end = (at + part).min(shorter.operations.len());
                shorter.operations.drain(at..end);
                if fails(&shorter) {
                    run = shorter;
                } else {
                    at = end;
                }
            }
            part /= 2;
        }
        for at in 0..run.operations.len() {
            for simpler in simpler(&run.operations[at]) {
                let mut candidate = run.clone();
                candidate.operations[at] = simpler;
                if weight(&candidate) < weight(&run) && fails(&candidate) {
                    run = candidate;
                }
            }
        }
        if weight(&run) == before {
            return run;
        }
    }
}

/// Returns the measure that shrinking reduces.
fn weight(run: &Run) -> usize {
    run.operations
        .iter()
        .map(|operation| match operation {
            Operation::Commit(commit) => {
                let bits = commit.flags.count_ones() as usize + usize::from(!commit.complete);
                10 + commit.source.len() + usize::from(commit.declared) + bits
            }
            Operation::Patch(patch) => 10 + patch.patches.len(),
            Operation::BeginRead | Operation::Read | Operation::Clone => 10,
        })
        .sum()
}

fn simpler(operation: &Operation) -> Vec<Operation> {
    let commits = |commits: Vec<Commit>| commits.into_iter().map(Operation::Commit).collect();
    match operation {
        Operation::Commit(commit) => {
            let mut candidates = Vec::new();
            let len = commit.source.len();
            for kept in [0, len / 2, len.saturating_sub(16), len.saturating_sub(1)] {
                let mut shorter = commit.clone();
                shorter.source.truncate(kept);
                candidates.push(shorter);
            }
            for declared in [0, commit.declared / 2, commit.declared.saturating_sub(1)] {
                candidates.push(Commit {
                    declared,
                    ..commit.clone()
                });
            }
            for bit in 0..8 {
                candidates.push(Commit {
                    flags: commit.flags & !(1 << bit),
                    ..commit.clone()
                });
            }
            candidates.push(Commit {
                complete: true,
                ..commit.clone()
            });
            commits(candidates)
        }
        Operation::Patch(patch) => (0..patch.patches.len())
            .map(|i| {
                let mut shorter = patch.clone();
                shorter.patches.remove(i);
                Operation::Patch(shorter)
            })
            .collect(),
        Operation::BeginRead | Operation::Read | Operation::Clone => Vec::new(),
    }
}
