//! An upload: one PUT, fed with blocks in order while they come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::{Method, Response, Url};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::find;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::EntryKind;
use crate::store::remote::ServedFile;
use crate::store::remote::http::place::Form;
use crate::store::remote::http::server::Server;
use crate::store::remote::patience::unless_interrupted;
use crate::store::remote::runtime::block_on;
use crate::store::remote::web::{Answer, carried_out, request_error};
use crate::sync::Mutex;

/// Blocks that wait for the network, of each file.
const QUEUE: usize = 4;
/// How long a server may take no bytes.
const STALLED: Duration = Duration::from_mins(1);
/// How long a server may work on a file that it has whole: some compute a digest or copy it first.
const SETTLING: Duration = Duration::from_mins(5);

type Request = JoinHandle<reqwest::Result<Response>>;

/// Why an upload ended without success.
enum Ended {
    /// Only the answer may be lost.
    Unanswered(Error),
    /// The server, or one before it, says that it does not have the file.
    Refused(Error),
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Unanswered(error) | Ended::Refused(error) => error,
        }
    }
}

/// A file on its way to the server.
pub(super) struct Upload {
    server: Arc<Server>,
    path: RelativePath,
    what: String,
    url: Url,
    size: u64,
    state: Mutex<State>,
}

struct State {
    position: u64,
    blocks: Option<mpsc::Sender<Bytes>>,
    request: Option<Request>,
}

impl Upload {
    /// Begins a PUT of `size` bytes; the server may have refused it by the first write.
    pub(super) fn begin(server: &Arc<Server>, path: &RelativePath, size: u64) -> Result<Self> {
        let what = server.what("write", path);
        let (blocks, queue) = mpsc::channel(QUEUE);
        let request = server
            .request(Method::PUT, path, Form::File)?
            .header("content-type", "application/octet-stream")
            .header("content-length", size)
            .body(reqwest::Body::wrap(Content { queue, left: size }))
            .build()
            .map_err(|error| request_error(&what, &error))?;
        let (client, url) = (server.web().client(), request.url().clone());
        let request = block_on(async { Some(tokio::spawn(async move { client.execute(request).await })) });
        let state = Mutex::new(State { position: 0, blocks: Some(blocks), request });
        let (server, path) = (Arc::clone(server), path.clone());
        Ok(Self { server, path, what, url, size, state })
    }

    fn failed(&self, kind: ErrorKind, cause: impl std::fmt::Display) -> Error {
        Error::new(kind, self.what.as_str()).with_cause(cause)
    }

    /// Whether the server has as many bytes as were sent.
    fn is_there(&self) -> bool {
        find::stat(&self.server, &self.path).is_ok_and(|entry| entry.kind == EntryKind::File && entry.size == self.size)
    }

    /// The answer of the server; an error that says why the upload ended is the common one.
    fn outcome(&self) -> std::result::Result<(), Ended> {
        let (blocks, request) = {
            let mut state = self.state.lock();
            (state.blocks.take(), state.request.take())
        };
        drop(blocks);
        let Some(mut request) = request else {
            return Err(Ended::Refused(self.failed(ErrorKind::ConnectionLost, "the upload ended before")));
        };
        let answer = async { timeout(SETTLING, &mut request).await };
        let response = match block_on(unless_interrupted(&self.what, answer)) {
            Ok(Ok(Ok(Ok(response)))) => response,
            Ok(Ok(Ok(Err(error)))) => return Err(Ended::Unanswered(request_error(&self.what, &error))),
            Ok(Ok(Err(error))) => return Err(Ended::Refused(self.failed(ErrorKind::Io, error))),
            Ok(Err(_)) => {
                request.abort();
                let cause = "the server did not answer when it had the file";
                return Err(Ended::Unanswered(self.failed(ErrorKind::ConnectionLost, cause)));
            }
            Err(interrupted) => {
                request.abort();
                return Err(Ended::Refused(interrupted));
            }
        };
        self.judged(response).map_err(Ended::Refused)
    }

    fn judged(&self, response: Response) -> Result<()> {
        let response = carried_out(&self.what, &Method::PUT, &self.url, response)?;
        match Answer::judged(&self.what, response, &[409])?.status() {
            409 => Err(self.failed(ErrorKind::NotFound, "the directory above it is missing")),
            _ => Ok(()),
        }
    }
}

impl ServedFile for Upload {
    fn length(&self) -> u64 {
        0
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (position, blocks) = {
            let state = self.state.lock();
            (state.position, state.blocks.clone())
        };
        let end = offset + bytes.len() as u64;
        if end <= position {
            return Ok(());
        }
        let Some(blocks) = blocks else { return Err(self.failed(ErrorKind::ConnectionLost, "the upload ended before")) };
        if offset != position || end > self.size {
            return Err(self.failed(ErrorKind::InvalidInput, format!("byte {offset} was written after byte {position}")));
        }
        let taken = async { timeout(STALLED, blocks.send(Bytes::copy_from_slice(bytes))).await };
        match block_on(unless_interrupted(&self.what, taken))? {
            Ok(Ok(())) => {
                self.state.lock().position = end;
                Ok(())
            }
            Ok(Err(_)) => {
                drop(blocks);
                let early = || self.failed(ErrorKind::Protocol, "the server answered before it had the file");
                self.outcome()?;
                Err(early())
            }
            Err(_) => {
                Err(self.failed(ErrorKind::ConnectionLost, format!("the server took no bytes for {} s", STALLED.as_secs())))
            }
        }
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(self.failed(ErrorKind::Unsupported, "a file that is being written cannot be read"))
    }

    fn finish(&self) -> Result<()> {
        let position = self.state.lock().position;
        if position != self.size {
            return Err(self.failed(ErrorKind::InvalidInput, format!("{position} of {} bytes were written", self.size)));
        }
        match self.outcome() {
            // Only the answer was lost if all of it is there.
            Err(Ended::Unanswered(error)) if error.kind() == ErrorKind::ConnectionLost && self.is_there() => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(request) = self.state.get_mut().request.take() {
            request.abort();
        }
    }
}

/// The content of the request. If its blocks end early it breaks off, so that no server takes it for whole.
struct Content {
    queue: mpsc::Receiver<Bytes>,
    left: u64,
}

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.queue.poll_recv(context)) {
            Some(block) => {
                self.left -= block.len() as u64;
                Ok(Frame::data(block))
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use http_body::Body as _;

    use super::*;
    use crate::endpoint::{Endpoint, Location};

    const THERE: &str = r#"<multistatus xmlns="DAV:"><response><href>/f</href><propstat><prop><resourcetype/>
<getcontentlength>5</getcontentlength></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>"#;

    /// Reads a request with its content and gives the answer to its method; false where there is none to give.
    fn answer(socket: &mut TcpStream, put: &str) -> bool {
        let (mut reader, mut head, mut length) = (BufReader::new(socket.try_clone().unwrap()), Vec::new(), 0);
        for line in (&mut reader).lines().map_while(io::Result::ok).take_while(|line| !line.is_empty()) {
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push(line);
        }
        reader.take(length).read_to_end(&mut Vec::new()).unwrap();
        let answer = match head.first().map(|first| first.starts_with("put ")) {
            None => return false,
            Some(true) => put.to_owned(),
            Some(false) => format!("HTTP/1.1 207 Multi-Status\r\ncontent-length: {}\r\n\r\n{THERE}", THERE.len()),
        };
        socket.write_all(answer.as_bytes()).unwrap();
        !answer.is_empty()
    }

    /// How an upload of five bytes ends where a file of that size stands already, and `put` is what is answered to it.
    fn upload(put: &'static str) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("webdav://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                std::thread::spawn(move || while answer(&mut socket, put) {});
            }
        });
        let Location::Service(url) = Endpoint::from(url.as_str()).resolve().unwrap() else { panic!() };
        let upload = Upload::begin(&Server::open(&url)?, &RelativePath::from_user("f").unwrap(), 5)?;
        upload.write_at(0, b"bytes")?;
        upload.finish()
    }

    #[test]
    fn what_stands_there_counts_only_where_the_server_did_not_answer() {
        upload("").unwrap();
        upload("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").unwrap();
        for status in ["502 Bad Gateway", "423 Locked"] {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").leak();
            assert_eq!(upload(answer).unwrap_err().kind(), ErrorKind::ConnectionLost, "{status}");
        }
    }

    #[test]
    fn content_that_ends_early_breaks_off() {
        let (blocks, queue) = mpsc::channel(QUEUE);
        let mut content = Content { queue, left: 5 };
        blocks.blocking_send(Bytes::from_static(b"abc")).unwrap();
        drop(blocks);
        let mut next = || block_on(poll_fn(|context| Pin::new(&mut content).poll_frame(context)));
        assert_eq!(next().unwrap().unwrap().into_data().unwrap(), "abc");
        assert_eq!(next().unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
