//! Fuzzes memory that a hostile process writes to: it changes page words, headers and payloads between
//! every two accesses of the service.
//!
//! The target keeps a model of the memory, and checks
//! - each access: it lies in the memory; a take loads no byte of a chunk twice, moves its own chunk
//!   alone, and only from Complete to BeingRead and from BeingRead to Free; it stores nothing but
//!   zeros, into its own chunk; a scrape changes nothing,
//! - each copy: it is as long as the chunk that the service has found, and made of what it has loaded,
//! - the whole memory at the end: it is what the hostile process and the checked accesses made of it,
//! - that an honest producer can use the memory then.
#![no_main]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::shm::watched_sync::{Access, AccessKind, watch};
use tracezero_core::shm::{
    ChunkCopy, ChunkFlags, ChunkPlace, ForeignMemory, Geometry, NewChunk, PacketsWord, PageLayout,
    ProducerMemory, SharedFd, UsedChunk,
};

const PAGE_SIZES_BYTES: [usize; 2] = [4096, 8192];
const STEPS_MAX: usize = 32;
const ABANDONED: u32 = 0x0fff_ffff;

#[derive(Arbitrary, Debug)]
struct Input {
    page_size: u8,
    pages: u8,
    /// The chunks that an honest producer writes first.
    chunks: Vec<Chunk>,
    steps: Vec<Step>,
    changes: VecDeque<Change>,
}

#[derive(Arbitrary, Debug)]
struct Chunk {
    page: u8,
    layout: u8,
    writer_id: u8,
    packets: Vec<u8>,
    is_complete: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Take {
        page: u8,
        chunk: u8,
    },
    Scrape {
        page: u8,
        chunk: u8,
    },
    /// Lists the chunks in use.
    ListUsed,
    /// A place that may not exist.
    TakeAnywhere {
        page: u32,
        chunk: u8,
    },
    ScrapeAnywhere {
        page: u32,
        chunk: u8,
    },
}

/// Something that the hostile process stores, after the service has made some accesses.
#[derive(Arbitrary, Debug)]
struct Change {
    after: u8,
    what: What,
}

impl Change {
    /// Returns the number of accesses between the change before and this one. Most of what the service
    /// does takes few accesses, but a payload takes many.
    fn accesses_before(&self) -> u16 {
        match u16::from(self.after) {
            few @ ..192 => few % 8,
            many => (many - 192) * 16,
        }
    }
}

#[derive(Arbitrary, Debug)]
enum What {
    PageWord {
        page: u8,
        word: u32,
    },
    /// A sound page word.
    Page {
        page: u8,
        layout: u8,
        states: u32,
    },
    /// Chunks that are all Complete.
    Complete {
        page: u8,
        layout: u8,
    },
    Header {
        page: u8,
        layout: u8,
        chunk: u8,
        words: [u32; 2],
    },
    /// The size of the first fragment.
    Size {
        page: u8,
        layout: u8,
        chunk: u8,
        bytes: [u8; 4],
    },
    Bytes {
        page: u8,
        offset: u16,
        bytes: Vec<u8>,
    },
    /// Whatever the service is about to access.
    Here {
        bytes: [u8; 4],
    },
    Everything {
        byte: u8,
    },
}

/// The memory as it should be, and what the service does with it.
struct Model {
    file: File,
    start: usize,
    page_size_bytes: usize,
    bytes: Vec<u8>,
    changes: VecDeque<Change>,
    accesses: u16,
    /// The place of the current step, and whether the step takes the chunk.
    place: ChunkPlace,
    takes: bool,
    /// The page words that this step has loaded or exchanged, as they were found.
    words: Vec<u32>,
    /// The bytes of chunks that this step has loaded.
    loaded: Vec<Option<u8>>,
    loaded_offsets: Vec<usize>,
}

impl Model {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let len = bytes.len().min(self.bytes.len().saturating_sub(offset));
        if len > 0 {
            self.bytes[offset..offset + len].copy_from_slice(&bytes[..len]);
            (self.file.write_all_at(&bytes[..len], offset as u64)).expect("memory of our own");
        }
    }

    fn page(&self, page: u8) -> usize {
        usize::from(page) % (self.bytes.len() / self.page_size_bytes) * self.page_size_bytes
    }

    fn chunk(&self, page: u8, layout: u8, chunk: u8) -> usize {
        let layout = layout_of(layout);
        let chunk = chunk % layout.chunk_count();
        self.page(page) + layout.chunk_offset_bytes(self.page_size_bytes, chunk)
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().expect("4 bytes"))
    }

    fn change(&mut self, what: &What, here: usize) {
        match *what {
            What::PageWord { page, word } => self.put(self.page(page), &word.to_le_bytes()),
            What::Page {
                page,
                layout,
                states,
            } => {
                let word = u32::from(layout_of(layout).code()) << 28 | states & 0x0fff_ffff;
                self.put(self.page(page), &word.to_le_bytes());
            }
            What::Complete { page, layout } => {
                let layout = layout_of(layout);
                let states = (1 << (2 * u32::from(layout.chunk_count()))) - 1;
                let word = u32::from(layout.code()) << 28 | states;
                self.put(self.page(page), &word.to_le_bytes());
            }
            What::Header {
                page,
                layout,
                chunk,
                words,
            } => {
                let bytes = words.map(u32::to_le_bytes).concat();
                self.put(self.chunk(page, layout, chunk), &bytes);
            }
            What::Size {
                page,
                layout,
                chunk,
                bytes,
            } => self.put(self.chunk(page, layout, chunk) + 8, &bytes),
            What::Bytes {
                page,
                offset,
                ref bytes,
            } => self.put(self.page(page) + usize::from(offset), bytes),
            What::Here { bytes } => self.put(here & !3, &bytes),
            What::Everything { byte } => self.put(0, &vec![byte; self.bytes.len()]),
        }
    }

    /// Is called before each access of the service.
    fn observe(&mut self, access: Access) {
        let offset = access.address.wrapping_sub(self.start);
        assert!(offset.checked_add(access.size_bytes).expect("inside") <= self.bytes.len());
        assert!(offset.is_multiple_of(access.size_bytes));
        while let Some(next) = self.changes.front() {
            if next.accesses_before() > self.accesses {
                self.accesses += 1;
                break;
            }
            self.accesses = 0;
            let change = self.changes.pop_front().expect("the front");
            self.change(&change.what, offset);
        }
        let page_offset = offset % self.page_size_bytes;
        let page_index = (offset / self.page_size_bytes) as u32;
        assert_eq!(page_index, self.place.page_index);
        match access.kind {
            AccessKind::Load if page_offset == 0 => {
                assert_eq!(access.size_bytes, 4);
                self.words.push(self.word(offset));
            }
            AccessKind::Load => {
                assert!(page_offset >= 8, "the reserved word");
                for offset in offset..offset + access.size_bytes {
                    assert_eq!(self.loaded[offset], None, "a byte is loaded twice");
                    self.loaded[offset] = Some(self.bytes[offset]);
                    self.loaded_offsets.push(offset);
                }
            }
            AccessKind::Store(value) => {
                assert!(self.takes, "a scrape stores");
                assert_eq!(value, 0);
                let chunk = self.acquired().expect("no chunk was acquired");
                assert!(offset >= chunk.0 && offset + access.size_bytes <= chunk.0 + chunk.1);
                self.bytes[offset..offset + access.size_bytes].fill(0);
            }
            AccessKind::Exchange { seen, next } => {
                assert!(self.takes, "a scrape exchanges");
                assert_eq!((page_offset, access.size_bytes), (0, 4));
                let shift = 2 * u32::from(self.place.chunk_index);
                let others = !(3 << shift);
                let (from, to) = (seen >> shift & 3, next >> shift & 3);
                let keeps_others = seen & others == next & others;
                let frees_page = next == 0 && seen & others & 0x0fff_ffff == 0;
                match (from, to) {
                    (3, 2) => assert!(keeps_others),
                    (2, 0) => assert!(if next == 0 { frees_page } else { keeps_others }),
                    _ => panic!("an illegal move from {seen:#x} to {next:#x}"),
                }
                if self.word(offset) == seen {
                    self.bytes[offset..offset + 4].copy_from_slice(&next.to_le_bytes());
                    self.words.push(seen);
                } else {
                    self.words.push(self.word(offset));
                }
            }
            AccessKind::Change => panic!("the service changes in another way"),
        }
    }

    /// Returns the start and size of the chunk that this step has acquired: in the layout of the last
    /// page word in which it was Complete.
    fn acquired(&self) -> Option<(usize, usize)> {
        let shift = 2 * u32::from(self.place.chunk_index);
        let mut words = self.words.iter().rev();
        let word = words.find(|word| **word >> shift & 3 == 3)?;
        self.chunk_in(*word)
    }

    /// Returns the start and size of the step's chunk in a page with this word.
    fn chunk_in(&self, word: u32) -> Option<(usize, usize)> {
        let layout = PageLayout::from_code((word >> 28 & 7) as u8)?;
        let page = self.place.page_index as usize * self.page_size_bytes;
        (self.place.chunk_index < layout.chunk_count()).then(|| {
            let start = layout.chunk_offset_bytes(self.page_size_bytes, self.place.chunk_index);
            (page + start, layout.chunk_size_bytes(self.page_size_bytes))
        })
    }

    fn begin(&mut self, place: ChunkPlace, takes: bool) {
        (self.place, self.takes) = (place, takes);
        self.words.clear();
        for offset in self.loaded_offsets.drain(..) {
            self.loaded[offset] = None;
        }
    }

    /// Asserts that the header was loaded from this chunk.
    fn check_header(
        &self,
        start: usize,
        writer_id: WriterId,
        chunk_id: ChunkId,
        packets: PacketsWord,
    ) {
        let header = [
            chunk_id.0.to_le_bytes().as_slice(),
            &writer_id.0.to_le_bytes(),
            &packets.bits().to_le_bytes(),
        ]
        .concat();
        let loaded: Vec<_> = self.loaded[start..start + 8].to_vec();
        assert_eq!(header.into_iter().map(Some).collect::<Vec<_>>(), loaded);
    }
}

fn layout_of(layout: u8) -> PageLayout {
    PageLayout::ALL[usize::from(layout) % 5]
}

fuzz_target!(|input: Input| {
    let page_size_bytes = PAGE_SIZES_BYTES[usize::from(input.page_size) % 2];
    let pages = usize::from(input.pages) % 2 + 1;
    let geometry = Geometry::new(pages * page_size_bytes, page_size_bytes).expect("a geometry");
    let (mut memory, shared) = ForeignMemory::create(geometry).expect("memory");
    write_honestly(&shared, &input.chunks);

    let file = File::from(shared.as_fd().try_clone_to_owned().expect("a descriptor"));
    let mut bytes = vec![0; geometry.size_bytes()];
    file.read_exact_at(&mut bytes, 0)
        .expect("memory of our own");
    let model = Rc::new(RefCell::new(Model {
        file,
        start: memory.addresses().start,
        page_size_bytes,
        loaded: vec![None; bytes.len()],
        bytes,
        changes: input.changes,
        accesses: 0,
        place: ChunkPlace {
            page_index: 0,
            chunk_index: 0,
        },
        takes: false,
        words: Vec::new(),
        loaded_offsets: Vec::new(),
    }));
    let mut copy = ChunkCopy::new();
    for step in input.steps.into_iter().take(STEPS_MAX) {
        run(step, &mut memory, &model, &mut copy);
    }
    let mut model = model.borrow_mut();
    let mut now = vec![0; model.bytes.len()];
    (model.file.read_exact_at(&mut now, 0)).expect("memory of our own");
    assert!(now == model.bytes, "the service changed something unseen");

    // The hostile process has gone. A producer that starts with empty memory finds it in order.
    let zeros = vec![0; now.len()];
    model.put(0, &zeros);
    use_honestly(&shared, &mut memory, layout_of(input.pages), &mut copy);
});

fn run(step: Step, memory: &mut ForeignMemory, model: &Rc<RefCell<Model>>, copy: &mut ChunkCopy) {
    let pages = memory.geometry().page_count();
    let (page_index, chunk_index, takes) = match step {
        Step::Take { page, chunk } => (u32::from(page) % pages, chunk % 14, true),
        Step::Scrape { page, chunk } => (u32::from(page) % pages, chunk % 14, false),
        Step::TakeAnywhere { page, chunk } => (page, chunk, true),
        Step::ScrapeAnywhere { page, chunk } => (page, chunk, false),
        Step::ListUsed => {
            let used = memory.used_chunks(|writer_id| writer_id != WriterId(0));
            assert!(used.len() <= pages as usize * 14);
            let in_memory = |chunk: &UsedChunk| chunk.place.page_index < pages;
            assert!(used.iter().all(in_memory));
            assert!(used.is_sorted_by_key(|chunk| chunk.writer_id.0));
            return;
        }
    };
    let place = ChunkPlace {
        page_index,
        chunk_index,
    };
    model.borrow_mut().begin(place, takes);
    let watcher = Rc::clone(model);
    let watcher = Box::new(move |access| watcher.borrow_mut().observe(access));
    if takes {
        let taken = watch(watcher, || memory.take(place, copy));
        let Ok(header) = taken else { return };
        let model = model.borrow();
        let (start, size) = model.acquired().expect("a chunk");
        model.check_header(start, header.writer_id, header.chunk_id, header.packets);
        let payload: Vec<_> = copy.payload().iter().copied().map(Some).collect();
        assert_eq!(payload, model.loaded[start + 8..start + size]);
    } else {
        let before = copy.payload().to_vec();
        let scraped = watch(watcher, || memory.scrape(place, copy));
        let Some(scraped) = scraped else {
            assert_eq!(copy.payload(), before);
            return;
        };
        let model = model.borrow();
        let [word] = model.words[..] else {
            panic!("the page word is loaded more than once");
        };
        let (start, size) = model.chunk_in(word).expect("a chunk");
        let state = word >> (2 * chunk_index) & 3;
        assert_eq!(scraped.is_complete, state == 3);
        assert!(scraped.is_complete || state == 1);
        model.check_header(
            start,
            scraped.header.writer_id,
            scraped.header.chunk_id,
            scraped.header.packets,
        );
        let fragments = scraped.header.packets.count() - u16::from(!scraped.is_complete);
        assert!(fragments > 0);
        assert_eq!(copy.payload().len(), size - 8);
        let end = end_of_fragments(copy.payload(), fragments);
        for (offset, byte) in copy.payload().iter().enumerate() {
            let loaded = model.loaded[start + 8 + offset];
            assert_eq!(loaded.is_some(), offset < end);
            assert_eq!(loaded.unwrap_or(0), *byte);
        }
    }
}

/// Returns the end of the fragments in a payload, or of the size that leads no further.
fn end_of_fragments(payload: &[u8], fragments: u16) -> usize {
    let mut at = 0;
    for _ in 0..fragments {
        let (mut size, mut shift) = (0_u32, 0);
        loop {
            let Some(byte) = payload.get(at) else {
                return at;
            };
            at += 1;
            size |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift == 28 {
                return at;
            }
        }
        if size == ABANDONED || size as usize > payload.len() - at {
            return at;
        }
        at += size as usize;
    }
    at
}

fn attach(shared: &SharedFd) -> ProducerMemory {
    let sent = shared.as_fd().try_clone_to_owned().expect("a descriptor");
    let page_size_bytes = shared.geometry().page_size_bytes();
    let attached = SharedFd::attach(sent, page_size_bytes).expect("sound memory");
    ProducerMemory::attach(&attached).expect("memory")
}

fn write_honestly(shared: &SharedFd, chunks: &[Chunk]) {
    let producer = attach(shared);
    for (chunk_id, chunk) in (0..).zip(chunks) {
        let page_index = u32::from(chunk.page) % producer.geometry().page_count();
        let header = NewChunk {
            writer_id: WriterId(chunk.writer_id.into()),
            chunk_id: ChunkId(chunk_id),
            flags: ChunkFlags::NONE,
        };
        let layout = layout_of(chunk.layout);
        let Some(mut writable) = producer.acquire_for_writing(page_index, layout, header) else {
            continue;
        };
        for &len in &chunk.packets {
            if writable.has_room_for_packet() && usize::from(len) + 4 <= writable.free_bytes() {
                writable.append_packet(&vec![len; len.into()]);
                writable.publish_finished();
            }
        }
        if chunk.is_complete {
            let _ = writable.complete();
        }
    }
}

/// Writes, scrapes and takes all chunks of all pages, in this layout and then undivided.
fn use_honestly(
    shared: &SharedFd,
    memory: &mut ForeignMemory,
    layout: PageLayout,
    copy: &mut ChunkCopy,
) {
    let producer = attach(shared);
    for page_index in 0..producer.geometry().page_count() {
        for layout in [layout, PageLayout::One] {
            for index in 0..layout.chunk_count() {
                let header = NewChunk {
                    writer_id: WriterId(7),
                    chunk_id: ChunkId(index.into()),
                    flags: ChunkFlags::NONE,
                };
                let chunk = producer.acquire_for_writing(page_index, layout, header);
                let mut chunk = chunk.expect("a free chunk");
                chunk.append_packet(&[index; 3]);
                chunk.publish_finished();
                let place = chunk.place();
                let packet = [3, index, index, index];
                let scraped = memory.scrape(place, copy);
                assert!(!scraped.expect("a packet").is_complete);
                assert_eq!(copy.payload()[..5], [&packet[..], &[0]].concat());
                assert_eq!(chunk.complete(), place);
                let scraped = memory.scrape(place, copy);
                assert!(scraped.expect("a packet").is_complete);
            }
            for chunk_index in 0..layout.chunk_count() {
                let place = ChunkPlace {
                    page_index,
                    chunk_index,
                };
                let taken = memory.take(place, copy).expect("a complete chunk");
                assert_eq!(taken.chunk_id, ChunkId(chunk_index.into()));
                assert_eq!(taken.packets.count(), 2);
                let packet = [3, chunk_index, chunk_index, chunk_index, 0];
                assert_eq!(copy.payload()[..5], packet);
            }
            let word = memory.page_word(page_index).expect("a page");
            assert!(word.is_free());
        }
    }
}
