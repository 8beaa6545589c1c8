//! Who is let in, and how many at once.

use arrow_flight::{Empty, FlightClient, HandshakeRequest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use edt_flight::contract::Command;
use futures_util::{TryStreamExt as _, stream};
use tonic::{Code, Request};

use super::support::{SECRET, World, authorized, content, refused};

async fn asked(world: &World, header: Option<&str>) -> Result<usize, tonic::Status> {
    let mut request = Request::new(Empty {});
    if let Some(header) = header {
        request.metadata_mut().insert("authorization", header.parse().unwrap());
    }
    let actions: Vec<_> = world.raw().await.list_actions(request).await?.into_inner().try_collect().await?;
    Ok(actions.len())
}

#[test]
fn only_who_knows_the_secret_is_answered() {
    let world = World::new();
    world.run(async {
        assert_eq!(asked(&world, Some(&format!("Bearer {SECRET}"))).await.unwrap(), 9);
        for header in [None, Some("Bearer"), Some("Bearer 0123456789abcdef-tesT"), Some(SECRET)] {
            let (code, message) = refused(asked(&world, header).await);
            assert!(code == Code::Unauthenticated && message.contains("hint: "), "{header:?}: {message}");
        }
    });
}

#[test]
fn a_password_is_exchanged_for_a_token() {
    let world = World::new();
    world.run(async {
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("anyone:{SECRET}")));
        let mut request = Request::new(stream::iter([HandshakeRequest::default()]));
        request.metadata_mut().insert("authorization", basic.parse().unwrap());
        let response = world.raw().await.handshake(request).await.unwrap();
        let token = response.metadata().get("authorization").unwrap().to_str().unwrap().to_owned();
        assert_eq!(asked(&world, Some(&token)).await.unwrap(), 9);
        let mut wrong = Request::new(stream::iter([HandshakeRequest::default()]));
        wrong.metadata_mut().insert("authorization", "Basic YTpi".parse().unwrap());
        assert_eq!(world.raw().await.handshake(wrong).await.unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(
            FlightClient::new(world.channel().await)
                .list_actions()
                .await
                .map(|_| ())
                .map_err(super::support::status)
                .unwrap_err()
                .code(),
            Code::Unauthenticated
        );
    });
}

#[test]
fn calls_above_the_limit_are_told_to_come_again() {
    let world = World::with(|options| options.max_sessions = 2);
    world.write("f", content(64 << 20));
    world.run(async {
        let ticket = || authorized(arrow_flight::Ticket { ticket: Command::of("f").to_json().into() });
        let mut clients = [world.raw().await, world.raw().await];
        let mut held = Vec::new();
        for client in &mut clients {
            held.push(client.do_get(ticket()).await.unwrap().into_inner());
        }
        let (code, message) = refused(asked(&world, Some(&format!("Bearer {SECRET}"))).await);
        assert!(code == Code::ResourceExhausted && message.contains("--max-sessions"), "{message}");
        // Who is let in goes on meanwhile.
        while held[0].message().await.unwrap().is_some() {}
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while let Err(busy) = asked(&world, Some(&format!("Bearer {SECRET}"))).await {
            assert!(busy.code() == Code::ResourceExhausted && std::time::Instant::now() < deadline, "{busy}");
        }
    });
}

#[test]
fn many_clients_read_at_once() {
    let world = World::new();
    let file = content(3 << 20);
    world.write("f", &file);
    world.run(async {
        let read = || async {
            let ticket = authorized(arrow_flight::Ticket { ticket: Command::of("f").to_json().into() });
            let stream = world.raw().await.do_get(ticket).await.unwrap().into_inner();
            let messages: Vec<arrow_flight::FlightData> = stream.try_collect().await.unwrap();
            // The last message tells the end, around no row.
            messages.iter().rev().skip(1).map(|message| message.data_body.len()).sum::<usize>()
        };
        let sizes = futures_util::future::join_all((0..100).map(|_| read())).await;
        assert!(sizes.iter().all(|size| *size == file.len() + 3 * 128), "{sizes:?}");
    });
}
