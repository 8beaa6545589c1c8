//! Memory for rows that is used again: fresh memory for each row would cost a page fault for every 4 KiB of it.

use std::sync::Arc;

use edt::sync::Mutex;

use super::layout::body_length;
use crate::contract::ROW_BYTES;

/// Buffers that are kept while nobody needs them.
const KEPT: usize = 32;

/// Buffers that wait for the next row.
#[derive(Default)]
pub(in crate::service) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// A buffer in use; it comes back when the last who reads it is done.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    home: Arc<Buffers>,
}

impl Buffers {
    /// A buffer of `length` bytes, whatever they are.
    pub(super) fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let most = body_length(ROW_BYTES).max(length);
        let kept = self.free.lock().pop().filter(|bytes| bytes.len() >= length);
        Buffer { bytes: kept.unwrap_or_else(|| vec![0; most]), length, home: Arc::clone(self) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.free.lock();
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_no_more_are_kept_than_may_be() {
        let buffers = Arc::new(Buffers::default());
        let at = |buffer: &Buffer| buffer.as_ref().as_ptr() as usize;
        let first = buffers.take(10);
        let address = at(&first);
        drop(first);
        let second = buffers.take(body_length(ROW_BYTES));
        assert_eq!((at(&second), second.as_ref().len()), (address, body_length(ROW_BYTES)));
        let many: Vec<Buffer> = (0..2 * KEPT).map(|_| buffers.take(1)).collect();
        drop(many);
        assert_eq!(buffers.free.lock().len(), KEPT);
    }
}
