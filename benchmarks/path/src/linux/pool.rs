//! The memory of packets on their way; reused, so that none is allocated once a path is warm.

/// Most packets on the way in one direction: 0.6 GB at an MTU of 9000, more than any path here holds.
const MOST: usize = 1 << 16;

/// Buffers for packets of one size at most.
pub(super) struct Pool {
    slots: Vec<Box<[u8]>>,
    free: Vec<u32>,
    size: usize,
}

impl Pool {
    /// An empty pool for packets of up to `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), size }
    }

    /// Takes a free slot, the one used last first; `None` once there are as many as there may be.
    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|_| self.slots.len() < MOST)?;
        self.slots.push(vec![0; self.size].into_boxed_slice());
        Some(slot)
    }

    /// Whether [`take`](Self::take) would find a slot.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < MOST
    }

    /// Gives a slot back.
    pub(super) fn put(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The bytes of a slot.
    pub(super) fn bytes(&mut self, slot: u32) -> &mut [u8] {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_their_number_is_bounded() {
        let mut pool = Pool::new(1);
        let first = pool.take().unwrap();
        pool.put(first);
        assert_eq!(pool.take(), Some(first));
        assert_eq!((1..).map_while(|_: u32| pool.take()).count(), MOST - 1);
        assert!(!pool.has_room());
        pool.put(first);
        assert!(pool.has_room());
    }
}
