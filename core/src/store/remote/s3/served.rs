//! A bucket for tests, whose service answers as a test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Config, Region, StalledStreamProtectionConfig};

use super::S3;
use super::client::Signing;
use super::sums::Sums;
use super::transport::Transport;
use crate::store::remote::lane::Kept;
use crate::store::remote::web::Web;
use crate::sync::Mutex;

/// A bucket whose service answers to a request, by its method and target and those of earlier ones, and notes what it was asked.
pub(super) fn bucket(asked: &Arc<Mutex<Vec<String>>>, answer: fn(&str, &[String]) -> String) -> S3 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("nowhere"))
        .endpoint_url(format!("http://{}", listener.local_addr().unwrap()))
        .force_path_style(true)
        .http_client(Transport::new(Web::new().unwrap()))
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .allow_no_auth()
        .build();
    let asked = Arc::clone(asked);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let request = request(&mut socket);
            let mut asked = asked.lock();
            socket.write_all(answer(&request, &asked).as_bytes()).unwrap();
            asked.push(request);
        }
    });
    let (client, signing) = (Client::from_conf(config), Signing::NotWanted);
    let sums = Sums::new(false, signing);
    S3 { client, bucket: "bucket".to_owned(), signing, sums, elsewhere: true, payer: None, _kept: Kept::new() }
}

/// Reads a request to its end; answers with its method and target.
fn request(socket: &mut TcpStream) -> String {
    let (mut request, mut piece) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| body.len() >= length.parse::<usize>().unwrap()) {
                return head.split(" HTTP/").next().unwrap().to_owned();
            }
        }
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "{request}");
        request.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
}
