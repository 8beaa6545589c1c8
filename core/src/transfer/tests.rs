//! Tests of what tells one transfer from another.

use super::*;
use crate::options::Naming;
use crate::path::RelativePath;

#[test]
fn each_choice_is_a_transfer_of_its_own_unless_it_has_a_name() {
    let of = |files: Option<&[&str]>, name: Option<&str>| {
        let files = files.map(|files| files.iter().map(|file| RelativePath::from_user(file).unwrap()).collect());
        let options = TransferOptions { files, name: name.map(str::to_owned), ..TransferOptions::default() };
        Transfer::new("from", "to").with_options(options).identifier().unwrap()
    };
    let choices = [None, Some(&[][..]), Some(&["a"][..]), Some(&["a", "b"]), Some(&["."])];
    for (number, choice) in choices.iter().enumerate() {
        for other in &choices[..number] {
            assert_ne!(of(*choice, None), of(*other, None), "{choice:?} and {other:?}");
        }
        assert_eq!(of(*choice, Some("one")), of(None, Some("one")));
    }
    assert_eq!(of(Some(&["b", "a", "a/c"]), None), of(Some(&["a", "b"]), None));
}

#[test]
fn a_source_that_keeps_its_name_is_another_transfer() {
    let of = |naming| {
        let options = TransferOptions { naming, ..TransferOptions::default() };
        Transfer::new("from", "to").with_options(options).identifier().unwrap()
    };
    assert_eq!(of(Naming::OfEach), of(Naming::OfEach));
    assert_ne!(of(Naming::OfEach), of(Naming::OfSeveral));
}
