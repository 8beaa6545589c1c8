//! The length of an object, also where its description does not tell it.

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;

use super::{Attempt, S3, transport};
use crate::error::{Error, ErrorKind};
use crate::store::remote::lane::Lane;

impl S3 {
    /// A description with the length of the object. Where a service left it out, as behind some proxies, the answer to a request for the
    /// first byte tells it.
    pub(super) fn measured(
        &self,
        operation: &str,
        bucket: &str,
        key: &str,
        mut head: HeadObjectOutput,
    ) -> Attempt<HeadObjectOutput> {
        if head.content_length().is_some() {
            return Ok(head);
        }
        let request = self
            .client
            .get_object()
            .bucket(bucket)
            .key(key)
            .range("bytes=0-0")
            .set_if_match(head.e_tag.clone())
            .set_request_payer(self.payer.clone());
        let mut lane = Lane::take()?;
        let answer = self.attempt_on(&mut lane, (operation, key), transport::longest(0), request.send());
        // Its content is not read.
        lane.close();
        let length = match answer {
            Ok(answer) => length_of(&answer),
            Err(failure) if failure.is_past_the_end() => Some(0),
            Err(failure) => return Err(failure),
        };
        head.content_length = Some(length.ok_or_else(|| {
            Error::new(ErrorKind::Protocol, self.could_not(operation, key))
                .with_cause("the service does not say how long it is: its answers have neither Content-Length nor Content-Range")
                .with_hint("if there is a proxy before the service, let it pass on these headers")
        })?);
        Ok(head)
    }
}

/// The length of the whole object, of which this may be a range.
fn length_of(answer: &GetObjectOutput) -> Option<i64> {
    let length = match answer.content_range() {
        Some(range) => range.rsplit_once('/')?.1.trim().parse().ok(),
        None => answer.content_length(),
    };
    length.filter(|length| *length >= 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::served::bucket;
    use crate::error::{ErrorKind, Result};
    use crate::store::remote::{Objects as _, Purpose};

    /// The size of an object whose description has none, of a service that answers like this to GET.
    fn size(answer: fn(&str, &[String]) -> String) -> Result<u64> {
        bucket(&Arc::default(), answer).head("k", Purpose::Write).map(|object| object.size)
    }

    fn answered(request: &str, got: &str) -> String {
        let head = if request.starts_with("HEAD") { "200 OK\r\netag: \"e\"\r\n\r\n" } else { got };
        format!("HTTP/1.1 {}", head.replacen("\r\n", "\r\nconnection: close\r\n", 1))
    }

    #[test]
    fn an_object_without_a_length_is_as_long_as_its_first_byte_says_and_not_empty() {
        let ranged = size(|request, _| {
            answered(request, "206 Partial Content\r\ncontent-range: bytes 0-0/5\r\ncontent-length: 1\r\n\r\nx")
        });
        let whole = size(|request, _| answered(request, "200 OK\r\ncontent-length: 5\r\n\r\nxxxxx"));
        let empty = size(|request, _| answered(request, "416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n"));
        assert_eq!((ranged.unwrap(), whole.unwrap(), empty.unwrap()), (5, 5, 0));
        let untold = size(|request, _| answered(request, "200 OK\r\n\r\nxxxxx")).unwrap_err();
        assert_eq!((untold.kind(), untold.what()), (ErrorKind::Protocol, "could not stat `s3://bucket/k`"));
        assert!(untold.hint().is_some());
    }
}
