//! A path between two network namespaces of this machine.

mod claim;
mod controller;
mod courier;
mod namespace;
mod pool;
mod tun;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::{Direction, Error, PathOptions};

use claim::Claim;
use controller::Controller;
use courier::{Courier, Wake};
use namespace::Namespace;

/// Addresses of the benchmarking range of RFC 2544; each path has namespaces of its own, so all use the same ones.
const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];

/// Told once when a running path can go on no longer.
type OnFailure = Arc<dyn Fn(Error) + Send + Sync>;

/// One end of a path.
#[derive(Clone, Debug, serde::Serialize)]
pub struct End {
    /// Name of its network namespace, for `ip netns exec`.
    pub namespace: String,
    /// Its IPv4 address.
    pub address: &'static str,
}

/// A path that runs until it is dropped, which removes its namespaces.
///
/// Processes that are still in them keep running without a network.
pub struct Path {
    near: End,
    far: End,
    options: PathOptions,
    stop: Arc<AtomicBool>,
    wakes: Vec<Arc<Wake>>,
    threads: Vec<JoinHandle<()>>,
    controller: Option<Controller>,
    // Dropped in this order, after the threads: first the namespaces, then the claim on their name.
    _namespaces: [Namespace; 2],
    _claim: Claim,
}

impl Path {
    /// Makes the namespaces `edt-NAME-near` and `edt-NAME-far` and starts what joins them.
    ///
    /// Removes what dead processes left first. Once a second a line of JSON goes to `report`. `on_failure` is called from a thread of
    /// the path. Needs the rights of root, the command `ip`, and `/dev/net/tun`.
    pub fn open(
        name: &str,
        options: PathOptions,
        report: Option<Box<dyn Write + Send>>,
        on_failure: OnFailure,
    ) -> Result<Self, Error> {
        let options = options.validated()?;
        let claim = Claim::take(name)?;
        let ends = ["near", "far"].map(|side| claim::namespace(name, side));
        let namespaces = [Namespace::make(&ends[0])?, Namespace::make(&ends[1])?];
        let [near_device, far_device] = [namespaces[0].tun()?, namespaces[1].tun()?];
        namespaces[0].set_up(ADDRESSES[0], ADDRESSES[1], &options)?;
        namespaces[1].set_up(ADDRESSES[1], ADDRESSES[0], &options)?;

        let [near, far] = [0, 1].map(|side| End { namespace: ends[side].clone(), address: ADDRESSES[side] });
        let stop = Arc::new(AtomicBool::new(false));
        let begin = Instant::now();
        let directions = [0, 1].map(|number| Arc::new(Mutex::new(Direction::new(&options, options.seed.wrapping_add(number)))));
        let mut path = Self {
            near,
            far,
            options,
            stop,
            wakes: Vec::new(),
            threads: Vec::new(),
            controller: None,
            _namespaces: namespaces,
            _claim: claim,
        };
        let devices = [(&near_device, &far_device), (&far_device, &near_device)];
        for (direction, (from, to)) in directions.iter().zip(devices) {
            let courier = Courier::new((from.clone(), to.clone()), direction.clone(), begin, &path.options);
            path.employ(courier, on_failure.clone())?;
        }
        path.controller = Some(Controller::start(directions, begin, path.options.schedule.clone(), report, on_failure)?);
        Ok(path)
    }

    /// The end whose packets take the direction `near_to_far`.
    pub fn near(&self) -> &End {
        &self.near
    }

    /// The other end.
    pub fn far(&self) -> &End {
        &self.far
    }

    /// The parameters, with the limits of queues filled in.
    pub fn options(&self) -> &PathOptions {
        &self.options
    }

    fn employ(&mut self, courier: Courier, on_failure: OnFailure) -> Result<(), Error> {
        let wake = Arc::new(Wake::new()?);
        let (stop, woken) = (self.stop.clone(), wake.clone());
        let work = move || {
            if let Err(error) = courier.work(&stop, &woken) {
                on_failure(error);
            }
        };
        self.wakes.push(wake);
        self.threads.push(spawn("courier", work)?);
        Ok(())
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wakes.iter().for_each(|wake| wake.ring());
        drop(self.controller.take());
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// Starts a thread of the path.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(system("start a thread", "lift the limit of threads"))
}

/// Turns an error of the system into one that says what was tried and what to do.
fn system<E: Into<std::io::Error>>(what: impl Into<String>, hint: &'static str) -> impl FnOnce(E) -> Error {
    let what = what.into();
    move |source| Error::System { what, source: source.into(), hint }
}
