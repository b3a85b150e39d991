//! A commit in the making.

use crate::commit::{ChunkToMove, ChunkToPatch, CommitRequest, Patch, ServiceEndpoint};
use crate::ids::{BufferId, ChunkId, WriterId};
use crate::shm::ChunkPlace;

use super::patches::PatchList;

/// Patches that a service takes in one entry.
const PATCHES_PER_ENTRY_MAX: usize = 1024;

/// Collects chunks and patches, and sends them. Its memory is used again, so once it has grown it
/// allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    request: CommitRequest,
    /// Share of the shared memory that the chunks in `request` take.
    chunk_bytes: usize,
    /// Empty lists of earlier requests.
    spare: Vec<Vec<Patch>>,
}

impl Batch {
    /// Adds a complete chunk that takes `size_bytes` of the shared memory.
    pub(super) fn add_chunk(
        &mut self,
        place: ChunkPlace,
        size_bytes: usize,
        target_buffer: BufferId,
    ) {
        self.chunk_bytes += size_bytes;
        self.request.chunks_to_move.push(ChunkToMove {
            page_index: place.page_index,
            chunk_index: place.chunk_index,
            target_buffer,
        });
    }

    /// Takes the lengths that are known from the front of `patches`.
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

    /// Share of the shared memory that waits here.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Sends what there is, if there is anything.
    pub(super) fn commit_to(&mut self, endpoint: &dyn ServiceEndpoint) {
        if self.request.is_empty() {
            return;
        }
        endpoint.commit(&self.request);
        self.chunk_bytes = 0;
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
