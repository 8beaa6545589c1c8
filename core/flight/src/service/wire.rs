//! Streams of data, `DoGet` and `DoExchange`, put into gRPC messages without copying what they carry.
//!
//! The library behind the other calls copies every message into a buffer of its own, which for rows of a file costs as much as reading
//! them. Here the few bytes that say what a message is go out as one piece, and its body as it was read as the next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow_flight::{FlightData, Ticket};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::body::Body;
use tonic::codec::{Codec, Streaming};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::MAX_MESSAGE;
use super::calls;
use super::root::Root;

const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";
const DO_EXCHANGE: &str = "/arrow.flight.protocol.FlightService/DoExchange";

/// The number of the field `data_body` of `FlightData`.
const BODY_FIELD: u32 = 1000;

/// Bytes before each gRPC message: whether it is compressed, and its length.
const PREFIX: usize = 5;

pub(super) type DataStream = BoxStream<'static, Result<FlightData, Status>>;

/// Whether calls of this name are answered here.
pub(super) fn serves(path: &str) -> bool {
    path == DO_GET || path == DO_EXCHANGE
}

/// Answers a call.
pub(super) async fn answer(root: Arc<Root>, request: Request<Body>) -> Result<Response<Body>, Status> {
    let exchange = request.uri().path() == DO_EXCHANGE;
    let stream = if exchange {
        calls::exchange(root, messages(request))
    } else {
        let ticket: Ticket =
            messages(request).message().await?.ok_or_else(|| Status::invalid_argument("the call has no ticket"))?;
        calls::get(root, ticket).await?
    };
    let mut response = Response::new(Body::new(Pieces { stream, body: None, ended: false }));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn messages<T: Message + Default + 'static>(request: Request<Body>) -> Streaming<T> {
    let decoder = ProstCodec::<FlightData, T>::default().decoder();
    Streaming::new_request(decoder, request.into_body(), None, Some(MAX_MESSAGE))
}

/// A stream of data as the body of an answer.
struct Pieces {
    stream: DataStream,
    /// The body of the message whose beginning is on its way.
    body: Option<Bytes>,
    ended: bool,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(body) = self.body.take() {
            return Poll::Ready(Some(Ok(Frame::data(body))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.stream.poll_next_unpin(context)) {
            Some(Ok(mut data)) => {
                let body = std::mem::take(&mut data.data_body);
                let beginning = beginning(&data, body.len())?;
                self.body = (!body.is_empty()).then_some(body);
                Frame::data(beginning)
            }
            Some(Err(status)) => self.end(&status)?,
            None => self.end(&Status::new(Code::Ok, ""))?,
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Pieces {
    fn end(&mut self, status: &Status) -> Result<Frame<Bytes>, Status> {
        self.ended = true;
        // What makes the items is not needed any more; it may hold a file open.
        self.stream = futures_util::stream::empty().boxed();
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

/// All of a message before the `length` bytes of its body: its prefix, its other fields, and the key and length of the body.
fn beginning(data: &FlightData, length: usize) -> Result<Bytes, Status> {
    let key = if length == 0 { 0 } else { key_len(BODY_FIELD) + encoded_len_varint(length as u64) };
    let fields = data.encoded_len();
    let total = u32::try_from(fields + key + length).map_err(|_| Status::out_of_range("a message is larger than 4 GiB"))?;
    let mut buffer = BytesMut::with_capacity(PREFIX + fields + key);
    buffer.put_u8(0);
    buffer.put_u32(total);
    data.encode(&mut buffer).map_err(|cause| Status::internal(cause.to_string()))?;
    if length > 0 {
        encode_key(BODY_FIELD, WireType::LengthDelimited, &mut buffer);
        encode_varint(length as u64, &mut buffer);
    }
    Ok(buffer.freeze())
}

/// Makes a stream of data from any.
pub(super) fn boxed(stream: impl Stream<Item = Result<FlightData, Status>> + Send + 'static) -> DataStream {
    stream.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_together_are_the_message_of_the_library() {
        for length in [0, 1, 127, 128, 70_000] {
            let whole = FlightData {
                flight_descriptor: None,
                data_header: vec![7; 130].into(),
                app_metadata: "end".into(),
                data_body: vec![9; length].into(),
            };
            let mut rest = whole.clone();
            let body = std::mem::take(&mut rest.data_body);
            let pieces = [&beginning(&rest, length).unwrap()[..], &body[..]].concat();
            let encoded = whole.encode_to_vec();
            assert_eq!(pieces[0], 0);
            assert_eq!(u32::from_be_bytes(pieces[1..5].try_into().unwrap()) as usize, encoded.len());
            assert!(pieces[5..] == encoded, "{length} bytes");
        }
    }
}
