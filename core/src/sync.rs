//! Locks as all of edt uses them: those of the standard library, which a thread that panicked does not make unusable for the others.
//!
//! Nothing that all locks of a process share stands behind them, as a table of the threads that wait: where the process is forked, these
//! threads are gone in the child, and what such a table says of them is what the child would crash by.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often [`Mutex::try_lock_for`] looks.
const LOOK: Duration = Duration::from_millis(1);

/// Gives one thread at a time access to a value.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// Access to the value of a [`Mutex`]; gives the lock back when it is dropped.
#[must_use = "the lock is given back at once"]
pub struct MutexGuard<'a, T: ?Sized>(Option<sync::MutexGuard<'a, T>>);

/// Gives one thread access to a value to change it, or any number to read it.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

/// Lets threads that hold a [`Mutex`] wait until another one tells of a change.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// How waiting for some time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    timed_out: bool,
}

impl Waited {
    /// Whether the time passed before anything was told.
    pub fn timed_out(self) -> bool {
        self.timed_out
    }
}

impl<T> Mutex<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The lock, if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(TryLockError::Poisoned(guard)) => Some(MutexGuard(Some(guard.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same, waiting for some time at most: it looks every millisecond, and comes after all who wait for the lock itself.
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        let begun = Instant::now();
        loop {
            match self.try_lock() {
                None if begun.elapsed() < time => std::thread::sleep(LOOK.min(time)),
                tried => return tried,
            }
        }
    }

    /// The value, which nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

const HELD: &str = "only a wait takes the lock out of a guard, and puts it back";

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn take(&mut self) -> sync::MutexGuard<'a, T> {
        self.0.take().expect(HELD)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(HELD)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(HELD)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T> RwLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the value may be read.
    pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the value may be changed.
    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condvar {
    /// One that nobody waits at.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits until it is woken, perhaps for no reason; others may hold the lock meanwhile.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.take();
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// The same for some time at most.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> Waited {
        let held = guard.take();
        let (held, ended) = self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        guard.0 = Some(held);
        Waited { timed_out: ended.timed_out() }
    }

    /// The same until a moment at most.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> Waited {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()))
    }

    /// Waits as long as something holds.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut holds: impl FnMut(&mut T) -> bool) {
        while holds(guard) {
            self.wait(guard);
        }
    }

    /// The same for some time at most.
    pub fn wait_while_for<T>(&self, guard: &mut MutexGuard<'_, T>, holds: impl FnMut(&mut T) -> bool, time: Duration) -> Waited {
        // A time without an end is none that a clock can tell.
        let Some(end) = Instant::now().checked_add(time) else {
            self.wait_while(guard, holds);
            return Waited { timed_out: false };
        };
        self.wait_while_until(guard, holds, end)
    }

    /// The same until a moment at most.
    pub fn wait_while_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut holds: impl FnMut(&mut T) -> bool,
        end: Instant,
    ) -> Waited {
        let mut timed_out = false;
        while holds(guard) {
            if timed_out {
                return Waited { timed_out };
            }
            timed_out = self.wait_until(guard, end).timed_out();
        }
        Waited { timed_out: false }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_that_panics_leaves_the_value_to_the_others() {
        let value = Arc::new((Mutex::new(1), RwLock::new(1)));
        let own = Arc::clone(&value);
        let ended = std::thread::spawn(move || {
            let (_first, _second) = (own.0.lock(), own.1.write());
            panic!("on purpose");
        });
        assert!(ended.join().is_err());
        *value.0.lock() += 1;
        *value.1.write() += 1;
        assert_eq!(value.0.try_lock().map(|value| *value), Some(2));
        assert_eq!((*value.0.lock(), *value.1.read()), (2, 2));
        let held = value.0.lock();
        assert!(value.0.try_lock().is_none() && value.0.try_lock_for(Duration::from_millis(3)).is_none());
        drop(held);
        assert!(value.0.try_lock_for(Duration::from_millis(3)).is_some());
        let value = Arc::into_inner(value).unwrap();
        assert_eq!((value.0.into_inner(), value.1.into_inner()), (2, 2));
    }

    #[test]
    fn waits_end_when_they_are_told_to_or_their_time_is_over() {
        let shared = (Mutex::new(0), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *shared.0.lock() = 1;
                shared.1.notify_all();
            });
            let mut value = shared.0.lock();
            shared.1.wait_while(&mut value, |value| *value == 0);
            assert!(!shared.1.wait_while_for(&mut value, |value| *value == 0, Duration::MAX).timed_out());
            let moment = Duration::from_millis(5);
            assert!(shared.1.wait_while_for(&mut value, |value| *value == 1, moment).timed_out());
            while !shared.1.wait_for(&mut value, moment).timed_out() {}
            while !shared.1.wait_until(&mut value, Instant::now()).timed_out() {}
            assert_eq!(*value, 1);
        });
    }
}
