//! Requests whose bytes are moved by the thread that makes them.
//!
//! Over the shared runtime each piece that arrives wakes one of its threads, which wakes the thread that waits for the piece; these
//! changes of thread cost more than the bytes. A lane has a runtime without threads and an HTTP client of its own: who makes a request
//! drives its connection.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use super::straight::Connection;
use super::web;
use crate::error::{Error, Result};
use crate::sync::Mutex;

static IDLE: Mutex<Idle> = Mutex::new(Idle { keepers: 0, lanes: Vec::new() });

/// The most lanes that wait: as many as connections may be of use to anybody.
const MOST: usize = 256;
/// How long a lane waits. Nobody drives it meanwhile, so that nobody would notice that its server has closed the connection.
const LONGEST: Duration = Duration::from_mins(1);

thread_local! {
    /// The client of the lane that this thread drives at present.
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// Lanes that wait for a request, with their connections.
struct Idle {
    /// How many [`Kept`] there are.
    keepers: usize,
    /// With the time from which each waits; the one used last is the last.
    lanes: Vec<(Instant, Driven)>,
}

struct Driven {
    /// The process that made it. What `fork` left of it in another one must not be touched: both would use the same connection.
    process: u32,
    runtime: Runtime,
    client: Client,
    /// The connection whose content is read straight from it, between two requests.
    straight: Option<Connection>,
}

impl Driven {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|cause| Error::io("could not set up a connection", &cause))?;
        Ok(Self { process: std::process::id(), runtime, client: web::separate()?, straight: None })
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Closes its connections without waiting for anything, so that a task may do it too.
    fn end(self) {
        if self.is_own() {
            self.runtime.shutdown_background();
        } else {
            std::mem::forget(self);
        }
    }
}

impl Idle {
    /// The lane used last, if one waits that may be used, and those that wait no longer.
    fn take(&mut self, now: Instant) -> (Option<Driven>, Vec<Driven>) {
        let expired = self.expired(now);
        (self.lanes.pop().map(|(_, driven)| driven), expired)
    }

    /// Lets a lane wait; answers with what is to be ended.
    fn put(&mut self, driven: Driven, now: Instant) -> Vec<Driven> {
        let mut ended = self.expired(now);
        if self.keepers > 0 && self.lanes.len() < MOST && driven.is_own() {
            self.lanes.push((now, driven));
        } else {
            ended.push(driven);
        }
        ended
    }

    /// Lanes that have waited for too long or belong to another process: those were there before this one was.
    fn expired(&mut self, now: Instant) -> Vec<Driven> {
        let is_expired = |(since, driven): &(Instant, Driven)| !driven.is_own() || now.duration_since(*since) > LONGEST;
        let count = self.lanes.partition_point(is_expired);
        self.lanes.drain(..count).map(|(_, driven)| driven).collect()
    }
}

/// Lanes wait for further requests as long as there is one of these.
pub(crate) struct Kept(());

impl Kept {
    pub(crate) fn new() -> Self {
        IDLE.lock().keepers += 1;
        Self(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut idle = IDLE.lock();
        idle.keepers -= 1;
        let ended = if idle.keepers == 0 { std::mem::take(&mut idle.lanes) } else { Vec::new() };
        drop(idle);
        for (_, driven) in ended {
            driven.end();
        }
    }
}

/// One request at a time, and the content of its answer; when it is dropped its connection waits for another one.
pub(crate) struct Lane(Option<Driven>);

impl Lane {
    /// A lane that waits, or a new one.
    pub(crate) fn take() -> Result<Self> {
        let (waiting, expired) = IDLE.lock().take(Instant::now());
        expired.into_iter().for_each(Driven::end);
        if let Some(driven) = waiting {
            // What happened to its connection meanwhile is noticed before a request is sent over it: the first look at the sockets wakes
            // the connection, which has its turn before the second one is over.
            driven.runtime.block_on(async {
                yield_now().await;
                yield_now().await;
            });
            return Ok(Self(Some(driven)));
        }
        Ok(Self(Some(Driven::new()?)))
    }

    /// Waits for a future on the calling thread, which must drive nothing else; in it [`client`] answers with the lane's.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let driven = self.0.as_ref().expect("a lane is driven until it is dropped");
        let before = CLIENT.replace(Some(driven.client.clone()));
        let output = driven.runtime.block_on(future);
        CLIENT.set(before);
        output
    }

    /// Whether this process made it.
    pub(super) fn is_own(&self) -> bool {
        self.0.as_ref().is_none_or(Driven::is_own)
    }

    /// Takes the connection whose content is read straight from it.
    pub(super) fn straight(&mut self) -> Option<Connection> {
        self.0.as_mut()?.straight.take()
    }

    /// Keeps such a connection for another request.
    pub(super) fn keep(&mut self, connection: Connection) {
        if let Some(driven) = &mut self.0 {
            driven.straight = Some(connection);
        }
    }

    /// Closes its connections: an answer was not read to its end.
    pub(crate) fn close(&mut self) {
        if let Some(driven) = self.0.take() {
            driven.end();
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(driven) = self.0.take() {
            let ended = IDLE.lock().put(driven, Instant::now());
            ended.into_iter().for_each(Driven::end);
        }
    }
}

/// The client of the lane that the calling thread drives, if it drives one.
pub(crate) fn client() -> Option<Client> {
    CLIENT.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const CONTENT: usize = 4 << 20;

    /// A server that answers every request with the same content, counts connections, and tells when one was closed.
    fn server() -> (SocketAddr, Arc<AtomicUsize>, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&connections);
        let (closed, ends) = mpsc::channel();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (mut socket, closed) = (socket.unwrap(), closed.clone());
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    // A request is small and comes in one piece.
                    while socket.read(&mut request).is_ok_and(|count| count > 0) {
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {CONTENT}\r\n\r\n");
                        if socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&vec![7; CONTENT])).is_err() {
                            break;
                        }
                    }
                    let _ = closed.send(());
                });
            }
        });
        (address, connections, ends)
    }

    fn ask(lane: &Lane, address: SocketAddr) -> reqwest::Response {
        let asked = async { client().unwrap().get(format!("http://{address}/")).send().await };
        lane.block_on(asked).unwrap()
    }

    #[test]
    fn a_connection_serves_one_request_after_another_and_is_closed_with_its_lane() {
        let _kept = Kept::new();
        let (address, connections, _) = server();
        let mut lane = Lane::take().unwrap();
        for _ in 0..3 {
            let answer = ask(&lane, address);
            assert_eq!(lane.block_on(answer.bytes()).unwrap().len(), CONTENT);
            lane.block_on(yield_now());
        }
        assert_eq!(connections.load(Ordering::SeqCst), 1);
        let unread = ask(&lane, address);
        lane.close();
        drop(unread);
        let answer = ask(&Lane::take().unwrap(), address);
        assert_eq!((answer.status().as_u16(), connections.load(Ordering::SeqCst)), (200, 2));
    }

    #[test]
    fn an_answer_is_read_by_another_thread_than_the_one_that_asked() {
        let (address, ..) = server();
        let lane = Lane::take().unwrap();
        let answer = ask(&lane, address);
        let read = std::thread::spawn(move || lane.block_on(answer.bytes()).unwrap().len());
        assert_eq!(read.join().unwrap(), CONTENT);
        assert!(client().is_none(), "nothing is driven any more");
    }

    /// A lane that has a connection.
    fn connected(address: SocketAddr) -> Driven {
        let mut lane = Lane(Some(Driven::new().unwrap()));
        let answer = ask(&lane, address);
        assert_eq!(lane.block_on(answer.bytes()).unwrap().len(), CONTENT);
        lane.0.take().unwrap()
    }

    #[test]
    fn a_lane_that_nobody_used_for_a_minute_is_closed() {
        let (address, _, closed) = server();
        let mut idle = Idle { keepers: 1, lanes: Vec::new() };
        let begun = Instant::now();
        assert!(idle.put(connected(address), begun).is_empty());
        assert!(idle.put(connected(address), begun + LONGEST / 2).is_empty());
        let (waiting, expired) = idle.take(begun + LONGEST + Duration::from_secs(1));
        assert!(waiting.is_some() && expired.len() == 1 && idle.lanes.is_empty());
        expired.into_iter().for_each(Driven::end);
        closed.recv_timeout(Duration::from_secs(20)).expect("its connection is closed");
    }

    #[test]
    fn nothing_waits_where_nobody_keeps_lanes() {
        let (address, _, closed) = server();
        let mut idle = Idle { keepers: 0, lanes: Vec::new() };
        let ended = idle.put(connected(address), Instant::now());
        assert!(ended.len() == 1 && idle.lanes.is_empty());
        ended.into_iter().for_each(Driven::end);
        closed.recv_timeout(Duration::from_secs(20)).expect("its connection is closed");
    }

    #[test]
    fn what_a_fork_left_of_the_lanes_of_another_process_is_neither_used_nor_closed() {
        let (address, _, closed) = server();
        let mut idle = Idle { keepers: 1, lanes: Vec::new() };
        let now = Instant::now();
        idle.lanes.push((now, Driven { process: std::process::id() ^ 1, ..connected(address) }));
        let (waiting, foreign) = idle.take(now);
        assert!(waiting.is_none() && foreign.len() == 1);
        foreign.into_iter().for_each(Driven::end);
        let foreign = Driven { process: std::process::id() ^ 1, ..connected(address) };
        idle.put(foreign, now).into_iter().for_each(Driven::end);
        assert!(idle.lanes.is_empty());
        assert!(closed.recv_timeout(Duration::from_millis(300)).is_err(), "both connections are still open");
    }

    #[test]
    fn a_lane_may_be_closed_by_a_task() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { Lane(Some(Driven::new().unwrap())).close() });
    }
}
