//! A real service passes the suite, where `EDT_CONFORMANCE_URL` names an empty place of one: a URL that ends in a slash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;

use edt::testing::conformance::check;
use edt::testing::services;

#[test]
fn the_service_of_the_url_conforms() {
    let Ok(url) = std::env::var("EDT_CONFORMANCE_URL") else {
        println!("EDT_CONFORMANCE_URL names no service");
        return;
    };
    let places = Cell::new(0);
    check(&|| {
        places.set(places.get() + 1);
        services::open(&format!("{url}{}/", places.get())).unwrap()
    });
}
