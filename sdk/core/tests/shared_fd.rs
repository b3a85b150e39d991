//! A producer in another process writes into memory that this process has made.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;

use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::shm::{
    ChunkCopy, ChunkFlags, ChunkPlace, ForeignMemory, Geometry, NewChunk, PageLayout,
    ProducerMemory, SharedFd,
};

const PAGE_BYTES: usize = 4096;
const PAGES: u32 = 4;
/// The path of the memory, for the process that writes.
const MEMORY: &str = "MEMORY_OF_SERVICE";

fn place(page_index: u32) -> ChunkPlace {
    ChunkPlace {
        page_index,
        chunk_index: 0,
    }
}

#[test]
fn chunks_of_another_process_arrive() {
    let geometry = Geometry::new(PAGES as usize * PAGE_BYTES, PAGE_BYTES).unwrap();
    let (mut memory, shared) = ForeignMemory::create(geometry).unwrap();
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        shared.as_fd().as_raw_fd()
    );
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "write_chunks"])
        .env(MEMORY, path)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let mut copy = ChunkCopy::new();
    for page_index in 0..PAGES - 1 {
        memory.take(place(page_index), &mut copy).unwrap();
        assert_eq!(copy.payload()[..3], [2, page_index as u8, 9]);
    }
    // The process has ended before it completed the last chunk. Of its two packets, the first is
    // known to be finished.
    let scraped = memory.scrape(place(PAGES - 1), &mut copy);
    assert!(!scraped.unwrap().is_complete);
    assert_eq!(copy.payload()[..4], [2, PAGES as u8 - 1, 9, 0]);
}

/// The producer. It is a test so that the test above can start it in a process of its own; alone, it
/// has no memory to attach.
#[test]
#[ignore = "the other test starts it, with memory to attach"]
fn write_chunks() {
    let mut options = fs::OpenOptions::new();
    let path = std::env::var_os(MEMORY).expect("the other test names the memory");
    let file = options.read(true).write(true).open(path).unwrap();
    let shared = SharedFd::attach(file.into(), PAGE_BYTES).unwrap();
    assert!(shared.keeps_its_size());
    let memory = ProducerMemory::attach(&shared).unwrap();
    for page_index in 0..PAGES {
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(page_index),
            flags: ChunkFlags::NONE,
        };
        let chunk = memory.acquire_for_writing(page_index, PageLayout::One, header);
        let mut chunk = chunk.unwrap();
        chunk.append_packet(&[page_index as u8, 9]);
        if page_index < PAGES - 1 {
            assert_eq!(chunk.complete(), place(page_index));
        } else {
            chunk.append_packet(&[page_index as u8, 10]);
        }
    }
}
