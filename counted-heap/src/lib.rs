//! The heap of a test's process, counted: for tests of what objects cost in memory.
//!
//! It counts for the whole process, so that each such test is a program of its own, of one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which says how much of it is in use. Made a program's by `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct CountedHeap {
    in_use: AtomicUsize,
    peak: AtomicUsize,
    pieces: AtomicUsize,
    most: usize,
}

impl CountedHeap {
    /// A heap with nothing in use.
    pub const fn new() -> Self {
        Self::of_blocks_up_to(usize::MAX)
    }

    /// A heap that leaves out what was asked for in more than so many bytes at once: what many small objects cost is not
    /// seen beside an image of megabytes that doubles.
    pub const fn of_blocks_up_to(most: usize) -> Self {
        Self { in_use: AtomicUsize::new(0), peak: AtomicUsize::new(0), pieces: AtomicUsize::new(0), most }
    }

    /// Bytes that were asked for and not given back.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Most bytes that were in use at a time since [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Forgets what was in use before.
    pub fn reset_peak(&self) {
        self.peak.store(self.in_use(), Ordering::Relaxed);
    }

    /// How many allocations that is.
    pub fn pieces(&self) -> usize {
        self.pieces.load(Ordering::Relaxed)
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe; this one only counts")]
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() <= self.most {
            let before = self.in_use.fetch_add(layout.size(), Ordering::Relaxed);
            self.peak.fetch_max(before + layout.size(), Ordering::Relaxed);
            self.pieces.fetch_add(1, Ordering::Relaxed);
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() <= self.most {
            self.in_use.fetch_sub(layout.size(), Ordering::Relaxed);
            self.pieces.fetch_sub(1, Ordering::Relaxed);
        }
        unsafe { System.dealloc(at, layout) }
    }
}
