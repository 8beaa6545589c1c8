//! A range of an object on its way.

use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use bytes::{Buf, Bytes};
use tokio::time::timeout;

use super::failure::broken;
use super::transport::SILENCE;
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::Body;
use crate::store::remote::cloud::{another_range, first_byte};
use crate::store::remote::lane::Lane;
use crate::store::remote::patience::unless_interrupted;
use crate::store::remote::straight::Connection;

/// What GET answered, read no further than it was asked for.
pub(super) struct Download {
    /// The answer's connection, if it is not the content's own.
    lane: Lane,
    content: Content,
}

struct Content {
    what: String,
    source: Source,
    left: u64,
}

/// Where the content comes from.
enum Source {
    /// From the client, in pieces of which one may be given out in part.
    Pieces(ByteStream, Bytes),
    /// Straight from its connection.
    Straight(Box<Connection>),
}

impl Download {
    /// Checks that the answer is the range that was asked for. Its content is read from `straight` if that is there.
    pub(super) fn new(
        mut lane: Lane,
        what: String,
        answer: GetObjectOutput,
        straight: Option<Connection>,
        range: &Range<u64>,
    ) -> Result<Self> {
        let begins = answer.content_range().map_or(Some(0), first_byte);
        if begins != Some(range.start) {
            lane.close();
            return Err(another_range(&what, range));
        }
        let source = match straight {
            Some(connection) => Source::Straight(Box::new(connection)),
            None => Source::Pieces(answer.body, Bytes::new()),
        };
        let content = Content { what, source, left: range.end - range.start };
        Ok(Self { lane, content })
    }
}

impl Content {
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let count = match timeout(SILENCE, self.source.read(&self.what, &mut buffer[filled..])).await {
                Ok(read) => read?,
                Err(_) => return Err(self.lost(format!("the server was silent for {} s", SILENCE.as_secs()))),
            };
            if count == 0 {
                return Err(self.lost(format!("the answer ended {} bytes early", self.left)));
            }
            filled += count;
            self.left -= count as u64;
        }
        Ok(())
    }

    fn lost(&self, cause: String) -> Error {
        Error::new(ErrorKind::ConnectionLost, self.what.as_str()).with_cause(cause)
    }
}

impl Source {
    /// Reads bytes as they come; none at the end of the answer.
    async fn read(&mut self, what: &str, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Straight(connection) => {
                let lost = |cause| Error::new(ErrorKind::ConnectionLost, what).with_cause(cause);
                connection.read(buffer).await.map_err(lost)
            }
            Self::Pieces(stream, piece) => {
                while piece.is_empty() {
                    match stream.next().await {
                        Some(Ok(next)) => *piece = next,
                        Some(Err(cause)) => return Err(broken(what, &cause)),
                        None => return Ok(0),
                    }
                }
                let count = piece.len().min(buffer.len());
                piece.copy_to_slice(&mut buffer[..count]);
                Ok(count)
            }
        }
    }
}

impl Body for Download {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = usize::try_from(self.content.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let what = self.content.what.clone();
        self.lane.block_on(unless_interrupted(&what, self.content.fill(&mut buffer[..count])))??;
        Ok(count)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let unread = self.content.left > 0;
        match std::mem::replace(&mut self.content.source, Source::Pieces(ByteStream::default(), Bytes::new())) {
            Source::Straight(connection) if !unread && connection.lasts() => self.lane.keep(*connection),
            Source::Pieces(..) if unread => self.lane.close(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content: &'static [u8], range: Option<&str>) -> GetObjectOutput {
        GetObjectOutput::builder().body(ByteStream::from_static(content)).set_content_range(range.map(str::to_owned)).build()
    }

    #[test]
    fn a_body_is_read_no_further_than_asked_and_is_never_short() {
        let mut body =
            Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"56789", Some("bytes 5-9/20")), None, &(5..9)).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(body.read(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"5678");
        assert_eq!(body.read(&mut buffer).unwrap(), 0);

        let mut short =
            Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"567", Some("bytes 5-9/20")), None, &(5..10)).unwrap();
        assert_eq!(short.read(&mut buffer).unwrap_err().kind(), ErrorKind::ConnectionLost);
    }

    #[test]
    fn an_answer_with_another_range_is_refused() {
        for (range, asked) in [(None, 5..9), (Some("bytes 0-3/20"), 5..9), (Some("pages 5-9/20"), 5..9)] {
            assert!(Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"", range), None, &asked).is_err());
        }
        assert!(Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"", None), None, &(0..9)).is_ok());
    }
}
