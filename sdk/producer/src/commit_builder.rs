//! Builds a writer's commits.

use tracezero_core::commit::{ChunkToMove, ChunkToPatch, CommitRequest, Patch, ServiceEndpoint};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::ChunkPlace;

use crate::patches::PatchList;

/// The maximum number of patches that a service takes in one [`ChunkToPatch`].
const PATCHES_PER_ENTRY_MAX: usize = 1024;

/// Collects chunks and patches, and sends them as a commit. The builder uses its memory for later
/// commits again, so it soon stops allocating.
#[derive(Debug, Default)]
pub(super) struct CommitBuilder {
    request: CommitRequest,
    /// Empty lists of earlier requests, kept for their memory.
    spare: Vec<Vec<Patch>>,
}

impl CommitBuilder {
    /// Adds a complete chunk with a payload of this size.
    pub(super) fn add_chunk(
        &mut self,
        place: ChunkPlace,
        target_buffer: BufferId,
        payload_bytes: u32,
    ) {
        self.request.chunks_to_move.push(ChunkToMove {
            payload_bytes,
            ..ChunkToMove::new(place, target_buffer)
        });
    }

    /// Adds the patches at the front of `patches` whose lengths are known.
    pub(super) fn add_ready_patches(
        &mut self,
        patches: &mut PatchList,
        writer_id: WriterId,
        target_buffer: BufferId,
    ) {
        let first_new = self.request.chunks_to_patch.len();
        while let Some((chunk_id, patch)) = patches.pop_ready() {
            let mut list = match self.request.chunks_to_patch[first_new..].last_mut() {
                Some(entry) if entry.chunk_id == chunk_id => {
                    if entry.patches.len() < PATCHES_PER_ENTRY_MAX {
                        entry.patches.push(patch);
                        continue;
                    }
                    entry.has_more_patches = true;
                    self.empty_list()
                }
                _ => self.empty_list(),
            };
            list.push(patch);
            self.request.chunks_to_patch.push(ChunkToPatch {
                writer_id,
                chunk_id,
                target_buffer,
                patches: list,
                has_more_patches: false,
            });
        }
        let waiting: Option<ChunkId> = patches.front_chunk_id();
        if let Some(entry) = self.request.chunks_to_patch[first_new..].last_mut() {
            entry.has_more_patches = waiting == Some(entry.chunk_id);
        }
    }

    /// Sends the commit, if it is not empty.
    pub(super) fn send(&mut self, endpoint: &dyn ServiceEndpoint) {
        if self.request.is_empty() {
            return;
        }
        endpoint.commit(&self.request);
        self.request.chunks_to_move.clear();
        for mut entry in self.request.chunks_to_patch.drain(..) {
            entry.patches.clear();
            self.spare.push(entry.patches);
        }
    }

    fn empty_list(&mut self) -> Vec<Patch> {
        self.spare.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: WriterId = WriterId(1);
    const BUFFER: BufferId = BufferId(2);

    /// Returns the chunk id, the number of patches, and `has_more_patches` of each entry.
    fn entries(commit: &CommitBuilder) -> Vec<(u32, usize, bool)> {
        commit
            .request
            .chunks_to_patch
            .iter()
            .map(|entry| {
                (
                    entry.chunk_id.0,
                    entry.patches.len(),
                    entry.has_more_patches,
                )
            })
            .collect()
    }

    fn push_ready(patches: &mut PatchList, chunk_id: u32) {
        let patch = patches.push(ChunkId(chunk_id), 8);
        patches.fill(patch, [0x80, 0x80, 0x80, 0]);
    }

    #[test]
    fn entry_states_whether_patches_of_its_chunk_are_missing() {
        let mut patches = PatchList::default();
        let mut commit = CommitBuilder::default();
        for chunk_id in [1, 1, 2] {
            push_ready(&mut patches, chunk_id);
        }
        let missing = patches.push(ChunkId(2), 16);
        commit.add_ready_patches(&mut patches, WRITER, BUFFER);
        assert_eq!(entries(&commit), [(1, 2, false), (2, 1, true)]);

        // The missing patch comes in its own entry.
        patches.fill(missing, [0x81, 0x80, 0x80, 0]);
        commit.add_ready_patches(&mut patches, WRITER, BUFFER);
        commit.add_ready_patches(&mut patches, WRITER, BUFFER);
        assert_eq!(
            entries(&commit),
            [(1, 2, false), (2, 1, true), (2, 1, false)]
        );
    }

    #[test]
    fn no_entry_has_more_patches_than_a_service_takes() {
        let mut patches = PatchList::default();
        let mut commit = CommitBuilder::default();
        for _ in 0..2 * PATCHES_PER_ENTRY_MAX + 1 {
            push_ready(&mut patches, 1);
        }
        commit.add_ready_patches(&mut patches, WRITER, BUFFER);
        assert_eq!(
            entries(&commit),
            [(1, 1024, true), (1, 1024, true), (1, 1, false)]
        );
    }
}
