//! What Google's errors mean in edt's kinds.

use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::web::{Answer, status_error};

/// Statuses whose content says more than the status.
pub(super) const EXPLAINED: [u16; 6] = [400, 401, 403, 404, 410, 412];

const LONGEST: usize = 64 << 10;

/// The error of an answer with one of the statuses [`EXPLAINED`]; `unsigned` if no credentials were found.
pub(super) fn explain(what: &str, answer: Answer, unsigned: bool) -> Error {
    let status = answer.status();
    match answer.bytes(LONGEST) {
        Ok(content) => of(what, status, &String::from_utf8_lossy(&content), unsigned),
        Err(error) => error,
    }
}

/// Makes a success of the error that the thing to remove is not there.
pub(super) fn missing_is_fine(result: Result<()>) -> Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn of(what: &str, status: u16, content: &str, unsigned: bool) -> Error {
    let (reason, message) = reason(content);
    if reason.ends_with("ateLimitExceeded") {
        return status_error(what, 429, None, &message);
    }
    if status == 400 && differs(&reason, &message) {
        return Error::new(ErrorKind::Corrupted, what).with_cause(message);
    }
    let error = status_error(what, status, None, &message);
    match status {
        401 | 403 if unsigned => error.with_hint(
            "no Google credentials were found: run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        401 => error.with_hint("the credentials are not valid or have expired: run `gcloud auth application-default login`"),
        403 => error.with_hint("give this account the role Storage Object User on the bucket, or Storage Object Viewer to read"),
        404 if message.contains("bucket") => error.with_hint("check the bucket's name, or create it"),
        _ => error,
    }
}

fn differs(reason: &str, message: &str) -> bool {
    reason == "BadDigest" || message.contains("doesn't match calculated")
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    code: String,
    message: String,
}

/// The short name of the reason and the message, of an error in JSON or XML; a text in neither is the message.
fn reason(content: &str) -> (String, String) {
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(content) {
        let text = |place| value.pointer(place).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        return (text("/error/errors/0/reason"), text("/error/message"));
    }
    match quick_xml::de::from_str::<Told>(content) {
        Ok(told) => (told.code, told.message),
        Err(_) => (String::new(), content.lines().next().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(reason: &str, message: &str) -> String {
        format!(r#"{{"error": {{"code": 1, "message": "{message}", "errors": [{{"reason": "{reason}"}}]}}}}"#)
    }

    #[test]
    fn reasons_decide_where_the_status_does_not() {
        let crc = "Provided CRC32C \\\"AAAAAA==\\\" doesn't match calculated CRC32C \\\"x\\\".";
        assert_eq!(of("x", 400, &json("invalid", crc), false).kind(), ErrorKind::Corrupted);
        let digest = "<?xml version='1.0'?><Error><Code>BadDigest</Code><Message>no match</Message></Error>";
        assert_eq!(of("x", 400, digest, false).kind(), ErrorKind::Corrupted);
        assert_eq!(of("x", 403, &json("rateLimitExceeded", "slow"), false).kind(), ErrorKind::Throttled);
        assert_eq!(of("x", 403, &json("userRateLimitExceeded", "slow"), false).kind(), ErrorKind::Throttled);
        assert_eq!(of("x", 403, &json("forbidden", "no"), false).kind(), ErrorKind::PermissionDenied);
        assert_eq!(of("x", 412, &json("conditionNotMet", "no"), false).kind(), ErrorKind::SourceChanged);
    }

    #[test]
    fn hints_name_what_is_missing() {
        let unsigned = of("x", 401, &json("required", "Anonymous caller does not have access"), true);
        assert!(unsigned.hint().is_some_and(|hint| hint.contains("no Google credentials")));
        let bucket = of("x", 404, &json("notFound", "The specified bucket does not exist."), false);
        assert!(bucket.hint().is_some_and(|hint| hint.contains("create it")));
        assert_eq!(of("x", 404, "Not Found", false).kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_gone_is_removed() {
        assert!(missing_is_fine(Err(Error::new(ErrorKind::NotFound, "x"))).is_ok());
        assert!(missing_is_fine(Err(Error::new(ErrorKind::Refused, "x"))).is_err());
    }
}
