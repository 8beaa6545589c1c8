//! A range of an object on its way.

use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use tokio::time::timeout;

use super::failure::broken;
use super::transport::SILENCE;
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::Body;
use crate::store::remote::cloud::{another_range, first_byte};
use crate::store::remote::lane::Lane;

/// What GET answered, read no further than it was asked for.
pub(super) struct Download {
    /// The answer's connection.
    lane: Lane,
    content: Content,
}

struct Content {
    what: String,
    stream: ByteStream,
    piece: Bytes,
    left: u64,
}

impl Download {
    /// Checks that the answer is the range that was asked for.
    pub(super) fn new(mut lane: Lane, what: String, answer: GetObjectOutput, range: &Range<u64>) -> Result<Self> {
        let begins = answer.content_range().map_or(Some(0), first_byte);
        if begins != Some(range.start) {
            lane.close();
            return Err(another_range(&what, range));
        }
        let content = Content { what, stream: answer.body, piece: Bytes::new(), left: range.end - range.start };
        Ok(Self { lane, content })
    }
}

impl Content {
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.piece.is_empty() {
                self.piece = self.next().await?;
            }
            let count = self.piece.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.piece.split_to(count));
            filled += count;
            self.left -= count as u64;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Bytes> {
        let lost = |cause: String| Error::new(ErrorKind::ConnectionLost, self.what.as_str()).with_cause(cause);
        match timeout(SILENCE, self.stream.next()).await {
            Ok(Some(Ok(piece))) => Ok(piece),
            Ok(Some(Err(cause))) => Err(broken(&self.what, &cause)),
            Ok(None) => Err(lost(format!("the answer ended {} bytes early", self.left))),
            Err(_) => Err(lost(format!("the server was silent for {} s", SILENCE.as_secs()))),
        }
    }
}

impl Body for Download {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = usize::try_from(self.content.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        self.lane.block_on(self.content.fill(&mut buffer[..count]))?;
        Ok(count)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if self.content.left > 0 {
            self.lane.close();
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
            Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"56789", Some("bytes 5-9/20")), &(5..9)).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(body.read(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"5678");
        assert_eq!(body.read(&mut buffer).unwrap(), 0);

        let mut short =
            Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"567", Some("bytes 5-9/20")), &(5..10)).unwrap();
        assert_eq!(short.read(&mut buffer).unwrap_err().kind(), ErrorKind::ConnectionLost);
    }

    #[test]
    fn an_answer_with_another_range_is_refused() {
        for (range, asked) in [(None, 5..9), (Some("bytes 0-3/20"), 5..9), (Some("pages 5-9/20"), 5..9)] {
            assert!(Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"", range), &asked).is_err());
        }
        assert!(Download::new(Lane::take().unwrap(), "x".to_owned(), answer(b"", None), &(0..9)).is_ok());
    }
}
