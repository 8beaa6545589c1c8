//! Tests against servers that answer byte by byte as they are told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::remote::runtime::block_on;

const LENGTH: usize = 300_000;

fn byte(offset: usize) -> u8 {
    u8::try_from(offset % 251).unwrap()
}

/// A server that answers each request of a connection with the next of `answers`, closes it behind the last, and counts connections.
fn server(answers: &'static [&'static str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut socket = socket.unwrap();
            for answer in answers {
                let mut request = [0; 4096];
                // A request is small and comes in one piece.
                let count = socket.read(&mut request).unwrap();
                let asked = String::from_utf8_lossy(&request[..count]).into_owned();
                assert!(
                    asked.starts_with("GET /b/k?x=1 HTTP/1.1\r\n") && asked.contains(&format!("host: {address}\r\n")),
                    "{asked}"
                );
                socket.write_all(answer.as_bytes()).unwrap();
                if answer.contains("300000") {
                    socket.write_all(&(0..LENGTH).map(byte).collect::<Vec<u8>>()).unwrap();
                }
            }
        }
    });
    (address, connections)
}

fn parts(address: SocketAddr) -> http::request::Parts {
    Request::get(format!("http://{address}/b/k?x=1")).body(()).unwrap().into_parts().0
}

const CONTENT: &str = "HTTP/1.1 206 Partial Content\r\ncontent-length: 300000\r\netag: \"t\"\r\n\r\n";

/// Asks once, and reads the content to its end where it comes straight.
async fn asked(address: SocketAddr, waiting: Option<Connection>) -> (Option<Response<Bytes>>, Option<Connection>) {
    let carrier = Carrier::new(waiting);
    let answer = ask(&carrier, &parts(address)).await;
    let Some(mut connection) = carrier.take() else { return (answer, None) };
    let (mut content, mut at) = (vec![0; LENGTH], 0);
    while at < LENGTH {
        let count = connection.read(&mut content[at..]).await.unwrap();
        assert!(count > 0);
        at += count;
    }
    assert!(content.iter().enumerate().all(|(offset, found)| *found == byte(offset)));
    (answer, Some(connection))
}

#[test]
fn content_comes_straight_and_its_connection_serves_the_next_request_until_it_is_closed() {
    let (address, connections) = server(&[CONTENT, CONTENT]);
    block_on(async {
        let mut connection = None;
        for expected in [1, 1, 2, 2] {
            let (answer, used) = asked(address, connection).await;
            let answer = answer.unwrap();
            assert_eq!((answer.status().as_u16(), answer.headers()["etag"].to_str().unwrap()), (206, "\"t\""));
            assert_eq!(connections.load(Ordering::SeqCst), expected);
            connection = used.filter(Connection::lasts);
            // What became of the connection meanwhile is known once the server has had its time.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    });
}

#[test]
fn a_refusal_comes_with_its_words() {
    for refusal in [
        "HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n3\r\nnot\r\n5\r\n here\r\n0\r\n\r\n",
        "HTTP/1.1 503 Slow Down\r\nconnection: close\r\n\r\nnot here",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\n\r\nnot here",
    ] {
        let (address, _) = server(Box::leak(Box::new([refusal])));
        let (answer, connection) = block_on(asked(address, None));
        assert_eq!(answer.unwrap().body().as_ref(), b"not here", "{refusal}");
        assert!(connection.is_none());
    }
}

#[test]
fn what_is_answered_in_another_way_is_left_to_the_usual_client() {
    for other in [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: /c\r\ncontent-length: 0\r\n\r\n",
        "",
    ] {
        let (address, _) = server(Box::leak(Box::new([other])));
        let (answer, connection) = block_on(asked(address, None));
        assert!(answer.is_none() && connection.is_none(), "{other}");
    }
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(block_on(asked(unused, None)).0.is_none());
}

#[test]
fn a_connection_that_the_server_closes_lasts_no_longer() {
    let (address, _) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 300000\r\nConnection: Keep-Alive, close\r\n\r\n"]);
    let (answer, connection) = block_on(asked(address, None));
    assert!(answer.is_some() && !connection.unwrap().lasts());
}

#[test]
fn a_server_is_named_as_requests_are_signed_for_it() {
    for (uri, expected) in [
        ("http://h/k", "h"),
        ("http://h:80/k", "h"),
        ("https://h:443/k", "h"),
        ("https://h:80/k", "h:80"),
        ("http://[::1]:9000/k", "[::1]:9000"),
    ] {
        assert_eq!(host(&uri.parse().unwrap()).as_deref(), Some(expected), "{uri}");
    }
}

/// What is read of an answer, and whether its connection may be used again.
fn read(answer: &'static [u8]) -> (Vec<u8>, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}/object", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
        socket.write_all(answer).unwrap();
        socket
    });
    let found = block_on(async {
        let (request, ()) = Request::get(uri).body(()).unwrap().into_parts();
        let carrier = Carrier::default();
        ask(&carrier, &request).await.unwrap();
        let (mut connection, mut content, mut buffer) = (carrier.take().unwrap(), Vec::new(), [0; 3]);
        loop {
            match connection.read(&mut buffer).await.unwrap() {
                0 => return (content, connection.lasts()),
                count => content.extend_from_slice(&buffer[..count]),
            }
        }
    });
    drop(server.join().unwrap());
    found
}

#[test]
fn content_ends_where_the_answer_says_though_the_connection_stays_open() {
    let answer = b"HTTP/1.1 206 Partial Content\r\ncontent-length: 8\r\ncontent-range: bytes 0-7/8\r\n\r\nabcdefgh";
    assert_eq!(read(answer), (b"abcdefgh".to_vec(), true));
}

#[test]
fn what_follows_the_content_is_not_of_it_and_ends_the_connection() {
    assert_eq!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcdefgh"), (b"abcd".to_vec(), false));
}
